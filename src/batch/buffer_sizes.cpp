#include "batch/buffer_sizes.h"

namespace lra {
namespace {

// Of 64 sizes a task meets a dozen, and 1 % of the positions are left over. Two documents multiply what is
// met; theirs are mostly as long as may be, so that little is left over all the same.
constexpr int64_t kSizes = 64, kSizesOfTwo = 32;
constexpr int64_t kMultiple = 128;
constexpr int64_t kTailRow = 256;

int64_t round_up(int64_t x, int64_t multiple) { return (x + multiple - 1) / multiple * multiple; }

}  // namespace

BufferSizes::BufferSizes(const Dataset& data, const LoaderOptions& options) {
  const int64_t rows = (options.batch + options.micro_batches - 1) / options.micro_batches;
  const int64_t lead = options.layout.cls ? 1 : 0;
  for (const bool second : {false, true}) {
    if (second && !data.has_second()) break;
    Document& d = documents_[second];
    for (int64_t i = 0; i < data.size(); ++i) {
      const int64_t length = (second ? data.tokens2(i).size() : data.length(i)) + lead;
      d.shortest = i == 0 ? length : std::min(d.shortest, length);
      d.longest = std::max(d.longest, length);
    }
    const int64_t sizes = data.has_second() ? kSizesOfTwo : kSizes;
    d.step = step(rows * d.longest, sizes);
    TORCH_CHECK(d.longest < (int64_t{1} << 24) && d.step * sizes <= INT32_MAX, "[batch] rows of ", d.longest,
                " positions in micro-batches of ", rows, " are too long to count; use more micro-batches");
  }
}

int64_t BufferSizes::step(int64_t largest, int64_t sizes) {
  return round_up(std::max<int64_t>(1, (largest + sizes - 1) / sizes), kMultiple);
}

int64_t BufferSizes::capacity(int64_t filled, bool second) const {
  return fixed(second) ? filled : round_up(filled, documents_[second].step);
}

Tail BufferSizes::tail(int64_t rows, int64_t capacity, bool second) const {
  if (fixed(second)) return {0, 0};
  const Document& d = documents_[second];
  const int64_t row_length = std::min(kTailRow, d.longest);
  const int64_t left = std::min(capacity - rows * d.shortest, d.step);
  return {(left + row_length - 1) / row_length, row_length};
}

}  // namespace lra
