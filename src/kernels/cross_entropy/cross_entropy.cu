// CUDA side of the loss (cross_entropy.h). A batch's logits are few, so one block does it all, in a fixed
// order: a group of 1 to 32 threads takes a row at a time.
#include <cmath>

#include "base/cuda_start.cuh"
#include "kernels/cross_entropy/cross_entropy_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 512;

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

// The loss of a row, and whether its first maximum is the label. All threads of a warp must come here; `live`
// says whether the group has a row.
template <class T>
__device__ T row_loss(const CrossEntropyArguments& a, int64_t b, bool live, int lane, int size,
                      bool& correct) {
  const T* x = static_cast<const T*>(a.logits) + (live ? b : 0) * a.C;
  const int64_t label = live ? a.labels[b] : 0;
  const bool valid = label >= 0 && label < a.C;
  Largest<T> largest{static_cast<T>(-INFINITY), a.C};
  for (int64_t i = lane; i < a.C; i += size) {
    if (x[i] > largest.value) largest = {x[i], i};
  }
  largest = group_largest(largest, size);
  T sum = 0;
  for (int64_t i = lane; i < a.C; i += size) sum += exponential(x[i] - largest.value);
  sum = group_sum(sum, size);
  if (live && a.gradient) {
    T* d = static_cast<T*>(a.gradient) + b * a.C;
    for (int64_t i = lane; i < a.C; i += size) {
      const T softmax = exponential(x[i] - largest.value) / sum;
      d[i] = valid ? static_cast<T>(a.scale) * (softmax - (i == label ? T(1) : T(0))) : static_cast<T>(NAN);
    }
  }
  correct = largest.index == label;
  return valid ? log(sum) - (x[label] - largest.value) : static_cast<T>(NAN);
}

template <class T>
__global__ __launch_bounds__(kThreads) void cross_entropy_kernel(CrossEntropyArguments a, int size) {
  __shared__ double losses[kThreads];
  __shared__ int corrects[kThreads];
  const int t = static_cast<int>(threadIdx.x), group = t / size, lane = t % size, groups = kThreads / size;
  double loss = 0;
  int correct = 0;
  for (int64_t first = 0; first < a.B; first += groups) {
    const bool live = first + group < a.B;
    bool hit = false;
    const T row = row_loss<T>(a, first + group, live, lane, size, hit);
    if (!live || lane) continue;
    loss += static_cast<double>(row);
    correct += hit;
  }
  losses[t] = loss;
  corrects[t] = correct;
  for (int o = kThreads / 2; o > 0; o /= 2) {
    __syncthreads();
    if (t >= o) continue;
    losses[t] += losses[t + o];
    corrects[t] += corrects[t + o];
  }
  if (t) return;
  *static_cast<T*>(a.loss) = static_cast<T>(losses[0]);
  *a.correct = corrects[0];
}

int cross_entropy_launch(const CrossEntropyArguments& a, CudaStream s) {
  const auto stream = static_cast<cudaStream_t>(s);
  int size = 1;  // about 8 logits for a thread
  while (size < 32 && size * 8 < a.C) size *= 2;
  if (a.element == 4) start_kernel(cross_entropy_kernel<float>, {1, kThreads, stream}, a, size);
  if (a.element == 8) start_kernel(cross_entropy_kernel<double>, {1, kThreads, stream}, a, size);
  return cudaGetLastError();
}

const bool registered = (cross_entropy_cuda = cross_entropy_launch, true);

}  // namespace
}  // namespace lra
