#include "kernels/linear_attention/linear_attention.h"
#include "kernels/rows/grid.h"

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kChunk = 128;  // of the causal form
constexpr double kLowest = -40;  // exponents further below the largest are as good as none

// Sums and exponentials at least in single precision.
Tensor wide(const Tensor& x) { return x.scalar_type() == torch::kDouble ? x : x.to(torch::kFloat); }

struct Features {
  Tensor q, k;  // [B, H, ·, M]; k is zero beyond the end of a row
};

Tensor elementwise(FeatureMap map, const Tensor& x) {
  return map == FeatureMap::kElu ? torch::where(x > 0, x + 1, x.clamp_max(0).exp()) : torch::relu(x) + 1e-3;
}

// q: [B, H, Q, P], k: [B, H, L, P], mask: [B, 1, L, 1]
Features features(FeatureMap map, const Tensor& projection, const Tensor& q, const Tensor& k,
                  const Tensor& mask) {
  if (map != FeatureMap::kSoftmax) return {elementwise(map, q), elementwise(map, k) * mask};
  const auto P = static_cast<double>(k.size(3));
  const Tensor scaled = (projection.to(k.options()) * std::pow(P, -0.25)).t();  // [P, M]
  const Tensor exponents = torch::matmul(k, scaled) - k.square().sum(-1, true) * (0.5 / std::sqrt(P));
  // What is taken out cancels in the quotient: a constant to the gradient.
  const Tensor largest =
      exponents.detach().masked_fill(mask.logical_not(), -std::numeric_limits<float>::max()).amax(-2, true);
  const Tensor query = torch::matmul(q, scaled) + largest;
  return {(query - query.detach().amax(-1, true)).clamp_min(kLowest).exp(),
          (exponents - largest).clamp(kLowest, 0).exp() * mask};
}

// Σ over keys first; phi_q: [B, H, Q, M], v: [B, H, L, P]
Tensor quotient(const Features& phi, const Tensor& v, double epsilon) {
  const Tensor sums = torch::matmul(phi.k.transpose(-2, -1), v);       // [B, H, M, P]
  const Tensor z = phi.k.sum(-2, /*keepdim=*/true).transpose(-2, -1);  // [B, H, M, 1]
  return torch::matmul(phi.q, sums) / (torch::matmul(phi.q, z) + epsilon);
}

// The same with j ≤ i: chunks of the row [B, H, n, C, ·], sums over those before, and each with itself.
Tensor quotient_causal(const Features& phi, const Tensor& v, double epsilon) {
  const int64_t L = v.size(2), n = (L + kChunk - 1) / kChunk;
  const auto chunked = [&](const Tensor& x) {
    return torch::constant_pad_nd(x, {0, 0, 0, n * kChunk - L}).unflatten(2, {n, kChunk});
  };
  const auto before = [](const Tensor& x) { return x.cumsum(2) - x; };
  const Tensor q = chunked(phi.q), k = chunked(phi.k), values = chunked(v);
  const Tensor sums = before(torch::matmul(k.transpose(-2, -1), values));  // [B, H, n, M, P]
  const Tensor z = before(k.sum(-2, /*keepdim=*/true).transpose(-2, -1));  // [B, H, n, M, 1]
  const Tensor own = torch::matmul(q, k.transpose(-2, -1)).tril();         // [B, H, n, C, C]
  const Tensor above = torch::matmul(q, sums) + torch::matmul(own, values);
  const Tensor below = torch::matmul(q, z) + own.sum(-1, /*keepdim=*/true) + epsilon;
  // Places beyond L divide 0 by what may be 0.
  const Tensor out = above.flatten(2, 3).narrow(2, 0, L) / below.flatten(2, 3).narrow(2, 0, L);
  return out;
}

double epsilon_of(FeatureMap map) { return map == FeatureMap::kElu ? 1e-6 : 0; }

Tensor key_mask(const Rows& rows, const Tensor& like) {  // [B, 1, L, 1]
  return grid_mask(rows).view({rows.count, 1, rows.longest, 1}).to(like.scalar_type());
}

}  // namespace

Tensor linear_attention_grid(const LinearAttentionInput& in) {
  const auto x = wide(to_grid(in.qkv, in.rows)).permute({2, 0, 3, 1, 4}).unbind(0);  // 3 × [B, H, L, P]
  const Features phi = features(in.map, in.projection, x[0], x[1], key_mask(in.rows, x[1]));
  const double epsilon = epsilon_of(in.map);
  const Tensor out = in.causal ? quotient_causal(phi, x[2], epsilon) : quotient(phi, x[2], epsilon);
  return from_grid(out.transpose(1, 2).to(in.qkv.scalar_type()), in.rows);
}

Tensor linear_attention_first_grid(const FirstLinearAttentionInput& in) {
  const auto x = wide(to_grid(in.kv, in.rows)).permute({2, 0, 3, 1, 4}).unbind(0);  // 2 × [B, H, L, P]
  const Features phi =
      features(in.map, in.projection, wide(in.q).unsqueeze(2), x[0], key_mask(in.rows, x[0]));
  return quotient(phi, x[1], epsilon_of(in.map)).squeeze(2).to(in.q.scalar_type());
}

}  // namespace lra
