#include "nn/qkv_mixer.h"

#include "kernels/attention/attention.h"
#include "kernels/project/project.h"

namespace lra {

std::shared_ptr<Linear> projection(int64_t in, int64_t out) {
  return std::make_shared<Linear>(in, out, Linear::Options{false, Init::xavier(in, out), {}});
}

QkvMixer::QkvMixer(const EncoderConfig& c, int64_t index)
    : heads_(c.heads), dropout_(c.attention_dropout), site_(block_site(index, 0)) {
  q_ = register_module("q", projection(c.width, c.qkv_width));
  k_ = register_module("k", projection(c.width, c.qkv_width));
  v_ = register_module("v", projection(c.width, c.qkv_width));
  o_ = register_module("o", projection(c.qkv_width, c.width));
}

Tensor QkvMixer::core(const Tensor& x, const Forward& f) const {
  const int64_t T = x.size(0);
  const Tensor qkv = project(x, {q_->weight, k_->weight, v_->weight}, f.copies);
  return mix(qkv.view({T, 3, heads_, -1}), f).reshape({T, -1});
}

Tensor QkvMixer::forward(const Tensor& x, const Forward& f) const { return o_->product(core(x, f), f); }

Tensor QkvMixer::forward_first(const Tensor& x, const Forward& f) const {
  if (first_reach() < 0) return Mixer::forward_first(x, f);
  return o_->product(attend_first(x, f, *q_, *k_, *v_, heads_, first_reach(), weight_dropout(f)), f);
}

Tensor QkvMixer::reference(const Tensor& x, const Forward& f) const {
  return o_->reference(core_reference(x, f));
}

Tensor QkvMixer::core_reference(const Tensor& x, const Forward& f) const {
  const int64_t T = x.size(0);
  const auto heads = [&](const Linear& w) { return w.reference(x).view({T, heads_, -1}).transpose(0, 1); };
  const Tensor q = heads(*q_), k = heads(*k_), v = heads(*v_);  // [H, T, P]
  const Tensor offsets = f.rows.offsets.cpu(), lengths = f.rows.lengths.cpu(), slots = f.rows.slots.cpu();
  std::vector<Tensor> parts;
  int64_t end = 0;
  const auto pad = [&](int64_t positions) {
    parts.push_back(torch::zeros({positions, q.size(0) * q.size(2)}, x.options()));
  };
  for (int64_t b = 0; b < f.rows.count; ++b) {
    const int64_t at = offsets[b].item<int64_t>(), n = lengths[b].item<int64_t>();
    pad(at - end);
    const Row row{q.narrow(1, at, n),
                  k.narrow(1, at, n),
                  v.narrow(1, at, n),
                  slots[at].item<int64_t>() >> 24,
                  n,
                  f.valid.defined() ? f.valid.narrow(0, at, n) : Tensor()};
    parts.push_back(mix_reference(row, f).transpose(0, 1).reshape({n, -1}));
    end = at + n;
  }
  pad(T - end);
  return torch::cat(parts);
}

namespace {

// The first `reach` positions of each row on a grid of their own.
struct Head {
  Tensor x;
  Rows rows;
};

Head cut_heads(const Tensor& x, const Rows& rows, int64_t reach) {
  const Tensor at = (rows.offsets.narrow(0, 0, rows.count).to(torch::kLong).unsqueeze(1) +
                     torch::arange(reach, rows.offsets.options().dtype(torch::kLong)))
                        .clamp_max(rows.positions - 1)
                        .flatten();
  Head head{x.index_select(0, at), rows};
  Rows& r = head.rows;
  r.offsets = torch::arange(rows.count + 1, rows.offsets.options()) * reach;
  r.lengths = rows.lengths.clamp_max(reach);
  r.slots = rows.slots.index_select(0, at);
  r.positions = rows.count * reach;
  r.longest = r.pitch = reach;
  return head;
}

}  // namespace

Tensor attend_first(const Tensor& x, const Forward& f, const Linear& q, const Linear& k, const Linear& v,
                    int64_t heads, int64_t reach, const Dropout& dropout) {
  const int64_t B = f.rows.count;
  const Tensor query = q.product(take_rows(x, f.first_positions()), f).view({B, heads, -1});
  const Head seen = reach > 0 && reach < f.rows.longest ? cut_heads(x, f.rows, reach) : Head{x, f.rows};
  const Tensor kv = project(seen.x, {k.weight, v.weight}, f.copies).view({seen.x.size(0), 2, heads, -1});
  Dropout drop = dropout;
  if (drop.active()) drop.slots = seen.rows.slots;
  return attention_first({query, kv, seen.rows, drop}).reshape({B, -1});
}

}  // namespace lra
