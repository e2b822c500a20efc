// The safetensors format: 8 bytes header length (little endian), a JSON header, then the tensors' bytes.
// Python reads what we write and we read what Python writes; nothing here knows what a tensor is for.
//
//   SafetensorsWriter writer("model.safetensors", {{"format", "pt"}});
//   writer.add("embedding.weight", DType::kF32, {17, 512}, bytes);
//   writer.commit();                                        // atomic
//
//   SafetensorsFile file("model.safetensors");              // memory-mapped, every length and offset checked
//   const TensorView& w = file.at("embedding.weight");
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace lra {

enum class DType { kBool, kU8, kI8, kU16, kI16, kF16, kBF16, kU32, kI32, kF32, kU64, kI64, kF64 };
size_t size_of(DType dtype);
std::string_view name_of(DType dtype);  // "F32"

struct TensorView {
  DType dtype = DType::kU8;
  std::vector<int64_t> shape;
  std::string_view bytes;  // aligned to the size of an element

  int64_t numel() const;
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(bytes.data());
  }
};

using Metadata = std::map<std::string, std::string>;

class SafetensorsFile {
 public:
  explicit SafetensorsFile(const fs::path& path);

  bool contains(std::string_view name) const { return tensors_.find(name) != tensors_.end(); }
  const TensorView& at(std::string_view name) const;  // an error names the file and the nearest tensor
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  const Metadata& metadata() const { return metadata_; }
  const fs::path& path() const { return file_.path(); }

 private:
  std::string_view aligned_copy(std::string_view bytes);

  MappedFile file_;
  std::vector<std::shared_ptr<char[]>> copies_;  // of tensors that other writers left unaligned in the file
  Metadata metadata_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

// Tensors are laid out by falling element size (so each is aligned), then in the order of `add`. The bytes
// given to `add` must stay alive until commit.
class SafetensorsWriter {
 public:
  explicit SafetensorsWriter(fs::path path, Metadata metadata = {});
  void add(std::string name, DType dtype, std::vector<int64_t> shape, std::string_view bytes);
  // The same from bytes that are not in memory: `stream` is called by `commit` and hands them over in order.
  using Use = std::function<void(std::string_view)>;
  using Stream = std::function<void(const Use&)>;
  void add(std::string name, DType dtype, std::vector<int64_t> shape, Stream stream);
  void commit();

 private:
  struct Entry {
    std::string name;
    TensorView tensor;
    Stream stream;
  };
  void add(Entry entry);
  fs::path path_;
  Metadata metadata_;
  std::vector<Entry> entries_;
};

}  // namespace lra
