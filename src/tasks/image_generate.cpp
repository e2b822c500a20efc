// Made-up textures for tests and the demo: ten patterns with a little noise.
//
//   pattern of a class: light where (a·x + b·y + phase) mod period < period / 2
//   (a, b): rows, columns and both diagonals, with the periods 4 and 8; two checkerboards
//   a pixel: one of two dark or two light values; one in ten is of the other kind
//
// Four values only, since a model has to learn what each of them means. Image i of a split is a pure function
// of (seed, its number in the whole set). Only integers are used: the same bits everywhere.
#include <iterator>

#include "base/philox.h"
#include "base/signals.h"
#include "tasks/image.h"
#include "tasks/remainder.h"

namespace lra::image {
namespace {

constexpr uint64_t kImageStream = stream_id("image.texture");
constexpr uint8_t kValues[2][2] = {{32, 96}, {160, 224}};  // dark, light

struct Pattern {
  int32_t a, b, period;
  bool checkers;
};
constexpr Pattern kPatterns[kClasses] = {
    {0, 1, 4, false}, {1, 0, 4, false}, {1, 1, 4, false}, {1, 7, 4, false}, {0, 1, 8, false},
    {1, 0, 8, false}, {1, 1, 8, false}, {1, 7, 8, false}, {1, 1, 4, true},  {1, 1, 8, true}};

bool light(const Pattern& p, int32_t x, int32_t y, int32_t phase_x, int32_t phase_y) {
  const int32_t half = p.period / 2;
  if (p.checkers) return (((x + phase_x) / half + (y + phase_y) / half) & 1) == 0;
  return (p.a * x + p.b * y + phase_x) % p.period < half;
}

int64_t draw(uint64_t seed, uint64_t number, int32_t side, std::vector<uint8_t>& pixels) {
  Rng rng(seed, kImageStream, number);
  const auto label = static_cast<int64_t>(rng.below(kClasses));
  const Pattern& pattern = kPatterns[label];
  const auto phase_x = static_cast<int32_t>(rng.below(3)), phase_y = static_cast<int32_t>(rng.below(3));
  for (int32_t y = 0; y < side; ++y) {
    for (int32_t x = 0; x < side; ++x) {
      const bool turned = rng.below(10) == 0;
      const size_t kind = light(pattern, x, y, phase_x, phase_y) != turned ? 1 : 0;
      pixels[static_cast<size_t>(y * side + x)] = kValues[kind][rng.below(2)];
    }
  }
  return label;
}

}  // namespace

Json generate(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& sink) {
  const int64_t wanted[] = {counts.train, counts.val, counts.test};
  const auto side = static_cast<int32_t>(options.side);
  std::vector<uint8_t> pixels(static_cast<size_t>(side * side));
  WholeBatches out(sink, options.drop_remainder ? kBatch : 1);
  uint64_t number = 0;
  for (size_t s = 0; s < std::size(wanted); ++s) {
    for (int64_t i = 0; i < wanted[s]; ++i) {
      if (interrupted()) throw Interrupted("making the images was interrupted; nothing was written");
      const int64_t label = draw(seed, number++, side, pixels);
      out.add(s, Tokens{std::span<const uint8_t>(pixels)}, label);
    }
  }
  return Json::object();
}

}  // namespace lra::image
