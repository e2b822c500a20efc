// CUDA side of bias_act.h: a thread has 8 columns and goes through rows with the grid's stride, several of
// them in flight.
#include "kernels/bias_act/bias_act_arguments.h"
#include "kernels/rows/octet.cuh"
#include "kernels/rows/partial_sums.cuh"

namespace lra {
namespace {

constexpr int kThreads = 256;                // at most: bias_act_tiles
constexpr int64_t kMostPositions = 1 << 30;  // rows are counted in 32 bits

// σ(z) = 1 / (1 + e^−z). The fast instructions are good to 2^-21, relative, also where σ is small; those of
// tanh are not.
template <class T>
__device__ Accumulator<T> logistic(Accumulator<T> z) {
  if constexpr (sizeof(T) == 2) {
    return __fdividef(1.f, 1.f + __expf(-z));
  } else if constexpr (sizeof(T) == 4) {
    return 1.f / (1.f + expf(-z));
  } else {
    return 1. / (1. + exp(-z));
  }
}

// ½ (1 + tanh(z)) = σ(2z), so that gelu(u) = u σ(2z) with z = √(2/π) (u + 0.044715 u³)
template <class T>
struct Gelu {
  using A = Accumulator<T>;
  static constexpr double kTwoRoot = 2 * 0.7978845608028654, kCube = 0.044715;

  __device__ static A value(A u) { return u * logistic<T>(A(kTwoRoot) * u * (A(1) + A(kCube) * u * u)); }
  __device__ static A derivative(A u) {
    const A s = logistic<T>(A(kTwoRoot) * u * (A(1) + A(kCube) * u * u));
    return s + u * s * (A(1) - s) * A(kTwoRoot) * (A(1) + A(3 * kCube) * u * u);
  }
};

// Not a number stays so.
template <class T>
struct Relu {
  using A = Accumulator<T>;
  __device__ static A value(A u) { return u < A(0) ? A(0) : u; }
  __device__ static A derivative(A u) { return u <= A(0) ? A(0) : A(1); }
};

// A thread's 8 columns of the tensors, row by row.
template <class T, bool kAligned>
struct Columns {
  int column, positions, width;

  __device__ Columns(int64_t position_count, int64_t columns)
      : column(static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x) * kOctet),
        positions(static_cast<int>(position_count)),
        width(static_cast<int>(columns)) {}
  // Rows first, first + stride, … are this thread's.
  __device__ static int first() { return static_cast<int>(blockIdx.x * blockDim.y + threadIdx.y); }
  __device__ static int stride() { return static_cast<int>(gridDim.x * blockDim.y); }

  // Zeros beyond the last row.
  __device__ Octet<T> load(const void* tensor, int row) const {
    return load_octet<kAligned>(static_cast<const T*>(tensor) + start(row), column,
                                row < positions ? width : 0);
  }
  __device__ void store(void* tensor, int row, const Octet<T>& octet) const {
    store_octet<kAligned>(static_cast<T*>(tensor) + start(row), column, row < positions ? width : 0, octet);
  }
  __device__ int64_t slot(const DropoutDraw& draw, int row) const {
    return draw.rate.threshold > 0 && row < positions ? draw.slots[row] : 0;
  }
  __device__ uint64_t start(int row) const {
    return uint64_t{static_cast<uint32_t>(row)} * static_cast<uint32_t>(width);
  }
};

template <class T, class F, bool kAligned>
__global__ void __launch_bounds__(kThreads) forward_kernel(BiasActForwardArguments a) {
  using A = Accumulator<T>;
  constexpr int kRows = 8 / sizeof(T);  // in flight: 64 bytes of a thread
  const Columns<T, kAligned> columns(a.positions, a.width);
  const bool draws = a.draw.rate.threshold > 0;
  const uint64_t stream = draws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  A bias[kOctet];
  load_parameter(a.bias, columns.column, columns.width, bias);
  for (int first = columns.first(); first < columns.positions; first += kRows * columns.stride()) {
    Octet<T> x[kRows];
    int64_t slot[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = columns.load(a.x, first + r * columns.stride());
      slot[r] = columns.slot(a.draw, first + r * columns.stride());
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      A y[kOctet];
      widen(x[r], y);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) y[i] = F::value(y[i] + bias[i]);
      if (draws) drop_out(a.draw, stream, slot[r], columns.column, columns.width, y);
      columns.store(a.y, first + r * columns.stride(), narrow<T>(y));
    }
  }
}

// Adds up the rows of a block in order.
template <class A>
__device__ void store_block_sum(const A (&sums)[kOctet], int width, A* out) {
  __shared__ A shared[kThreads * kOctet];  // [rows, columns] of the block
  const int columns = static_cast<int>(blockDim.x) * kOctet, left = static_cast<int>(blockIdx.y) * columns;
  const auto thread = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) shared[thread * kOctet + i] = sums[i];
  __syncthreads();
#pragma unroll 1
  for (int c = thread; c < columns && left + c < width; c += static_cast<int>(blockDim.x * blockDim.y)) {
    A total = 0;
    for (int r = 0; r < static_cast<int>(blockDim.y); ++r) total += shared[r * columns + c];
    out[left + c] = total;
  }
}

template <class T, class F, bool kAligned>
__global__ void __launch_bounds__(kThreads, sizeof(T) == 8 ? 1
                                            : kAligned     ? 4
                                                           : 2) backward_kernel(BiasActBackwardArguments a) {
  using A = Accumulator<T>;
  constexpr int kRows = sizeof(T) == 2 ? 2 : 1;  // in flight
  const Columns<T, kAligned> columns(a.positions, a.width);
  const bool draws = a.draw.rate.threshold > 0;
  const uint64_t stream = draws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  A bias[kOctet], sums[kOctet] = {};
  load_parameter(a.bias, columns.column, columns.width, bias);
  for (int first = columns.first(); first < columns.positions; first += kRows * columns.stride()) {
    Octet<T> x[kRows], dy[kRows];
    int64_t slot[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = columns.load(a.x, first + r * columns.stride());
      dy[r] = columns.load(a.dy, first + r * columns.stride());
      slot[r] = columns.slot(a.draw, first + r * columns.stride());
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      A u[kOctet], g[kOctet];
      widen(x[r], u);
      widen(dy[r], g);
      if (draws) drop_out(a.draw, stream, slot[r], columns.column, columns.width, g);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        g[i] *= F::derivative(u[i] + bias[i]);
        sums[i] += g[i];  // 0 beyond the last row
      }
      columns.store(a.dx, first + r * columns.stride(), narrow<T>(g));
    }
  }
  store_block_sum(sums, columns.width, static_cast<A*>(a.partial) + blockIdx.x * a.width);
}

// start(element, activation, aligned) with a value of each type.
template <class Start>
void choose(int element, Activation activation, bool aligned, const Start& start) {
  const auto with = [&](auto zero) {
    using T = decltype(zero);
    const auto then = [&](auto f) {
      aligned ? start(zero, f, std::true_type()) : start(zero, f, std::false_type());
    };
    activation == Activation::kGelu ? then(Gelu<T>()) : then(Relu<T>());
  };
  if (element == 2) with(__nv_bfloat16());
  if (element == 4) with(float());
  if (element == 8) with(double());
}

int forward_launch(const BiasActForwardArguments& a, CudaStream stream) {
  if (a.positions == 0 || a.width == 0) return 0;
  if (a.positions > kMostPositions) return cudaErrorInvalidValue;
  const BiasActTiles tiles = bias_act_tiles(a.width);
  const dim3 block(static_cast<unsigned>(tiles.threads), static_cast<unsigned>(tiles.rows));
  const int64_t rows = 8 / a.element * tiles.rows;  // of a turn
  const dim3 grid(looping_blocks((a.positions + rows - 1) / rows, 4), static_cast<unsigned>(tiles.columns));
  choose(a.element, a.activation, all_aligned(a.width, a.x, a.y), [&](auto zero, auto f, auto aligned) {
    forward_kernel<decltype(zero), decltype(f), decltype(aligned)::value>
        <<<grid, block, 0, static_cast<cudaStream_t>(stream)>>>(a);
  });
  return cudaGetLastError();
}

int backward_launch(const BiasActBackwardArguments& a, CudaStream stream) {
  if (a.positions == 0 || a.width == 0) return 0;
  if (a.positions > kMostPositions) return cudaErrorInvalidValue;
  const BiasActTiles tiles = bias_act_tiles(a.width);
  const dim3 block(static_cast<unsigned>(tiles.threads), static_cast<unsigned>(tiles.rows));
  const dim3 grid(static_cast<unsigned>(a.blocks), static_cast<unsigned>(tiles.columns));
  const auto s = static_cast<cudaStream_t>(stream);
  choose(a.element, a.activation, all_aligned(a.width, a.x, a.dy, a.dx),
         [&](auto zero, auto f, auto aligned) {
           using A = Accumulator<decltype(zero)>;
           backward_kernel<decltype(zero), decltype(f), decltype(aligned)::value><<<grid, block, 0, s>>>(a);
           start_partial_sums<A>({static_cast<const A*>(a.partial),
                                  a.blocks,
                                  1,
                                  a.width,
                                  {static_cast<A*>(a.d_bias), nullptr, nullptr}},
                                 s);
         });
  return cudaGetLastError();
}

const bool registered =
    (bias_act_forward_cuda = forward_launch, bias_act_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
