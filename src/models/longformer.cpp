// Longformer: "Longformer: The Long-Document Transformer" (Beltagy, Peters, Cohan, 2020).
//
//   A_ij = softmax over j ∈ window(i) ∪ {CLS} of q_i·k_j / √P
//   window(i) = { j : −⌊(w−1)/2⌋ ≤ j − i ≤ ⌊w/2⌋ }                      w = 512;   causal: and j ≤ i
//   y_i = dropout(A) v W_o
//   CLS, the global token:  y_0 = softmax(q'_0 k'ᵀ / √P) v' W_o          over the whole row, by projections
//                                                                        q', k', v' of its own
//
// Time 2·H·L·w·P, memory O(L).
//
// Without CLS pooling, in the causal form, or with `global_cls` off there is no global token, and the three
// projections that only it would use are not made.
//
// Differences: the paper's dilated windows and windows that grow from layer to layer are left out, as in the
// arena's code. That code makes all six projections but never sets the global mask, so CLS is an ordinary
// position there (`global_cls` off) and three of them are dead weight.
#include "kernels/attention/attention.h"
#include "kernels/interval_attention/interval_blocks.h"
#include "models/model.h"
#include "nn/qkv_mixer.h"

namespace lra {
namespace {

constexpr int64_t kQueries = 64;  // of a block: what a block computes in vain is kQueries in w + kQueries

struct LongformerOptions : ModelOptions {
  int64_t window = 512;
  bool global_cls = true;
  void visit(Fields& f) override {
    f.integer("window", window, 1, 1 << 20, "positions a query sees around it (w), itself included");
    f.flag("global_cls", global_cls, "CLS sees all and is seen by all; in the arena's code it is not");
  }
};

bool has_global(const EncoderConfig& c, const LongformerOptions& o) {
  return o.global_cls && c.cls() && !c.causal;
}

class WindowAttention : public QkvMixer {
 public:
  WindowAttention(const EncoderConfig& c, const LongformerOptions& o, int64_t index)
      : QkvMixer(c, index),
        global_(has_global(c, o)),
        left_((o.window - 1) / 2),
        right_(c.causal ? 0 : o.window / 2),
        global_site_(block_site(index, 4)) {
    if (!global_) return;
    global_q_ = register_module("global_q", projection(c.width, c.qkv_width));
    global_k_ = register_module("global_k", projection(c.width, c.qkv_width));
    global_v_ = register_module("global_v", projection(c.width, c.qkv_width));
  }

  Tensor forward(const Tensor& x, const Forward& f) const override {
    if (!global_) return QkvMixer::forward(x, f);
    const Tensor local = core(x, f);  // [T, H·P], of no meaning at CLS
    return o_->product(local.index_copy(0, f.first_positions(), global(x, f)), f);
  }
  Tensor forward_first(const Tensor& x, const Forward& f) const override {
    return global_ ? o_->product(global(x, f), f) : QkvMixer::forward_first(x, f);
  }
  Tensor reference(const Tensor& x, const Forward& f) const override {
    if (!global_) return QkvMixer::reference(x, f);
    const auto heads = [&](const Linear& w) { return w.reference(x).view({x.size(0), 1, heads_, -1}); };
    const Tensor qkv = torch::cat({heads(*global_q_), heads(*global_k_), heads(*global_v_)}, 1);
    const Tensor seen = attention_reference({qkv, f.rows, f.dropout(dropout_, global_site_)});  // [T, H, P]
    const Tensor first = f.first_positions();
    const Tensor global = seen.index_select(0, first).reshape({f.rows.count, -1});
    return o_->reference(core_reference(x, f).index_copy(0, first, global));
  }

 protected:
  Tensor mix(const Tensor& qkv, const Forward& f) const override {
    const int64_t size = std::min(kQueries, f.rows.longest), lead = global_ ? 1 : 0;
    const RowBlocks rows = row_blocks(f.rows, size);
    const Tensor start = rows.start + lead;
    IntervalBlocks blocks{.size = size,
                          .first = torch::maximum(rows.first, start),
                          .last = rows.last,
                          .slots = {{.column = 0, .width = lead},
                                    {.column = lead, .width = size + left_ + right_, .banded = true}},
                          .low = -left_,
                          .high = right_};
    const Tensor cls = rows.start.expand_as(rows.first);
    blocks.begin = slot_table({cls, torch::maximum(rows.first - left_, start)});
    blocks.end = slot_table({cls + lead, torch::minimum(rows.last + right_, rows.end)});
    return interval_attention({.qkv = qkv, .rows = f.rows, .blocks = {blocks}, .dropout = weight_dropout(f)})
        .out;
  }

  Tensor mix_reference(const Row& row, const Forward& f) const override {
    const int64_t lead = global_ ? 1 : 0;
    const auto column = [&](int64_t, int64_t i, int64_t j) {
      if (global_ && j == 0) return int64_t{0};
      const int64_t begin = std::max(i / kQueries * kQueries - left_, lead);
      return j - i >= -left_ && j - i <= right_ ? lead + j - begin : -1;
    };
    return dense_attention(row.q, row.k, row.v, column, weight_dropout(f), row.number);
  }

  int64_t first_reach() const override { return right_ + 1; }

 private:
  // What CLS gets, [B, H·P].
  Tensor global(const Tensor& x, const Forward& f) const {
    return attend_first(x, f, *global_q_, *global_k_, *global_v_, heads_, 0,
                        f.dropout(dropout_, global_site_));
  }

  std::shared_ptr<Linear> global_q_, global_k_, global_v_;
  bool global_;
  int64_t left_, right_;
  uint64_t global_site_;
};

class Longformer : public Model {
 public:
  const ModelInfo& info() const override {
    static const ModelInfo info{
        .name = "longformer",
        .title = "Longformer",
        .paper = "Beltagy, Peters, Cohan, Longformer: The Long-Document Transformer, 2020",
        .formula =
            "softmax(q kᵀ / √P) v over a window of w keys around the query and CLS; CLS sees the whole "
            "row, by projections of its own",
        .cost = "time O(L·w), memory O(L)",
        .causal = true,
        .differences =
            "No dilated and no growing windows. CLS is global as the paper has it; in the arena's code it is "
            "an ordinary position (global_cls off), and the three projections made for it are never used.",
    };
    return info;
  }
  std::unique_ptr<ModelOptions> options() const override { return std::make_unique<LongformerOptions>(); }
  std::unique_ptr<ModelOptions> small_options() const override {
    auto o = std::make_unique<LongformerOptions>();
    o->window = 10;
    return o;
  }
  std::shared_ptr<Block> block(const EncoderConfig& c, const ModelOptions& o, int64_t index) const override {
    const auto& options = dynamic_cast<const LongformerOptions&>(o);
    return std::make_shared<StandardBlock>(c, index, "attention",
                                           std::make_shared<WindowAttention>(c, options, index));
  }
  int64_t block_parameters(const EncoderConfig& c, const ModelOptions& o) const override {
    const int64_t projections = has_global(c, dynamic_cast<const LongformerOptions&>(o)) ? 7 : 4;
    return feed_forward_parameters(c) + projections * c.width * c.qkv_width;
  }
};

const Registered<Model> longformer(std::make_unique<Longformer>(), LRA_HERE);

}  // namespace
}  // namespace lra
