// The beginning of a download on disk: TO.part, and TO.part.json with the URL and what the server calls this
// version of the file (its ETag, or its date). Without that note, or for another URL, what is there is thrown
// away.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace lra {

class PartFile {
 public:
  // Takes up what is there. Throws if another process is at it.
  PartFile(const fs::path& to, std::string url);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  int64_t size() const { return size_; }
  const std::string& validator() const { return validator_; }
  const fs::path& path() const { return part_; }
  int64_t free_space() const;  // on its disk

  void start_over();
  void start_over(const std::string& validator);  // of the bytes that will follow
  void write(std::string_view bytes);             // at the end
  void flush();
  void put_in_place();
  void remove();

 private:
  bool read_note();
  [[noreturn]] void fail_here(const char* what) const;

  fs::path to_, part_, note_;
  std::string url_, validator_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace lra
