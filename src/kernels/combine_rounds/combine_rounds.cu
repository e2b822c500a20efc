// CUDA side of combine_rounds.h: a few neighbouring threads have a position's head, an octet of its elements
// each, and go through the rounds two at a time. Vectors wider than a warp's octets take several turns.
#include "kernels/combine_rounds/combine_rounds_arguments.h"
#include "kernels/rows/head_team.cuh"

namespace lra {
namespace {

constexpr int kAtOnce = 2;  // rounds whose loads are in flight

// Where a thread works. A team beyond the last head has a width of 0: it reads zeros and writes nothing.
struct Part {
  int column, step, width, rounds, heads;
  int64_t one, all;  // the vector's number in [T, H], and of its first round in [T, R, H]

  __device__ Part(int64_t positions, int round_count, int head_count, int width_of_head, int team)
      : column(static_cast<int>(threadIdx.x) % team * kOctet),
        step(team * kOctet),
        width(width_of_head),
        rounds(round_count),
        heads(head_count) {
    const uint32_t vector = team_number(team), count = static_cast<uint32_t>(heads),
                   position = vector / count;
    one = vector;
    all = int64_t{position} * heads * rounds + vector % count;
    if (position < positions) return;
    one = 0, all = 0, width = 0;
  }
  __device__ int64_t round(int r) const { return all + int64_t{r} * heads; }
  __device__ bool leads() const { return column == 0 && width > 0; }
};

// w_r = e^(lse_r − origin) · scale
template <class A>
struct Shares {
  const A* lse;
  const Part& part;
  A origin, scale;

  __device__ Shares(const void* statistics, const Part& p)
      : lse(static_cast<const A*>(statistics)), part(p), origin(lse[p.all]), scale(0) {
    for (int r = 1; r < p.rounds; ++r) origin = max(origin, lse[p.round(r)]);
    for (int r = 0; r < p.rounds; ++r) scale += exp(lse[p.round(r)] - origin);
    scale = A(1) / scale;
  }
  __device__ A of(int r) const { return exp(lse[part.round(r)] - origin) * scale; }
};

// Octets of kAtOnce rounds from `first` on; zeros beyond the last.
template <bool kAligned, class T>
__device__ void load_rounds(const void* out, const Part& p, int first, int column,
                            Octet<T> (&loaded)[kAtOnce]) {
#pragma unroll
  for (int k = 0; k < kAtOnce; ++k) {
    const int r = first + k < p.rounds ? first + k : first;
    loaded[k] = load_octet<kAligned>(static_cast<const T*>(out) + p.round(r) * p.width, column, p.width);
  }
}

template <class T, bool kAligned>
__global__ void __launch_bounds__(kTeamThreads) forward_kernel(CombineRoundsForwardArguments a, int team) {
  using A = Accumulator<T>;
  const Part p(a.positions, a.rounds, a.heads, a.width, team);
  const Shares<A> shares(a.lse, p);
  for (int column = p.column; column < p.width; column += p.step) {
    A y[kOctet] = {};
    for (int first = 0; first < a.rounds; first += kAtOnce) {
      Octet<T> loaded[kAtOnce];
      load_rounds<kAligned>(a.out, p, first, column, loaded);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k >= a.rounds) continue;
        A o[kOctet];
        widen(loaded[k], o);
        const A share = shares.of(first + k);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) y[i] += share * o[i];
      }
    }
    store_octet<kAligned>(static_cast<T*>(a.y) + p.one * p.width, column, p.width, narrow<T>(y));
  }
}

// A head's products dy·o_r wait in d_lse, where its first thread puts them and takes them, until their mean
// is known.
template <class T, bool kAligned>
__global__ void __launch_bounds__(kTeamThreads) backward_kernel(CombineRoundsBackwardArguments a, int team) {
  using A = Accumulator<T>;
  const Part p(a.positions, a.rounds, a.heads, a.width, team);
  const Shares<A> shares(a.lse, p);
  const T* dy = static_cast<const T*>(a.dy) + p.one * p.width;
  A* d_lse = static_cast<A*>(a.d_lse);
  A mean = 0;
  for (int first = 0; first < a.rounds; first += kAtOnce) {
    A products[kAtOnce] = {};
    // As often for all threads of a team: they meet behind it.
    for (int column = p.column; column < p.width; column += p.step) {
      Octet<T> loaded[kAtOnce];
      load_rounds<kAligned>(a.out, p, first, column, loaded);
      A above[kOctet];
      widen(load_octet<kAligned>(dy, column, p.width), above);
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) {
        if (first + k >= a.rounds) continue;
        const A share = shares.of(first + k);
        A o[kOctet], d[kOctet];
        widen(loaded[k], o);
#pragma unroll
        for (int i = 0; i < kOctet; ++i) {
          products[k] += above[i] * o[i];
          d[i] = share * above[i];
        }
        store_octet<kAligned>(static_cast<T*>(a.d_out) + p.round(first + k) * p.width, column, p.width,
                              narrow<T>(d));
      }
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const A product = team_sum(products[k], team);
      if (first + k >= a.rounds) continue;
      mean += shares.of(first + k) * product;
      if (p.leads()) d_lse[p.round(first + k)] = product;
    }
  }
  if (!p.leads()) return;
  for (int r = 0; r < a.rounds; ++r) {
    d_lse[p.round(r)] = shares.of(r) * (d_lse[p.round(r)] - mean);
  }
}

// start(element, aligned), the latter as std::bool_constant
template <class Arguments, class Start>
int choose(const Arguments& a, bool aligned, const Start& start) {
  if (a.positions == 0 || a.heads == 0 || a.width == 0) return 0;
  if (!teams_serve(a.positions, a.heads)) return cudaErrorInvalidValue;
  const auto with = [&](auto zero) {
    aligned ? start(zero, std::true_type()) : start(zero, std::false_type());
  };
  if (a.element == 2) with(__nv_bfloat16());
  if (a.element == 4) with(float());
  if (a.element == 8) with(double());
  return cudaGetLastError();
}

int forward_launch(const CombineRoundsForwardArguments& a, CudaStream stream) {
  return choose(a, all_aligned(a.width, a.out, a.y), [&](auto zero, auto aligned) {
    start_kernel(forward_kernel<decltype(zero), decltype(aligned)::value>,
                 team_launch(a.positions, a.heads, a.width, static_cast<cudaStream_t>(stream)), a,
                 team_of(a.width));
  });
}

int backward_launch(const CombineRoundsBackwardArguments& a, CudaStream stream) {
  return choose(a, all_aligned(a.width, a.out, a.dy, a.d_out), [&](auto zero, auto aligned) {
    start_kernel(backward_kernel<decltype(zero), decltype(aligned)::value>,
                 team_launch(a.positions, a.heads, a.width, static_cast<cudaStream_t>(stream)), a,
                 team_of(a.width));
  });
}

const bool registered =
    (combine_rounds_forward_cuda = forward_launch, combine_rounds_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
