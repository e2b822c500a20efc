// sources: data/safetensors.cpp base/file.cpp base/json.cpp base/suggest.cpp
#include "data/safetensors.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const lra::InputFile input(data, size);
  return lra::reads_or_refuses([&] {
    const lra::SafetensorsFile file(input.path());
    for (const auto& [name, tensor] : file.tensors()) {
      const auto bytes = static_cast<size_t>(tensor.numel()) * lra::size_of(tensor.dtype);
      lra::require(bytes == tensor.bytes.size(), "a tensor has the bytes of its shape");
      size_t sum = 0;
      for (const char c : tensor.bytes) sum += static_cast<unsigned char>(c);
      lra::require(sum <= 255 * bytes, "every byte can be read");
    }
  });
}
