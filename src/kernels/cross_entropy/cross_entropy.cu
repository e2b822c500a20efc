// CUDA side of the loss (cross_entropy.h), divided as CrossEntropyPlan says; sums in a fixed order.
#include <cmath>

#include "base/cuda_start.cuh"
#include "kernels/cross_entropy/cross_entropy_arguments.h"
#include "kernels/rows/instructions.cuh"

namespace lra {
namespace {

constexpr int kThreads = CrossEntropyPlan::kThreads;
using Part = CrossEntropyPlan::Part;

// e^x for x ≤ 0
__device__ float exponential(float x) { return fast_exp2(x * 1.44269504088896f); }
__device__ double exponential(double x) { return exp(x); }

// Over a group of `size` threads, for all of them.
template <class T, class F>
__device__ T of_group(T mine, int size, const F& f) {
  for (int o = size / 2; o > 0; o /= 2) mine = f(mine, __shfl_xor_sync(0xffffffffu, mine, o));
  return mine;
}

// A row, and of its logits the thread's: lane, lane + size, … The first of them are in registers.
template <class T>
struct Row {
  static constexpr int kHeld = CrossEntropyPlan::kHeld;
  int64_t number;
  bool live;  // there is such a row
  int label;  // −1: not one of the classes
  T held[kHeld];

  __device__ Row(const CrossEntropyArguments& a, int64_t number_, int lane, int size)
      : number(number_), live(number_ < a.B), label(-1) {
    const T* x = logits(a);
#pragma unroll
    for (int k = 0; k < kHeld; ++k) held[k] = live && lane + k * size < a.C ? x[lane + k * size] : -INFINITY;
    const int64_t found = live ? a.labels[number] : -1;
    if (found >= 0 && found < a.C) label = static_cast<int>(found);
  }
  __device__ const T* logits(const CrossEntropyArguments& a) const {
    return static_cast<const T*>(a.logits) + number * a.C;
  }
  // Calls f(class, logit) for the thread's logits in registers, −∞ where it has fewer, …
  template <class F>
  __device__ void in_registers(int lane, int size, const F& f) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) f(lane + k * size, held[k]);
  }
  // … and for the others.
  template <class F>
  __device__ void in_memory(const CrossEntropyArguments& a, int lane, int size, const F& f) const {
    if (!live) return;
    for (int i = lane + kHeld * size; i < a.C; i += size) f(i, logits(a)[i]);
  }
};

// The loss of a row, and whether its first maximum is the label. All threads of a warp must come here.
template <class T>
__device__ T row_loss(const CrossEntropyArguments& a, Row<T> row, int lane, int size, bool& correct) {
  const auto larger = [](T x, T y) { return x > y ? x : y; };
  T largest = -INFINITY;
  const auto compare = [&](int, T x) { largest = larger(x, largest); };
  row.in_registers(lane, size, compare);
  row.in_memory(a, lane, size, compare);
  largest = of_group(largest, size, larger);
  T sum = 0, labelled = -INFINITY;
  bool wins = true;  // the label is the first of the largest, as far as the thread sees
  const auto add = [&](int i, T x) {
    if (i == row.label) labelled = x;
    if (i < row.label ? x == largest : i == row.label && x != largest) wins = false;
    const T weight = exponential(x - largest);
    sum += weight;
    return weight;
  };
  row.in_registers(lane, size, [&](int i, T& x) { x = add(i, x); });
  row.in_memory(a, lane, size, add);
  sum = of_group(sum, size, [](T x, T y) { return x + y; });
  labelled = of_group(labelled, size, larger);
  wins = of_group(static_cast<int>(wins), size, [](int x, int y) { return x & y; });
  const bool valid = row.label >= 0;
  if (row.live && a.gradient) {
    T* d = static_cast<T*>(a.gradient) + row.number * a.C;
    const T scale = valid ? static_cast<T>(a.scale) : static_cast<T>(NAN), share = scale / sum;
    const auto put = [&](int i, T weight) { d[i] = weight * share - (i == row.label ? scale : T(0)); };
    row.in_registers(lane, size, [&](int i, T weight) {
      if (i < a.C) put(i, weight);
    });
    row.in_memory(a, lane, size, [&](int i, T x) { put(i, exponential(x - largest)); });
  }
  correct = valid && wins && sum == sum;  // not NaN
  return valid ? log(sum) - (labelled - largest) : static_cast<T>(NAN);
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
__global__ void __launch_bounds__(kThreads, sizeof(T) == 4 ? 2 : 1)
    cross_entropy_kernel(CrossEntropyArguments a, int size) {
  const int t = static_cast<int>(threadIdx.x), group = t / size, lane = t % size, groups = kThreads / size;
  Part mine{0, 0};
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  int64_t first = static_cast<int64_t>(blockIdx.x) * groups;
  Row<T> next(a, first + group, lane, size);
  for (; first < a.B; first += step) {
    const Row<T> row = next;
    next = Row<T>(a, first + step + group, lane, size);
    bool hit = false;
    const T loss = row_loss(a, row, lane, size, hit);
    if (!row.live || lane) continue;
    mine.loss += static_cast<double>(loss);
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
