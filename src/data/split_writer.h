// Writes one split of a data set as its examples come, in memory that does not grow with their tokens.
//
//   SplitWriter writer(path, info);
//   writer.add(tokens, label);          // any number of times
//   info.sha256 = writer.commit();      // the file appears under its name, whole
//
// A safetensors file begins with the sizes of what follows, and they are known last: tokens go to a nameless
// file beside the target first and are copied behind the header by `commit`. Offsets and labels stay in
// memory, 16 bytes an example. Without a commit nothing remains.
//
// Ids are stored in one byte as long as they fit into one, whatever the vocabulary: text has 257 ids, but
// valid UTF-8 never needs the last. The first id above 255 turns its document into two bytes an id.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "data/dataset.h"

namespace lra {

// Bytes appended to a nameless file, which the system removes with its last user, however that ends.
class SpillFile {
 public:
  explicit SpillFile(const fs::path& folder);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  void append(std::string_view bytes);  // buffered
  int64_t size() const { return written_ + static_cast<int64_t>(buffer_.size()); }
  // Flushes the buffer first. Any place that was appended may be read, in any order and from any thread.
  void read(int64_t at, char* into, size_t size);
  // All of it in order, a few megabytes at a time.
  template <class Use>
  void read_all(const Use& use) {
    std::string part(std::min<size_t>(static_cast<size_t>(size()), kPart), '\0');
    for (int64_t at = 0; at < size();) {
      const size_t count = std::min<size_t>(part.size(), static_cast<size_t>(size() - at));
      read(at, part.data(), count);
      use(std::string_view(part.data(), count));
      at += static_cast<int64_t>(count);
    }
  }

 private:
  static constexpr size_t kPart = size_t{4} << 20;
  void flush();

  fs::path folder_;  // for messages
  int fd_ = -1;
  int64_t written_ = 0;
  std::string buffer_;
};

class SplitWriter {
 public:
  SplitWriter(fs::path path, DatasetInfo info);  // `info` without its sha256

  // Ids, lengths and labels are held against `info`; a split has one document everywhere or two everywhere.
  void add(const Tokens& first, int64_t label);
  void add(const Tokens& first, const Tokens& second, int64_t label);
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  int64_t tokens() const { return first_.offsets.back() + second_.offsets.back(); }

  std::string commit();  // the sha256 of the tensors

 private:
  struct Document {
    explicit Document(const fs::path& folder) : ids(std::make_unique<SpillFile>(folder)) {}
    std::unique_ptr<SpillFile> ids;
    int width = 1;  // bytes an id
    std::vector<int64_t> offsets = {0};
  };
  void add_label(int64_t label, bool two);
  void append(const Tokens& tokens, Document& document);
  void widen(Document& document);
  std::string hash();

  fs::path path_;
  DatasetInfo info_;
  Document first_, second_;
  std::vector<int64_t> labels_;
  std::string converted_;
};

}  // namespace lra
