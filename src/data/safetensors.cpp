#include "data/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/suggest.h"

namespace lra {
namespace {

static_assert(std::endian::native == std::endian::little,
              "safetensors files are little endian and read in place");

constexpr size_t kLengthBytes = 8;
constexpr size_t kLargestHeader = 100'000'000;  // the format's own limit
constexpr size_t kMostDimensions = 16;
constexpr const char* kMetadataKey = "__metadata__";

struct DTypeEntry {
  DType dtype;
  std::string_view name;
  size_t size;
};
constexpr std::array kDTypes = {
    DTypeEntry{DType::kBool, "BOOL", 1}, DTypeEntry{DType::kU8, "U8", 1},   DTypeEntry{DType::kI8, "I8", 1},
    DTypeEntry{DType::kU16, "U16", 2},   DTypeEntry{DType::kI16, "I16", 2}, DTypeEntry{DType::kF16, "F16", 2},
    DTypeEntry{DType::kBF16, "BF16", 2}, DTypeEntry{DType::kU32, "U32", 4}, DTypeEntry{DType::kI32, "I32", 4},
    DTypeEntry{DType::kF32, "F32", 4},   DTypeEntry{DType::kU64, "U64", 8}, DTypeEntry{DType::kI64, "I64", 8},
    DTypeEntry{DType::kF64, "F64", 8},
};

const DTypeEntry& entry_of(DType dtype) {
  return *std::find_if(kDTypes.begin(), kDTypes.end(), [&](const DTypeEntry& e) { return e.dtype == dtype; });
}

DType parse_dtype(const std::string& name, const std::string& where) {
  std::vector<std::string> known;
  for (const DTypeEntry& e : kDTypes) {
    if (e.name == name) return e.dtype;
    known.emplace_back(e.name);
  }
  fail("safetensors", "{}: the type is '{}'. {}", where, name, suggestion(name, known));
}

std::optional<uint64_t> checked_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

// A whole number of at most 63 bits; JSON also knows negative, fractional and larger ones.
uint64_t whole_number(const Json& json, const std::string& where, const char* what) {
  if (!json.is_number_unsigned() || json.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()}) {
    fail("safetensors", "{}: the {} holds {}, expected whole numbers from 0 on.", where, what, json.dump());
  }
  return json.get<uint64_t>();
}

struct HeaderEntry {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t begin, end;
};

HeaderEntry parse_entry(const std::string& name, const Json& json, const std::string& file) {
  const std::string where = fmt::format("{}: tensor '{}'", file, name);
  const auto member = [&](const char* key, bool is_list) -> const Json& {
    const auto found = json.is_object() ? json.find(key) : json.end();
    if (!json.is_object() || found == json.end() || (is_list ? !found->is_array() : !found->is_string())) {
      fail("safetensors", "{}: '{}' is missing or has the wrong type in the header.", where, key);
    }
    return *found;
  };
  HeaderEntry entry{name, parse_dtype(member("dtype", false).get<std::string>(), where), {}, 0, 0};

  const Json& shape = member("shape", true);
  if (shape.size() > kMostDimensions) {
    fail("safetensors", "{}: {} dimensions, expected at most {}.", where, shape.size(), kMostDimensions);
  }
  std::optional<uint64_t> bytes = size_of(entry.dtype);
  for (const Json& size : shape) {
    entry.shape.push_back(static_cast<int64_t>(whole_number(size, where, "shape")));
    bytes = bytes ? checked_product(*bytes, static_cast<uint64_t>(entry.shape.back())) : bytes;
  }
  if (!bytes) fail("safetensors", "{}: the shape {} is larger than any memory.", where, shape.dump());

  const Json& range = member("data_offsets", true);
  if (range.size() != 2) {
    fail("safetensors", "{}: 'data_offsets' is {}, expected a begin and an end.", where, range.dump());
  }
  entry.begin = whole_number(range[0], where, "data_offsets");
  entry.end = whole_number(range[1], where, "data_offsets");
  if (entry.begin > entry.end || entry.end - entry.begin != *bytes) {
    fail("safetensors", "{}: bytes {} to {} do not fit {} {}, which needs {} bytes.", where, entry.begin,
         entry.end, name_of(entry.dtype), shape.dump(), *bytes);
  }
  return entry;
}

Metadata parse_metadata(const Json& json, const std::string& file) {
  if (!json.is_object()) fail("safetensors", "{}: '{}' is not an object of strings.", file, kMetadataKey);
  Metadata metadata;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) {
      fail("safetensors", "{}: the metadata '{}' is {}, expected a string.", file, key, value.dump());
    }
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// The header's text, with its length checked against the file.
std::string_view header_text(const MappedFile& file) {
  const std::string_view bytes = file.bytes();
  if (bytes.size() < kLengthBytes) {
    fail("safetensors", "{}: {} bytes, too short for a safetensors file.", file.path().string(),
         bytes.size());
  }
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), kLengthBytes);
  if (length > kLargestHeader || length > bytes.size() - kLengthBytes) {
    fail("safetensors",
         "{}: the header claims {} bytes, but {} bytes follow (at most {} are allowed). "
         "The file is truncated or not a safetensors file.",
         file.path().string(), length, bytes.size() - kLengthBytes, kLargestHeader);
  }
  return bytes.substr(kLengthBytes, length);
}

// The format allows neither holes nor overlaps: the tensors fill the data from its first byte to its last.
void check_coverage(std::vector<HeaderEntry>& entries, uint64_t data_size, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const HeaderEntry& entry : entries) {
    if (entry.begin != at) {
      fail("safetensors", "{}: tensor '{}' begins at byte {} of the data, expected {}: the tensors {}.", file,
           entry.name, entry.begin, at, entry.begin < at ? "overlap" : "leave a hole");
    }
    at = entry.end;
    if (at > data_size) {
      fail("safetensors",
           "{}: tensor '{}' ends at byte {} of the data, but there are {}. The file is truncated.", file,
           entry.name, at, data_size);
    }
  }
  if (at != data_size) {
    fail("safetensors", "{}: the tensors end at byte {} of the data, but there are {} bytes.", file, at,
         data_size);
  }
}

}  // namespace

namespace {
size_t bytes_in(const TensorView& tensor) {
  return static_cast<size_t>(tensor.numel()) * size_of(tensor.dtype);
}
}  // namespace

size_t size_of(DType dtype) { return entry_of(dtype).size; }
std::string_view name_of(DType dtype) { return entry_of(dtype).name; }

int64_t TensorView::numel() const {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

SafetensorsFile::SafetensorsFile(const fs::path& path) : file_(path) {
  const std::string name = path.string();
  const std::string_view text = header_text(file_);
  const std::string_view data = file_.bytes().substr(kLengthBytes + text.size());
  const Json header = parse_json(text, name);
  if (!header.is_object()) fail("safetensors", "{}: the header is not a JSON object.", name);

  std::vector<HeaderEntry> entries;
  for (const auto& [key, value] : header.items()) {
    if (key == kMetadataKey) {
      metadata_ = parse_metadata(value, name);
    } else {
      entries.push_back(parse_entry(key, value, name));
    }
  }
  check_coverage(entries, data.size(), name);
  for (HeaderEntry& entry : entries) {
    std::string_view bytes = data.substr(entry.begin, entry.end - entry.begin);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % size_of(entry.dtype) != 0) bytes = aligned_copy(bytes);
    tensors_[entry.name] = {entry.dtype, std::move(entry.shape), bytes};
  }
}

std::string_view SafetensorsFile::aligned_copy(std::string_view bytes) {
  const std::shared_ptr<char[]> copy(new char[bytes.size()]);
  std::memcpy(copy.get(), bytes.data(), bytes.size());
  copies_.push_back(copy);
  return {copy.get(), bytes.size()};
}

const TensorView& SafetensorsFile::at(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) {
    std::vector<std::string> known;
    for (const auto& [key, tensor] : tensors_) known.push_back(key);
    fail("safetensors", "{}: there is no tensor '{}'. {}", path().string(), name, suggestion(name, known));
  }
  return found->second;
}

SafetensorsWriter::SafetensorsWriter(fs::path path, Metadata metadata)
    : path_(std::move(path)), metadata_(std::move(metadata)) {}

void SafetensorsWriter::add(Entry entry) {
  for (const Entry& other : entries_) {
    if (other.name == entry.name)
      fail("safetensors", "{}: tensor '{}' was added twice.", path_.string(), entry.name);
  }
  if (entry.name == kMetadataKey)
    fail("safetensors", "{}: '{}' is no name for a tensor.", path_.string(), entry.name);
  entries_.push_back(std::move(entry));
}

void SafetensorsWriter::add(std::string name, DType dtype, std::vector<int64_t> shape,
                            std::string_view bytes) {
  TensorView tensor{dtype, std::move(shape), bytes};
  if (bytes.size() != bytes_in(tensor)) {
    fail("safetensors", "{}: tensor '{}' was given {} bytes for {} elements of {}.", path_.string(), name,
         bytes.size(), tensor.numel(), name_of(dtype));
  }
  add(Entry{std::move(name), std::move(tensor), {}});
}

void SafetensorsWriter::add(std::string name, DType dtype, std::vector<int64_t> shape, Stream stream) {
  add(Entry{std::move(name), {dtype, std::move(shape), {}}, std::move(stream)});
}

void SafetensorsWriter::commit() {
  std::stable_sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) {
    return size_of(a.tensor.dtype) > size_of(b.tensor.dtype);
  });
  Json header = Json::object();
  if (!metadata_.empty()) header[kMetadataKey] = metadata_;
  size_t at = 0;
  for (const auto& [name, tensor, stream] : entries_) {
    const size_t end = at + bytes_in(tensor);
    header[name] = {{"dtype", name_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  // A path in the metadata may hold bytes that are no UTF-8; JSON cannot, so they become replacement
  // characters.
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // keeps the data aligned to 8 bytes

  AtomicFile file(path_);
  const uint64_t length = text.size();
  file.write(&length, kLengthBytes);
  file.write(text);
  for (const Entry& entry : entries_) {
    if (!entry.stream) {
      file.write(entry.tensor.bytes);
      continue;
    }
    size_t left = bytes_in(entry.tensor);
    entry.stream([&](std::string_view bytes) {
      left -= std::min(left, bytes.size());
      file.write(bytes);
    });
    if (left > 0) {
      fail("safetensors", "{}: tensor '{}' ended {} bytes early.", path_.string(), entry.name, left);
    }
  }
  file.commit();
}

}  // namespace lra
