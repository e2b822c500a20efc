// Bag of bytes: logistic regression on how often each byte occurs, blind to order.
//
//   x = log(1 + count of each byte); of two documents x = |x1 - x2|; standardised on train;   p(positive) =
//   s(w·x + b),  s(z) = 1 / (1 + exp(-z)) minimise  -Σ log p(label) + ½ |w|²
//
// by steps w <- w - B⁻¹ g with B = ¼ XᵀX + I, which is above every Hessian (Böhning & Lindsay 1988): each
// step lowers the loss, no rate has to be chosen and B is factored once. Sums run over fixed blocks of
// examples, added up in order: the same result for any number of threads.
#include <algorithm>
#include <cmath>

#include "base/threads.h"
#include "tasks/baselines.h"
#include "tasks/bytes.h"

namespace lra {
namespace {

constexpr int64_t kBlock = 512;
constexpr int kSteps = 200;
constexpr int64_t kMostExamples = 25'000;  // of train: more changes the result by little

// Examples as rows [n, f]; the last of the f columns is the constant 1.
struct Features {
  int64_t n = 0, f = 0;
  std::vector<double> x;
  const double* row(int64_t i) const { return x.data() + i * f; }
};

double dot(const double* a, const double* b, int64_t n) {
  double sum[4] = {};
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    for (int64_t k = 0; k < 4; ++k) sum[k] += a[i + k] * b[i + k];
  }
  for (; i < n; ++i) sum[0] += a[i] * b[i];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// Σ over blocks of what `work` adds for the examples first … last-1 into `size` zeros, in the order of
// blocks.
template <class Work>
std::vector<double> sum_blocks(int64_t n, int64_t size, const Work& work) {
  std::vector<std::vector<double>> parts(static_cast<size_t>((n + kBlock - 1) / kBlock));
  parallel_items(static_cast<int64_t>(parts.size()), [&](int64_t b) {
    auto& part = parts[static_cast<size_t>(b)];
    part.resize(static_cast<size_t>(size));
    work(b * kBlock, std::min(n, (b + 1) * kBlock), part.data());
  });
  std::vector<double> sum(static_cast<size_t>(size));
  for (const auto& part : parts) {
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  return sum;
}

void add_log_counts(const Tokens& tokens, double* row) {
  double counts[kByteVocabulary] = {};
  for (int64_t t = 0; t < tokens.size(); ++t) counts[std::clamp<int32_t>(tokens[t], 0, 256)] += 1;
  for (int64_t k = 0; k < 256; ++k) row[k] += std::log1p(counts[k + 1]);
}

// [n, 256] for the first n examples.
std::vector<double> features_of(const Dataset& data, int64_t n) {
  std::vector<double> x(static_cast<size_t>(n * 256));
  parallel_items((n + kBlock - 1) / kBlock, [&](int64_t b) {
    for (int64_t i = b * kBlock; i < std::min(n, (b + 1) * kBlock); ++i) {
      double* row = x.data() + i * 256;
      add_log_counts(data.tokens(i), row);
      if (!data.has_second()) continue;
      double other[256] = {};
      add_log_counts(data.tokens2(i), other);
      for (int64_t k = 0; k < 256; ++k) row[k] = std::abs(row[k] - other[k]);
    }
  });
  return x;
}

struct Scale {
  std::vector<int64_t> bytes;  // those whose count differs somewhere in train
  std::vector<double> mean, deviation;
};

Scale fit_scale(const std::vector<double>& x, int64_t n) {
  const auto moments = sum_blocks(n, 512, [&](int64_t first, int64_t last, double* out) {
    for (int64_t i = first; i < last; ++i) {
      for (int64_t k = 0; k < 256; ++k) {
        const double value = x[static_cast<size_t>(i * 256 + k)];
        out[k] += value;
        out[256 + k] += value * value;
      }
    }
  });
  Scale scale;
  for (size_t k = 0; k < 256; ++k) {
    const double mean = moments[k] / static_cast<double>(n);
    const double variance = moments[256 + k] / static_cast<double>(n) - mean * mean;
    if (variance < 1e-12) continue;
    scale.bytes.push_back(static_cast<int64_t>(k));
    scale.mean.push_back(mean);
    scale.deviation.push_back(std::sqrt(variance));
  }
  return scale;
}

Features standardise(const std::vector<double>& x, int64_t n, const Scale& scale) {
  Features features{n, static_cast<int64_t>(scale.bytes.size()) + 1, {}};
  features.x.reserve(static_cast<size_t>(n * features.f));
  for (int64_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < scale.bytes.size(); ++k) {
      const double value = x[static_cast<size_t>(i * 256 + scale.bytes[k])];
      features.x.push_back((value - scale.mean[k]) / scale.deviation[k]);
    }
    features.x.push_back(1);
  }
  return features;
}

// The lower triangle L of ¼ XᵀX + I = L Lᵀ, in rows of f.
std::vector<double> factor_bound(const Features& a) {
  const int64_t f = a.f;
  auto l = sum_blocks(a.n, f * f, [&](int64_t first, int64_t last, double* out) {
    for (int64_t i = first; i < last; ++i) {
      const double* x = a.row(i);
      for (int64_t r = 0; r < f; ++r) {
        const double scaled = 0.25 * x[r];
        for (int64_t c = 0; c <= r; ++c) out[r * f + c] += scaled * x[c];
      }
    }
  });
  for (int64_t r = 0; r < f; ++r) {
    double* row = l.data() + r * f;
    row[r] += 1;
    for (int64_t c = 0; c <= r; ++c) {
      const double* other = l.data() + c * f;
      const double rest = row[c] - dot(row, other, c);
      row[c] = c == r ? std::sqrt(rest) : rest / other[c];
    }
  }
  return l;
}

// Solves L Lᵀ y = g in place.
void solve(const std::vector<double>& l, int64_t f, std::vector<double>& g) {
  for (int64_t r = 0; r < f; ++r) {
    const double* row = l.data() + r * f;
    g[static_cast<size_t>(r)] = (g[static_cast<size_t>(r)] - dot(row, g.data(), r)) / row[r];
  }
  for (int64_t r = f - 1; r >= 0; --r) {
    const double* row = l.data() + r * f;
    const double value = g[static_cast<size_t>(r)] /= row[r];
    for (int64_t c = 0; c < r; ++c) g[static_cast<size_t>(c)] -= value * row[c];
  }
}

std::vector<double> fit(const Features& a, const Dataset& train) {
  const std::vector<double> bound = factor_bound(a);
  std::vector<double> w(static_cast<size_t>(a.f));
  for (int step = 0; step < kSteps; ++step) {
    auto gradient = sum_blocks(a.n, a.f, [&](int64_t first, int64_t last, double* out) {
      for (int64_t i = first; i < last; ++i) {
        const double* x = a.row(i);
        const double p = 1 / (1 + std::exp(-dot(x, w.data(), a.f)));
        const double excess = p - static_cast<double>(train.label(i));
        for (int64_t k = 0; k < a.f; ++k) out[k] += excess * x[k];
      }
    });
    for (size_t k = 0; k < w.size(); ++k) gradient[k] += w[k];
    solve(bound, a.f, gradient);
    for (size_t k = 0; k < w.size(); ++k) w[k] -= gradient[k];
  }
  return w;
}

}  // namespace

double bag_of_bytes(const Dataset& train, const Dataset& test) {
  const int64_t n = std::min(train.size(), kMostExamples);
  if (n == 0 || test.size() == 0) return 0;
  const std::vector<double> x = features_of(train, n);
  const Scale scale = fit_scale(x, n);
  const std::vector<double> w = fit(standardise(x, n, scale), train);
  const Features seen = standardise(features_of(test, test.size()), test.size(), scale);
  int64_t right = 0;
  for (int64_t i = 0; i < seen.n; ++i) {
    right += (dot(seen.row(i), w.data(), seen.f) > 0 ? 1 : 0) == test.label(i) ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(test.size());
}

}  // namespace lra
