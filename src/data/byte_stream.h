// Bytes that come one after another: a file, an entry of an archive, memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace lra {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Puts 1 to `most` bytes at `into` and says how many; 0 only at the end. Throws where the source is
  // damaged: an end that comes too early is never a 0.
  virtual size_t read(char* into, size_t most) = 0;
  // For errors: "aclImdb_v1.tar.gz: aclImdb/train/pos/0_9.txt", or the file's path.
  virtual std::string_view place() const = 0;

  // Everything that is left. More than `limit` bytes is an error with the place.
  std::string read_all(size_t limit);
};

// `bytes` must outlive the stream.
class MemoryStream : public ByteStream {
 public:
  explicit MemoryStream(std::string_view bytes, std::string place = "memory")
      : bytes_(bytes), place_(std::move(place)) {}
  size_t read(char* into, size_t most) override;
  std::string_view place() const override { return place_; }

 private:
  std::string_view bytes_;
  std::string place_;
};

// A file as long as it was when it was opened: one that has become shorter is an error.
class FileStream : public ByteStream {
 public:
  explicit FileStream(const fs::path& path);
  ~FileStream() override;
  FileStream(const FileStream&) = delete;
  FileStream& operator=(const FileStream&) = delete;
  size_t read(char* into, size_t most) override;
  std::string_view place() const override { return place_; }
  int64_t size() const { return size_; }
  int64_t position() const { return position_; }

 private:
  std::string place_;
  int fd_ = -1;
  int64_t size_ = 0, position_ = 0;
};

std::string read_head(const fs::path& path,
                      size_t size);  // the first bytes of a file, fewer if it is shorter

}  // namespace lra
