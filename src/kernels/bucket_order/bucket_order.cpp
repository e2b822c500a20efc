#include "kernels/bucket_order/bucket_order.h"

#include "kernels/bucket_order/bucket_order_arguments.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<BucketOrderArguments> bucket_order_cuda = nullptr;

using torch::Tensor;

BucketOrder bucket_order(const Tensor& buckets, const Rows& rows, int64_t buckets_of_row, bool with_least) {
  TORCH_CHECK(buckets.dim() == 2 && buckets.scalar_type() == torch::kInt && buckets.size(1) == rows.positions,
              "[bucket_order] buckets are ", buckets.scalar_type(), " ", buckets.sizes(),
              ", expected int32 [N, ", rows.positions, "]");
  if (!on_device(buckets) || bucket_order_warps(buckets_of_row) == 0 || rows.count >= 65535) {
    return bucket_order_portable(buckets, with_least);
  }
  const Tensor in = buckets.contiguous();
  const BucketOrder out{torch::empty_like(in), with_least ? torch::empty_like(in) : Tensor()};
  launch(bucket_order_cuda,
         {in.const_data_ptr<int32_t>(), rows.offsets.const_data_ptr<int32_t>(),
          out.order.mutable_data_ptr<int32_t>(), with_least ? out.least.mutable_data_ptr<int32_t>() : nullptr,
          in.size(1), in.size(0), static_cast<int32_t>(rows.count), static_cast<int32_t>(buckets_of_row)},
         "bucket_order");
  return out;
}

BucketOrder bucket_order_portable(const Tensor& buckets, bool with_least) {
  const auto [bucket, position] = torch::sort(buckets, /*stable=*/true, /*dim=*/1, /*descending=*/false);
  BucketOrder out{position.to(torch::kInt)};
  if (with_least) {
    const int64_t after = std::max<int64_t>(buckets.size(1) - 1, 0);
    const Tensor place = torch::arange(buckets.size(1), buckets.options());
    const Tensor same =
        torch::constant_pad_nd(bucket.narrow(1, 1, after) == bucket.narrow(1, 0, after), {1, 0}, 0);
    out.least = std::get<0>(torch::cummax(torch::where(same, torch::zeros_like(place), place), 1));
  }
  return out;
}

}  // namespace lra
