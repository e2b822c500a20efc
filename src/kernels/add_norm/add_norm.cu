// CUDA side of add_norm.h: a team of threads has a row in its registers (row_team.cuh); while one row is
// worked on, the next is being read.
#include "base/cuda_start.cuh"
#include "kernels/add_norm/add_norm_arguments.h"
#include "kernels/add_norm/row_team.cuh"

namespace lra {
namespace {

constexpr int64_t kMostPositions = 1 << 30;  // rows are counted in 32 bits

template <class P>
struct ForwardRow {
  Octet<typename P::T> x, branch;
  int64_t slot;

  __device__ ForwardRow(const AddNormForwardArguments& a, const Place<P>& place, bool draws)
      : x(place.load(a.x)),
        branch(a.branch ? place.load(a.branch) : Octet<typename P::T>{}),
        slot(draws ? place.template load_scalar<int64_t>(a.draw.slots) : 0) {}
};

// x + dropout(branch + bias), rounded to the type of x: what the backward pass will see.
template <class P>
__device__ void make_sum(const AddNormForwardArguments& a, const DropoutKeys& keys, const Place<P>& place,
                         const ForwardRow<P>& in, const typename P::A (&bias)[kOctet], bool draws,
                         uint64_t stream, typename P::A (&sum)[kOctet]) {
  widen(in.x, sum);
  if (!a.branch) return;
  typename P::A branch[kOctet];
  widen(in.branch, branch);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) branch[i] += bias[i];
  if (draws) drop_out(draw_octet(keys, stream, in.slot, place.column(), place.width), a.draw.rate, branch);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) sum[i] += branch[i];
  const auto rounded = narrow<typename P::T>(sum);
  place.store(a.sum, rounded);
  widen(rounded, sum);
}

// Mean first, then the squares of what deviates from it: both from registers, nothing cancels. `sum` becomes
// sum − mean; beyond the width it is 0 and stays so.
template <class P>
__device__ void centre(typename P::A (&sum)[kOctet], const Place<P>& place, TeamSum<P>& team, int& turn,
                       typename P::A& mean, typename P::A& rstd) {
  using A = typename P::A;
  const A share = A(1) / static_cast<A>(place.width);
  A total[1] = {0}, squares[1] = {0};
#pragma unroll
  for (int i = 0; i < kOctet; ++i) total[0] += sum[i];
  team.add(total, turn);
  mean = total[0] * share;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    sum[i] -= place.column() + (P::kAligned ? 0 : i) < place.width ? mean : A(0);
    squares[0] += sum[i] * sum[i];
  }
  team.add(squares, turn);
  rstd = rsqrt(squares[0] * share + static_cast<A>(kNormEpsilon));
}

template <class P>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    forward_kernel(AddNormForwardArguments a, DropoutKeys keys) {
  using A = typename P::A;
  __shared__ TeamSum<P> team;
  const bool draws = a.draw.rate.threshold > 0;
  const uint64_t stream = draws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  Place<P> place = Place<P>::start(a.positions, a.width);
  A weight[kOctet], offset[kOctet], bias[kOctet];
  load_parameter(a.weight, place.column(), place.width, weight);
  load_parameter(a.offset, place.column(), place.width, offset);
  load_parameter(a.bias, place.column(), place.width, bias);
  int turn = 0;
  ForwardRow<P> ahead(a, place, draws);
  for (; place.first < place.positions; place = place.next()) {
    const ForwardRow<P> in = ahead;
    ahead = ForwardRow<P>(a, place.next(), draws);
    A sum[kOctet], mean, rstd;
    make_sum(a, keys, place, in, bias, draws, stream, sum);
    centre(sum, place, team, turn, mean, rstd);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum[i] = sum[i] * rstd * weight[i] + offset[i];
    place.store(a.normed, narrow<typename P::T>(sum));
    if (a.mean && place.exists() && place.lane() == 0) {
      static_cast<A*>(a.mean)[place.row()] = mean;
      static_cast<A*>(a.rstd)[place.row()] = rstd;
    }
  }
}

template <class P>
struct BackwardRow {
  using A = typename P::A;
  Octet<typename P::T> sum, d_normed, d_sum;
  A mean, rstd;
  int64_t slot;

  __device__ BackwardRow(const AddNormBackwardArguments& a, const Place<P>& place, bool draws)
      : sum(place.load(a.sum)),
        d_normed(place.load(a.d_normed)),
        d_sum(a.d_sum ? place.load(a.d_sum) : Octet<typename P::T>{}),
        mean(place.template load_scalar<A>(a.mean)),
        rstd(place.template load_scalar<A>(a.rstd)),
        slot(draws ? place.template load_scalar<int64_t>(a.draw.slots) : 0) {}
};

// What a thread adds up over its rows.
template <class A>
struct ParameterSums {
  A weight[kOctet] = {}, offset[kOctet] = {}, bias[kOctet] = {};
};

// g = d_sum + rstd · (u − mean(u) − x̂ · mean(u ∘ x̂)) with u = d_normed ∘ weight
template <class P>
__device__ void backward_row(const AddNormBackwardArguments& a, const DropoutKeys& keys,
                             const Place<P>& place, const BackwardRow<P>& in, const typename P::A* weight,
                             bool draws, uint64_t stream, TeamSum<P>& team, int& turn,
                             ParameterSums<typename P::A>& sums) {
  using A = typename P::A;
  A u[kOctet], normal[kOctet], means[2] = {0, 0};
  widen(in.d_normed, u);
  widen(in.sum, normal);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) {
    normal[i] = (normal[i] - in.mean) * in.rstd;
    sums.weight[i] += u[i] * normal[i];
    sums.offset[i] += u[i];
    u[i] *= weight[i];
    means[0] += u[i];
    means[1] += u[i] * normal[i];
  }
  team.add(means, turn);
  const A share = A(1) / static_cast<A>(place.width);
  means[0] *= share;
  means[1] *= share;
  A g[kOctet];
  widen(in.d_sum, g);
#pragma unroll
  for (int i = 0; i < kOctet; ++i) g[i] += in.rstd * (u[i] - means[0] - normal[i] * means[1]);
  place.store(a.d_x, narrow<typename P::T>(g));
  if (draws) {
    drop_out(draw_octet(keys, stream, in.slot, place.column(), place.width), a.draw.rate, g);
    if (a.d_branch) place.store(a.d_branch, narrow<typename P::T>(g));
  }
#pragma unroll
  for (int i = 0; i < kOctet; ++i) sums.bias[i] += g[i];
}

// Adds up the teams of a block in order: out[c] = Σ_team sums of column c.
template <class P>
__device__ void store_block_sum(const typename P::A (&sums)[kOctet], typename P::A* shared, int width,
                                typename P::A* out) {
  constexpr int kRow = P::kLanes * kOctet;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kOctet; ++i) shared[threadIdx.x * kOctet + i] = sums[i];
  __syncthreads();
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < width; c += P::kThreads) {
    typename P::A total = 0;
    for (int team = 0; team < P::kTeams; ++team) total += shared[team * kRow + c];
    out[c] = total;
  }
}

template <class P>
__global__ void __launch_bounds__(P::kThreads, P::kBlocks)
    backward_kernel(AddNormBackwardArguments a, DropoutKeys keys) {
  using A = typename P::A;
  __shared__ TeamSum<P> team;
  // First the weights, as registers are for the sums; then the sums of the block's teams.
  alignas(16) __shared__ A shared[P::kThreads * kOctet];
  const bool draws = a.draw.rate.threshold > 0;
  const uint64_t stream = draws ? dropout_stream(a.draw.site, *a.draw.step) : 0;
  Place<P> place = Place<P>::start(a.positions, a.width);
  BackwardRow<P> ahead(a, place, draws);
#pragma unroll 1
  for (int c = static_cast<int>(threadIdx.x); c < P::kLanes * kOctet; c += P::kThreads) {
    shared[c] = c < place.width ? static_cast<const A*>(a.weight)[c] : A(0);
  }
  __syncthreads();
  ParameterSums<A> sums;
  int turn = 0;
  for (; place.first < place.positions; place = place.next()) {
    const BackwardRow<P> in = ahead;
    ahead = BackwardRow<P>(a, place.next(), draws);
    backward_row(a, keys, place, in, shared + place.column(), draws, stream, team, turn, sums);
  }
  A* out = static_cast<A*>(a.partial) + static_cast<int64_t>(blockIdx.x) * 3 * a.width;
  store_block_sum<P>(sums.weight, shared, place.width, out);
  store_block_sum<P>(sums.offset, shared, place.width, out + a.width);
  store_block_sum<P>(sums.bias, shared, place.width, out + 2 * a.width);
}

int forward_launch(const AddNormForwardArguments& a, CudaStream stream) {
  if (a.positions == 0) return 0;
  if (a.width < 1 || a.width > kNormMaxWidth || a.positions > kMostPositions) return cudaErrorInvalidValue;
  const bool aligned = all_aligned(a.width, a.x, a.branch, a.sum, a.normed);
  choose_plan(a.element, aligned, a.width, [&](auto plan) {
    using P = decltype(plan);
    static const int64_t resident = resident_blocks(forward_kernel<P>, P::kThreads);
    const int64_t turns = (a.positions + P::kTeams - 1) / P::kTeams;
    const auto grid = static_cast<unsigned>(turns < resident ? turns : resident);
    start_kernel(forward_kernel<P>, {grid, P::kThreads, static_cast<cudaStream_t>(stream)}, a,
                 dropout_keys(a.draw));
  });
  return cudaGetLastError();
}

int backward_launch(const AddNormBackwardArguments& a, CudaStream stream) {
  if (a.positions == 0) return 0;
  if (a.width < 1 || a.width > kNormMaxWidth || a.positions > kMostPositions) return cudaErrorInvalidValue;
  const bool aligned = all_aligned(a.width, a.sum, a.d_sum, a.d_normed, a.d_x, a.d_branch);
  choose_plan(a.element, aligned, a.width, [&](auto plan) {
    using P = decltype(plan);
    const Launch on{static_cast<unsigned>(a.blocks), P::kThreads, static_cast<cudaStream_t>(stream)};
    start_kernel(backward_kernel<P>, on, a, dropout_keys(a.draw));
  });
  return cudaGetLastError();
}

const bool registered =
    (add_norm_forward_cuda = forward_launch, add_norm_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
