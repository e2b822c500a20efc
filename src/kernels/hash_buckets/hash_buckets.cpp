#include "kernels/hash_buckets/hash_buckets.h"

#include "kernels/hash_buckets/hash_buckets_arguments.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<HashBucketsArguments> hash_buckets_cuda = nullptr;
CudaLauncher<HashMatrixArguments> hash_matrix_cuda = nullptr;

namespace {

using torch::Tensor;

// Scores held at a time: what a cache holds; on a GPU what keeps it busy.
int64_t most_scores(const Tensor& q) { return q.is_cpu() ? int64_t{1} << 17 : int64_t{1} << 24; }

void check(const Tensor& q, const Tensor& matrix, const Rows& rows, int64_t chunk) {
  const auto type = q.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
  TORCH_CHECK(q.dim() == 3 && q.size(0) == rows.positions, "[hash_buckets] q has shape ", q.sizes(),
              ", expected [", rows.positions, ", H, P]");
  TORCH_CHECK(matrix.dim() == 3 && matrix.size(2) == q.size(2) && matrix.scalar_type() == type,
              "[hash_buckets] the matrix is ", matrix.scalar_type(), " ", matrix.sizes(), ", expected ", type,
              " [rounds, columns, ", q.size(2), "]");
  TORCH_CHECK(chunk > 0, "[hash_buckets] chunk is ", chunk, ", expected 1 or more");
}

Tensor run_kernel(const Tensor& vectors, const Tensor& matrix, const Rows& rows, int64_t chunk) {
  const int64_t P = vectors.size(2);
  const Tensor q = vectors.stride(2) == 1 && vectors.stride(1) == P ? vectors : vectors.contiguous(),
               columns = matrix.contiguous();
  const Tensor buckets = torch::empty({matrix.size(0) * q.size(1), q.size(0)}, rows.offsets.options());
  const int64_t product_width = hash_product_width(P, static_cast<int>(q.element_size()));
  const Tensor parts = product_width > 0
                           ? torch::empty({matrix.size(0), 3, matrix.size(1), product_width}, q.options())
                           : Tensor();
  const HashBucketsArguments arguments{q.const_data_ptr(),
                                       columns.const_data_ptr(),
                                       rows.offsets.const_data_ptr<int32_t>(),
                                       rows.lengths.const_data_ptr<int32_t>(),
                                       buckets.mutable_data_ptr<int32_t>(),
                                       parts.defined() ? parts.mutable_data_ptr() : nullptr,
                                       q.size(0),
                                       q.stride(0),
                                       static_cast<int32_t>(rows.count),
                                       static_cast<int32_t>(q.size(1)),
                                       static_cast<int32_t>(P),
                                       static_cast<int32_t>(matrix.size(0)),
                                       static_cast<int32_t>(matrix.size(1)),
                                       static_cast<int32_t>(chunk),
                                       static_cast<int>(q.element_size())};
  launch(hash_buckets_cuda, arguments, "hash_buckets");
  return buckets;
}

}  // namespace

Tensor hash_buckets(const Tensor& q, const Tensor& matrix, const Rows& rows, int64_t chunk) {
  check(q, matrix, rows, chunk);
  const torch::NoGradGuard no_grad;
  const bool served = hash_vectors(q.size(2), static_cast<int>(q.element_size())) > 0;
  return on_device(q) && served ? run_kernel(q, matrix, rows, chunk)
                                : hash_buckets_portable(q, matrix, rows, chunk);
}

Tensor hash_buckets_portable(const Tensor& q, const Tensor& matrix, const Rows& rows, int64_t chunk) {
  const torch::NoGradGuard no_grad;
  const int64_t T = q.size(0), H = q.size(1), R = matrix.size(0), columns = matrix.size(1),
                padding = 2 * columns;
  const auto number = rows.slots.options();
  const Tensor position = torch::arange(T, number);
  const Tensor row = torch::searchsorted(rows.offsets.narrow(0, 1, rows.count), position.to(torch::kInt),
                                         /*out_int32=*/false, /*right=*/true);  // `count` after the last
  const auto of_row = [&](const Tensor& t) {
    return torch::constant_pad_nd(t, {0, 1}).to(torch::kLong).index_select(0, row);
  };
  const Tensor lengths = of_row(rows.lengths), starts = of_row(rows.offsets.narrow(0, 0, rows.count));
  const Tensor inside = position - starts < lengths;
  const Tensor half = torch::floor_divide(lengths + (chunk - 1), chunk).clamp_max(columns);
  const Tensor column = torch::arange(columns, number);
  const Tensor x = q.to(matrix.scalar_type()), rotations = matrix.view({R * columns, -1}).t();
  const int64_t step = std::max<int64_t>(1, most_scores(x) / (H * R * columns));
  std::vector<Tensor> parts;
  for (int64_t t = 0; t < T; t += step) {
    const int64_t n = std::min(step, T - t);
    const Tensor halves = half.narrow(0, t, n).view({n, 1, 1});
    const Tensor unused = (column >= halves.unsqueeze(3));  // [n, 1, 1, columns]
    const Tensor scores = torch::matmul(x.narrow(0, t, n), rotations).view({n, H, R, columns});
    const auto [most, at_most] = scores.masked_fill(unused, -INFINITY).max(3);
    const auto [least, at_least] = scores.masked_fill(unused, INFINITY).min(3);
    parts.push_back(torch::where(most >= -least, at_most, at_least + halves));  // [n, H, R]
  }
  const Tensor bucket = torch::cat(parts).permute({2, 1, 0}).reshape({R * H, T});
  return (row * hash_buckets_of_row(columns) +
          torch::where(inside, bucket, torch::full_like(bucket, padding)))
      .to(torch::kInt);
}

Tensor hash_matrix(int64_t rounds, int64_t columns, int64_t width, const Noise& noise, torch::Dtype type) {
  TORCH_CHECK(columns < kHashMostColumns, "[hash_matrix] ", columns, " columns, expected fewer than ",
              kHashMostColumns);
  if (on_device(noise.step)) {
    const Tensor out = torch::empty({rounds, columns, width}, noise.step.options().dtype(type));
    launch(hash_matrix_cuda,
           {out.mutable_data_ptr(), static_cast<int32_t>(rounds), static_cast<int32_t>(columns),
            static_cast<int32_t>(width), noise.site, noise.seed, noise.step.const_data_ptr<int64_t>(),
            static_cast<int>(out.element_size())},
           "hash_matrix");
    return out;
  }
  const auto number = noise.step.options();
  const Tensor r = torch::arange(rounds, number).view({-1, 1, 1}),
               c = torch::arange(columns, number).view({-1, 1}), p = torch::arange(width, number);
  return normal_noise((r * width + p) * kHashMostColumns + c, noise, type);
}

}  // namespace lra
