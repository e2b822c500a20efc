#include "data/split_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

namespace lra {
namespace {

std::string_view bytes_of(const std::vector<int64_t>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int64_t)};
}

template <class Id>
int32_t largest_of(std::string_view bytes) {
  const auto* ids = reinterpret_cast<const Id*>(bytes.data());
  Id largest = 0;
  for (size_t t = 0; t < bytes.size() / sizeof(Id); ++t) largest = std::max(largest, ids[t]);
  return largest;
}

// The same ids in another width (little endian).
template <class From, class To>
void convert(std::string_view from, std::string& to) {
  const size_t n = from.size() / sizeof(From);
  to.resize(n * sizeof(To));
  const auto* in = reinterpret_cast<const From*>(from.data());
  auto* out = reinterpret_cast<To*>(to.data());
  for (size_t t = 0; t < n; ++t) out[t] = static_cast<To>(in[t]);
}

fs::path made_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) fail("data", "{}: cannot make the folder: {}.", folder.string(), code.message());
  return folder;
}

}  // namespace

// ---- SpillFile ----

SpillFile::SpillFile(const fs::path& folder) : folder_(folder) {
  std::string name = (folder / ".spill-XXXXXX").string();
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) {
    fail("data", "{}: cannot make a temporary file: {}.", folder.string(), std::strerror(errno));
  }
  ::unlink(name.c_str());
}
SpillFile::~SpillFile() { ::close(fd_); }

void SpillFile::append(std::string_view bytes) {
  buffer_ += bytes;
  if (buffer_.size() >= (size_t{1} << 20)) flush();
}

void SpillFile::flush() {
  for (std::string_view left = buffer_; !left.empty();) {
    const ssize_t n = ::write(fd_, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail("data", "{}: cannot write a temporary file: {}. Nothing was changed; make room and try again.",
           folder_.string(), std::strerror(errno));
    }
    left.remove_prefix(static_cast<size_t>(n));
    written_ += n;
  }
  buffer_.clear();
}

void SpillFile::read(int64_t at, char* into, size_t size) {
  if (!buffer_.empty()) flush();
  while (size > 0) {
    const ssize_t n = ::pread(fd_, into, size, at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      fail("data", "{}: cannot read a temporary file: {}.", folder_.string(),
           n == 0 ? "it ends too early" : std::strerror(errno));
    }
    into += n, at += n, size -= static_cast<size_t>(n);
  }
}

// ---- SplitWriter ----

void SplitWriter::Numbers::append(const Tokens& numbers, int32_t largest) {
  if (largest > UINT8_MAX && width_ == 1) widen();
  if (numbers.width() == width_) return file_->append(numbers.bytes());
  if (width_ == 1) {
    convert<uint16_t, uint8_t>(numbers.bytes(), converted_);
  } else {
    convert<uint8_t, uint16_t>(numbers.bytes(), converted_);
  }
  file_->append(converted_);
}

void SplitWriter::Numbers::widen() {
  auto wide = std::make_unique<SpillFile>(folder_);
  file_->read_all([&](std::string_view bytes) {
    convert<uint8_t, uint16_t>(bytes, converted_);
    wide->append(converted_);
  });
  file_ = std::move(wide);
  width_ = 2;
}

SplitWriter::SplitWriter(fs::path path, DatasetInfo info, Padding padding)
    : path_(std::move(path)),
      info_(std::move(info)),
      first_(made_folder(path_.parent_path())),
      second_(path_.parent_path()) {
  if (padding == Padding::kInside) places_.emplace(path_.parent_path());
}

Tokens SplitWriter::without_padding(const Tokens& tokens) {
  kept_.clear();
  kept_at_.clear();
  for (int64_t t = 0; t < tokens.size(); ++t) {
    // A sequence has at least one token: of one that is all padding the first stays.
    if (tokens[t] == info_.pad_id && !(t == tokens.size() - 1 && kept_.empty())) continue;
    kept_.push_back(static_cast<uint16_t>(tokens[t]));
    kept_at_.push_back(static_cast<uint16_t>(tokens[t] == info_.pad_id ? 0 : t));
  }
  places_->append(std::span<const uint16_t>(kept_at_), kept_at_.back());
  return std::span<const uint16_t>(kept_);
}

void SplitWriter::append(const Tokens& tokens, Document& document) {
  if (tokens.size() < 1 || tokens.size() > info_.max_length) {
    fail("data", "{}: example {} has {} tokens, expected 1 to {}.", path_.string(), size(), tokens.size(),
         info_.max_length);
  }
  const std::string_view bytes = tokens.bytes();
  const int32_t largest = tokens.width() == 1 ? largest_of<uint8_t>(bytes) : largest_of<uint16_t>(bytes);
  if (largest >= info_.vocab_size) {
    fail("data", "{}: token {} does not fit the vocabulary of {}.", path_.string(), largest,
         info_.vocab_size);
  }
  const Tokens stored = places_ ? without_padding(tokens) : tokens;
  document.ids.append(stored, largest);
  document.offsets.push_back(document.offsets.back() + stored.size());
}

void SplitWriter::add_label(int64_t label, bool two) {
  if (size() > 0 && two != (second_.offsets.size() > 1)) {
    fail("data", "{}: example {} has {}, those before it have {}.", path_.string(), size(),
         two ? "two documents" : "one document", two ? "one" : "two");
  }
  if (label < 0 || label >= info_.num_classes) {
    fail("data", "{}: example {} has the label {}, expected 0 to {}.", path_.string(), size(), label,
         info_.num_classes - 1);
  }
  labels_.push_back(label);
}

void SplitWriter::add(const Tokens& first, int64_t label) {
  add_label(label, false);
  append(first, first_);
}

void SplitWriter::add(const Tokens& first, const Tokens& second, int64_t label) {
  if (places_) fail("data", "{}: padding inside of two documents has no form.", path_.string());
  add_label(label, true);
  append(first, first_);
  append(second, second_);
}

std::string SplitWriter::hash() {
  Sha256 hash;
  const auto update = [&](std::string_view bytes) { hash.update(bytes.data(), bytes.size()); };
  first_.ids.file().read_all(update);
  update(bytes_of(first_.offsets));
  update(bytes_of(labels_));
  if (second_.offsets.size() > 1) {
    second_.ids.file().read_all(update);
    update(bytes_of(second_.offsets));
  }
  if (places_) places_->file().read_all(update);
  return hash.hex();
}

std::string SplitWriter::commit() {
  const bool two = second_.offsets.size() > 1;
  info_.sha256 = hash();
  SafetensorsWriter writer(path_, to_metadata(info_));
  const auto add_numbers = [&](const char* name, const Numbers& numbers, int64_t count) {
    writer.add(name, numbers.dtype(), {count},
               [&](const SafetensorsWriter::Use& use) { numbers.file().read_all(use); });
  };
  add_numbers("tokens", first_.ids, first_.offsets.back());
  writer.add("offsets", DType::kI64, {size() + 1}, bytes_of(first_.offsets));
  writer.add("labels", DType::kI64, {size()}, bytes_of(labels_));
  if (two) {
    add_numbers("tokens2", second_.ids, second_.offsets.back());
    writer.add("offsets2", DType::kI64, {size() + 1}, bytes_of(second_.offsets));
  }
  if (places_) add_numbers("places", *places_, first_.offsets.back());
  writer.commit();
  return info_.sha256;
}

}  // namespace lra
