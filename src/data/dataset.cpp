#include "data/dataset.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>

#include "base/error.h"
#include "base/json.h"
#include "base/sha256.h"
#include "base/suggest.h"
#include "data/split_writer.h"

namespace lra {
namespace {

// The identity of a split: tokens, offsets, labels, tokens2, offsets2, places, as interface and metadata
// promise.
std::string hash_in_order(std::initializer_list<std::string_view> tensors) {
  Sha256 hash;
  for (const std::string_view bytes : tensors) hash.update(bytes.data(), bytes.size());
  return hash.hex();
}

std::string_view bytes_of(std::span<const int64_t> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
}

template <class T>
T parse_number(const Metadata& metadata, const char* key, const std::string& file) {
  const std::string& text = metadata.at(key);
  T value = 0;
  const char* end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || at != end) {
    fail("data", "{}: the metadata '{}' is '{}', expected a whole number.", file, key, text);
  }
  return value;
}

constexpr const char* kKeys[] = {"task",   "version", "variant",    "split",       "options",    "seed",
                                 "source", "sha256",  "vocab_size", "num_classes", "max_length", "pad_id"};

}  // namespace

void Tokens::copy_to(std::span<int32_t> out) const {
  for (size_t i = 0; i < out.size(); ++i) out[i] = (*this)[static_cast<int64_t>(i)];
}

void Examples::add(std::span<const uint16_t> sequence, int64_t label) {
  tokens.insert(tokens.end(), sequence.begin(), sequence.end());
  offsets.push_back(static_cast<int64_t>(tokens.size()));
  labels.push_back(label);
}

void Examples::add(std::span<const uint16_t> first, std::span<const uint16_t> second, int64_t label) {
  add(first, label);
  tokens2.insert(tokens2.end(), second.begin(), second.end());
  offsets2.push_back(static_cast<int64_t>(tokens2.size()));
}

Metadata to_metadata(const DatasetInfo& info) {
  return {{"task", info.task},
          {"version", info.version},
          {"variant", info.variant},
          {"split", info.split},
          {"options", info.options},
          {"seed", std::to_string(info.seed)},
          {"source", info.source},
          {"sha256", info.sha256},
          {"vocab_size", std::to_string(info.vocab_size)},
          {"num_classes", std::to_string(info.num_classes)},
          {"max_length", std::to_string(info.max_length)},
          {"pad_id", info.pad_id ? std::to_string(*info.pad_id) : "none"}};
}

DatasetInfo parse_info(const Metadata& metadata, const std::string& file) {
  for (const char* key : kKeys) {
    if (!metadata.contains(key)) {
      fail("data", "{}: the metadata '{}' is missing. This is not a data set of this program.", file, key);
    }
  }
  DatasetInfo info;
  info.task = metadata.at("task");
  info.version = metadata.at("version");
  info.variant = metadata.at("variant");
  info.split = metadata.at("split");
  info.options = metadata.at("options");
  info.source = metadata.at("source");
  info.sha256 = metadata.at("sha256");
  info.seed = parse_number<uint64_t>(metadata, "seed", file);
  info.vocab_size = parse_number<int64_t>(metadata, "vocab_size", file);
  info.num_classes = parse_number<int64_t>(metadata, "num_classes", file);
  info.max_length = parse_number<int64_t>(metadata, "max_length", file);
  if (metadata.at("pad_id") != "none") info.pad_id = parse_number<int64_t>(metadata, "pad_id", file);
  if (info.vocab_size < 1 || info.vocab_size > 65536 || info.num_classes < 1 || info.max_length < 1 ||
      info.max_length > (int64_t{1} << 40)) {
    fail("data", "{}: the metadata declares {} token ids, {} classes and a length of {}, which cannot be.",
         file, info.vocab_size, info.num_classes, info.max_length);
  }
  if (info.pad_id && (*info.pad_id < 0 || *info.pad_id >= info.vocab_size)) {
    fail("data", "{}: the padding id {} lies outside the vocabulary of {}.", file, *info.pad_id,
         info.vocab_size);
  }
  return info;
}

// ---- reading ----

std::span<const int64_t> Dataset::read_numbers(const char* name) const {
  const TensorView& tensor = file_.at(name);
  if (tensor.dtype != DType::kI64 || tensor.shape.size() != 1) {
    fail("data", "{}: '{}' is {} with {} dimensions, expected I64 with one.", path().string(), name,
         name_of(tensor.dtype), tensor.shape.size());
  }
  return {tensor.as<int64_t>(), static_cast<size_t>(tensor.numel())};
}

TensorView Dataset::read_tokens(const char* name, std::span<const int64_t> offsets) const {
  const TensorView& tensor = file_.at(name);
  const std::string file = path().string();
  if ((tensor.dtype != DType::kU8 && tensor.dtype != DType::kU16) || tensor.shape.size() != 1) {
    fail("data", "{}: '{}' is {} with {} dimensions, expected U8 or U16 with one.", file, name,
         name_of(tensor.dtype), tensor.shape.size());
  }
  if (offsets.size() != labels_.size() + 1) {
    fail("data", "{}: {} labels, but {} offsets for '{}'; expected one more offset than labels.", file,
         labels_.size(), offsets.size(), name);
  }
  if (offsets.front() != 0 || offsets.back() != tensor.numel()) {
    fail("data", "{}: the offsets run from {} to {}, expected 0 to {}, the size of '{}'.", file,
         offsets.front(), offsets.back(), tensor.numel(), name);
  }
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i + 1] <= offsets[i] || offsets[i + 1] - offsets[i] > info_.max_length) {
      fail("data", "{}: example {} of '{}' runs from {} to {}, expected 1 to {} tokens.", file, i, name,
           offsets[i], offsets[i + 1], info_.max_length);
    }
  }
  return tensor;
}

Dataset::Dataset(const fs::path& path) : file_(path) {
  info_ = parse_info(file_.metadata(), path.string());
  labels_ = read_numbers("labels");
  for (int64_t i = 0; i < size(); ++i) {
    if (label(i) < 0 || label(i) >= info_.num_classes) {
      fail("data", "{}: example {} has the label {}, expected 0 to {}.", path.string(), i, label(i),
           info_.num_classes - 1);
    }
  }
  offsets_ = read_numbers("offsets");
  tokens_ = read_tokens("tokens", offsets_);
  if (file_.contains("tokens2") || file_.contains("offsets2")) {
    offsets2_ = read_numbers("offsets2");
    tokens2_ = read_tokens("tokens2", offsets2_);
  }
  if (file_.contains("places")) places_ = read_tokens("places", offsets_);
}

Tokens Dataset::slice(const TensorView& tokens, std::span<const int64_t> offsets, int64_t i) {
  const auto at = static_cast<size_t>(i);
  const auto width = static_cast<int>(size_of(tokens.dtype));
  return {tokens.bytes.data() + offsets[at] * width, offsets[at + 1] - offsets[at], width};
}

std::string Dataset::compute_sha256() const {
  return hash_in_order({tokens_.bytes, bytes_of(offsets_), bytes_of(labels_),
                        tokens2_ ? tokens2_->bytes : std::string_view(), bytes_of(offsets2_),
                        places_ ? places_->bytes : std::string_view()});
}

void Dataset::check_places(int64_t i) const {
  const Tokens all = places(i);
  for (int64_t t = 0; t < all.size(); ++t) {
    if (all[t] < info_.max_length && (t == 0 || all[t] > all[t - 1])) continue;
    fail("data", "{}: example {} has the place {} at position {}, expected rising places below {}.",
         path().string(), i, all[t], t, info_.max_length);
  }
}

void Dataset::check_contents() const {
  const auto check = [&](const Tokens& sequence, int64_t example) {
    for (int64_t t = 0; t < sequence.size(); ++t) {
      const bool padding = info_.pad_id && sequence[t] == *info_.pad_id;
      if (sequence[t] < info_.vocab_size && !padding) continue;
      fail("data", "{}: example {} has the token {} at position {}, expected 0 to {}{}.", path().string(),
           example, sequence[t], t, info_.vocab_size - 1, padding ? " without the padding id" : "");
    }
  };
  for (int64_t i = 0; i < size(); ++i) {
    const bool all_padding = has_places() && length(i) == 1;  // it keeps one token
    if (!all_padding) check(tokens(i), i);
    if (has_second()) check(tokens2(i), i);
    if (has_places()) check_places(i);
  }
}

// ---- writing ----

std::string write_dataset(const fs::path& path, const Examples& examples, const DatasetInfo& info) {
  SplitWriter writer(path, info);
  for (int64_t i = 0; i < examples.size(); ++i) {
    if (examples.two()) {
      writer.add(examples.first(i), examples.second(i), examples.labels[static_cast<size_t>(i)]);
    } else {
      writer.add(examples.first(i), examples.labels[static_cast<size_t>(i)]);
    }
  }
  return writer.commit();
}

// ---- the folder ----

std::string (*command_for_data)(const std::string& task, const std::string& variant) = nullptr;

bool DataFolder::complete() const {
  std::error_code code;  // an unreadable folder holds no data for us either
  return fs::exists(manifest_path(), code);
}

void DataFolder::require() const {
  if (complete()) return;
  const char* from_environment = std::getenv("LRA_DATA");
  const bool usual =
      root == (from_environment && *from_environment ? from_environment : "data") || root == "./data";
  const std::string where = usual ? "" : fmt::format(" --data {}", root.string());
  const std::string command = command_for_data ? command_for_data(task, variant) : std::string();
  const std::string what_to_do = command.empty()
                                     ? fmt::format("See 'lra data list{}' for what there is", where)
                                     : fmt::format("It comes from '{}{}'", command, where);
  std::error_code code;
  if (fs::is_directory(path(), code)) {
    fail("data", "{} is half-made: it has no manifest.json. {}.", path().string(), what_to_do);
  }
  fail("data", "there is no data at {}. {}.", path().string(), what_to_do);
}

Dataset DataFolder::open(std::string_view split) const {
  require();
  const std::vector<std::string> known(std::begin(kSplits), std::end(kSplits));
  if (std::find(known.begin(), known.end(), split) == known.end()) {
    fail("data", "there is no split '{}'. {}", split, suggestion(split, known));
  }
  Dataset data(split_path(split));
  const DatasetInfo& info = data.info();
  if (info.task != task || info.split != split) {
    fail("data",
         "{}: holds the split '{}' of task '{}', expected '{}' of '{}'. Was it copied to the wrong place?",
         data.path().string(), info.split, info.task, split, task);
  }
  if (data.size() == 0) fail("data", "{}: holds no examples. Make the data again.", data.path().string());
  return data;
}

}  // namespace lra
