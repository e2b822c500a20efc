#include "kernels/orthogonal_features/orthogonal_features.h"

#include <cmath>

#include "base/philox.h"
#include "kernels/noise/noise.h"
#include "kernels/orthogonal_features/orthogonal_features_arguments.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<OrthogonalFeaturesArguments> orthogonal_features_cuda = nullptr;

namespace {

using torch::Tensor;

// The draw of evaluation: one that no training step reaches.
constexpr int64_t kFixedDraw = (int64_t{1} << 47) - 1;
constexpr uint64_t kFixedSeed = stream_id("orthogonal_features");

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

// The same for all blocks g [b, P, P] by tensor operations, of each the first n rows.
Tensor orthogonalized(Tensor g, int64_t n) {
  const Tensor norms = g.norm(2, -1, /*keepdim=*/true).narrow(1, 0, n);
  std::vector<Tensor> rows;
  for (int64_t i = 0; i < n; ++i) {  // the first row of what is left, and the rest without its direction
    const Tensor first = g.narrow(1, 0, 1), q = first / first.norm(2, -1, true);  // [b, 1, P]
    rows.push_back(q);
    const Tensor rest = g.narrow(1, 1, g.size(1) - 1);
    g = rest - torch::matmul(torch::matmul(rest, q.transpose(1, 2)), q);
  }
  return torch::cat(rows, 1) * norms;
}

}  // namespace

Tensor orthogonal_features_gpu(const OrthogonalFeatures& f, const torch::Device& device) {
  const bool fixed = !f.step.defined();
  const Tensor out = torch::empty({f.count, f.width}, torch::TensorOptions(device).dtype(torch::kDouble));
  const OrthogonalFeaturesArguments arguments{out.mutable_data_ptr<double>(),
                                              f.count,
                                              f.width,
                                              f.site,
                                              fixed ? kFixedSeed : f.seed,
                                              fixed ? nullptr : f.step.const_data_ptr<int64_t>(),
                                              f.period,
                                              kFixedDraw};
  launch(orthogonal_features_cuda, arguments, "orthogonal_features");
  return out;
}

Tensor orthogonal_features(const OrthogonalFeatures& f, const torch::Device& device) {
  if (on_device(device) && f.width <= kOrthogonalMaxWidth) return orthogonal_features_gpu(f, device);
  const auto options = torch::TensorOptions().dtype(torch::kLong).device(device);
  const int64_t P = f.width, blocks = (f.count + P - 1) / P;
  const bool fixed = !f.step.defined();
  const Noise noise{f.site, fixed ? kFixedSeed : f.seed,
                    fixed ? torch::full({1}, kFixedDraw, options) : f.step.div(f.period, "floor")};
  Tensor g = normal_noise(torch::arange(blocks * P * P, options), noise, torch::kDouble).view({blocks, P, P});
  if (!on_cpu_path(g)) return orthogonalized(g, std::min(P, f.count)).flatten(0, 1).narrow(0, 0, f.count);
  g = g.contiguous();
  for (int64_t b = 0; b < blocks; ++b) {
    orthogonalize(g.mutable_data_ptr<double>() + b * P * P, std::min(P, f.count - b * P), P);
  }
  return g.flatten(0, 1).narrow(0, 0, f.count);
}

}  // namespace lra
