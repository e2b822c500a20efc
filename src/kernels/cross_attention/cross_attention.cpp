#include "kernels/cross_attention/cross_attention.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/attention/attention_library.h"
#include "kernels/cross_attention/cross_attention_cpu.h"
#include "kernels/portable.h"
#include "kernels/rows/grid.h"
#include "kernels/scratch.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor last_contiguous(const Tensor& x) {
  return x.stride(2) == 1 && x.stride(1) >= x.size(2) ? x : x.contiguous();
}

int64_t begin(const Rows& rows, int64_t row) { return rows.offsets.const_data_ptr<int32_t>()[row]; }
int64_t length(const Rows& rows, int64_t row) { return rows.lengths.const_data_ptr<int32_t>()[row]; }

struct Problem {
  CrossAttentionInput in;  // table: empty where there is none
  Tensor out, lse;         // [Tq, H, P], [H, Tq]

  int64_t heads() const { return in.v.size(1); }
  bool table() const { return in.table.numel() > 0; }

  template <class T>
  static T* at(const Tensor& x, const Rows& rows, int64_t row, int64_t h) {
    return x.mutable_data_ptr<T>() + begin(rows, row) * x.stride(0) + h * x.stride(1);
  }

  template <class T>
  CrossAttentionHead<T> head(int64_t row, int64_t h) const {
    CrossAttentionHead<T> head{};
    head.q = at<T>(in.q, in.queries, row, h);
    head.k = at<T>(in.k, in.keys, row, h);
    head.v = at<T>(in.v, in.keys, row, h);
    if (table()) head.table = in.table.const_data_ptr<T>() + h * in.table.stride(0);
    head.out = at<T>(out, in.queries, row, h);
    head.lse = lse.mutable_data_ptr<T>() + h * lse.stride(0) + begin(in.queries, row);
    head.queries = length(in.queries, row), head.keys = length(in.keys, row);
    head.width = in.q.size(2), head.value_width = in.v.size(2);
    head.q_stride = in.q.stride(0), head.k_stride = in.k.stride(0), head.v_stride = in.v.stride(0);
    head.out_stride = out.stride(0);
    head.table_stride = table() ? in.table.stride(1) : 0;
    head.scale = static_cast<T>(in.scale);
    head.causal = in.causal;
    if (in.dropout.active()) {
      const DropoutDraw draw = in.dropout.draw();
      head.seed = draw.seed;
      head.stream = dropout_stream(draw.site, *draw.step);
      head.first = dropout_attention_position(draw.slots[begin(in.queries, row)] >> 24, heads(), h, 0);
      head.rate = draw.rate;
    }
    return head;
  }

  template <class T>
  T* scratch(const CrossAttentionHead<T>& head) const {
    return scratch_of<T>(cross_attention_scratch(head.keys, head.width, head.value_width));
  }

  template <class T>
  void forward() const {
    parallel_tasks(in.queries.count * heads(), [&](int64_t task) {
      const CrossAttentionHead<T> one = head<T>(task / heads(), task % heads());
      cross_attention_forward_cpu(one, scratch(one));
    });
  }

  template <class T>
  void backward_head(int64_t row, int64_t h, const Tensor& d_out, const variable_list& d) const {
    const CrossAttentionHead<T> one = head<T>(row, h);
    const CrossAttentionHeadGradient<T> gradient{
        at<T>(d_out, in.queries, row, h),
        at<T>(d[0], in.queries, row, h),
        at<T>(d[1], in.keys, row, h),
        at<T>(d[2], in.keys, row, h),
        d[0].stride(0),
        d[1].stride(0),
        d[2].stride(0),
        table() ? d[3].mutable_data_ptr<T>() + h * d[3].stride(0) : nullptr};
    cross_attention_backward_cpu(one, gradient, scratch(one));
  }

  // With a table the rows of a head add to the same numbers: one after the other, always in the same order.
  template <class T>
  void backward(const Tensor& d_out, const variable_list& d) const {
    const int64_t B = in.queries.count;
    if (table()) {
      parallel_tasks(heads(), [&](int64_t h) {
        for (int64_t row = 0; row < B; ++row) backward_head<T>(row, h, d_out, d);
      });
    } else {
      parallel_tasks(B * heads(),
                     [&](int64_t task) { backward_head<T>(task / heads(), task % heads(), d_out, d); });
    }
  }
};

// Positions outside the rows are zero.
Tensor make(torch::IntArrayRef shape, const Rows& rows, const Tensor& like) {
  return rows.full ? torch::empty(shape, like.options()) : torch::zeros(shape, like.options());
}

void save(AutogradContext* context, const Problem& p) {
  const CrossAttentionInput& in = p.in;
  context->save_for_backward({in.q, in.k, in.v, in.table, p.out, p.lse});
  const auto rows = [&](const Rows& r) {
    return std::vector<int64_t>{r.count, r.positions, r.longest, r.pitch, r.full ? 1 : 0};
  };
  auto& data = context->saved_data;
  data["query_rows"] = rows(in.queries), data["key_rows"] = rows(in.keys);
  data["row_tensors"] =
      std::vector<Tensor>{in.queries.offsets, in.queries.lengths, in.keys.offsets, in.keys.lengths};
  data["scale"] = in.scale, data["causal"] = in.causal;
  save_dropout(*context, in.dropout);
}

Problem saved(AutogradContext* context) {
  const auto t = context->get_saved_variables();
  auto& data = context->saved_data;
  const auto tensors = data["row_tensors"].toTensorVector();
  const auto rows = [&](const char* key, size_t first) -> Rows {
    const auto n = data[key].toIntVector();
    return {tensors[first], tensors[first + 1], {}, n[0], n[1], n[2], n[3], n[4] != 0};
  };
  CrossAttentionInput in;
  in.q = t[0], in.k = t[1], in.v = t[2], in.table = t[3];
  in.queries = rows("query_rows", 0), in.keys = rows("key_rows", 2);
  in.scale = data["scale"].toDouble(), in.causal = data["causal"].toBool();
  in.dropout = saved_dropout(*context);
  return {in, t[4], t[5]};
}

class CpuCrossAttention : public torch::autograd::Function<CpuCrossAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& table, const CrossAttentionInput& rest) {
    Problem p{rest, {}, {}};
    p.in.q = last_contiguous(q), p.in.k = last_contiguous(k), p.in.v = last_contiguous(v);
    p.in.table = table.contiguous();
    p.out = make({q.size(0), v.size(1), v.size(2)}, rest.queries, v);
    p.lse = torch::empty({v.size(1), q.size(0)}, v.options());
    v.scalar_type() == torch::kDouble ? p.forward<double>() : p.forward<float>();
    save(context, p);
    return p.out;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Problem p = saved(context);
    const CrossAttentionInput& in = p.in;
    const Tensor d_out = gradients[0].contiguous();
    const variable_list d = {make(in.q.sizes(), in.queries, d_out), make(in.k.sizes(), in.keys, d_out),
                             make(in.v.sizes(), in.keys, d_out),
                             torch::zeros_like(in.table, torch::TensorOptions().requires_grad(false))};
    d_out.scalar_type() == torch::kDouble ? p.backward<double>(d_out, d) : p.backward<float>(d_out, d);
    return {d[0], d[1], d[2], p.table() ? d[3] : Tensor(), {}};
  }
};

// The kept weights of dropout for one row, written out: [H, n, m].
Tensor dropout_mask(const Dropout& dropout, int64_t row, const Tensor& like) {
  const DropoutRate rate = dropout_rate(dropout.p);
  const uint64_t stream = dropout_stream(dropout.site, dropout.step.item<int64_t>());
  Tensor mask = torch::zeros(like.sizes(), torch::kDouble);
  auto m = mask.accessor<double, 3>();
  for (int64_t h = 0; h < m.size(0); ++h) {
    for (int64_t i = 0; i < m.size(1); ++i) {
      for (int64_t j = 0; j < m.size(2); ++j) {
        const uint64_t position = dropout_attention_position(row, m.size(0), h, i) + static_cast<uint64_t>(j);
        const PhiloxBlock block = dropout_block(dropout.seed, stream, position / 8);
        if (dropout_bits(block, static_cast<int>(position % 8)) >= rate.threshold) m[h][i][j] = rate.scale;
      }
    }
  }
  return mask.to(like.options());
}

constexpr double kHidden = -30000;  // added to a score; −∞ would make a tile of nothing else not a number

// What is added to the scores, [B or 1, H or 1, Lq or 1, Lk]; undefined: nothing.
Tensor grid_bias(const CrossAttentionInput& in, const Tensor& q) {
  const int64_t Lq = in.queries.longest, Lk = in.keys.longest;
  Tensor bias;
  if (in.table.defined()) {
    bias = in.table.narrow(1, 0, Lq).narrow(2, 0, Lk).to(q.scalar_type()).unsqueeze(0);
    if (in.causal) bias = bias + torch::full({Lq, Lk}, kHidden, bias.options().requires_grad(false)).triu(1);
  }
  // A causal query sees no padding anyway.
  if (in.keys.full || in.causal) return bias;
  const Tensor hidden =
      (grid_mask(in.keys).logical_not().to(q.scalar_type()) * kHidden).view({in.keys.count, 1, 1, Lk});
  return bias.defined() ? bias + hidden : hidden;
}

}  // namespace

Tensor cross_attention(const CrossAttentionInput& in) {
  // The library's dropout is its own: a CPU tensor is never given to it.
  if (!on_cpu_path(in.v) && !(in.v.is_cpu() && in.dropout.active())) return cross_attention_grid(in);
  CrossAttentionInput rest = in;
  rest.q = rest.k = rest.v = rest.table = Tensor();
  const Tensor table = in.table.defined() ? in.table : torch::empty({0}, in.v.options());
  return CpuCrossAttention::apply(in.q, in.k, in.v, table, rest);
}

Tensor cross_attention_grid(const CrossAttentionInput& in) {
  const auto heads = [](const Tensor& x, const Rows& rows) {
    const Tensor some = x.size(2) > 0 ? x : torch::zeros({x.size(0), x.size(1), 8}, x.options());
    return to_grid(some, rows).transpose(1, 2);
  };
  // Of one width: only the slowest of the library's kernels takes others. Zeros change no product.
  const int64_t P = in.v.size(2), wide = std::max(in.q.size(2), P);
  const auto widened = [&](const Tensor& x, const Rows& rows) {
    const Tensor y = heads(x, rows);
    return y.size(3) < wide ? torch::constant_pad_nd(y, {0, wide - y.size(3)}) : y;
  };
  const Tensor q = widened(in.q, in.queries), k = widened(in.k, in.keys),
               v = widened(in.v, in.keys);  // [B, H, ·, ·]
  const Tensor bias = grid_bias(in, v);
  LibraryAttentionInput library{q, k, v};
  if (bias.defined()) library.mask = bias.expand({-1, -1, q.size(2), -1});
  library.dropout = in.dropout.p, library.causal = in.causal && !bias.defined(), library.scale = in.scale;
  const Tensor out = attention_of_library(library);
  return from_grid(out.transpose(1, 2).narrow(3, 0, P), in.queries);
}

Tensor cross_attention_reference(const CrossAttentionRow& row) {
  Tensor scores = torch::matmul(row.q, row.k.transpose(1, 2)) * row.scale;  // [H, n, m]
  if (row.table.defined()) scores = scores + row.table;
  if (row.causal) {
    const Tensor later = torch::ones({scores.size(1), scores.size(2)}, torch::kBool).triu(1);
    scores = scores.masked_fill(later, -std::numeric_limits<double>::infinity());
  }
  Tensor weights = torch::softmax(scores, -1);
  if (row.dropout.active()) weights = weights * dropout_mask(row.dropout, row.number, weights);
  return torch::matmul(weights, row.v);
}

}  // namespace lra
