// sources: data/npy.cpp
#include "data/npy.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return lra::reads_or_refuses([&] {
    size_t total = 0;
    for (const auto& row : lra::read_string_table(lra::text_of(data, size), "input")) {
      lra::require(!row.empty(), "a row has columns");
      for (const std::string& cell : row) total += cell.size();
    }
    lra::require(total <= size, "no byte is made up");
  });
}
