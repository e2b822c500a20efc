// CUDA side of shared_keys.h: a few neighbouring threads have a vector, an octet of it each; the rest of
// vectors wider than a warp's octets is read a second time.
#include "kernels/rows/head_team.cuh"
#include "kernels/shared_keys/shared_keys_arguments.h"

namespace lra {
namespace {

// A thread's part of a vector: its first octet, and how to come to the next. A team beyond the last vector
// has a width of 0: it reads zeros and writes nothing.
struct Part {
  int column, step, width;
  int64_t position, head_begin;  // of the head's elements among those of a position

  __device__ Part(int64_t positions, int heads, int width_of_head, int team)
      : column(static_cast<int>(threadIdx.x) % team * kOctet), step(team * kOctet), width(width_of_head) {
    const uint32_t vector = team_number(team), count = static_cast<uint32_t>(heads);
    position = vector / count;
    head_begin = int64_t{vector % count} * width;
    if (position < positions) return;
    position = 0, head_begin = 0, width = 0;
  }
};

template <class A>
__device__ A squares(const A (&x)[kOctet]) {
  A sum = 0;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) sum += x[i] * x[i];
  return sum;
}
template <class A>
__device__ A product(const A (&x)[kOctet], const A (&y)[kOctet]) {
  A sum = 0;
#pragma unroll
  for (int i = 0; i < kOctet; ++i) sum += x[i] * y[i];
  return sum;
}
template <class A>
__device__ A scale_of(A sum) {
  return rsqrt(sum + A(kSharedKeysEpsilon));
}

template <class T, bool kAligned, bool kUnit>
__global__ void __launch_bounds__(kTeamThreads) forward_kernel(SharedKeysForwardArguments a, int team) {
  using A = Accumulator<T>;
  const Part p(a.positions, a.heads, a.width, team);
  const int64_t all = int64_t{a.heads} * a.width;
  const T* q = static_cast<const T*>(a.qv) + p.position * 2 * all + p.head_begin;
  T* out = static_cast<T*>(a.qkv) + p.position * 3 * all + p.head_begin;
  const auto load = [&](const T* from, int column) { return load_octet<kAligned>(from, column, p.width); };
  const auto store = [&](T* to, int column, const Octet<T>& octet) {
    store_octet<kAligned>(to, column, p.width, octet);
  };
  A scale = 1;
  const auto write = [&](int column, const Octet<T>& query, const Octet<T>& value) {
    store(out, column, query);
    store(out + 2 * all, column, value);
    A k[kOctet];
    widen(query, k);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) k[i] *= scale;
    store(out + all, column, narrow<T>(k));
  };
  const Octet<T> query = load(q, p.column), value = load(q + all, p.column);
  if constexpr (kUnit) {
    A x[kOctet];
    widen(query, x);
    A sum = squares(x);
    for (int column = p.column + p.step; column < p.width; column += p.step) {
      widen(load(q, column), x);
      sum += squares(x);
    }
    scale = scale_of(team_sum(sum, team));
  }
  write(p.column, query, value);
  for (int column = p.column + p.step; column < p.width; column += p.step) {
    write(column, load(q, column), load(q + all, column));
  }
}

template <class T, bool kAligned, bool kUnit>
__global__ void __launch_bounds__(kTeamThreads) backward_kernel(SharedKeysBackwardArguments a, int team) {
  using A = Accumulator<T>;
  const Part p(a.positions, a.heads, a.width, team);
  const int64_t all = int64_t{a.heads} * a.width, at = p.position * 3 * all + p.head_begin;
  const T *q = static_cast<const T*>(a.qkv) + at, *d = static_cast<const T*>(a.d_qkv) + at;
  T* out = static_cast<T*>(a.d_qv) + p.position * 2 * all + p.head_begin;
  const auto load = [&](const T* from, int column) { return load_octet<kAligned>(from, column, p.width); };
  const auto load_query = [&](int column) { return kUnit ? load(q, column) : Octet<T>{}; };
  A scale = 1, along = 0;  // dq += scale · dk − along · q
  const auto write = [&](int column, const Octet<T>& query, const Octet<T>& direct, const Octet<T>& d_key,
                         const Octet<T>& d_value) {
    store_octet<kAligned>(out + all, column, p.width, d_value);
    A x[kOctet], dk[kOctet], dq[kOctet];
    widen(query, x);
    widen(d_key, dk);
    widen(direct, dq);
#pragma unroll
    for (int i = 0; i < kOctet; ++i) dq[i] += scale * dk[i] - along * x[i];
    store_octet<kAligned>(out, column, p.width, narrow<T>(dq));
  };
  const Octet<T> query = load_query(p.column), direct = load(d, p.column), d_key = load(d + all, p.column),
                 d_value = load(d + 2 * all, p.column);
  if constexpr (kUnit) {
    A x[kOctet], dk[kOctet];
    widen(query, x);
    widen(d_key, dk);
    A sum = squares(x), with = product(x, dk);
    for (int column = p.column + p.step; column < p.width; column += p.step) {
      widen(load(q, column), x);
      widen(load(d + all, column), dk);
      sum += squares(x);
      with += product(x, dk);
    }
    scale = scale_of(team_sum(sum, team));
    along = scale * (scale * scale) * team_sum(with, team);  // k (k·dk) s = q s³ (q·dk)
  }
  write(p.column, query, direct, d_key, d_value);
  for (int column = p.column + p.step; column < p.width; column += p.step) {
    write(column, load_query(column), load(d, column), load(d + all, column), load(d + 2 * all, column));
  }
}

// start(element, aligned, unit), the latter two as std::bool_constant
template <class Arguments, class Start>
int choose(const Arguments& a, bool aligned, const Start& start) {
  if (a.positions == 0 || a.heads == 0 || a.width == 0) return 0;
  if (!teams_serve(a.positions, a.heads)) return cudaErrorInvalidValue;
  const auto with_unit = [&](auto zero, auto is_aligned) {
    a.unit ? start(zero, is_aligned, std::true_type()) : start(zero, is_aligned, std::false_type());
  };
  const auto with_element = [&](auto zero) {
    aligned ? with_unit(zero, std::true_type()) : with_unit(zero, std::false_type());
  };
  if (a.element == 2) with_element(__nv_bfloat16());
  if (a.element == 4) with_element(float());
  if (a.element == 8) with_element(double());
  return cudaGetLastError();
}

int forward_launch(const SharedKeysForwardArguments& a, CudaStream stream) {
  return choose(a, all_aligned(a.width, a.qv, a.qkv), [&](auto zero, auto aligned, auto unit) {
    start_kernel(forward_kernel<decltype(zero), decltype(aligned)::value, decltype(unit)::value>,
                 team_launch(a.positions, a.heads, a.width, static_cast<cudaStream_t>(stream)), a,
                 team_of(a.width));
  });
}

int backward_launch(const SharedKeysBackwardArguments& a, CudaStream stream) {
  return choose(a, all_aligned(a.width, a.qkv, a.d_qkv, a.d_qv), [&](auto zero, auto aligned, auto unit) {
    start_kernel(backward_kernel<decltype(zero), decltype(aligned)::value, decltype(unit)::value>,
                 team_launch(a.positions, a.heads, a.width, static_cast<cudaStream_t>(stream)), a,
                 team_of(a.width));
  });
}

const bool registered =
    (shared_keys_forward_cuda = forward_launch, shared_keys_backward_cuda = backward_launch, true);

}  // namespace
}  // namespace lra
