// CUDA side of the loss (cross_entropy.h), divided as CrossEntropyPlan says; sums in a fixed order.
#include <cmath>

#include "base/cuda_start.cuh"
#include "kernels/cross_entropy/cross_entropy_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = CrossEntropyPlan::kThreads;
using Part = CrossEntropyPlan::Part;

__device__ float exponential(float x) { return expf(x); }
__device__ double exponential(double x) { return exp(x); }

template <class T>
struct Largest {
  T value;
  int64_t index;
};

// Over a group of `size` threads, for all of them.
template <class T>
__device__ T group_sum(T value, int size) {
  for (int o = size / 2; o > 0; o /= 2) value += __shfl_xor_sync(0xffffffffu, value, o);
  return value;
}
template <class T>
__device__ Largest<T> group_largest(Largest<T> mine, int size) {
  for (int o = size / 2; o > 0; o /= 2) {
    const T value = __shfl_xor_sync(0xffffffffu, mine.value, o);
    const int64_t index = __shfl_xor_sync(0xffffffffu, mine.index, o);
    if (value > mine.value || (value == mine.value && index < mine.index)) mine = {value, index};
  }
  return mine;
}

// A thread's logits of a row: lane, lane + size, … The first of them are in registers.
template <class T>
struct Logits {
  static constexpr int kHeld = 8;
  const T* x;
  int64_t C;
  int lane, size;
  T held[kHeld];

  __device__ Logits(const T* row, int64_t count, int lane_, int size_)
      : x(row), C(count), lane(lane_), size(size_) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) held[k] = lane + k * size < C ? x[lane + k * size] : T(0);
  }
  template <class F>
  __device__ void each(const F& f) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (lane + k * size < C) f(int64_t{lane} + k * size, held[k]);
    }
    for (int64_t i = lane + kHeld * size; i < C; i += size) f(i, x[i]);
  }
};

// The loss of a row, and whether its first maximum is the label. All threads of a warp must come here; `live`
// says whether the group has a row.
template <class T>
__device__ T row_loss(const CrossEntropyArguments& a, int64_t b, bool live, int lane, int size,
                      bool& correct) {
  const T* row = static_cast<const T*>(a.logits) + (live ? b : 0) * a.C;
  const Logits<T> logits(row, a.C, lane, size);
  const int64_t label = live ? a.labels[b] : 0;
  const bool valid = label >= 0 && label < a.C;
  const T labelled = valid ? row[label] : T(0);
  Largest<T> largest{static_cast<T>(-INFINITY), a.C};
  logits.each([&](int64_t i, T x) {
    if (x > largest.value) largest = {x, i};
  });
  largest = group_largest(largest, size);
  T sum = 0;
  logits.each([&](int64_t, T x) { sum += exponential(x - largest.value); });
  sum = group_sum(sum, size);
  if (live && a.gradient) {
    T* d = static_cast<T*>(a.gradient) + b * a.C;
    logits.each([&](int64_t i, T x) {
      const T softmax = exponential(x - largest.value) / sum;
      d[i] = valid ? static_cast<T>(a.scale) * (softmax - (i == label ? T(1) : T(0))) : static_cast<T>(NAN);
    });
  }
  correct = largest.index == label;
  return valid ? log(sum) - (labelled - largest.value) : static_cast<T>(NAN);
}

// The sum over a block's threads, for thread 0.
__device__ Part block_sum(Part mine) {
  __shared__ Part parts[kThreads];
  const auto t = static_cast<int>(threadIdx.x);
  parts[t] = mine;
  for (int o = kThreads / 2; o > 0; o /= 2) {
    __syncthreads();
    if (t >= o) continue;
    parts[t].loss += parts[t + o].loss;
    parts[t].correct += parts[t + o].correct;
  }
  return parts[0];
}

template <class T>
__device__ void write(const CrossEntropyArguments& a, const Part& total) {
  *static_cast<T*>(a.loss) = static_cast<T>(total.loss);
  *a.correct = total.correct;
}

template <class T>
__global__ __launch_bounds__(kThreads) void cross_entropy_kernel(CrossEntropyArguments a, int size) {
  const int t = static_cast<int>(threadIdx.x), group = t / size, lane = t % size, groups = kThreads / size;
  Part mine{0, 0};
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * groups; first < a.B; first += step) {
    const bool live = first + group < a.B;
    bool hit = false;
    const T row = row_loss<T>(a, first + group, live, lane, size, hit);
    if (!live || lane) continue;
    mine.loss += static_cast<double>(row);
    mine.correct += hit;
  }
  const Part all = block_sum(mine);
  if (t) return;
  if (gridDim.x == 1) {
    write<T>(a, all);
  } else {
    static_cast<Part*>(a.partial)[blockIdx.x] = all;
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void cross_entropy_total_kernel(CrossEntropyArguments a, int parts) {
  const auto* partial = static_cast<const Part*>(a.partial);
  Part mine{0, 0};
  for (auto i = static_cast<int>(threadIdx.x); i < parts; i += kThreads) {
    mine.loss += partial[i].loss;
    mine.correct += partial[i].correct;
  }
  const Part all = block_sum(mine);
  if (threadIdx.x == 0) write<T>(a, all);
}

template <class T>
void start(const CrossEntropyArguments& a, cudaStream_t stream) {
  const CrossEntropyPlan plan(a.B, a.C);
  start_kernel(cross_entropy_kernel<T>, {static_cast<unsigned>(plan.blocks), kThreads, stream}, a,
               plan.group);
  if (plan.blocks == 1) return;
  start_kernel(cross_entropy_total_kernel<T>, {1, kThreads, stream}, a, static_cast<int>(plan.blocks));
}

int cross_entropy_launch(const CrossEntropyArguments& a, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  a.element == 8 ? start<double>(a, stream) : start<float>(a, stream);
  return cudaGetLastError();
}

const bool registered = (cross_entropy_cuda = cross_entropy_launch, true);

}  // namespace
}  // namespace lra
