#include "kernels/attention/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/attention/attention_cpu.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Fills in head (b, h) of the tensors; `out` and `lse` belong to the forward pass.
struct CpuProblem {
  Tensor q, k, v, out, lse, lengths;
  double dropout;
  uint64_t site;
  DropoutKey key;

  int64_t rows() const { return q.size(0); }
  int64_t length() const { return q.size(1); }
  int64_t heads() const { return q.size(2); }
  int64_t width() const { return q.size(3); }
  int64_t real_length(int64_t row) const {
    return lengths.defined() ? lengths.const_data_ptr<int32_t>()[row] : length();
  }
  int64_t offset(int64_t row, int64_t head) const { return (row * length() * heads() + head) * width(); }

  template <class T>
  AttentionHead<T> head(int64_t row, int64_t h) {
    const int64_t at = offset(row, h);
    AttentionHead<T> head{};
    head.q = q.const_data_ptr<T>() + at;
    head.k = k.const_data_ptr<T>() + at;
    head.v = v.const_data_ptr<T>() + at;
    head.out = out.mutable_data_ptr<T>() + at;
    head.lse = lse.mutable_data_ptr<T>() + (row * heads() + h) * length();
    head.length = real_length(row);
    head.width = width();
    head.stride = heads() * width();
    head.scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(width())));
    if (dropout > 0) {
      head.seed = key.seed;
      head.stream = dropout_stream(site, *key.step.const_data_ptr<int64_t>());
      head.first = dropout_attention_position(key.first_row + row, heads(), h, 0);
      head.rate = dropout_rate(dropout);
    }
    return head;
  }
};

template <class T>
void zero_padding(T* at, int64_t from, int64_t to, int64_t width, int64_t stride) {
  for (int64_t i = from; i < to; ++i) std::fill_n(at + i * stride, width, T(0));
}

template <class T, class F>
void for_each_head(CpuProblem& p, const F& f) {
  const int64_t scratch_size = attention_scratch(p.length(), p.width());
  parallel_tasks(p.rows() * p.heads(), [&](int64_t task) {
    thread_local std::vector<T> scratch;
    if (static_cast<int64_t>(scratch.size()) < scratch_size) scratch.resize(static_cast<size_t>(scratch_size));
    const int64_t row = task / p.heads(), h = task % p.heads();
    f(row, h, p.head<T>(row, h), scratch.data());
  });
}

template <class T>
void forward_cpu(CpuProblem& p) {
  for_each_head<T>(p, [&](int64_t, int64_t, const AttentionHead<T>& head, T* scratch) {
    attention_forward_cpu(head, scratch);
    zero_padding(head.out, head.length, p.length(), head.width, head.stride);
  });
}

template <class T>
void backward_cpu(CpuProblem& p, const Tensor& d_out, Tensor& dq, Tensor& dk, Tensor& dv) {
  for_each_head<T>(p, [&](int64_t row, int64_t h, const AttentionHead<T>& head, T* scratch) {
    const int64_t at = p.offset(row, h);
    const AttentionHeadGradient<T> gradient{d_out.const_data_ptr<T>() + at, dq.mutable_data_ptr<T>() + at,
                                            dk.mutable_data_ptr<T>() + at, dv.mutable_data_ptr<T>() + at};
    attention_backward_cpu(head, gradient, scratch);
    for (T* d : {gradient.d_q, gradient.d_k, gradient.d_v}) {
      zero_padding(d, head.length, p.length(), head.width, head.stride);
    }
  });
}

class CpuAttention : public torch::autograd::Function<CpuAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& lengths,
                        double dropout, int64_t site, int64_t seed, const Tensor& step, int64_t first_row) {
    CpuProblem p{q.contiguous(), k.contiguous(), v.contiguous(), torch::empty_like(q, torch::MemoryFormat::Contiguous),
                 torch::empty({q.size(0), q.size(2), q.size(1)}, q.options()), lengths, dropout,
                 static_cast<uint64_t>(site), {static_cast<uint64_t>(seed), step, first_row}};
    q.scalar_type() == torch::kDouble ? forward_cpu<double>(p) : forward_cpu<float>(p);
    context->save_for_backward({p.q, p.k, p.v, p.out, p.lse, lengths, step});
    context->saved_data["dropout"] = dropout;
    context->saved_data["site"] = site;
    context->saved_data["seed"] = seed;
    context->saved_data["first_row"] = first_row;
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    CpuProblem p{saved[0], saved[1], saved[2], saved[3], saved[4], saved[5], context->saved_data["dropout"].toDouble(),
                 static_cast<uint64_t>(context->saved_data["site"].toInt()),
                 {static_cast<uint64_t>(context->saved_data["seed"].toInt()), saved[6],
                  context->saved_data["first_row"].toInt()}};
    const Tensor d_out = gradients[0].contiguous();
    Tensor dq = torch::empty_like(p.q), dk = torch::empty_like(p.k), dv = torch::empty_like(p.v);
    p.q.scalar_type() == torch::kDouble ? backward_cpu<double>(p, d_out, dq, dk, dv)
                                        : backward_cpu<float>(p, d_out, dq, dk, dv);
    return {dq, dk, dv, {}, {}, {}, {}, {}, {}};
  }
};

Tensor key_mask(const AttentionInput& in) {  // [B, 1, 1, L], true = real
  const Tensor positions = torch::arange(in.q.size(1), in.lengths.options());
  return (positions.unsqueeze(0) < in.lengths.unsqueeze(1)).view({in.q.size(0), 1, 1, in.q.size(1)});
}

Tensor attention_library(const AttentionInput& in) {
  std::optional<Tensor> mask;
  if (in.lengths.defined()) mask = key_mask(in);
  const Tensor out = at::scaled_dot_product_attention(in.q.transpose(1, 2), in.k.transpose(1, 2), in.v.transpose(1, 2),
                                                      mask, in.dropout);
  return out.transpose(1, 2);
}

// The kept weights of dropout, written out: [B, H, L, L].
Tensor attention_dropout_mask(const AttentionInput& in) {
  const int64_t B = in.q.size(0), L = in.q.size(1), H = in.q.size(2);
  const DropoutRate rate = dropout_rate(in.dropout);
  const uint64_t stream = dropout_stream(in.site, in.key.step.item<int64_t>());
  Tensor mask = torch::zeros({B, H, L, L}, torch::kDouble);
  auto m = mask.accessor<double, 4>();
  for (int64_t b = 0; b < B; ++b) {
    for (int64_t h = 0; h < H; ++h) {
      for (int64_t i = 0; i < L; ++i) {
        for (int64_t j = 0; j < L; ++j) {
          const uint64_t position =
              dropout_attention_position(in.key.first_row + b, H, h, i) + static_cast<uint64_t>(j);
          const uint32_t bits = dropout_bits(philox(in.key.seed, stream, position / 8), static_cast<int>(position % 8));
          if (bits >= rate.threshold) m[b][h][i][j] = rate.scale;
        }
      }
    }
  }
  return mask;
}

}  // namespace

Tensor attention(const AttentionInput& in) {
  if (!in.q.is_cpu()) return attention_library(in);
  static const Tensor no_step = torch::zeros({1}, torch::kLong);
  return CpuAttention::apply(in.q, in.k, in.v, in.lengths, in.dropout, static_cast<int64_t>(in.site),
                             static_cast<int64_t>(in.key.seed), in.dropout > 0 ? in.key.step : no_step, in.key.first_row);
}

Tensor attention_reference(const AttentionInput& in) {
  const Tensor q = in.q.transpose(1, 2), k = in.k.transpose(1, 2), v = in.v.transpose(1, 2);  // [B, H, L, P]
  Tensor scores = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  if (in.lengths.defined()) scores = scores.masked_fill(~key_mask(in), -std::numeric_limits<double>::infinity());
  Tensor weights = torch::softmax(scores, -1);
  if (in.dropout > 0) weights = weights * attention_dropout_mask(in).to(weights.options());
  Tensor out = torch::matmul(weights, v).transpose(1, 2);  // [B, L, H, P]
  if (in.lengths.defined()) {
    out = out * key_mask(in).view({q.size(0), q.size(2), 1, 1}).to(out.options());
  }
  return out;
}

std::string attention_implementation(const torch::Device& device, torch::Dtype dtype, bool padded, bool dropout) {
  if (device.is_cpu()) return "lra: blocked, fused with mask and counter dropout, no L×L tensor";
  if (dtype == torch::kFloat) return "library: memory-efficient SDPA (fp32 has no flash kernel)";
  return padded ? "library: memory-efficient SDPA (flash takes no key mask)"
         : dropout ? "library: flash or cuDNN SDPA with the device generator, reseeded every step"
                   : "library: flash or cuDNN SDPA";
}

}  // namespace lra
