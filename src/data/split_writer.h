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
//
// With `Padding::kInside` ids that are padding (black pixels, as the arena's released code takes them) are
// left out wherever they stand, and the tensor `places` says where in their sequence the others stood.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
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

enum class Padding { kNone, kInside };

class SplitWriter {
 public:
  // `info` without its sha256.
  SplitWriter(fs::path path, DatasetInfo info, Padding padding = Padding::kNone);

  // Ids, lengths and labels are held against `info`; a split has one document everywhere or two everywhere.
  void add(const Tokens& first, int64_t label);
  void add(const Tokens& first, const Tokens& second, int64_t label);
  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  int64_t tokens() const { return first_.offsets.back() + second_.offsets.back(); }

  std::string commit();  // the sha256 of the tensors

 private:
  // Numbers below 65536 in one byte each, or two from the first on that needs them.
  class Numbers {
   public:
    explicit Numbers(const fs::path& folder) : folder_(folder), file_(std::make_unique<SpillFile>(folder)) {}
    void append(const Tokens& numbers, int32_t largest);
    DType dtype() const { return width_ == 1 ? DType::kU8 : DType::kU16; }
    SpillFile& file() const { return *file_; }

   private:
    void widen();
    fs::path folder_;
    std::unique_ptr<SpillFile> file_;
    int width_ = 1;
    std::string converted_;
  };
  struct Document {
    explicit Document(const fs::path& folder) : ids(folder) {}
    Numbers ids;
    std::vector<int64_t> offsets = {0};
  };
  void add_label(int64_t label, bool two);
  void append(const Tokens& tokens, Document& document);
  Tokens without_padding(const Tokens& tokens);  // its places go to places_
  std::string hash();

  fs::path path_;
  DatasetInfo info_;
  Document first_, second_;
  std::optional<Numbers> places_;
  std::vector<int64_t> labels_;
  std::vector<uint16_t> kept_, kept_at_;
};

}  // namespace lra
