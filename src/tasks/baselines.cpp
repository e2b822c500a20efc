#include "tasks/baselines.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/threads.h"
#include "tasks/pixels.h"

namespace lra {
namespace {

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::vector<int64_t> label_counts(const Dataset& data) {
  std::vector<int64_t> counts(static_cast<size_t>(data.info().num_classes));
  for (int64_t i = 0; i < data.size(); ++i) ++counts.at(static_cast<size_t>(data.label(i)));
  return counts;
}

}  // namespace

double accuracy_of_majority(const Dataset& train, const Dataset& test) {
  const std::vector<int64_t> counts = label_counts(train);
  const int64_t majority = std::max_element(counts.begin(), counts.end()) - counts.begin();
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) right += test.label(i) == majority ? 1 : 0;
  return ratio(right, test.size());
}

double nearest_class_mean(const Dataset& train, const Dataset& test) {
  const int64_t pixels = side_of(train) * side_of(train);
  const std::vector<int64_t> counts = label_counts(train);
  std::vector<std::vector<double>> means(counts.size(), std::vector<double>(static_cast<size_t>(pixels)));
  for (int64_t i = 0; i < train.size(); ++i) {
    const GrayImage image = picture_of(train, i);
    auto& mean = means[static_cast<size_t>(train.label(i))];
    for (size_t t = 0; t < image.pixels.size(); ++t) mean[t] += image.pixels[t];
  }
  for (size_t c = 0; c < means.size(); ++c) {
    for (double& value : means[c]) value /= static_cast<double>(std::max<int64_t>(counts[c], 1));
  }
  std::atomic<int64_t> right = 0;
  parallel_items(test.size(), [&](int64_t i) {
    const GrayImage image = picture_of(test, i);
    double best = 0;
    int64_t nearest = -1;
    for (size_t c = 0; c < means.size(); ++c) {
      if (counts[c] == 0) continue;
      double distance = 0;
      for (size_t t = 0; t < image.pixels.size(); ++t) {
        const double d = image.pixels[t] - means[c][t];
        distance += d * d;
      }
      if (nearest < 0 || distance < best) best = distance, nearest = static_cast<int64_t>(c);
    }
    if (nearest == test.label(i)) ++right;
  });
  return ratio(right, test.size());
}

}  // namespace lra
