// CUDA side of AdamW (adamw.h), three launches: partial sums of squares; one block for the norm and all
// scalars of the step; the update. The first reads g; the update reads p, g, m, v and writes p, m, v (and the
// working copy, and zeros to g).
#include <cuda_bf16.h>

#include "base/cuda_start.cuh"
#include "kernels/adamw/adamw_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;

template <class T, int W>
struct alignas(sizeof(T) * W) Vector {
  T at[W];
};

template <class V, class T>
__device__ V load(const T* from) {
  return *reinterpret_cast<const V*>(from);
}
template <class V, class T>
__device__ void store(T* to, const V& v) {
  *reinterpret_cast<V*>(to) = v;
}

// The sum over a block of up to 1024 threads in a fixed order; thread 0 has it.
__device__ double block_sum(double x) {
  __shared__ double warps[kWarp];
  for (int d = kWarp / 2; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
  if (threadIdx.x % kWarp == 0) warps[threadIdx.x / kWarp] = x;
  __syncthreads();
  if (threadIdx.x < kWarp) {
    x = threadIdx.x < blockDim.x / kWarp ? warps[threadIdx.x] : 0.0;
    for (int d = kWarp / 2; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
  }
  return x;
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads)
    squares_kernel(const T* __restrict__ g, int64_t n, double* partials) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads, vectors = n / W;
  double sum = 0;
#pragma unroll 4
  for (int64_t i = thread; i < vectors; i += stride) {
    const auto x = load<Vector<T, W>>(g + i * W);
    for (int j = 0; j < W; ++j) sum += static_cast<double>(x.at[j]) * static_cast<double>(x.at[j]);
  }
  if (const int64_t rest = vectors * W + thread; rest < n) {
    sum += static_cast<double>(g[rest]) * static_cast<double>(g[rest]);
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__device__ double read_loss(const AdamWArguments& a) {
  if (a.loss_element == 2) return __bfloat162float(*static_cast<const __nv_bfloat16*>(a.loss_sum));
  if (a.loss_element == 4) return *static_cast<const float*>(a.loss_sum);
  return *static_cast<const double*>(a.loss_sum);
}

__global__ void __launch_bounds__(kThreads) scalars_kernel(AdamWArguments a, int partials) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < partials; i += kThreads) sum += a.partials[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) adamw_scalars(a, sum, read_loss(a));
}

// Elements begin … begin + W − 1.
template <class T, int W>
__device__ __forceinline__ void update(const AdamWArguments& a, const AdamWElement<T>& element,
                                       int64_t begin) {
  using V = Vector<T, W>;
  const auto g = load<V>(static_cast<const T*>(a.gradients) + begin);
  auto p = load<V>(static_cast<const T*>(a.parameters) + begin);
  auto m = load<V>(static_cast<const T*>(a.first) + begin);
  auto v = load<V>(static_cast<const T*>(a.second) + begin);
#pragma unroll
  for (int j = 0; j < W; ++j) {
    const T decay = begin + j < a.options.decayed_end ? element.decay : T(0);
    element.update(g.at[j], decay, p.at[j], m.at[j], v.at[j]);
  }
  store(static_cast<T*>(a.parameters) + begin, p);
  store(static_cast<T*>(a.first) + begin, m);
  store(static_cast<T*>(a.second) + begin, v);
  if (a.working) {
    Vector<__nv_bfloat16, W> rounded;
#pragma unroll
    for (int j = 0; j < W; ++j) rounded.at[j] = __float2bfloat16_rn(static_cast<float>(p.at[j]));
    store(static_cast<__nv_bfloat16*>(a.working) + begin, rounded);
  }
}

template <class T, int W>
__device__ __forceinline__ void zero(const AdamWArguments& a, int64_t begin) {
  store(static_cast<T*>(a.gradients) + begin, Vector<T, W>{});
}

template <class T, int W>
__global__ void __launch_bounds__(kThreads) update_kernel(AdamWArguments a) {
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kThreads, vectors = a.n / W;
  const bool stopped = a.scalars->stopped != 0;
  const AdamWElement<T> element(a.options, *a.scalars);
  for (int64_t i = thread; i < vectors; i += stride) {
    if (!stopped) update<T, W>(a, element, i * W);
    if (a.options.zero_gradients) zero<T, W>(a, i * W);
  }
  if (const int64_t rest = vectors * W + thread; rest < a.n) {
    if (!stopped) update<T, 1>(a, element, rest);
    if (a.options.zero_gradients) zero<T, 1>(a, rest);
  }
}

bool aligned(const void* pointer, size_t bytes) { return reinterpret_cast<size_t>(pointer) % bytes == 0; }

template <class T, int W>
void start(const AdamWArguments& a, cudaStream_t stream) {
  const int64_t blocks = (a.n / W + kThreads - 1) / kThreads;
  const int64_t most =
      kAdamWPartials * 8;  // of the update: enough to leave no multiprocessor idle at the end
  const auto grid = [blocks](int64_t limit) {
    return static_cast<unsigned>(blocks < 1 ? 1 : blocks < limit ? blocks : limit);
  };
  const unsigned partials = grid(kAdamWPartials);
  start_kernel(squares_kernel<T, W>, {partials, kThreads, stream}, static_cast<const T*>(a.gradients), a.n,
               a.partials);
  start_kernel(scalars_kernel, {1, kThreads, stream}, a, static_cast<int>(partials));
  start_kernel(update_kernel<T, W>, {grid(most), kThreads, stream}, a);
}

template <class T>
void start_widest(const AdamWArguments& a, cudaStream_t stream) {
  constexpr int kWidth = 16 / sizeof(T);
  bool wide = aligned(a.working, kWidth * sizeof(__nv_bfloat16));
  for (const void* p : {a.parameters, a.gradients, a.first, a.second}) wide = wide && aligned(p, 16);
  if (wide) {
    start<T, kWidth>(a, stream);
  } else {
    start<T, 1>(a, stream);
  }
}

int adamw_launch(const AdamWArguments& a, CudaStream stream) {
  if (a.element == 4) start_widest<float>(a, static_cast<cudaStream_t>(stream));
  if (a.element == 8) start_widest<double>(a, static_cast<cudaStream_t>(stream));
  return cudaGetLastError();
}

const bool registered = (adamw_cuda = adamw_launch, true);

}  // namespace
}  // namespace lra
