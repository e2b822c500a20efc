// One split of a task's data: immutable, memory-mapped, one .safetensors file (the format users script
// against).
//
//   tokens  u8 or u16, flat          all sequences end to end, without padding
//   offsets i64 [n+1]                sequence i is tokens[offsets[i] : offsets[i+1]]
//   labels  i64 [n]
//   tokens2, offsets2                the second document where the task has one
//   places  u8 or u16, flat          where padding inside of sequences was left out: each token's place in
//                                    the whole sequence, rising; without it token t stands at place t
//
// The metadata names task, version, variant, split, options, seed, source and `sha256`: the hash of the
// tensors' bytes in the order above, which is the data's identity in every result.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/safetensors.h"

namespace lra {

struct DatasetInfo {
  std::string task, version, variant, split, options = "{}", source, sha256;
  uint64_t seed = 0;
  int64_t vocab_size = 0, num_classes = 0, max_length = 0;
  std::optional<int64_t> pad_id;

  bool operator==(const DatasetInfo&) const = default;
};

// Token ids of one sequence, stored in one or two bytes each.
class Tokens {
 public:
  Tokens() = default;
  Tokens(const void* data, int64_t size, int width) : data_(data), size_(size), width_(width) {}
  Tokens(std::span<const uint8_t> ids) : Tokens(ids.data(), static_cast<int64_t>(ids.size()), 1) {}
  Tokens(std::span<const uint16_t> ids) : Tokens(ids.data(), static_cast<int64_t>(ids.size()), 2) {}
  int64_t size() const { return size_; }
  int width() const { return width_; }  // bytes an id
  int32_t operator[](int64_t i) const {
    return width_ == 1 ? static_cast<const uint8_t*>(data_)[i] : static_cast<const uint16_t*>(data_)[i];
  }
  void copy_to(std::span<int32_t> out) const;  // the first out.size() ids
  std::string_view bytes() const {
    return {static_cast<const char*>(data_), static_cast<size_t>(size_ * width_)};
  }

 private:
  const void* data_ = nullptr;
  int64_t size_ = 0;
  int width_ = 1;
};

// Examples in memory, for makers of small sets. Ids are kept in 16 bits here; a large set goes straight to a
// SplitWriter.
struct Examples {
  std::vector<uint16_t> tokens, tokens2;
  std::vector<int64_t> offsets = {0}, offsets2 = {0}, labels;

  int64_t size() const { return static_cast<int64_t>(labels.size()); }
  void add(std::span<const uint16_t> sequence, int64_t label);
  void add(std::span<const uint16_t> first, std::span<const uint16_t> second, int64_t label);
  bool two() const { return offsets2.size() > 1; }
  Tokens first(int64_t i) const { return slice(tokens, offsets, i); }
  Tokens second(int64_t i) const { return slice(tokens2, offsets2, i); }

 private:
  static Tokens slice(const std::vector<uint16_t>& ids, const std::vector<int64_t>& offsets, int64_t i) {
    const auto at = static_cast<size_t>(i);
    return {ids.data() + offsets[at], offsets[at + 1] - offsets[at], 2};
  }
};

class Dataset {
 public:
  // Checks the form: metadata, tensors, types, labels, and that every sequence has 1 to max_length tokens.
  explicit Dataset(const fs::path& path);

  int64_t size() const { return static_cast<int64_t>(labels_.size()); }
  Tokens tokens(int64_t i) const { return slice(tokens_, offsets_, i); }
  Tokens tokens2(int64_t i) const { return slice(*tokens2_, offsets2_, i); }
  bool has_second() const { return tokens2_.has_value(); }
  Tokens places(int64_t i) const { return slice(*places_, offsets_, i); }
  bool has_places() const { return places_.has_value(); }
  int64_t label(int64_t i) const { return labels_[static_cast<size_t>(i)]; }
  int64_t length(int64_t i) const {
    return offsets_[static_cast<size_t>(i) + 1] - offsets_[static_cast<size_t>(i)];
  }
  int64_t total_tokens() const {  // of both documents
    return offsets_.back() + (has_second() ? offsets2_.back() : 0);
  }

  // Places choose rows of a table of positions: throws unless they rise and stay below max_length.
  void check_places(int64_t i) const;

  const DatasetInfo& info() const { return info_; }
  const fs::path& path() const { return file_.path(); }
  std::string compute_sha256() const;
  // Every token against the declaration in the metadata; throws naming the first bad example.
  void check_contents() const;

 private:
  static Tokens slice(const TensorView& tokens, std::span<const int64_t> offsets, int64_t i);
  std::span<const int64_t> read_numbers(const char* name) const;
  TensorView read_tokens(const char* name, std::span<const int64_t> offsets) const;

  SafetensorsFile file_;
  TensorView tokens_;
  std::optional<TensorView> tokens2_, places_;
  std::span<const int64_t> offsets_, offsets2_, labels_;
  DatasetInfo info_;
};

// The metadata strings of a file, and back; `sha256` is among them.
Metadata to_metadata(const DatasetInfo& info);
DatasetInfo parse_info(const Metadata& metadata, const std::string& file);

// Writes one split atomically (u8 unless an id above 255 occurs); returns its sha256.
std::string write_dataset(const fs::path& path, const Examples& examples, const DatasetInfo& info);

// ---- a task's data on disk: DATA/TASK/VARIANT/{train,val,test}.safetensors and manifest.json ----

inline constexpr const char* kSplits[] = {"train", "val", "test"};

// The command that makes or imports a variant of a task's data, without --data; empty where nobody can tell.
// Set by the tasks, which this room does not know.
extern std::string (*command_for_data)(const std::string& task, const std::string& variant);

struct DataFolder {
  fs::path root;  // DATA
  std::string task, variant;

  fs::path path() const { return root / task / variant; }
  fs::path split_path(std::string_view split) const { return path() / (std::string(split) + ".safetensors"); }
  fs::path manifest_path() const { return path() / "manifest.json"; }
  // The manifest is written last: without it a folder is half-made and counts as nothing.
  bool complete() const;
  // An error says which command makes the data.
  Dataset open(std::string_view split) const;
  void require() const;  // throws that error unless the data is complete
};

}  // namespace lra
