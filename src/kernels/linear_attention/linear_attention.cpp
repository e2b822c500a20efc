#include "kernels/linear_attention/linear_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/attention/attention_library.h"
#include "kernels/linear_attention/linear_attention_cpu.h"
#include "kernels/linear_attention/linear_attention_gpu.h"
#include "kernels/portable.h"
#include "kernels/scratch.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Features {
  FeatureMap map = FeatureMap::kElu;
  Tensor projection;  // [M, P] times c; empty where the map has none
  bool causal = false;
};

// Tensors of the two passes. q: positions `q_stride` apart; k and v within the same tensor, `stride` apart.
struct Problem {
  Tensor q, kv;  // [Q, ·, H, P] and [T, ·, H, P]: queries first, k and v last in dimension 1
  Tensor out, denominator, state;  // [Q, H, P], [H, Q], [B, H, ·]
  Rows rows;
  Features features;
  bool first;  // one query a row

  int64_t heads() const { return kv.size(2); }
  int64_t width() const { return kv.size(3); }
  int64_t count() const { return features.projection.numel() > 0 ? features.projection.size(0) : width(); }
  int64_t offset(int64_t row) const { return rows.offsets.const_data_ptr<int32_t>()[row]; }
  int64_t length(int64_t row) const { return rows.lengths.const_data_ptr<int32_t>()[row]; }
  int64_t query_offset(int64_t row) const { return first ? row : offset(row); }

  // Where the values of (row, head) begin in a tensor laid out as q, as k, and as out.
  int64_t at_q(int64_t row, int64_t h) const { return query_offset(row) * q.stride(0) + h * width(); }
  int64_t at_k(int64_t row, int64_t h) const {
    return offset(row) * kv.stride(0) + (kv.size(1) - 2) * kv.stride(1) + h * width();
  }
  int64_t at_out(int64_t row, int64_t h) const { return (query_offset(row) * heads() + h) * width(); }

  template <class T>
  LinearAttentionHead<T> head(int64_t row, int64_t h) const {
    LinearAttentionHead<T> head{};
    head.q = q.const_data_ptr<T>() + at_q(row, h);
    head.k = kv.const_data_ptr<T>() + at_k(row, h);
    head.v = head.k + kv.stride(1);
    head.out = out.mutable_data_ptr<T>() + at_out(row, h);
    head.denominator = denominator.mutable_data_ptr<T>() + h * denominator.size(1) + query_offset(row);
    head.state = state.mutable_data_ptr<T>() + (row * heads() + h) * state.size(2);
    head.length = length(row);
    head.queries = first ? 1 : head.length;
    head.width = width();
    head.q_stride = q.stride(0), head.stride = kv.stride(0), head.out_stride = heads() * width();
    const bool softmax = features.map == FeatureMap::kSoftmax;
    head.features = {static_cast<int>(features.map), count(),
                     softmax ? features.projection.const_data_ptr<T>() : nullptr,
                     static_cast<T>(0.5 / std::sqrt(static_cast<double>(width()))),
                     static_cast<T>(features.map == FeatureMap::kElu ? 1e-6 : 0)};
    head.causal = features.causal;
    return head;
  }

  template <class T, class F>
  void for_each_head(const F& f) const {
    parallel_tasks(rows.count * heads(), [&](int64_t task) {
      const int64_t row = task / heads(), h = task % heads();
      const LinearAttentionHead<T> one = head<T>(row, h);
      f(row, h, one, scratch_of<T>(linear_attention_scratch(one.length, count(), width())));
    });
  }

  template <class T>
  void forward() const {
    for_each_head<T>([&](int64_t, int64_t, const LinearAttentionHead<T>& head, T* scratch) {
      linear_attention_forward_cpu(head, scratch);
    });
  }

  template <class T>
  void backward(const Tensor& d_out, const Tensor& d_q, const Tensor& d_kv) const {
    for_each_head<T>([&](int64_t row, int64_t h, const LinearAttentionHead<T>& head, T* scratch) {
      T* d_k = d_kv.mutable_data_ptr<T>() + at_k(row, h);
      const LinearAttentionHeadGradient<T> gradient{d_out.const_data_ptr<T>() + at_out(row, h),
                                                    d_q.mutable_data_ptr<T>() + at_q(row, h), d_k,
                                                    d_k + kv.stride(1)};
      linear_attention_backward_cpu(head, gradient, scratch);
    });
  }
};

// Positions outside the rows are zero, in the output and in gradients.
Tensor result(const Rows& rows, bool first, torch::IntArrayRef shape, const Tensor& like) {
  return first || rows.full ? torch::empty(shape, like.options()) : torch::zeros(shape, like.options());
}

Problem make_problem(const Tensor& q, const Tensor& kv, const Rows& rows, const Features& features) {
  Problem p{q, kv, {}, {}, {}, rows, features, q.dim() == 3};
  p.out = result(rows, p.first, {q.size(0), kv.size(2), kv.size(3)}, kv);
  p.denominator = torch::empty({kv.size(2), q.size(0)}, kv.options());
  const int64_t state = features.causal ? 0 : linear_attention_state(p.count(), p.width());
  p.state = torch::empty({rows.count, kv.size(2), state}, kv.options());
  return p;
}

void save(AutogradContext* context, const Problem& p) {
  context->save_for_backward({p.q, p.kv, p.out, p.denominator, p.state, p.features.projection});
  save_rows(*context, p.rows);
  context->saved_data["map"] = static_cast<int64_t>(p.features.map);
  context->saved_data["causal"] = p.features.causal;
  context->saved_data["first"] = p.first;
}

Problem saved(AutogradContext* context) {
  const auto t = context->get_saved_variables();
  const auto map = static_cast<FeatureMap>(context->saved_data["map"].toInt());
  const Features features{map, t[5], context->saved_data["causal"].toBool()};
  return {
      t[0], t[1], t[2], t[3], t[4], saved_rows(*context), features, context->saved_data["first"].toBool()};
}

void run_forward(const Problem& p) {
  p.kv.scalar_type() == torch::kDouble ? p.forward<double>() : p.forward<float>();
}
void run_backward(const Problem& p, const Tensor& d_out, const Tensor& d_q, const Tensor& d_kv) {
  p.kv.scalar_type() == torch::kDouble ? p.backward<double>(d_out, d_q, d_kv)
                                       : p.backward<float>(d_out, d_q, d_kv);
}

class CpuLinearAttention : public torch::autograd::Function<CpuLinearAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Rows& rows,
                        const Features& features) {
    const Tensor qkv = input.contiguous();
    const Problem p = make_problem(qkv, qkv, rows, features);
    run_forward(p);
    save(context, p);
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Problem p = saved(context);
    const Tensor d = result(p.rows, false, p.kv.sizes(), p.kv);
    run_backward(p, gradients[0].contiguous(), d, d);
    return {d, {}, {}};
  }
};

class CpuLinearAttentionFirst : public torch::autograd::Function<CpuLinearAttentionFirst> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& kv, const Rows& rows,
                        const Features& features) {
    const Problem p = make_problem(q.contiguous(), kv.contiguous(), rows, features);
    run_forward(p);
    save(context, p);
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Problem p = saved(context);
    const Tensor d_q = torch::empty_like(p.q), d_kv = result(p.rows, false, p.kv.sizes(), p.kv);
    run_backward(p, gradients[0].contiguous(), d_q, d_kv);
    return {d_q, d_kv, {}, {}};
  }
};

Features cpu_features(FeatureMap map, const Tensor& projection, bool causal, const Tensor& like) {
  if (map != FeatureMap::kSoftmax) return {map, torch::empty({0}, like.options()), causal};
  const double c = std::pow(static_cast<double>(projection.size(1)), -0.25);
  return {map, (projection * c).to(like.scalar_type()).contiguous(), causal};
}

bool use_kernels(const Tensor& x) { return kLinearAttentionUsesKernels && on_device(x); }

// φ by its definition; x: [H, n, P].
Tensor features_reference(FeatureMap map, const Tensor& projection, const Tensor& x) {
  if (map == FeatureMap::kElu) return torch::elu(x) + 1;
  if (map == FeatureMap::kRelu) return torch::relu(x) + 1e-3;
  const Tensor scaled = x * std::pow(static_cast<double>(x.size(2)), -0.25);
  return torch::exp(torch::matmul(scaled, projection.to(x.options()).t()) -
                    scaled.square().sum(-1, /*keepdim=*/true) / 2);
}

}  // namespace

Tensor linear_attention(const LinearAttentionInput& in) {
  if (use_kernels(in.qkv) && linear_attention_gpu_can(in)) return linear_attention_gpu(in);
  if (!on_cpu_path(in.qkv)) return linear_attention_grid(in);
  return CpuLinearAttention::apply(in.qkv, in.rows, cpu_features(in.map, in.projection, in.causal, in.qkv));
}

Tensor linear_attention_first(const FirstLinearAttentionInput& in) {
  if (use_kernels(in.q) && linear_attention_gpu_can(in)) return linear_attention_first_gpu(in);
  if (!on_cpu_path(in.q)) return linear_attention_first_grid(in);
  return CpuLinearAttentionFirst::apply(in.q, in.kv, in.rows,
                                        cpu_features(in.map, in.projection, false, in.q));
}

Tensor linear_attention_reference(const LinearAttentionRow& row) {
  Tensor weights = torch::matmul(features_reference(row.map, row.projection, row.q),
                                 features_reference(row.map, row.projection, row.k).transpose(1, 2));
  if (row.causal) weights = weights.tril();
  const double epsilon = row.map == FeatureMap::kElu ? 1e-6 : 0;
  return torch::matmul(weights / (weights.sum(-1, /*keepdim=*/true) + epsilon), row.v);
}

}  // namespace lra
