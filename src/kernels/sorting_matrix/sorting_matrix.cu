// CUDA side of sorting_matrix.h. Back from dP, with y = P ∘ dP and r, c of iteration t:
//
//   dx = y,   dr = −Σ_j y,   dc = −Σ_i y;   then for t = iters … 1, each with what came before:
//   w = exp(x − r_t − c_t):    dx += dr_i w,   dc −= Σ_i dr_i w
//   w = exp(x − r_t₋₁ − c_t):  dx += dc_j w,   dr = −Σ_j dc_j w,   dc = 0                           r_0 = 0
//
// A warp takes a row or a column at a time.
#include <cmath>

#include "base/cuda_start.cuh"
#include "kernels/dropout/bits.h"
#include "kernels/noise/noise.cuh"
#include "kernels/rows/octet.cuh"
#include "kernels/sorting_matrix/sorting_matrix_arguments.h"

namespace lra {
namespace {

constexpr int kThreads = 512, kWarps = kThreads / 32;
constexpr uint32_t kAll = 0xffffffffu;

template <class A, class T>
__device__ A wide(T x) {
  return static_cast<A>(x);
}
template <>
__device__ float wide(__nv_bfloat16 x) {
  return __bfloat162float(x);
}
template <class T, class A>
__device__ T narrow_to(A x) {
  return static_cast<T>(x);
}
template <>
__device__ __nv_bfloat16 narrow_to(float x) {
  return __float2bfloat16(x);
}

__device__ int thread() { return static_cast<int>(threadIdx.x); }

template <class A, class F>
__device__ A over_warp(A x, const F& f) {
  for (int o = 16; o > 0; o /= 2) x = f(x, __shfl_xor_sync(kAll, x, o));
  return x;
}

// f(line) once for each line, by all lanes of a warp; then all threads meet.
template <class F>
__device__ void each_line(int n, const F& f) {
  for (int line = thread() / 32; line < n; line += kWarps) f(line);
  __syncthreads();
}

// The matrix of a block of threads.
template <class T>
struct Matrix {
  using A = Accumulator<T>;
  const SortingMatrixData& d;
  int b, h, n;  // row, head, blocks that the row has
  int pitch;
  A* x;

  __device__ Matrix(const SortingMatrixData& data, A* place)
      : d(data),
        b(static_cast<int>(blockIdx.x) / data.heads),
        h(static_cast<int>(blockIdx.x) % data.heads),
        n(min(data.used[b], data.blocks)),
        pitch(static_cast<int>(data.blocks | 1)),
        x(place) {
    const auto* scores = static_cast<const T*>(d.scores) + b * d.row_stride + h * d.head_stride;
    const uint64_t stream = d.step ? dropout_stream(static_cast<uint64_t>(d.site), *d.step) : 0;
    const int64_t name = ((d.slots[d.offsets[b]] >> 24) * d.heads + h) << 20;
    for (int k = thread(); k < n * n; k += kThreads) {
      const int i = k / n, j = k % n;
      A score = wide<A>(scores[i * d.block_stride + j]);
      if (d.step) {
        const A u = uniform_number<A>(static_cast<uint64_t>(d.seed), stream, ((name + i) << 20) + j);
        score -= log(-log(u));
      }
      x[i * pitch + j] = score / static_cast<A>(d.temperature);
    }  // a barrier has to follow
  }

  // log Σ exp(x − less) along row or column `line`
  __device__ A log_sum(bool column, int line, const A* less) const {
    const A* first = x + line * (column ? 1 : pitch);
    const int step = column ? pitch : 1, lane = thread() % 32;
    A most = -INFINITY, sum = 0;
    for (int k = lane; k < n; k += 32) most = max(most, first[k * step] - less[k]);
    most = over_warp(most, [](A p, A q) { return max(p, q); });
    for (int k = lane; k < n; k += 32) sum += exp(first[k * step] - less[k] - most);
    return most + log(over_warp(sum, [](A p, A q) { return p + q; }));
  }
  __device__ void scale(const A* rows_before, A* columns, A* rows) const {
    each_line(n, [&](int j) {
      const A sum = log_sum(true, j, rows_before);
      if (thread() % 32 == 0) columns[j] = sum;
    });
    each_line(n, [&](int i) {
      const A sum = log_sum(false, i, columns);
      if (thread() % 32 == 0) rows[i] = sum;
    });
  }
};

template <class A>
__device__ A* place_to_work(void* work, int64_t size) {
  return work ? static_cast<A*>(work) + blockIdx.x * size : dynamic_shared<A>();
}

template <class T>
__global__ __launch_bounds__(kThreads) void sorting_matrix_kernel(SortingMatrixArguments a, int64_t size) {
  using A = Accumulator<T>;
  A* place = place_to_work<A>(a.work, size);
  const int G = a.data.blocks;
  A *columns = place + G * (G | 1), *rows = columns + G;
  const Matrix<T> m(a.data, place);
  for (int i = thread(); i < m.n; i += kThreads) rows[i] = 0;
  __syncthreads();
  for (int t = 0; t < a.data.iters; ++t) m.scale(rows, columns, rows);
  T* out = static_cast<T*>(a.matrix) + int64_t{blockIdx.x} * G * G;
  for (int k = thread(); k < G * G; k += kThreads) {
    const int i = k / G, j = k % G;
    const bool there = i < m.n && j < m.n;
    out[k] = narrow_to<T>(there ? exp(m.x[i * m.pitch + j] - rows[i] - columns[j]) : A(0));
  }
}

template <class T>
__global__ __launch_bounds__(kThreads) void sorting_gradient_kernel(SortingGradientArguments a,
                                                                    int64_t size) {
  using A = Accumulator<T>;
  A* place = place_to_work<A>(a.work, size);
  const int G = a.data.blocks, iters = a.data.iters, plane = G * (G | 1), lane = thread() % 32;
  const Matrix<T> m(a.data, place);
  const int n = m.n, pitch = m.pitch;
  const A* x = m.x;
  A *dx = place + plane, *d_rows = dx + plane, *d_columns = d_rows + G;
  A *rows = d_columns + G, *columns = rows + (iters + 1) * G;  // of iterations 0 … iters, and 1 … iters
  for (int i = thread(); i < n; i += kThreads) rows[i] = 0;
  __syncthreads();
  for (int t = 0; t < iters; ++t) m.scale(rows + t * G, columns + t * G, rows + (t + 1) * G);

  const auto sum_of_warp = [](A v) { return over_warp(v, [](A p, A q) { return p + q; }); };
  const T* d_matrix = static_cast<const T*>(a.d_matrix) + int64_t{blockIdx.x} * G * G;
  each_line(n, [&](int i) {
    A sum = 0;
    for (int j = lane; j < n; j += 32) {
      const A y = exp(x[i * pitch + j] - rows[iters * G + i] - columns[(iters - 1) * G + j]) *
                  wide<A>(d_matrix[i * G + j]);
      dx[i * pitch + j] = y;
      sum += y;
    }
    sum = sum_of_warp(sum);
    if (lane == 0) d_rows[i] = -sum;
  });
  each_line(n, [&](int j) {
    A sum = 0;
    for (int i = lane; i < n; i += 32) sum += dx[i * pitch + j];
    sum = sum_of_warp(sum);
    if (lane == 0) d_columns[j] = -sum;
  });
  for (int t = iters; t > 0; --t) {
    const A *r = rows + t * G, *before = r - G, *c = columns + (t - 1) * G;
    each_line(n, [&](int j) {
      A sum = 0;
      for (int i = lane; i < n; i += 32) {
        const A g = d_rows[i] * exp(x[i * pitch + j] - r[i] - c[j]);
        dx[i * pitch + j] += g;
        sum += g;
      }
      sum = sum_of_warp(sum);
      if (lane == 0) d_columns[j] = (t == iters ? d_columns[j] : A(0)) - sum;
    });
    each_line(n, [&](int i) {
      A sum = 0;
      for (int j = lane; j < n; j += 32) {
        const A g = d_columns[j] * exp(x[i * pitch + j] - before[i] - c[j]);
        dx[i * pitch + j] += g;
        sum += g;
      }
      sum = sum_of_warp(sum);
      if (lane == 0) d_rows[i] = -sum;
    });
  }
  T* out = static_cast<T*>(a.d_scores) + (int64_t{m.b} * G * a.data.heads + m.h) * G;
  for (int k = thread(); k < G * G; k += kThreads) {
    const int i = k / G, j = k % G;
    const A d = i < n && j < n ? dx[i * pitch + j] / static_cast<A>(a.data.temperature) : A(0);
    out[int64_t{i} * a.data.heads * G + j] = narrow_to<T>(d);
  }
}

template <class Arguments, class F>
int start(const Arguments& a, bool backward, CudaStream stream, const F& kernel_of) {
  const auto blocks = static_cast<unsigned>(a.data.rows * a.data.heads);
  if (blocks == 0 || a.data.blocks == 0) return 0;
  const int64_t size = sorting_work(a.data, backward);
  const auto go = [&](auto type) {
    using T = decltype(type);
    const size_t shared = a.work ? 0 : static_cast<size_t>(size) * sizeof(Accumulator<T>);
    start_kernel(kernel_of(type), {blocks, kThreads, static_cast<cudaStream_t>(stream), shared}, a, size);
  };
  if (a.data.element == 2) go(__nv_bfloat16());
  if (a.data.element == 4) go(float());
  if (a.data.element == 8) go(double());
  return cudaGetLastError();
}

int sorting_matrix_launch(const SortingMatrixArguments& a, CudaStream stream) {
  return start(a, false, stream, [](auto type) { return sorting_matrix_kernel<decltype(type)>; });
}
int sorting_gradient_launch(const SortingGradientArguments& a, CudaStream stream) {
  return start(a, true, stream, [](auto type) { return sorting_gradient_kernel<decltype(type)>; });
}

const bool registered =
    (sorting_matrix_cuda = sorting_matrix_launch, sorting_gradient_cuda = sorting_gradient_launch, true);

}  // namespace
}  // namespace lra
