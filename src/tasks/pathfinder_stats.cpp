// What shows in the images without following any contour.
#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "tasks/pathfinder.h"
#include "tasks/pixels.h"

namespace lra::pathfinder {
namespace {

constexpr int64_t kMostFitted = 20'000;  // images of train: more move the threshold by nothing

std::vector<double> distances(const Dataset& data, int64_t n) {
  std::vector<double> all(static_cast<size_t>(n));
  const int64_t side = side_of(data);
  parallel_items(n, [&](int64_t i) {
    all[static_cast<size_t>(i)] = find_markers(picture_of(data, i).pixels, side).distance();
  });
  return all;
}

double ratio(double part, int64_t whole) { return whole > 0 ? part / static_cast<double>(whole) : 0; }

}  // namespace

double MarkerPair::distance() const {
  const auto dy = static_cast<double>(y[0] - y[1]), dx = static_cast<double>(x[0] - x[1]);
  return std::sqrt(dy * dy + dx * dx);
}

// A marker is the only thing as thick as a disk of its radius: where it is, the darkest pixel of such a disk
// is bright. Of equally bright places the one with the brightest surroundings counts.
MarkerPair find_markers(std::span<const uint8_t> image, int64_t side) {
  const Tokens pixels(image);
  const double radius = side <= 32 ? 1.5 : side <= 64 ? 2.5 : side <= 128 ? 3 : 5;
  const auto reach = static_cast<int64_t>(radius);
  struct Place {
    int64_t darkest = -1, sum = -1, y = 0, x = 0;
  };
  std::vector<Place> places;
  for (int64_t y = 0; y < side; ++y) {
    for (int64_t x = 0; x < side; ++x) {
      if (pixels[y * side + x] < 64) continue;
      Place place{255, 0, y, x};
      for (int64_t dy = -reach; dy <= reach; ++dy) {
        for (int64_t dx = -reach; dx <= reach; ++dx) {
          const int64_t py = y + dy, px = x + dx;
          if (dy * dy + dx * dx > reach * reach || py < 0 || py >= side || px < 0 || px >= side) continue;
          const int64_t value = pixels[py * side + px];
          place.darkest = std::min(place.darkest, value);
          place.sum += value;
        }
      }
      places.push_back(place);
    }
  }
  const auto brighter = [](const Place& a, const Place& b) {
    return std::pair(a.darkest, a.sum) < std::pair(b.darkest, b.sum);
  };
  MarkerPair pair;
  if (places.empty()) return pair;
  const Place first = *std::max_element(places.begin(), places.end(), brighter);
  std::erase_if(places, [&](const Place& p) {
    const int64_t dy = p.y - first.y, dx = p.x - first.x;
    return static_cast<double>(dy * dy + dx * dx) <= 4 * radius * radius;
  });
  const Place second = places.empty() ? first : *std::max_element(places.begin(), places.end(), brighter);
  pair.y[0] = first.y, pair.x[0] = first.x, pair.y[1] = second.y, pair.x[1] = second.x;
  return pair;
}

double accuracy_of_distance(const Dataset& train, const Dataset& test) {
  const int64_t n = std::min(train.size(), kMostFitted);
  const std::vector<double> seen = distances(train, n);
  std::vector<std::pair<double, int64_t>> sorted;
  for (int64_t i = 0; i < n; ++i) sorted.emplace_back(seen[static_cast<size_t>(i)], train.label(i));
  std::sort(sorted.begin(), sorted.end());
  // Right answers of "1 above the threshold" for every threshold between two distances; n minus that is "1
  // below it".
  int64_t right = std::count_if(sorted.begin(), sorted.end(), [](const auto& p) { return p.second == 1; });
  int64_t best = std::max(right, n - right);
  double threshold = -1;
  bool above = right >= n - right;
  for (size_t i = 0; i < sorted.size(); ++i) {
    right += sorted[i].second == 1 ? -1 : 1;
    if (i + 1 < sorted.size() && sorted[i + 1].first == sorted[i].first) continue;
    if (std::max(right, n - right) <= best) continue;
    best = std::max(right, n - right);
    threshold = sorted[i].first;
    above = right >= n - right;
  }
  const std::vector<double> met = distances(test, test.size());
  int64_t hits = 0;
  for (int64_t i = 0; i < test.size(); ++i) {
    const bool one = (met[static_cast<size_t>(i)] > threshold) == above;
    hits += (one ? 1 : 0) == test.label(i) ? 1 : 0;
  }
  return ratio(static_cast<double>(hits), test.size());
}

Stats image_stats(const std::vector<const Dataset*>& splits, const Json& notes) {
  Stats stats;
  Table table{"pixels and markers",
              {"split", "not zero (%)", "mean", "deviation", "distance, label 1", "distance, label 0"},
              {},
              ""};
  for (size_t s = 0; s < splits.size(); ++s) {
    const Dataset& data = *splits[s];
    const PixelMoments m = pixel_moments(data);
    const std::vector<double> all = distances(data, data.size());
    double sum[2] = {};
    int64_t count[2] = {};
    for (int64_t i = 0; i < data.size(); ++i) {
      sum[data.label(i)] += all[static_cast<size_t>(i)];
      ++count[data.label(i)];
    }
    const double distance[] = {ratio(sum[0], count[0]), ratio(sum[1], count[1])};
    table.rows.push_back({kSplits[s], fmt::format("{:.2f}", 100 * m.not_zero), fmt::format("{:.2f}", m.mean),
                          fmt::format("{:.2f}", m.deviation), fmt::format("{:.2f}", distance[1]),
                          fmt::format("{:.2f}", distance[0])});
    stats.json[kSplits[s]] = {
        {"not_zero", m.not_zero}, {"mean", m.mean}, {"deviation", m.deviation}, {"distance", distance}};
  }
  stats.tables.push_back(std::move(table));
  if (notes.contains("pairs_tried")) {
    const double pairs = notes.value("pairs_tried", 0.0), placed = notes.value("distractors_placed", 0.0);
    stats.tables.push_back({"how they were made",
                            {"images", "pairs tried an image", "distractors placed"},
                            {{notes.value("images", Json()).dump(), fmt::format("{:.2f}", pairs),
                              fmt::format("{:.2f}", placed)}},
                            ""});
    stats.json["pairs_tried"] = pairs;
    stats.json["distractors_placed"] = placed;
  }
  return stats;
}

}  // namespace lra::pathfinder
