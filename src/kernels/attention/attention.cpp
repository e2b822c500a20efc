#include "kernels/attention/attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/attention/attention_cpu.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/attention/attention_library.h"
#include "kernels/scratch.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

template <class T>
void set_dropout(AttentionHead<T>& head, const Dropout& dropout, int64_t position, int64_t heads, int64_t h) {
  if (!dropout.active()) return;
  const DropoutDraw draw = dropout.draw();
  head.seed = draw.seed;
  head.stream = dropout_stream(draw.site, *draw.step);
  head.first = dropout_attention_position(draw.slots[position] >> 24, heads, h, 0);
  head.rate = draw.rate;
}

struct CpuProblem {
  Tensor qkv, out, lse;  // [T, 3, H, P], [T, H, P], [H, T]
  Rows rows;
  Dropout dropout;
  bool causal;

  int64_t heads() const { return qkv.size(2); }
  int64_t width() const { return qkv.size(3); }
  int64_t stride() const { return heads() * width(); }  // of `out`; three times that of `qkv`
  int64_t offset(int64_t row) const { return rows.offsets.const_data_ptr<int32_t>()[row]; }
  int64_t input_offset(int64_t row, int64_t head) const {
    return offset(row) * 3 * stride() + head * width();
  }
  int64_t output_offset(int64_t row, int64_t head) const { return offset(row) * stride() + head * width(); }

  template <class T>
  AttentionHead<T> head(int64_t row, int64_t h) {
    AttentionHead<T> head{};
    head.q = qkv.const_data_ptr<T>() + input_offset(row, h);
    head.k = head.q + stride();
    head.v = head.k + stride();
    head.out = out.mutable_data_ptr<T>() + output_offset(row, h);
    head.lse = lse.mutable_data_ptr<T>() + h * rows.positions + offset(row);
    head.length = head.queries = rows.lengths.const_data_ptr<int32_t>()[row];
    head.width = width();
    head.stride = 3 * stride();
    head.out_stride = stride();
    head.causal = causal;
    head.scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(width())));
    set_dropout(head, dropout, offset(row), heads(), h);
    return head;
  }
};

template <class T>
void zero_padding(T* at, int64_t from, int64_t to, int64_t width, int64_t stride) {
  for (int64_t i = from; i < to; ++i) std::fill_n(at + i * stride, width, T(0));
}

template <class T, class F>
void for_each_head(CpuProblem& p, const F& f) {
  parallel_tasks(p.rows.count * p.heads(), [&](int64_t task) {
    const int64_t row = task / p.heads(), h = task % p.heads();
    const AttentionHead<T> head = p.head<T>(row, h);
    f(row, h, head, scratch_of<T>(attention_scratch(head.length, head.width)));
  });
}

template <class T>
void forward_cpu(CpuProblem& p) {
  for_each_head<T>(p, [&](int64_t row, int64_t, const AttentionHead<T>& head, T* scratch) {
    attention_forward_cpu(head, scratch);
    zero_padding(head.out, head.length, p.offset(row + 1) - p.offset(row), head.width, head.out_stride);
  });
}

template <class T>
void backward_cpu(CpuProblem& p, const Tensor& d_out, Tensor& d_qkv) {
  for_each_head<T>(p, [&](int64_t row, int64_t h, const AttentionHead<T>& head, T* scratch) {
    T* d_q = d_qkv.mutable_data_ptr<T>() + p.input_offset(row, h);
    const AttentionHeadGradient<T> gradient{d_out.const_data_ptr<T>() + p.output_offset(row, h), d_q,
                                            d_q + p.stride(), d_q + 2 * p.stride()};
    attention_backward_cpu(head, gradient, scratch);
    for (T* d : {gradient.d_q, gradient.d_k, gradient.d_v}) {
      zero_padding(d, head.length, p.offset(row + 1) - p.offset(row), head.width, head.stride);
    }
  });
}

class CpuAttention : public torch::autograd::Function<CpuAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Rows& rows, const Dropout& dropout,
                        bool causal) {
    const int64_t T = qkv.size(0), H = qkv.size(2), P = qkv.size(3);
    CpuProblem p{qkv.contiguous(),
                 torch::empty({T, H, P}, qkv.options()),
                 torch::empty({H, T}, qkv.options()),
                 rows,
                 dropout,
                 causal};
    qkv.scalar_type() == torch::kDouble ? forward_cpu<double>(p) : forward_cpu<float>(p);
    context->save_for_backward({p.qkv, p.out, p.lse});
    context->saved_data["causal"] = causal;
    save_rows(*context, rows);
    save_dropout(*context, dropout);
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    CpuProblem p{saved[0],
                 saved[1],
                 saved[2],
                 saved_rows(*context),
                 saved_dropout(*context),
                 context->saved_data["causal"].toBool()};
    const Tensor d_out = gradients[0].contiguous();
    Tensor d_qkv = torch::empty_like(p.qkv);
    p.qkv.scalar_type() == torch::kDouble ? backward_cpu<double>(p, d_out, d_qkv)
                                          : backward_cpu<float>(p, d_out, d_qkv);
    return {d_qkv, {}, {}, {}};
  }
};

// One query a row.
struct CpuFirst {
  Tensor q, kv, out, lse;  // [B, H, P], [T, 2, H, P], [B, H, P], [B, H]
  Rows rows;
  Dropout dropout;

  int64_t heads() const { return q.size(1); }
  int64_t width() const { return q.size(2); }
  int64_t offset(int64_t row) const { return rows.offsets.const_data_ptr<int32_t>()[row]; }
  int64_t query_offset(int64_t row, int64_t h) const { return (row * heads() + h) * width(); }
  int64_t key_offset(int64_t row, int64_t h) const { return (offset(row) * 2 * heads() + h) * width(); }

  template <class T, class F>
  void for_each_head(const F& f) {
    parallel_tasks(rows.count, [&](int64_t row) {
      for (int64_t h = 0; h < heads(); ++h) {
        AttentionHead<T> head{};
        head.q = q.const_data_ptr<T>() + query_offset(row, h);
        head.k = kv.const_data_ptr<T>() + key_offset(row, h);
        head.v = head.k + heads() * width();
        head.out = out.mutable_data_ptr<T>() + query_offset(row, h);
        head.lse = lse.mutable_data_ptr<T>() + row * heads() + h;
        head.queries = 1;
        head.length = rows.lengths.const_data_ptr<int32_t>()[row];
        head.width = width();
        head.stride = 2 * heads() * width();
        head.out_stride = heads() * width();
        head.scale = static_cast<T>(1.0 / std::sqrt(static_cast<double>(width())));
        set_dropout(head, dropout, offset(row), heads(), h);
        f(row, h, head, scratch_of<T>(attention_scratch(head.length, head.width)));
      }
    });
  }

  template <class T>
  void forward() {
    for_each_head<T>([](int64_t, int64_t, const AttentionHead<T>& head, T* scratch) {
      attention_forward_cpu(head, scratch);
    });
  }

  template <class T>
  void backward(const Tensor& d_out, Tensor& d_q, Tensor& d_kv) {
    for_each_head<T>([&](int64_t row, int64_t h, const AttentionHead<T>& head, T* scratch) {
      T* d_k = d_kv.mutable_data_ptr<T>() + key_offset(row, h);
      const AttentionHeadGradient<T> gradient{d_out.const_data_ptr<T>() + query_offset(row, h),
                                              d_q.mutable_data_ptr<T>() + query_offset(row, h), d_k,
                                              d_k + heads() * width()};
      attention_backward_cpu(head, gradient, scratch);
    });
  }
};

class CpuAttentionFirst : public torch::autograd::Function<CpuAttentionFirst> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& kv, const Rows& rows,
                        const Dropout& dropout) {
    CpuFirst p{q.contiguous(),
               kv.contiguous(),
               torch::empty_like(q, at::MemoryFormat::Contiguous),
               torch::empty({q.size(0), q.size(1)}, q.options()),
               rows,
               dropout};
    q.scalar_type() == torch::kDouble ? p.forward<double>() : p.forward<float>();
    context->save_for_backward({p.q, p.kv, p.out, p.lse});
    save_rows(*context, rows);
    save_dropout(*context, dropout);
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    CpuFirst p{saved[0], saved[1], saved[2], saved[3], saved_rows(*context), saved_dropout(*context)};
    const Tensor d_out = gradients[0].contiguous();
    Tensor d_q = torch::empty_like(p.q), d_kv = torch::zeros_like(p.kv);
    p.q.scalar_type() == torch::kDouble ? p.backward<double>(d_out, d_q, d_kv)
                                        : p.backward<float>(d_out, d_q, d_kv);
    return {d_q, d_kv, {}, {}};
  }
};

// The kept weights of dropout for one row, written out: [H, L, L].
Tensor dropout_mask(const Dropout& dropout, int64_t row, int64_t H, int64_t L) {
  const DropoutRate rate = dropout_rate(dropout.p);
  const uint64_t stream = dropout_stream(dropout.site, dropout.step.item<int64_t>());
  Tensor mask = torch::zeros({H, L, L}, torch::kDouble);
  auto m = mask.accessor<double, 3>();
  for (int64_t h = 0; h < H; ++h) {
    for (int64_t i = 0; i < L; ++i) {
      for (int64_t j = 0; j < L; ++j) {
        const uint64_t position = dropout_attention_position(row, H, h, i) + static_cast<uint64_t>(j);
        const uint32_t bits =
            dropout_bits(dropout_block(dropout.seed, stream, position / 8), static_cast<int>(position % 8));
        if (bits >= rate.threshold) m[h][i][j] = rate.scale;
      }
    }
  }
  return mask;
}

}  // namespace

Tensor attention(const AttentionInput& in) {
  TORCH_CHECK(!in.valid.defined(), "[attention] rows with padding in them need attention_unfused");
  if (attention_kernels_serve(in)) return attention_by_kernels(in);
  if (in.qkv.is_cpu()) return CpuAttention::apply(in.qkv, in.rows, in.dropout, in.causal);
  return in.qkv.scalar_type() == torch::kDouble ? attention_reference(in) : attention_library(in);
}

Tensor attention_first(const FirstAttentionInput& in) {
  if (in.q.is_cpu()) return CpuAttentionFirst::apply(in.q, in.kv, in.rows, in.dropout);
  return in.q.scalar_type() == torch::kDouble ? attention_first_reference(in) : attention_first_library(in);
}

Tensor attention_first_reference(const FirstAttentionInput& in) {
  const Tensor first = in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong);
  const Tensor q = torch::zeros_like(in.kv.select(1, 0)).index_copy(0, first, in.q);
  const Tensor qkv = torch::cat({q.unsqueeze(1), in.kv}, 1);
  return attention_reference({qkv, in.rows, in.dropout}).index_select(0, first);
}

Tensor attention_reference(const AttentionInput& in) {
  const int64_t H = in.qkv.size(2), P = in.qkv.size(3);
  const Tensor offsets = in.rows.offsets.cpu(), lengths = in.rows.lengths.cpu();
  std::vector<Tensor> parts;
  const auto pad = [&](int64_t positions) {
    parts.push_back(torch::zeros({positions, H, P}, in.qkv.options()));
  };
  int64_t end = 0;
  for (int64_t b = 0; b < in.rows.count; ++b) {
    const int64_t at = offsets[b].item<int64_t>(), L = lengths[b].item<int64_t>();
    pad(at - end);
    const auto heads = in.qkv.narrow(0, at, L).permute({1, 2, 0, 3}).unbind(0);  // 3 × [H, L, P]
    Tensor scores = torch::matmul(heads[0], heads[1].transpose(1, 2)) / std::sqrt(static_cast<double>(P));
    if (in.valid.defined()) {
      const Tensor valid = in.valid.narrow(0, at, L);
      scores = scores.masked_fill(~valid, -std::numeric_limits<double>::infinity())
                   .masked_fill(~valid.view({L, 1}), 0);
    }
    if (in.causal) {
      const Tensor later = torch::ones({L, L}, scores.options().dtype(torch::kBool)).triu(1);
      scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
    }
    Tensor weights = torch::softmax(scores, -1);
    if (in.dropout.active()) {
      const int64_t row = in.dropout.slots[at].item<int64_t>() >> 24;
      weights = weights * dropout_mask(in.dropout, row, H, L).to(weights.options());
    }
    parts.push_back(torch::matmul(weights, heads[2]).transpose(0, 1));  // [L, H, P]
    end = at + L;
  }
  pad(in.qkv.size(0) - end);
  return torch::cat(parts);
}

std::string attention_implementation(const torch::Device& device, torch::Dtype type, bool full,
                                     double dropout) {
  if (device.is_cpu()) return "lra: blocked, fused with counter dropout, no L×L tensor";
  const std::string library = attention_library_name(type, full, dropout);
  return attention_kernels_serve(type, kAttentionWidest, dropout)
             ? "lra for heads of up to 64, counter dropout; else " + library
             : library;
}

}  // namespace lra
