// For kernels in which a few neighbouring threads, a team, have one head of one position, an octet of its
// elements each; of heads wider than a warp's octets several, a step apart.
#pragma once
#include "base/cuda_start.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {

inline constexpr int kTeamThreads = 256;  // of a block

// Threads of a team: a power of two, at most a warp.
inline int team_of(int width) {
  int team = 1;
  while (team < 32 && team * kOctet < width) team *= 2;
  return team;
}

// Heads are counted in 32 bits.
inline bool teams_serve(int64_t positions, int heads) { return positions * heads <= INT32_MAX; }

inline Launch team_launch(int64_t positions, int heads, int width, cudaStream_t stream) {
  const int64_t teams = kTeamThreads / team_of(width), blocks = (positions * heads + teams - 1) / teams;
  return {dim3(static_cast<unsigned>(blocks)), dim3(kTeamThreads), stream};
}

// The head [0, positions · heads) of the thread's team; there may be fewer.
__device__ inline uint32_t team_number(int team) {
  return blockIdx.x * static_cast<uint32_t>(kTeamThreads / team) + threadIdx.x / static_cast<uint32_t>(team);
}

// Σ over the threads of the team; each gets it. All lanes of a warp must come here together.
template <class A>
__device__ inline A team_sum(A sum, int team) {
  for (int o = 1; o < team; o *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
  return sum;
}

}  // namespace lra
