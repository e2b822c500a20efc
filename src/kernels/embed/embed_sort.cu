// A radix sort that keeps the order of equal tokens, so that its result, and with it the order of every sum,
// is always the same. Byte vocabularies need one pass.
//
// A pass: every block counts the digits of its chunk; then it adds up what lies before its own (smaller
// digits of all chunks, its digits of earlier chunks) and moves its positions there, tile by tile.
#include "base/cuda_start.cuh"
#include "kernels/embed/embed_sort.cuh"

namespace lra {
namespace {

constexpr int kBins = EmbedPlan::kBins, kWarps = kBins / 32;  // a thread has one bin
constexpr int kTile = static_cast<int>(EmbedPlan::kTile), kEach = kTile / kBins;
constexpr uint32_t kAll = 0xffffffffu;

struct SortPass {
  const int32_t* tokens;  // [T], read by the first pass
  const SortedToken* in;  // [T]; null for the first pass
  SortedToken* out;       // [records]
  int32_t* counts;        // [chunks, kBins]
  int64_t T, records, chunk, chunks;
  int shift, bins;  // digits are below bins

  __device__ SortedToken read(int64_t i) const {
    return in ? in[i] : SortedToken{static_cast<int32_t>(i), __ldg(tokens + i)};
  }
  __device__ int digit(const SortedToken& t) const { return (t.token >> shift) & (kBins - 1); }
  __device__ int64_t first() const { return blockIdx.x * chunk; }
  __device__ int64_t last() const { return first() + chunk < T ? first() + chunk : T; }
};

__global__ __launch_bounds__(kBins) void embed_count_kernel(SortPass p) {
  __shared__ int32_t bins[kBins];
  bins[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll 4
  for (int64_t i = p.first() + threadIdx.x; i < p.last(); i += kBins) atomicAdd(&bins[p.digit(p.read(i))], 1);
  __syncthreads();
  p.counts[blockIdx.x * kBins + threadIdx.x] = bins[threadIdx.x];
}

// Σ of `value` over the threads before this one.
__device__ int32_t sum_before(int32_t value, int32_t (&warps)[kWarps]) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  int32_t sum = value;
  for (int step = 1; step < 32; step *= 2) {
    const int32_t other = __shfl_up_sync(kAll, sum, step);
    if (lane >= step) sum += other;
  }
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  for (int w = 0; w < warp; ++w) sum += warps[w];
  return sum - value;
}

// Where the first position of this block goes that has digit threadIdx.x.
__device__ int32_t first_place(const SortPass& p, int32_t (&warps)[kWarps]) {
  const auto bin = static_cast<int>(threadIdx.x), block = static_cast<int>(blockIdx.x),
             chunks = static_cast<int>(p.chunks);
  // Of chunks from … to − 1.
  const auto count = [&](int from, int to) {
    constexpr int kAtOnce = 16;
    int32_t sum = 0;
    for (int first = from; first < to && bin < p.bins; first += kAtOnce) {
      const int32_t* counts = p.counts + first * kBins + bin;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) sum += first + i < to ? __ldg(counts + i * kBins) : 0;
    }
    return sum;
  };
  const int32_t earlier = count(0, block);
  return sum_before(earlier + count(block, chunks), warps) + earlier;
}

// The lanes that have this digit, −1 included. (`__match_any_sync` takes longer the more digits there are.)
__device__ uint32_t lanes_with(int digit) {
  uint32_t equal = kAll;
#pragma unroll
  for (int bit = 0; bit <= EmbedPlan::kDigit; ++bit) {
    const bool set = digit >> bit & 1;
    const uint32_t lanes = __ballot_sync(kAll, set);
    equal &= set ? lanes : ~lanes;
  }
  return equal;
}

// A lane's positions of a tile: a warp has kEach × 32 neighbours. Token −1 beyond the chunk.
__device__ void read_tile(const SortPass& p, int64_t tile, SortedToken (&tokens)[kEach]) {
  const int64_t first = tile + threadIdx.x / 32 * (kEach * 32) + threadIdx.x % 32, last = p.last();
#pragma unroll
  for (int j = 0; j < kEach; ++j) {
    tokens[j] = {0, -1};
    if (first + j * 32 < last) tokens[j] = p.read(first + j * 32);
  }
}

// Every warp counts the digits of its neighbours in order; where warps begin follows from their counts.
__global__ __launch_bounds__(kBins) void embed_order_kernel(SortPass p) {
  __shared__ int32_t places[kWarps][kBins], sums[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  SortedToken tokens[kEach];
  read_tile(p, p.first(), tokens);
#pragma unroll 1
  for (int64_t i = p.T + threadIdx.x; blockIdx.x == 0 && i < p.records; i += kBins) p.out[i] = {0, -1};
  int32_t next = first_place(p, sums);
  for (int64_t tile = p.first(); tile < p.last(); tile += kTile) {
    for (int bin = lane; bin < kBins; bin += 32) places[warp][bin] = 0;
    __syncwarp();
    int digit[kEach], rank[kEach];
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      digit[j] = tokens[j].token < 0 ? -1 : p.digit(tokens[j]);
      const uint32_t equal = lanes_with(digit[j]);
      const int before = __popc(equal & ((1u << lane) - 1));
      rank[j] = digit[j] < 0 ? 0 : places[warp][digit[j]] + before;
      __syncwarp();
      if (digit[j] >= 0 && before == 0) places[warp][digit[j]] += __popc(equal);
      __syncwarp();
    }
    __syncthreads();
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const int32_t count = places[w][threadIdx.x];
      places[w][threadIdx.x] = next;
      next += count;
    }
    __syncthreads();
#pragma unroll
    for (int j = 0; j < kEach; ++j) {
      if (digit[j] >= 0) p.out[places[warp][digit[j]] + rank[j]] = tokens[j];
    }
    __syncwarp();
    read_tile(p, tile + kTile, tokens);
  }
}

}  // namespace

const SortedToken* sort_tokens(const EmbedPlan& plan, const int32_t* tokens, int32_t* scratch,
                               cudaStream_t stream) {
  auto* records = reinterpret_cast<SortedToken*>(scratch);
  SortedToken* buffers[] = {records, plan.passes > 1 ? records + plan.records() : records};
  int32_t* counts = scratch + plan.sort_size() - plan.chunks * kBins;
  const auto blocks = static_cast<unsigned>(plan.chunks);
  const SortedToken* in = nullptr;
  for (int pass = 0; pass < plan.passes; ++pass) {
    const int shift = pass * EmbedPlan::kDigit;
    const int64_t largest = (plan.ids - 1) >> shift, bins = largest < kBins ? largest + 1 : kBins;
    const SortPass p{tokens,         in,         buffers[pass % 2], counts, plan.T,
                     plan.records(), plan.chunk, plan.chunks,       shift,  static_cast<int>(bins)};
    start_kernel(embed_count_kernel, {blocks, kBins, stream}, p);
    start_kernel(embed_order_kernel, {blocks, kBins, stream}, p);
    in = p.out;
  }
  return in;
}

}  // namespace lra
