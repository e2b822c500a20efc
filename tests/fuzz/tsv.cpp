// sources: data/tsv.cpp data/byte_stream.cpp base/file.cpp
#include "data/tsv.h"

#include <algorithm>

#include "fuzz.h"

// The batches of a stream are the lines that the whole text has; the first bytes choose the sizes.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text = lra::text_of(data + 2, size - 2);
  return lra::reads_or_refuses([&] {
    lra::MemoryStream stream(text, "input");
    lra::LineBatches batches(stream, data[0], data[1]);
    int64_t count = 0;
    size_t total = 0;
    for (std::vector<lra::Line> lines; batches.next(lines);) {
      lra::require(!lines.empty(), "a batch has lines");
      for (const lra::Line& line : lines) {
        lra::require(line.place.number == ++count, "lines are counted one by one");
        lra::require(line.text.size() <= data[0], "no line is longer than the longest");
        total += line.text.size();
        std::string_view fields[5];
        lra::cut_at_tabs(line.text, fields, 5);
      }
    }
    const auto ends = std::count(text.begin(), text.end(), '\n');
    lra::require(count == ends + (text.empty() || text.back() == '\n' ? 0 : 1), "no line is lost");
    lra::require(total <= text.size(), "no byte is made up");
  });
}
