// sources: data/pickle.cpp data/pickle_numpy.cpp
#include "data/pickle.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return lra::reads_or_refuses([&] {
    const lra::Pickle pickle(std::string(lra::text_of(data, size)), "input");
    const lra::PickleValue& array = pickle.at(pickle.root(), "data");
    if (array.kind != lra::PickleValue::Kind::kArray || array.shape.empty()) return;
    size_t count = 1;
    for (const int64_t side : array.shape) count *= static_cast<size_t>(side);
    lra::require(count == array.bytes.size(), "an array has the bytes of its shape");
    lra::require(std::string(array.bytes).size() == count, "every byte can be read");
  });
}
