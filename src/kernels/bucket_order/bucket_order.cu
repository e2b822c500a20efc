// CUDA side of bucket_order.h. The warps of a block have neighbouring parts of the row:
//
//   1. each counts its positions of every bucket;
//   2. where buckets begin, and in them the positions of each warp;
//   3. each warp takes its positions again, in their order, to their places.
//
// The lanes of a warp that have the same bucket find each other; the first of them counts for all. Nothing
// depends on the order in which warps run.
#include "base/cuda_start.cuh"
#include "kernels/bucket_order/bucket_order_arguments.h"

namespace lra {
namespace {

constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr int kMostThreads = 512;

__device__ inline int lane_of_thread() { return static_cast<int>(threadIdx.x) % 32; }

// f(position, bucket, lanes of the same bucket) for the warp's part of the row, 32 positions at a time;
// beyond its end the bucket is −1. All lanes come to f together.
template <class F>
__device__ void for_each_position(const int32_t* buckets, int64_t begin, int64_t end, int first_bucket,
                                  const F& f) {
  for (int64_t at = begin; at < end; at += 32) {
    const int64_t position = at + lane_of_thread();
    const int bucket = position < end ? buckets[position] - first_bucket : -1;
    f(position, bucket, __match_any_sync(kAllLanes, bucket));
    __syncwarp();  // the counters are there for all the next time
  }
}
__device__ inline bool is_first(uint32_t lanes) {
  return __ffs(static_cast<int>(lanes)) - 1 == lane_of_thread();
}

__global__ void __launch_bounds__(kMostThreads) order_kernel(BucketOrderArguments a) {
  const int warps = static_cast<int>(blockDim.x) / 32, warp = static_cast<int>(threadIdx.x) / 32,
            lane = lane_of_thread(), count = a.buckets_of_row;
  int* counters = dynamic_shared<int>();  // [warps, count]
  int* begins = counters + warps * count;
  const int row = static_cast<int>(blockIdx.y), first_bucket = row * count;
  const int64_t list = static_cast<int64_t>(blockIdx.x) * a.positions;
  const int64_t row_begin = a.offsets[row], row_end = row < a.rows ? a.offsets[row + 1] : a.positions;
  if (row_end <= row_begin) return;
  const int64_t part = ((row_end - row_begin + warps - 1) / warps + 31) / 32 * 32;
  const int64_t wanted = row_begin + warp * part, begin = wanted < row_end ? wanted : row_end,
                end = begin + part < row_end ? begin + part : row_end;
  int* mine = counters + warp * count;
  for (int b = static_cast<int>(threadIdx.x); b < warps * count; b += static_cast<int>(blockDim.x)) {
    counters[b] = 0;
  }
  __syncthreads();
  for_each_position(a.buckets + list, begin, end, first_bucket, [&](int64_t, int bucket, uint32_t same) {
    if (bucket >= 0 && is_first(same)) mine[bucket] += __popc(same);
  });
  __syncthreads();
  for (int b = static_cast<int>(threadIdx.x); b < count; b += static_cast<int>(blockDim.x)) {
    int sum = 0;
    for (int w = 0; w < warps; ++w) {
      const int here = counters[w * count + b];
      counters[w * count + b] = sum;
      sum += here;
    }
    begins[b] = sum;
  }
  __syncthreads();
  if (warp == 0) {
    int before = 0;
    for (int first = 0; first < count; first += 32) {
      const int b = first + lane, here = b < count ? begins[b] : 0;
      int sum = here;
      for (int o = 1; o < 32; o *= 2) {
        const int other = __shfl_up_sync(kAllLanes, sum, o);
        if (lane >= o) sum += other;
      }
      if (b < count) begins[b] = before + sum - here;
      before += __shfl_sync(kAllLanes, sum, 31);
    }
  }
  __syncthreads();
  int32_t *order = a.order + list + row_begin, *least = a.least ? a.least + list + row_begin : nullptr;
  for_each_position(
      a.buckets + list, begin, end, first_bucket, [&](int64_t position, int bucket, uint32_t same) {
        const int first = bucket >= 0 ? begins[bucket] : 0, before = bucket >= 0 ? mine[bucket] : 0;
        __syncwarp();
        if (bucket < 0) return;
        if (is_first(same)) mine[bucket] = before + __popc(same);
        const int place = first + before + __popc(same & ((1u << lane) - 1));
        order[place] = static_cast<int32_t>(position);
        if (least) least[place] = static_cast<int32_t>(row_begin) + first;
      });
}

int order_launch(const BucketOrderArguments& a, CudaStream stream) {
  if (a.positions == 0 || a.lists == 0) return 0;
  const int warps = bucket_order_warps(a.buckets_of_row);
  if (warps == 0 || a.rows >= 65535) return cudaErrorInvalidValue;
  start_kernel(order_kernel,
               {dim3(static_cast<unsigned>(a.lists), static_cast<unsigned>(a.rows + 1)),
                dim3(static_cast<unsigned>(32 * warps)), static_cast<cudaStream_t>(stream),
                static_cast<size_t>(bucket_order_bytes(warps, a.buckets_of_row))},
               a);
  return cudaGetLastError();
}

const bool registered = (bucket_order_cuda = order_launch, true);

}  // namespace
}  // namespace lra
