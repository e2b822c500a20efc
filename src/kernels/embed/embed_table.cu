// The gradient of the table:  d_table[v] += Σ g[r] over tokens[r] = v,  g = dropout(dy); row V is CLS.
//
// Positions are sorted by token and cut into pieces of equal length. A thread sums 8 columns of a piece in
// registers and puts the sum away where the token changes: into the table if all of the token's positions lie
// in the piece. Else the token spans pieces, and its sum is a part: the tail of the piece that it begins in,
// the head of every further one. Parts are added up in order. Nobody adds to what another thread adds to.
#include "base/cuda_start.cuh"
#include "kernels/embed/embed_sort.cuh"
#include "kernels/embed/embed_table.cuh"
#include "kernels/rows/octet.cuh"

namespace lra {
namespace {

constexpr int kSumThreads = 128, kPartWarps = 8;
constexpr uint32_t kAll = 0xffffffffu;

template <class A>
struct alignas(16) Quad {
  A e[4];
};

template <class A>
struct TableSums {
  const SortedToken* sorted;  // [EmbedPlan::records]
  A *heads, *tails;           // [pieces, width]
  A *d_table, *d_cls;
  int64_t T, D, V, octets, piece, pieces;

  __device__ int64_t width() const { return octets * kOctet; }

  // Columns column … column + kCount − 1 of token v; −1 is what fills up the last piece.
  template <int kCount>
  __device__ void add(int32_t v, int column, const A (&sum)[kCount]) const {
    A* into = v < V ? d_table : d_cls;
    if (!into || v < 0) return;
    if (v < V) into += v * D;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (column + i < D) into[column + i] += sum[i];
    }
  }
};

// kCount neighbours of the sorted positions.
template <int kCount>
struct SomeRows {
  int32_t position[kCount], first_token;
  uint32_t changes;  // bit k: row k is of another token than row k − 1

  __device__ explicit SomeRows(const SortedToken* row) : first_token(row->token), changes(0) {
    int32_t token = first_token;
#pragma unroll
    for (int k = 0; k < kCount; k += 2) {
      const uint4 two = __ldg(reinterpret_cast<const uint4*>(row + k));  // position, token, position, token
      const auto even = static_cast<int32_t>(two.y), odd = static_cast<int32_t>(two.w);
      position[k] = static_cast<int32_t>(two.x);
      position[k + 1] = static_cast<int32_t>(two.z);
      changes |= uint32_t{even != token} << k | uint32_t{odd != even} << (k + 1);
      token = odd;
    }
  }
};

// What a thread does for its piece and its octet of columns.
template <class T, bool kAligned, bool kDropout>
struct PieceSum {
  using A = Accumulator<T>;
  // Rows whose loads are under way together.
  static constexpr int kAtOnce = sizeof(T) == 2 ? 8 : 4;

  const EmbedGradientArguments& a;
  const DropoutKeys& keys;
  const TableSums<A>& s;
  uint64_t stream;
  int64_t piece;
  int column;
  int32_t token;  // whose sum this is
  bool head;      // it began in an earlier piece
  A sum[kOctet];  // of what dropout keeps, not scaled yet

  __device__ void scale() {
    if constexpr (kDropout) {
#pragma unroll
      for (int i = 0; i < kOctet; ++i) sum[i] *= static_cast<A>(a.draw.rate.scale);
    }
  }

  __device__ void put(A* parts) const {
    auto* to = reinterpret_cast<Quad<A>*>(parts + piece * s.width() + column);
    to[0] = {sum[0], sum[1], sum[2], sum[3]};
    to[1] = {sum[4], sum[5], sum[6], sum[7]};
  }

  __device__ Octet<T> load(int32_t position) const {
    const int width = static_cast<int>(a.D);
    // An aligned row has all of an octet; so said, the load needs no condition.
    return load_octet<kAligned>(static_cast<const T*>(a.dy) + static_cast<int64_t>(position) * width, column,
                                kAligned ? column + 1 : width);
  }

  __device__ int64_t slot(int32_t position) const { return kDropout ? __ldg(a.draw.slots + position) : 0; }

  __device__ void add(const Octet<T>& octet, int64_t slot_of_row) {
    A g[kOctet];
    widen(octet, g);
    PhiloxBlock block = {};
    if (kDropout) block = draw_octet(keys, stream, slot_of_row, column, static_cast<int>(a.D));
#pragma unroll
    for (int i = 0; i < kOctet; ++i) {
      if (!kDropout || kept(block, i, a.draw.rate)) sum[i] += g[i];
    }
  }

  // The sum of `token` is complete; that of the next begins.
  __device__ void change_to(int32_t next) {
    scale();
    head ? put(s.heads) : s.add(token, column, sum);
    head = false;
    token = next;
#pragma unroll
    for (int i = 0; i < kOctet; ++i) sum[i] = 0;
  }

  // Rows from `row` on, nearly always all of one token.
  __device__ void add(const SomeRows<kAtOnce>& rows, const SortedToken* row) {
    Octet<T> octet[kAtOnce];
    int64_t slots[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      octet[k] = load(rows.position[k]);
      slots[k] = slot(rows.position[k]);
    }
    if (rows.first_token == token && !rows.changes) {
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) add(octet[k], slots[k]);
      return;
    }
#pragma unroll 1
    for (int k = 0; k < kAtOnce; ++k) {  // from the first cache
      if (row[k].token != token) change_to(row[k].token);
      add(load(row[k].position), slot(row[k].position));
    }
  }
};

template <class T, bool kAligned, bool kDropout>
__global__ __launch_bounds__(kSumThreads,
                             sizeof(T) == 8 ? 3 : 5) void embed_sums_kernel(EmbedGradientArguments a,
                                                                            TableSums<Accumulator<T>> s,
                                                                            DropoutKeys keys) {
  using Sum = PieceSum<T, kAligned, kDropout>;
  const auto index = blockIdx.x * kSumThreads + threadIdx.x, octets = static_cast<uint32_t>(s.octets);
  const int64_t piece = index / octets;
  if (piece >= s.pieces) return;
  const SortedToken *row = s.sorted + piece * s.piece, *const end = row + s.piece;
  Sum sum{a,          keys,
          s,          kDropout ? dropout_stream(a.draw.site, *a.draw.step) : 0,
          piece,      static_cast<int>(index % octets) * kOctet,
          row->token, piece > 0 && row[-1].token == row->token,
          {}};
  constexpr int kAtOnce = Sum::kAtOnce;
  SomeRows<kAtOnce> ahead(row);
  for (; row < end; row += kAtOnce) {
    const SomeRows<kAtOnce> rows = ahead;
    ahead = SomeRows<kAtOnce>(row + kAtOnce);
    sum.add(rows, row);
  }
  sum.scale();
  if (sum.head) {
    sum.put(s.heads);
  } else if (end->token == sum.token) {
    sum.put(s.tails);
  } else {
    s.add(sum.token, sum.column, sum.sum);
  }
}

// A warp's columns of parts that lie one after the other.
template <class A>
struct Parts {
  const A* first;  // lane's 4 columns of the first; null: beyond the width
  int64_t width;

  // sum += parts begin, begin + step, … before end
  __device__ void add(int begin, int end, int step, Quad<A>& sum) const {
    if (!first) return;
#pragma unroll 8
    for (int i = begin; i < end; i += step) {
      const Quad<A> part = *reinterpret_cast<const Quad<A>*>(first + i * width);
#pragma unroll
      for (int e = 0; e < 4; ++e) sum.e[e] += part.e[e];
    }
  }
};

// How many pieces after this one go on with the token that begins in it; 0 if none does. Same in all lanes.
template <class A>
__device__ int pieces_spanned(const TableSums<A>& s, int64_t piece, int lane) {
  const int64_t begin = piece * s.piece, end = begin + s.piece;
  if (end >= s.T) return 0;
  const auto token_at = [&](int64_t i) { return i >= 0 && i < s.T ? s.sorted[i].token : -1; };
  // Loads that do not wait for each other.
  const int32_t token = token_at(end - 1), before = token_at(begin - 1);
  int32_t later = token_at(end + lane * s.piece);
  if (before == token) return 0;
  int count = 0;
  for (;;) {
    const uint32_t more = __ballot_sync(kAll, later == token);
    count += __popc(more);
    if (more != kAll) return count;
    later = token_at(end + (count + lane) * s.piece);
  }
}

// Adds up the parts of the tokens that span pieces: a warp for the token that begins in its piece, in 128
// columns. Where there are many parts, all warps of the block take a share.
template <class A>
__global__ __launch_bounds__(kPartWarps * 32) void embed_parts_kernel(TableSums<A> s) {
  constexpr int kAlone = 16;
  __shared__ int spans[kPartWarps];
  __shared__ Quad<A> shares[kPartWarps][32];
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int column = static_cast<int>(blockIdx.y * 32 + threadIdx.x) * 4;
  const auto parts = [&](const A* from, int64_t piece) {
    return Parts<A>{column < s.width() ? from + piece * s.width() + column : nullptr, s.width()};
  };
  const auto add = [&](int64_t piece, const Quad<A>& sum) {
    if (column < s.D) s.add(s.sorted[(piece + 1) * s.piece - 1].token, column, sum.e);
  };
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kPartWarps, mine = first + warp;
  const int span = pieces_spanned(s, mine, lane);
  if (span > 0 && span <= kAlone) {
    Quad<A> sum = {};
    parts(s.tails, mine).add(0, 1, 1, sum);
    parts(s.heads, mine + 1).add(0, span, 1, sum);
    add(mine, sum);
  }
  if (lane == 0) spans[warp] = span;
  __syncthreads();
  for (int w = 0; w < kPartWarps; ++w) {
    if (spans[w] <= kAlone) continue;
    Quad<A> sum = {};
    parts(s.heads, first + w + 1).add(warp, spans[w], kPartWarps, sum);
    shares[warp][lane] = sum;
    __syncthreads();
    if (warp == 0) {
      parts(s.tails, first + w).add(0, 1, 1, sum);
      for (int other = 1; other < kPartWarps; ++other) {
        for (int e = 0; e < 4; ++e) sum.e[e] += shares[other][lane].e[e];
      }
      add(first + w, sum);
    }
    __syncthreads();
  }
}

unsigned blocks(int64_t n, int64_t each) { return static_cast<unsigned>((n + each - 1) / each); }

template <class T>
void start(const EmbedGradientArguments& a, cudaStream_t stream) {
  using A = Accumulator<T>;
  const EmbedPlan plan(a.T, a.D, a.V);
  auto* partial = static_cast<A*>(a.partial);
  const TableSums<A> s{sort_tokens(plan, a.tokens, a.sort, stream),
                       partial,
                       partial + plan.pieces * plan.width(),
                       static_cast<A*>(a.d_table),
                       static_cast<A*>(a.d_cls),
                       a.T,
                       a.D,
                       a.V,
                       plan.octets,
                       plan.piece,
                       plan.pieces};
  const bool aligned = all_aligned(a.D, static_cast<const T*>(a.dy)), dropout = a.draw.rate.threshold != 0;
  const auto kernel = aligned ? dropout ? embed_sums_kernel<T, true, true> : embed_sums_kernel<T, true, false>
                      : dropout ? embed_sums_kernel<T, false, true>
                                : embed_sums_kernel<T, false, false>;
  start_kernel(kernel, {blocks(plan.pieces * plan.octets, kSumThreads), kSumThreads, stream}, a, s,
               dropout_keys(a.draw));
  const dim3 grid(blocks(plan.pieces, kPartWarps), blocks(plan.width(), 128)), block(32, kPartWarps);
  start_kernel(embed_parts_kernel<A>, {grid, block, stream}, s);
}

}  // namespace

cudaError_t embed_table_backward(const EmbedGradientArguments& a, cudaStream_t stream) {
  if (a.T == 0 || (!a.d_table && !a.d_cls)) return cudaSuccess;
  if (a.element == 2) start<__nv_bfloat16>(a, stream);
  if (a.element == 4) start<float>(a, stream);
  if (a.element == 8) start<double>(a, stream);
  return cudaGetLastError();
}

}  // namespace lra
