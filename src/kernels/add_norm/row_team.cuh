// How rows of width up to 4096 are spread over threads: a team of 8 to 512 threads has one row in its
// registers, a thread 8 elements of it, and the blocks go through the rows with the grid's stride.
#pragma once
#include "kernels/rows/instructions.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {

template <class Element, int kLanes_, bool kAligned_>
struct Plan {
  using T = Element;
  using A = Accumulator<T>;
  static constexpr int kLanes = kLanes_;  // threads of a team
  static constexpr bool kAligned = kAligned_;
  // A float or double takes more registers, so that fewer threads fit.
  static constexpr int kThreads = kLanes == 512 ? 512 : sizeof(T) == 2 ? 256 : 128;
  static constexpr int kTeams = kThreads / kLanes;  // rows of a block at a time
  // Blocks that shall fit on a multiprocessor: what the number of registers is held to.
  static constexpr int kBlocks = kThreads == 512 || sizeof(T) == 8 ? 1 : kAligned || sizeof(T) == 4 ? 3 : 2;
};

// One thread's place: 8 columns of the rows of its team.
template <class P>
struct Place {
  using T = typename P::T;
  int first;  // row of the block's first team, so that all threads of a block make the same number of turns
  int positions, width;

  __device__ static int team() { return static_cast<int>(threadIdx.x) / P::kLanes; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % P::kLanes; }
  __device__ static int column() { return lane() * kOctet; }
  __device__ static Place start(int64_t positions, int64_t width) {
    return {static_cast<int>(blockIdx.x) * P::kTeams, static_cast<int>(positions), static_cast<int>(width)};
  }
  __device__ Place next() const {
    return {first + static_cast<int>(gridDim.x) * P::kTeams, positions, width};
  }
  __device__ int row() const { return first + team(); }
  __device__ uint64_t start_of_row() const {
    return uint64_t{static_cast<uint32_t>(row())} * static_cast<uint32_t>(width);
  }
  __device__ bool exists() const { return row() < positions; }

  // Zeros for a row that does not exist.
  __device__ Octet<T> load(const void* tensor) const {
    return load_octet<P::kAligned>(static_cast<const T*>(tensor) + start_of_row(), column(),
                                   exists() ? width : 0);
  }
  __device__ void store(void* tensor, const Octet<T>& values) const {
    store_octet<P::kAligned>(static_cast<T*>(tensor) + start_of_row(), column(), exists() ? width : 0,
                             values);
  }
  template <class Scalar>
  __device__ Scalar load_scalar(const void* vector) const {
    return exists() ? static_cast<const Scalar*>(vector)[row()] : Scalar(0);
  }
};

// Sums over the threads of a team, in shared memory. Every thread gets the same bits: a butterfly in the
// warp, then the warps' sums in order.
template <class P>
struct TeamSum {
  using A = typename P::A;
  // Two buffers in turn: who writes one again has passed the barrier that all come to after reading it.
  A warps[2][P::kThreads / 32][2];

  template <int kValues>
  __device__ void add(A (&values)[kValues], int& turn) {
#pragma unroll
    for (int offset = (P::kLanes < 32 ? P::kLanes : 32) / 2; offset > 0; offset /= 2) {
#pragma unroll
      for (int k = 0; k < kValues; ++k) values[k] += __shfl_xor_sync(0xffffffffu, values[k], offset);
    }
    if constexpr (P::kLanes > 32) {
      constexpr int kWarps = P::kLanes / 32;
      const int team = Place<P>::team(), warp = static_cast<int>(threadIdx.x) / 32;
      if (threadIdx.x % 32 == 0) {
#pragma unroll
        for (int k = 0; k < kValues; ++k) warps[turn][warp][k] = values[k];
      }
      team_barrier<P::kLanes>(team + 1);
#pragma unroll
      for (int k = 0; k < kValues; ++k) {
        values[k] = 0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) values[k] += warps[turn][team * kWarps + w][k];
      }
      turn ^= 1;
    }
  }
};

// start(plan) with the plan for rows of this width.
template <class T, bool kAligned, class Start>
void choose_plan(int64_t width, const Start& start) {
  if constexpr (kAligned) {
    if (width <= 64) return start(Plan<T, 8, true>());
    if (width <= 128) return start(Plan<T, 16, true>());
  }
  if (width <= 256) return start(Plan<T, 32, kAligned>());
  if (width <= 512) return start(Plan<T, 64, kAligned>());
  if (width <= 1024) return start(Plan<T, 128, kAligned>());
  start(Plan<T, 512, kAligned>());
}

template <class Start>
void choose_plan(int element, bool aligned, int64_t width, const Start& start) {
  if (element == 2 && aligned) choose_plan<__nv_bfloat16, true>(width, start);
  if (element == 2 && !aligned) choose_plan<__nv_bfloat16, false>(width, start);
  if (element == 4 && aligned) choose_plan<float, true>(width, start);
  if (element == 4 && !aligned) choose_plan<float, false>(width, start);
  if (element == 8) choose_plan<double, false>(width, start);  // not for speed: one kernel will do
}

}  // namespace lra
