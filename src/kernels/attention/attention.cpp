#include "kernels/attention/attention.h"

#include <ATen/ops/scaled_dot_product_attention.h>
#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/attention/attention_cpu.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct CpuProblem {
  Tensor qkv, out, lse, lengths;  // [B, L, 3, H, P], [B, L, H, P], [B, H, L], [B] or empty
  double dropout;
  uint64_t site;
  DropoutKey key;

  int64_t rows() const { return qkv.size(0); }
  int64_t length() const { return qkv.size(1); }
  int64_t heads() const { return qkv.size(3); }
  int64_t width() const { return qkv.size(4); }
  int64_t stride() const { return heads() * width(); }  // of `out`; three times that of `qkv`
  int64_t input_offset(int64_t row, int64_t head) const {
    return row * length() * 3 * stride() + head * width();
  }
  int64_t output_offset(int64_t row, int64_t head) const {
    return row * length() * stride() + head * width();
  }

  template <class T>
  AttentionHead<T> head(int64_t row, int64_t h) {
    AttentionHead<T> head{};
    head.q = qkv.const_data_ptr<T>() + input_offset(row, h);
    head.k = head.q + stride();
    head.v = head.k + stride();
    head.out = out.mutable_data_ptr<T>() + output_offset(row, h);
    head.lse = lse.mutable_data_ptr<T>() + (row * heads() + h) * length();
    head.length = lengths.numel() > 0 ? lengths.const_data_ptr<int32_t>()[row] : length();
    head.width = width();
    head.stride = 3 * stride();
    head.out_stride = stride();
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

// Working memory of a thread, aligned so that the library's products give the same bits every time.
template <class T>
T* scratch_of(int64_t elements) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  thread_local std::unique_ptr<T, Free> memory;
  thread_local int64_t size = 0;
  if (size < elements) {
    memory.reset(
        static_cast<T*>(std::aligned_alloc(64, (static_cast<size_t>(elements) * sizeof(T) + 63) / 64 * 64)));
    if (!memory) throw std::bad_alloc();
    size = elements;
  }
  return memory.get();
}

template <class T>
void zero_padding(T* at, int64_t from, int64_t to, int64_t width, int64_t stride) {
  for (int64_t i = from; i < to; ++i) std::fill_n(at + i * stride, width, T(0));
}

template <class T, class F>
void for_each_head(CpuProblem& p, const F& f) {
  parallel_tasks(p.rows() * p.heads(), [&](int64_t task) {
    const int64_t row = task / p.heads(), h = task % p.heads();
    const AttentionHead<T> head = p.head<T>(row, h);
    f(row, h, head, scratch_of<T>(attention_scratch(head.length, head.width)));
  });
}

template <class T>
void forward_cpu(CpuProblem& p) {
  for_each_head<T>(p, [&](int64_t, int64_t, const AttentionHead<T>& head, T* scratch) {
    attention_forward_cpu(head, scratch);
    zero_padding(head.out, head.length, p.length(), head.width, head.out_stride);
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
      zero_padding(d, head.length, p.length(), head.width, head.stride);
    }
  });
}

class CpuAttention : public torch::autograd::Function<CpuAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Tensor& lengths, double dropout,
                        int64_t site, int64_t seed, const Tensor& step, int64_t first_row) {
    const int64_t B = qkv.size(0), L = qkv.size(1), H = qkv.size(3), P = qkv.size(4);
    const Tensor out = torch::empty({B, L, H, P}, qkv.options()),
                 lse = torch::empty({B, H, L}, qkv.options());
    CpuProblem p{qkv.contiguous(),
                 out,
                 lse,
                 lengths,
                 dropout,
                 static_cast<uint64_t>(site),
                 {static_cast<uint64_t>(seed), step, first_row}};
    qkv.scalar_type() == torch::kDouble ? forward_cpu<double>(p) : forward_cpu<float>(p);
    context->save_for_backward({p.qkv, p.out, p.lse, lengths, step});
    context->saved_data["dropout"] = dropout;
    context->saved_data["site"] = site;
    context->saved_data["seed"] = seed;
    context->saved_data["first_row"] = first_row;
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    CpuProblem p{saved[0],
                 saved[1],
                 saved[2],
                 saved[3],
                 context->saved_data["dropout"].toDouble(),
                 static_cast<uint64_t>(context->saved_data["site"].toInt()),
                 {static_cast<uint64_t>(context->saved_data["seed"].toInt()), saved[4],
                  context->saved_data["first_row"].toInt()}};
    const Tensor d_out = gradients[0].contiguous();
    Tensor d_qkv = torch::empty_like(p.qkv);
    p.qkv.scalar_type() == torch::kDouble ? backward_cpu<double>(p, d_out, d_qkv)
                                          : backward_cpu<float>(p, d_out, d_qkv);
    return {d_qkv, {}, {}, {}, {}, {}, {}};
  }
};

Tensor key_mask(const AttentionInput& in) {  // [B, 1, 1, L], true = real
  const Tensor positions = torch::arange(in.qkv.size(1), in.lengths.options());
  return (positions.unsqueeze(0) < in.lengths.unsqueeze(1)).view({in.qkv.size(0), 1, 1, in.qkv.size(1)});
}

std::vector<Tensor> split_heads(const Tensor& qkv) {
  return qkv.permute({2, 0, 3, 1, 4}).unbind(0);
}  // 3 × [B, H, L, P]

// Added to the scores of padded keys. Finite: a tile of the library's kernel that holds nothing but −∞
// computes ∞ − ∞.
constexpr double kMasked = -30000;

Tensor attention_library(const AttentionInput& in) {
  std::optional<Tensor> mask;
  if (in.lengths.defined())
    mask = ((~key_mask(in)).to(in.qkv.scalar_type()) * kMasked).expand({-1, -1, in.qkv.size(1), -1});
  const auto heads = split_heads(in.qkv);
  return at::scaled_dot_product_attention(heads[0], heads[1], heads[2], mask, in.dropout).transpose(1, 2);
}

// The kept weights of dropout, written out: [B, H, L, L].
Tensor attention_dropout_mask(const AttentionInput& in) {
  const int64_t B = in.qkv.size(0), L = in.qkv.size(1), H = in.qkv.size(3);
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
          const uint32_t bits =
              dropout_bits(philox(in.key.seed, stream, position / 8), static_cast<int>(position % 8));
          if (bits >= rate.threshold) m[b][h][i][j] = rate.scale;
        }
      }
    }
  }
  return mask;
}

}  // namespace

Tensor attention(const AttentionInput& in) {
  if (!in.qkv.is_cpu()) return attention_library(in);
  const Tensor &lengths = in.lengths.defined() ? in.lengths : no_tensor(torch::kInt),
               &step = in.dropout > 0 ? in.key.step : no_tensor(torch::kLong);
  return CpuAttention::apply(in.qkv, lengths, in.dropout, static_cast<int64_t>(in.site),
                             static_cast<int64_t>(in.key.seed), step, in.key.first_row);
}

Tensor attention_reference(const AttentionInput& in) {
  const auto heads = split_heads(in.qkv);
  const Tensor &q = heads[0], &k = heads[1], &v = heads[2];  // [B, H, L, P]
  Tensor scores = torch::matmul(q, k.transpose(2, 3)) / std::sqrt(static_cast<double>(q.size(3)));
  if (in.lengths.defined())
    scores = scores.masked_fill(~key_mask(in), -std::numeric_limits<double>::infinity());
  Tensor weights = torch::softmax(scores, -1);
  if (in.dropout > 0) weights = weights * attention_dropout_mask(in).to(weights.options());
  Tensor out = torch::matmul(weights, v).transpose(1, 2);  // [B, L, H, P]
  if (in.lengths.defined()) {
    out = out * key_mask(in).view({q.size(0), q.size(2), 1, 1}).to(out.options());
  }
  return out;
}

std::string attention_implementation(const torch::Device& device, torch::Dtype dtype, bool padded,
                                     bool dropout) {
  if (device.is_cpu()) return "lra: blocked, fused with mask and counter dropout, no L×L tensor";
  if (dtype == torch::kFloat) return "library: memory-efficient SDPA (fp32 has no flash kernel)";
  return padded    ? "library: memory-efficient SDPA (flash takes no key mask)"
         : dropout ? "library: flash SDPA with the device generator, reseeded every step"
                   : "library: flash SDPA";
}

}  // namespace lra
