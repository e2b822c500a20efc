// sources: data/archive.cpp data/gunzip.cpp data/byte_stream.cpp base/file.cpp
#include "data/archive.h"

#include <vector>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return lra::reads_or_refuses([&] {
    const std::string_view bytes = lra::text_of(data, size);
    lra::MemoryStream packed(bytes, "input");
    std::atomic<int64_t> position{0};
    lra::SourceLimits limits;
    limits.ratio_from = 1 << 22;
    lra::ArchiveReader archive(packed, bytes.substr(0, 512), limits, position);
    std::vector<char> buffer(1 << 16);
    for (lra::SourceFile file; archive.next(file);) {
      lra::require(!file.path.empty() && file.path.front() != '/', "a path stays inside");
      lra::require(("/" + file.path + "/").find("/../") == std::string::npos, "a path has no '..'");
      int64_t total = 0;
      while (const size_t n = archive.read(buffer.data(), buffer.size())) total += static_cast<int64_t>(n);
      lra::require(total == file.size, "a file has the size it claims");
    }
  });
}
