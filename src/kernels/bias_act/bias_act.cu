// CUDA side of bias_act.h: a thread has 8 columns and goes through rows with the grid's stride, several of
// them in flight.
#include "base/cuda_start.cuh"
#include "kernels/bias_act/bias_act_arguments.h"
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

constexpr int kThreads = 256;                // at most: bias_act_tiles
constexpr int64_t kMostPositions = 1 << 30;  // rows are counted in 32 bits

// ½ (1 + tanh(z)) = σ(2z) = 1 / (1 + e^−2z), so that gelu(u) = u σ(2z) with z = √(2/π) (u + 0.044715 u³)
template <class T>
struct Gelu {
  using A = Accumulator<T>;
  static constexpr double kTwoRoot = 2 * 0.7978845608028654, kCube = 0.044715;

  // σ(2z). For bfloat16 by fast instructions: they are good also where σ is small, unlike those of tanh.
  __device__ static A share(A u) {
    constexpr double kBase = sizeof(T) == 2 ? -1.4426950408889634 : -1;  // log2(e): powers of 2 are fast
    const A power = u * (A(kBase * kTwoRoot) + A(kBase * kTwoRoot * kCube) * (u * u));
    if constexpr (sizeof(T) == 2) {
      return fast_reciprocal(1.f + fast_exp2(power));
    } else {
      return A(1) / (A(1) + exp(power));
    }
  }
  __device__ static A value(A u) { return u * share(u); }
  // s + s (1 − s) w  with  w = u · d(2z)/du
  __device__ static A derivative(A u) {
    const A s = share(u), w = u * (A(kTwoRoot) + A(3 * kTwoRoot * kCube) * (u * u));
    return s + s * (w - s * w);
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
  // The block has rows from first, first + stride, … on, this thread row threadIdx.y of each. Loops count
  // the block's rows, the same for all threads: then round keys stay in uniform registers.
  __device__ static int first() { return static_cast<int>(blockIdx.x * blockDim.y); }
  __device__ static int stride() { return static_cast<int>(gridDim.x * blockDim.y); }

  __device__ static int row_from(int base) { return base + static_cast<int>(threadIdx.y); }

  // Zeros beyond the last row.
  __device__ Octet<T> load(const void* tensor, int base) const {
    const int row = row_from(base);
    return load_octet<kAligned>(static_cast<const T*>(tensor) + start(row), column,
                                row < positions ? width : 0);
  }
  __device__ void store(void* tensor, int base, const Octet<T>& octet) const {
    const int row = row_from(base);
    store_octet<kAligned>(static_cast<T*>(tensor) + start(row), column, row < positions ? width : 0, octet);
  }
  __device__ int64_t slot(const DropoutDraw& draw, int base) const {
    const int row = row_from(base);
    return row < positions ? draw.slots[row] : 0;
  }
  __device__ uint64_t start(int row) const {
    return uint64_t{static_cast<uint32_t>(row)} * static_cast<uint32_t>(width);
  }
};

// A kernel's variant: type of the activations, activation, whether tensors are aligned, whether dropout
// draws.
template <class T_, class F_, bool kAligned_, bool kDraws_>
struct Variant {
  using T = T_;
  using F = F_;
  static constexpr bool kAligned = kAligned_, kDraws = kDraws_;
  // Blocks that shall fit on a multiprocessor: what the number of registers is held to.
  static constexpr int kBlocks = sizeof(T) == 8 ? 1 : kAligned ? 4 : 2;
};

template <class V>
__global__ void __launch_bounds__(kThreads, V::kBlocks)
    forward_kernel(BiasActForwardArguments a, DropoutKeys keys) {
  using T = typename V::T;
  using A = Accumulator<T>;
  constexpr int kRows = 8 / sizeof(T);  // in flight: 64 bytes of a thread
  const Columns<T, V::kAligned> columns(a.positions, a.width);
  const uint64_t stream = V::kDraws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  A bias[kOctet];
  load_parameter(a.bias, columns.column, columns.width, bias);
  for (int first = columns.first(); first < columns.positions; first += kRows * columns.stride()) {
    Octet<T> x[kRows];
    int64_t slot[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = columns.load(a.x, first + r * columns.stride());
      if constexpr (V::kDraws) slot[r] = columns.slot(a.draw, first + r * columns.stride());
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      A y[kOctet];
      widen(x[r], y);
#pragma unroll
      for (int i = 0; i < kOctet; ++i) y[i] = V::F::value(y[i] + bias[i]);
      if constexpr (V::kDraws) {
        drop_out(draw_octet(keys, stream, slot[r], columns.column, columns.width), a.draw.rate, y);
      }
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

template <class V>
__global__ void __launch_bounds__(kThreads, V::kBlocks)
    backward_kernel(BiasActBackwardArguments a, DropoutKeys keys) {
  using T = typename V::T;
  using A = Accumulator<T>;
  constexpr int kRows = sizeof(T) == 2 ? 2 : 1;  // in flight
  const Columns<T, V::kAligned> columns(a.positions, a.width);
  const uint64_t stream = V::kDraws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  A bias[kOctet], sums[kOctet] = {};
  load_parameter(a.bias, columns.column, columns.width, bias);
  for (int first = columns.first(); first < columns.positions; first += kRows * columns.stride()) {
    Octet<T> x[kRows], dy[kRows];
    int64_t slot[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      x[r] = columns.load(a.x, first + r * columns.stride());
      dy[r] = columns.load(a.dy, first + r * columns.stride());
      if constexpr (V::kDraws) slot[r] = columns.slot(a.draw, first + r * columns.stride());
    }
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      A u[kOctet], g[kOctet];
      widen(x[r], u);
      widen(dy[r], g);
      if constexpr (V::kDraws) {
        drop_out(draw_octet(keys, stream, slot[r], columns.column, columns.width), a.draw.rate, g);
      }
#pragma unroll
      for (int i = 0; i < kOctet; ++i) {
        g[i] *= V::F::derivative(u[i] + bias[i]);
        sums[i] += g[i];  // 0 beyond the last row
      }
      columns.store(a.dx, first + r * columns.stride(), narrow<T>(g));
    }
  }
  store_block_sum(sums, columns.width, static_cast<A*>(a.partial) + blockIdx.x * a.width);
}

// start(variant)
template <class Arguments, class Start>
void choose_variant(const Arguments& a, bool aligned, const Start& start) {
  const auto with = [&](auto zero, auto f) {
    using T = decltype(zero);
    using F = decltype(f);
    const bool draws = a.draw.rate.threshold > 0;
    if (aligned) {
      draws ? start(Variant<T, F, true, true>()) : start(Variant<T, F, true, false>());
    } else {
      draws ? start(Variant<T, F, false, true>()) : start(Variant<T, F, false, false>());
    }
  };
  const auto with_element = [&](auto zero) {
    using T = decltype(zero);
    a.activation == Activation::kGelu ? with(zero, Gelu<T>()) : with(zero, Relu<T>());
  };
  if (a.element == 2) with_element(__nv_bfloat16());
  if (a.element == 4) with_element(float());
  if (a.element == 8) with_element(double());
}

int forward_launch(const BiasActForwardArguments& a, CudaStream stream) {
  if (a.positions == 0 || a.width == 0) return 0;
  if (a.positions > kMostPositions) return cudaErrorInvalidValue;
  const BiasActTiles tiles = bias_act_tiles(a.width);
  const dim3 block(static_cast<unsigned>(tiles.threads), static_cast<unsigned>(tiles.rows));
  const int64_t rows = 8 / a.element * tiles.rows;  // of a turn
  const dim3 grid(looping_blocks((a.positions + rows - 1) / rows, 4), static_cast<unsigned>(tiles.columns));
  choose_variant(a, all_aligned(a.width, a.x, a.y), [&](auto variant) {
    start_kernel(forward_kernel<decltype(variant)>, {grid, block, static_cast<cudaStream_t>(stream)}, a,
                 dropout_keys(a.draw));
  });
  return cudaGetLastError();
}

int backward_launch(const BiasActBackwardArguments& a, CudaStream stream) {
  if (a.positions == 0 || a.width == 0) return 0;
  if (a.positions > kMostPositions) return cudaErrorInvalidValue;
  const BiasActTiles tiles = bias_act_tiles(a.width);
  const dim3 block(static_cast<unsigned>(tiles.threads), static_cast<unsigned>(tiles.rows));
  const dim3 grid(static_cast<unsigned>(a.blocks), static_cast<unsigned>(tiles.columns));
  choose_variant(a, all_aligned(a.width, a.x, a.dy, a.dx), [&](auto variant) {
    start_kernel(backward_kernel<decltype(variant)>, {grid, block, static_cast<cudaStream_t>(stream)}, a,
                 dropout_keys(a.draw));
  });
  return cudaGetLastError();
}

const bool registered =
    (bias_act_forward_cuda = forward_launch, bias_act_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
