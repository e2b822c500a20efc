// Forward pass of attention_kernels.h. A block of threads has 128 queries of a row and head, and walks over
// the keys 64 at a time, keeping of the softmax an origin, its sum and the weighted values:
//
//   l' = l·2^(m−m') + Σ_j 2^(s_j−m'),   o' = o·2^(m−m') + Σ_j keep_j 2^(s_j−m') v_j
//
// with scores to base 2. The origin m' is m as long as weights stay within some thousands, which floats bear;
// else the largest score so far. out = o / (l (1−p)),  lse = m + log₂ l. The product with the values of one
// tile and the scores of the next are on their way together, while the warp draws for dropout and the others
// of a multiprocessor compute weights.
#include "kernels/attention/attention_tiles.cuh"

namespace lra {
namespace {

using namespace attention_tiles;

constexpr int kStageRows = 128, kBuffers = 3;
constexpr int kDrawnAtOnce = 2;
constexpr float kMost = 1024;  // that a lane's weights of a tile may sum to

struct Ring {
  Stage<kStageRows> stages[kBuffers];
  WeightDraw draw;
};

template <int kWidth, bool kDrops>
__global__ void __launch_bounds__(kThreads, 2)
    attention_forward_kernel(AttentionData d, Bf16* out, float* lse, DropoutKeys dropout) {
  const Span span = find_span(d, static_cast<int>(blockIdx.x));
  if (span.first >= span.length) return;
  const int h = static_cast<int>(blockIdx.y), query = span.first + this_row();
  const int end = d.causal ? min(span.length, span.first + kSpan) : span.length;  // of the keys
  auto& ring = *dynamic_shared<Ring, 1024>();
  const TileWalk<kWidth, kStageRows, kBuffers, NothingElse> keys{
      ring.stages, head_rows(d, d.qkv, 3, 1, span, h), head_rows(d, d.qkv, 3, 2, span, h), span.length, end,
      {}};
  keys.begin_stage(0);
  if (kDrops && threadIdx.x == 0) ring.draw = WeightDraw(d, dropout, span, h);
  Operand<kWidth> q;
  Weights weights;
  load_operand(q, head_rows(d, d.qkv, 3, 0, span, h), span);
  Scores s = {};
  Sums<kWidth> o = {};
  float most[2] = {-FLT_MAX, -FLT_MAX}, sum[2] = {0, 0};
  const float scale = d.scale * kLog2E;
  const auto begin_scores = [&](int tile) {
    keys.enter(tile);
    group_begin(s, q);
    multiply_rows_async(s, q, keys.first(tile));
    group_commit();
  };
#pragma unroll 1
  for (int tile = 0; tile < keys.tiles(); ++tile) {
    const int key = tile * kTile;
    begin_scores(tile);
    KeptOfRows kept;
    if constexpr (kDrops) kept.draw<kDrawnAtOnce>(ring.draw, dropout, query, key);
    group_wait<0>(s, o);
    hide_keys(s, span.first, query, key, end, d.causal);
    float more[2];
    for (bool moved = false;; moved = true) {  // at most twice: huge scores exceed any limit by rounding
      const float origin[2] = {most[0] * scale, most[1] * scale};
      more[0] = more[1] = 0;
#pragma unroll
      for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          const float first = weight(s[n][2 * r], scale, origin[r]),
                      second = weight(s[n][2 * r + 1], scale, origin[r]);
          more[r] += first + second;
          uint32_t pair = bf16_pair(first, second);
          if constexpr (kDrops) pair &= kept.mask(n, r);
          weights[n / 2][n % 2 * 2 + r] = pair;
        }
      }
      if (moved || !__any_sync(kAllLanes, more[0] > kMost || more[1] > kMost)) break;
      float largest[2] = {most[0], most[1]};
#pragma unroll
      for (int i = 0; i < 32; ++i) largest[i % 4 / 2] = fmaxf(largest[i % 4 / 2], s[i / 4][i % 4]);
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        largest[r] = quad_max(largest[r]);
        const float factor = fast_exp2((most[r] - largest[r]) * scale);
        most[r] = largest[r];
        sum[r] *= factor;
#pragma unroll
        for (int i = 0; i < kWidth / 4; ++i) o[i / 2][2 * r + i % 2] *= factor;
      }
    }
    sum[0] += more[0];
    sum[1] += more[1];
    group_begin(o, weights);
    multiply_columns_async(o, weights, keys.second(tile));
    group_commit();
  }
  group_wait<0>(o);

  float factor[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    sum[r] = quad_sum(sum[r]);
    factor[r] = (kDrops ? d.draw.rate.scale : 1) / sum[r];
    const int place = query + 8 * r;
    if (this_lane() % 4 == 0 && place < span.length) {
      lse[h * d.positions + span.start + place] = most[r] * scale + log2f(sum[r]);
    }
  }
  store_sums(o, factor, head_rows(d, out, 1, 0, span, h), span);
}

int forward_launch(const AttentionForwardArguments& a, CudaStream stream) {
  const AttentionData& d = a.data;
  if (d.positions == 0) return 0;
  const dim3 grid(most_spans(d), static_cast<unsigned>(d.heads));
  choose_attention_kernel(d, [&](auto width, auto drops) {
    start_kernel(attention_forward_kernel<decltype(width)::value, decltype(drops)::value>,
                 {grid, kThreads, static_cast<cudaStream_t>(stream), sizeof(Ring)}, d,
                 static_cast<Bf16*>(a.out), a.lse, dropout_keys(d.draw));
  });
  return cudaGetLastError();
}

bool run_here() {
  int device = 0, major = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         major == 9;
}

const bool registered =
    (attention_forward_cuda = forward_launch, attention_kernels_run_here = run_here, true);

}  // namespace
}  // namespace lra
