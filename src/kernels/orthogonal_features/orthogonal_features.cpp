#include "kernels/orthogonal_features/orthogonal_features.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "kernels/portable.h"

namespace lra {
namespace {

using torch::Tensor;

// One Philox block gives four normal numbers by Box and Muller's transform: words 0 and 1 the first two,
// words 2 and 3 the others. Number e of a draw is number e mod 4 of block e / 4.
constexpr double kUnit = 1.0 / 4294967296.0;

// Stream of a draw; the fixed draw is one that no training step reaches.
uint64_t stream_of(uint64_t site, int64_t draw) { return (site << 48) | static_cast<uint64_t>(draw); }
constexpr int64_t kFixedDraw = (int64_t{1} << 48) - 1;
constexpr uint64_t kFixedSeed = stream_id("orthogonal_features");

void fill_normal(double* out, int64_t n, uint64_t seed, uint64_t stream) {
  for (int64_t e = 0; e < n; e += 4) {
    const PhiloxBlock b = philox(seed, stream, static_cast<uint64_t>(e / 4));
    for (int64_t k = 0; k < 4 && e + k < n; ++k) {
      const double u = (b.word[k / 2 * 2] + 0.5) * kUnit, v = (b.word[k / 2 * 2 + 1] + 0.5) * kUnit;
      const double angle = 2 * std::numbers::pi * v;
      out[e + k] = std::sqrt(-2 * std::log(u)) * (k % 2 == 0 ? std::cos(angle) : std::sin(angle));
    }
  }
}

double dot(const double* a, const double* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// Rows of g [n, P], n ≤ P: orthogonal, each as long as it was.
void orthogonalize(double* g, int64_t n, int64_t P) {
  std::vector<double> norms(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) norms[static_cast<size_t>(i)] = std::sqrt(dot(g + i * P, g + i * P, P));
  for (int64_t i = 0; i < n; ++i) {
    double* q = g + i * P;
    const double length = std::sqrt(dot(q, q, P));
    for (int64_t d = 0; d < P; ++d) q[d] /= length;
    for (int64_t j = i + 1; j < n; ++j) {
      double* row = g + j * P;
      const double along = dot(row, q, P);
      for (int64_t d = 0; d < P; ++d) row[d] -= along * q[d];
    }
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t d = 0; d < P; ++d) g[i * P + d] *= norms[static_cast<size_t>(i)];
  }
}

// Unsigned 32-bit arithmetic in int64 tensors: products wrap to the right bits, shifts are masked.
constexpr int64_t kMask = 0xffffffff;

struct Product {
  Tensor high, low;
};
Product multiply(int64_t a, const Tensor& b) {
  const Tensor p = b * a;
  return {p.bitwise_right_shift(32).bitwise_and(kMask), p.bitwise_and(kMask)};
}

// philox(seed, stream, index) of base/philox.h on tensors; stream: [1], index: [n] → [n, 4].
Tensor philox_tensors(uint64_t seed, const Tensor& stream, const Tensor& index) {
  auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
  Tensor c0 = index.bitwise_and(kMask), c1 = index.bitwise_right_shift(32);
  Tensor c2 = stream.bitwise_and(kMask).expand_as(index),
         c3 = stream.bitwise_right_shift(32).bitwise_and(kMask).expand_as(index);
  for (int round = 0; round < 10; ++round) {
    const Product p0 = multiply(0xD2511F53, c0), p1 = multiply(0xCD9E8D57, c2);
    c0 = p1.high.bitwise_xor(c1).bitwise_xor(static_cast<int64_t>(k0));
    c1 = p1.low;
    c2 = p0.high.bitwise_xor(c3).bitwise_xor(static_cast<int64_t>(k1));
    c3 = p0.low;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return torch::stack({c0, c1, c2, c3}, -1);
}

Tensor normal_tensors(int64_t n, uint64_t seed, const Tensor& stream) {
  const Tensor index = torch::arange((n + 3) / 4, stream.options());
  const Tensor uniform = (philox_tensors(seed, stream, index).to(torch::kDouble) + 0.5) * kUnit;  // [n/4, 4]
  const Tensor pairs = uniform.view({-1, 2, 2});
  const Tensor radius = (pairs.select(2, 0).log() * -2).sqrt(),
               angle = pairs.select(2, 1) * (2 * std::numbers::pi);
  return torch::stack({radius * angle.cos(), radius * angle.sin()}, -1).flatten().narrow(0, 0, n);
}

int64_t blocks(const OrthogonalFeatures& f) { return (f.count + f.width - 1) / f.width; }

}  // namespace

Tensor orthogonal_features(const OrthogonalFeatures& f, const torch::Device& device) {
  if (!device.is_cpu() || PortablePath::on()) return orthogonal_features_tensors(f, device);
  const bool fixed = !f.step.defined();
  const int64_t draw = fixed ? kFixedDraw : *f.step.const_data_ptr<int64_t>() / f.period;
  Tensor omega = torch::empty({blocks(f) * f.width, f.width}, torch::kDouble);
  auto* rows = omega.mutable_data_ptr<double>();
  fill_normal(rows, omega.numel(), fixed ? kFixedSeed : f.seed, stream_of(f.site, draw));
  for (int64_t b = 0; b < blocks(f); ++b) {
    const int64_t first = b * f.width;
    orthogonalize(rows + first * f.width, std::min(f.width, f.count - first), f.width);
  }
  return omega.narrow(0, 0, f.count);
}

Tensor orthogonal_features_tensors(const OrthogonalFeatures& f, const torch::Device& device) {
  const auto options = torch::TensorOptions().dtype(torch::kLong).device(device);
  const bool fixed = !f.step.defined();
  const Tensor draw =
      fixed ? torch::full({1}, kFixedDraw, options) : f.step.div(f.period, /*rounding_mode=*/"floor");
  const Tensor stream = draw.bitwise_or(static_cast<int64_t>(stream_of(f.site, 0)));
  const int64_t n = blocks(f), P = f.width;
  Tensor g = normal_tensors(n * P * P, fixed ? kFixedSeed : f.seed, stream).view({n, P, P});
  const Tensor norms = g.norm(2, -1, /*keepdim=*/true);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < std::min(P, f.count);
       ++i) {  // the first row of what is left, and the rest without it
    const Tensor first = g.narrow(1, 0, 1), q = first / first.norm(2, -1, true);  // [n, 1, P]
    rows.push_back(q);
    const Tensor rest = g.narrow(1, 1, P - 1 - i);
    g = rest - torch::matmul(torch::matmul(rest, q.transpose(1, 2)), q);
  }
  return (torch::cat(rows, 1) * norms.narrow(1, 0, static_cast<int64_t>(rows.size())))
      .flatten(0, 1)
      .narrow(0, 0, f.count);
}

}  // namespace lra
