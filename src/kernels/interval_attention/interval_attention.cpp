#include "kernels/interval_attention/interval_attention.h"

#include <cmath>

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/interval_attention/interval_attention_plan.h"
#include "kernels/portable.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PlanHolder : torch::CustomClassHolder {
  explicit PlanHolder(IntervalPlan p) : plan(std::move(p)) {}
  IntervalPlan plan;
};

struct Forms {
  decltype(&interval_forward_fused) forward;
  decltype(&interval_backward_fused) backward;
};
Forms forms(const IntervalPlan& plan, const Tensor& x) {
  if (on_cpu_path(x)) return {interval_forward_fused, interval_backward_fused};
  if (interval_kernels_serve(plan, x)) return {interval_forward_device, interval_backward_device};
  return {interval_forward_gathered, interval_backward_gathered};
}

class IntervalFunction : public torch::autograd::Function<IntervalFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& qkv, const Tensor& side,
                               const IntervalPlan& plan) {
    const Tensor x = qkv.contiguous(), extra = side.numel() > 0 ? side.contiguous() : Tensor();
    const IntervalAttentionOutput y = forms(plan, x).forward(plan, x, extra);
    context->save_for_backward({x, extra, y.out, y.lse});
    context->saved_data["plan"] = c10::IValue::make_capsule(c10::make_intrusive<PlanHolder>(plan));
    context->set_materialize_grads(false);
    return {y.out, y.lse};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto capsule = context->saved_data["plan"].toCapsule();
    const IntervalPlan& plan = static_cast<const PlanHolder&>(*capsule).plan;
    const IntervalAttentionOutput y{saved[2], saved[3]};
    const Tensor d_out = gradients[0].defined() ? gradients[0].contiguous() : torch::zeros_like(y.out);
    const Tensor d_lse = gradients[1].defined() ? gradients[1].contiguous() : Tensor();
    const IntervalGradient d = forms(plan, saved[0]).backward(plan, saved[0], saved[1], y, d_out, d_lse);
    return {d.qkv, d.side, {}};
  }
};

}  // namespace

int64_t IntervalBlocks::columns() const {
  int64_t most = 0;
  for (const auto& s : slots) most = std::max(most, s.column + s.width);
  return most;
}

IntervalAttentionOutput interval_attention(const IntervalAttentionInput& in) {
  TORCH_CHECK(!in.order.defined() || !in.dropout.active(),
              "[interval_attention] dropout on the weights of sorted rows is not defined");
  const double scale = in.scale > 0 ? in.scale : 1.0 / std::sqrt(static_cast<double>(in.qkv.size(3)));
  const Tensor side = in.side.kv.defined() ? in.side.kv : torch::empty({0}, in.qkv.options());
  IntervalPlan plan{in.rows,  in.blocks, in.dropout,    scale,        in.side.at,
                    in.order, in.least,  in.side.pitch, in.spare_self};
  // The kernel reads these as they lie in memory.
  std::vector<Tensor*> tables = {&plan.side_at, &plan.order, &plan.least};
  for (auto& b : plan.blocks) tables.insert(tables.end(), {&b.first, &b.last, &b.begin, &b.end});
  for (Tensor* t : tables) {
    if (!t->defined()) continue;
    TORCH_CHECK(t->scalar_type() == torch::kInt, "[interval_attention] places are int32, found ", t->dtype());
    *t = t->contiguous();
  }
  const variable_list y = IntervalFunction::apply(in.qkv, side, plan);
  return {y[0], y[1]};
}

Tensor dense_attention(const Tensor& q, const Tensor& k, const Tensor& v, const WeightColumn& column,
                       const Dropout& dropout, int64_t row) {
  const int64_t H = q.size(0), n = q.size(1), m = k.size(1);
  Tensor bias = torch::zeros({H, n, m}, torch::kDouble), keep = torch::ones({H, n, m}, torch::kDouble);
  auto b = bias.accessor<double, 3>(), kept = keep.accessor<double, 3>();
  const DropoutRate rate = dropout_rate(dropout.p);
  const uint64_t stream = dropout.active() ? dropout_stream(dropout.site, dropout.step.item<int64_t>()) : 0;
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < m; ++j) {
        const int64_t c = column(h, i, j);
        if (c < 0) {
          b[h][i][j] = -std::numeric_limits<double>::infinity();
        } else if (dropout.active()) {
          const uint64_t position = dropout_attention_position(row, H, h, i) + static_cast<uint64_t>(c);
          const uint32_t bits =
              dropout_bits(dropout_block(dropout.seed, stream, position / 8), static_cast<int>(position % 8));
          kept[h][i][j] = bits >= rate.threshold ? rate.scale : 0;
        }
      }
    }
  }
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(2)));
  const Tensor scores = torch::matmul(q, k.transpose(1, 2)) * scale + bias.to(q.options());
  return torch::matmul(torch::softmax(scores, -1) * keep.to(q.options()), v);
}

}  // namespace lra
