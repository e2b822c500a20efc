// sources: base/json.cpp base/file.cpp
#include "base/json.h"

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return lra::reads_or_refuses([&] {
    const lra::Json json = lra::parse_json(lra::text_of(data, size), "input");
    lra::json_get<int64_t>(json, "step", "input");
  });
}
