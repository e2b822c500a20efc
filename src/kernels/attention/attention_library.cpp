#include "kernels/attention/attention_library.h"

#include <atomic>

#include <ATen/Context.h>
#include <ATen/ops/_efficient_attention_backward.h>
#include <ATen/ops/_efficient_attention_forward.h>
#include <ATen/ops/_flash_attention_backward.h>
#include <ATen/ops/_flash_attention_forward.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <c10/util/ScopeExit.h>

#include "base/log.h"
#include "base/torch_compat.h"
#include "kernels/attention/attention_cudnn.h"

namespace lra {

CudaLauncher<CudnnAttentionArguments> attention_cudnn_cuda = nullptr;
CudaLauncher<AttentionNumbers> attention_numbers_cuda = nullptr;
std::string (*attention_cudnn_refusal)(const CudnnAttentionArguments&) = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Library = AttentionLibrary;

struct Heads {
  Tensor q, k, v;
};

// Packed: [T, H, P]; grid: [B, L, H, P].
Heads split(const Tensor& qkv, const Rows& rows) {
  const Tensor x = rows.full ? qkv.view({rows.count, rows.pitch, 3, qkv.size(2), qkv.size(3)}) : qkv;
  const auto parts = x.unbind(-3);
  return {parts[0], parts[1], parts[2]};
}

struct Forwarded {
  Tensor out, lse, seed, offset;  // out in the layout of q
};

Forwarded flash_forward(const Heads& h, const Rows& rows, double p, double scale, bool causal) {
  const std::optional<Tensor> ends = rows.full ? std::nullopt : std::optional(rows.offsets);
  auto r = at::_flash_attention_forward(h.q, h.k, h.v, ends, ends, rows.longest, rows.longest, p, causal,
                                        false, scale);
  return {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
}

Heads flash_backward(const Tensor& d_out, const Heads& h, const Forwarded& f, const Rows& rows, double p,
                     double scale, bool causal) {
  const Tensor ends = rows.full ? Tensor() : rows.offsets;
  const auto [q, k, v] =
      at::_flash_attention_backward(d_out, h.q, h.k, h.v, f.out, f.lse, ends, ends, rows.longest,
                                    rows.longest, p, causal, f.seed, f.offset, scale);
  return {q, k, v};
}

// [1, T, H, P] with cumulative lengths, or [B, L, H, P].
Tensor lead(const Tensor& x, const Rows& rows) { return rows.full ? x : x.unsqueeze(0); }

// How the memory-efficient kernel counts its masks.
int64_t mask_type(bool causal) { return causal ? 1 : 0; }

Forwarded efficient_forward(const Heads& h, const Rows& rows, double p, double scale, bool causal) {
  const std::optional<Tensor> ends = rows.full ? std::nullopt : std::optional(rows.offsets);
  const auto r =
      at::_efficient_attention_forward(lead(h.q, rows), lead(h.k, rows), lead(h.v, rows), std::nullopt, ends,
                                       ends, rows.longest, rows.longest, p, mask_type(causal), true, scale);
  return {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
}

Heads efficient_backward(const Tensor& d_out, const Heads& h, const Forwarded& f, const Rows& rows, double p,
                         double scale, bool causal) {
  const std::optional<Tensor> ends = rows.full ? std::nullopt : std::optional(rows.offsets);
  const auto r = at::_efficient_attention_backward(
      lead(d_out, rows), lead(h.q, rows), lead(h.k, rows), lead(h.v, rows), std::nullopt, f.out, ends, ends,
      rows.longest, rows.longest, f.lse, p, f.seed, f.offset, mask_type(causal), false, scale);
  return {std::get<0>(r), std::get<1>(r), std::get<2>(r)};
}

class LibraryAttention : public torch::autograd::Function<LibraryAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& qkv, const Rows& rows, double p, double scale,
                        bool causal, Library library) {
    const Heads h = split(qkv, rows);
    const Forwarded f = library == Library::kFlash ? flash_forward(h, rows, p, scale, causal)
                                                   : efficient_forward(h, rows, p, scale, causal);
    context->save_for_backward({qkv, f.out, f.lse, f.seed, f.offset});
    save_rows(*context, rows);
    context->saved_data["library"] = static_cast<int64_t>(library);
    context->saved_data["causal"] = causal;
    context->saved_data["p"] = p;
    context->saved_data["scale"] = scale;
    return f.out.reshape({qkv.size(0), qkv.size(2), qkv.size(3)});
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& qkv = saved[0];
    const Forwarded f{saved[1], saved[2], saved[3], saved[4]};
    const Rows rows = saved_rows(*context);
    const double p = context->saved_data["p"].toDouble(), scale = context->saved_data["scale"].toDouble();
    const Heads h = split(qkv, rows);
    const Tensor d_out = gradients[0].contiguous().view(h.q.sizes());
    const auto library = static_cast<Library>(context->saved_data["library"].toInt());
    const DeterminismOrdered ordered;
    const bool causal = context->saved_data["causal"].toBool();
    const Heads d = library == Library::kFlash ? flash_backward(d_out, h, f, rows, p, scale, causal)
                                               : efficient_backward(d_out, h, f, rows, p, scale, causal);
    const std::vector<int64_t> one = {qkv.size(0), 1, qkv.size(2), qkv.size(3)};
    return {torch::cat({d.q.reshape(one), d.k.reshape(one), d.v.reshape(one)}, 1), {}, {}, {}, {}, {}};
  }
};

// q, k, v are read where the projection wrote them, and their gradients written where its backward pass reads
// them.
class CudnnAttention : public torch::autograd::Function<CudnnAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& stacked, const Rows& rows,
                        const Dropout& dropout, double scale, bool causal) {
    const Tensor qkv = stacked.contiguous();
    const int64_t T = qkv.size(0), H = qkv.size(2), P = qkv.size(3);
    const Numbers numbers = numbers_of(qkv, rows, dropout);
    const Tensor out = torch::empty({T, H, P}, qkv.options()),
                 lse = torch::empty({T, H}, qkv.options().dtype(torch::kFloat));
    launch(attention_cudnn_cuda, arguments(qkv, out, lse, rows, numbers, dropout.p, scale, causal),
           "attention");
    context->save_for_backward({qkv, out, lse, numbers.rows, numbers.draw});
    save_rows(*context, rows);
    context->saved_data["causal"] = causal;
    context->saved_data["p"] = dropout.p;
    context->saved_data["scale"] = scale;
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor& qkv = saved[0];
    const Rows rows = saved_rows(*context);
    const Tensor d_out = gradients[0].contiguous();
    const Tensor d_qkv = torch::empty_like(qkv);
    CudnnAttentionArguments a =
        arguments(qkv, saved[1], saved[2], rows, {saved[3], saved[4]}, context->saved_data["p"].toDouble(),
                  context->saved_data["scale"].toDouble(), context->saved_data["causal"].toBool());
    a.d_out = d_out.const_data_ptr();
    a.d_qkv = d_qkv.mutable_data_ptr();
    launch(attention_cudnn_cuda, a, "attention");
    return {d_qkv, {}, {}, {}, {}};
  }

  // Why cuDNN will not do it on this device, forward or backward.
  static std::string refusal(const Tensor& qkv, const Rows& rows, const Dropout& dropout, double scale,
                             bool causal) {
    CudnnAttentionArguments a = arguments(qkv, qkv, {}, rows, {}, dropout.p, scale, causal);
    const std::string forward = attention_cudnn_refusal(a);
    if (!forward.empty() || !torch::GradMode::is_enabled() || !qkv.requires_grad()) return forward;
    a.d_out = a.qkv, a.d_qkv = a.qkv;
    return attention_cudnn_refusal(a);
  }

 private:
  static int64_t count(const Rows& rows) { return rows.full ? rows.count : rows.offsets.size(0) - 1; }

  struct Numbers {
    Tensor rows, draw;
  };
  static Numbers numbers_of(const Tensor& qkv, const Rows& rows, const Dropout& dropout) {
    const int64_t size = rows.full ? 0 : 4 * attention_numbers_pitch(count(rows));
    const Numbers n{torch::empty({size}, qkv.options().dtype(torch::kInt)),
                    torch::empty({dropout.active() ? 4 : 0}, qkv.options().dtype(torch::kLong))};
    if (rows.full && !dropout.active()) return n;
    AttentionNumbers a{};
    a.rows = count(rows), a.heads = qkv.size(2), a.width = qkv.size(3);
    if (!rows.full) a.offsets = rows.offsets.const_data_ptr<int32_t>();
    a.numbers = n.rows.mutable_data_ptr<int32_t>();
    if (dropout.active()) {
      a.seed = dropout.seed, a.site = dropout.site, a.step = dropout.step.const_data_ptr<int64_t>();
      a.draw = n.draw.mutable_data_ptr<int64_t>();
    }
    launch(attention_numbers_cuda, a, "attention");
    return n;
  }

  static CudnnAttentionArguments arguments(const Tensor& qkv, const Tensor& out, const Tensor& lse,
                                           const Rows& rows, const Numbers& numbers, double p, double scale,
                                           bool causal) {
    CudnnAttentionArguments a{};
    a.rows = count(rows), a.longest = rows.longest, a.heads = qkv.size(2), a.width = qkv.size(3);
    if (!rows.full) a.offsets = rows.offsets.const_data_ptr<int32_t>();
    a.scale = scale, a.dropout = p;
    a.causal = causal, a.deterministic = at::globalContext().deterministicAlgorithms();
    if (numbers.rows.defined()) a.numbers = numbers.rows.const_data_ptr<int32_t>();
    if (numbers.draw.defined()) a.draw = numbers.draw.const_data_ptr<int64_t>();
    a.qkv = qkv.const_data_ptr(), a.out = out.const_data_ptr();
    if (lse.defined()) a.lse = lse.const_data_ptr<float>();
    return a;
  }
};

// Some shapes on some devices; flash then serves.
bool refused_by_cudnn(const AttentionInput& in, double scale) {
  const std::string why = CudnnAttention::refusal(in.qkv, in.rows, in.dropout, scale, in.causal);
  static std::atomic<bool> told = false;
  if (!why.empty() && !told.exchange(true))
    warn("flash attention instead of cuDNN's, which refuses: {}", why);
  return !why.empty();
}

Tensor attention_with(Library library, const AttentionInput& in, double scale) {
  if (library == Library::kCudnn && !refused_by_cudnn(in, scale)) {
    return CudnnAttention::apply(in.qkv, in.rows, in.dropout, scale, in.causal);
  }
  return LibraryAttention::apply(in.qkv, in.rows, in.dropout.p, scale, in.causal,
                                 library == Library::kCudnn ? Library::kFlash : library);
}

// Rows on a grid with padding between them: a mask of keys. Only for models that cannot work packed. In the
// causal form padding comes after all that a query sees, and needs no mask.
Tensor masked_attention(const AttentionInput& in) {
  const int64_t B = in.rows.count, L = in.rows.pitch, H = in.qkv.size(2), P = in.qkv.size(3);
  const Tensor places = torch::arange(L, in.rows.lengths.options());
  // Finite: a tile of the library's kernel that holds nothing but −∞ computes ∞ − ∞.
  const Tensor mask =
      ((places.unsqueeze(0) >= in.rows.lengths.unsqueeze(1)).to(in.qkv.scalar_type()) * -30000)
          .view({B, 1, 1, L})
          .expand({-1, -1, L, -1});
  const auto heads = in.qkv.view({B, L, 3, H, P}).permute({2, 0, 3, 1, 4}).unbind(0);
  return attention_of_library({heads[0], heads[1], heads[2], in.causal ? std::nullopt : std::optional(mask),
                               in.dropout.p, in.causal})
      .transpose(1, 2)
      .reshape({B * L, H, P});
}

// Packed rows brought to a grid and back. With cumulative lengths the memory-efficient kernel's backward pass
// draws another dropout mask than its forward pass (2.11; a test of ours shows it), and no other kernel takes
// fp32.
Tensor on_a_grid(const AttentionInput& in) {
  Rows grid = in.rows;
  grid.count = in.rows.offsets.size(0) - 1;  // the rows of the tail too
  grid.pitch = in.rows.longest;
  grid.positions = grid.count * grid.pitch;
  grid.lengths = in.rows.offsets.diff();
  grid.offsets = torch::arange(grid.count + 1, in.rows.offsets.options()) * grid.pitch;
  const Tensor positions = torch::arange(in.rows.positions, in.rows.offsets.options());
  const Tensor row =
      torch::searchsorted(in.rows.offsets.narrow(0, 1, grid.count), positions, false, /*right=*/true);
  const Tensor cell =
      row * grid.pitch + (positions - in.rows.offsets.index_select(0, row));  // [T], each once
  const std::vector<int64_t> shape = {grid.positions, 3, in.qkv.size(2), in.qkv.size(3)};
  const Tensor spread = torch::zeros(shape, in.qkv.options()).index_copy(0, cell, in.qkv);
  return masked_attention({spread, grid, in.dropout, in.causal}).index_select(0, cell);
}

}  // namespace

void save_rows(AutogradContext& context, const Rows& rows) {
  auto& data = context.saved_data;
  data["rows"] =
      std::vector<int64_t>{rows.count, rows.positions, rows.longest, rows.pitch, rows.full ? 1 : 0};
  data["row_offsets"] = rows.offsets;
  data["row_lengths"] = rows.lengths;
}

Rows saved_rows(AutogradContext& context) {
  auto& data = context.saved_data;
  const auto n = data["rows"].toIntVector();
  return {
      data["row_offsets"].toTensor(), data["row_lengths"].toTensor(), {}, n[0], n[1], n[2], n[3], n[4] != 0};
}

bool attention_has_cudnn() { return attention_cudnn_cuda != nullptr; }

namespace {

bool exact_in_cudnn(double dropout) { return 16 * dropout == std::floor(16 * dropout); }

}  // namespace

AttentionLibrary attention_library_for(torch::Dtype type, double dropout) {
  if (type == torch::kFloat) return Library::kEfficient;
  return attention_has_cudnn() && exact_in_cudnn(dropout) ? Library::kCudnn : Library::kFlash;
}

Tensor attention_of_library(const LibraryAttentionInput& in) {
  at::Context& library = at::globalContext();
  const bool allowed = library.userEnabledCuDNNSDP();
  library.setSDPUseCuDNN(allowed && exact_in_cudnn(in.dropout));
  const auto restore = c10::make_scope_exit([&] { library.setSDPUseCuDNN(allowed); });
  return at::scaled_dot_product_attention(in.q, in.k, in.v, in.mask, in.dropout, in.causal, in.scale);
}

Tensor attention_by(AttentionLibrary library, const AttentionInput& in) {
  const double scale = 1.0 / std::sqrt(static_cast<double>(in.qkv.size(3)));
  const int64_t P = in.qkv.size(3), step = in.qkv.scalar_type() == torch::kFloat ? 4 : 8;
  if (P % step != 0) {
    // The kernels take 16 bytes at a time; zeros at the end of q and k leave their products as they are.
    AttentionInput wide = in;
    wide.qkv = torch::constant_pad_nd(in.qkv, {0, step - P % step});
    return attention_with(library, wide, scale).narrow(2, 0, P).contiguous();
  }
  return attention_with(library, in, scale);
}

Tensor attention_library(const AttentionInput& in) {
  if (in.rows.pitch > 0 && !in.rows.full) return masked_attention(in);
  if (in.qkv.scalar_type() == torch::kFloat && in.dropout.active() && !in.rows.full) return on_a_grid(in);
  const bool counted = in.qkv.numel() <= INT32_MAX;  // cuDNN counts elements of packed rows in 32 bits
  const Library library = attention_library_for(in.qkv.scalar_type(), in.dropout.p);
  return attention_by(library == Library::kCudnn && !in.rows.full && !counted ? Library::kFlash : library,
                      in);
}

namespace {

// One query a row, as packed rows of one position each.
class LibraryFirst : public torch::autograd::Function<LibraryFirst> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& kv, const Rows& rows,
                        double p, double scale) {
    const auto [k, v] = keys(kv);
    const Tensor all = queries(q, rows), ends = torch::arange(all.size(0) + 1, rows.offsets.options());
    Forwarded f;
    if (q.scalar_type() == torch::kFloat) {
      const auto r =
          at::_efficient_attention_forward(all.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), std::nullopt,
                                           ends, rows.offsets, 1, rows.longest, p, 0, true, scale);
      f = {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
    } else {
      const auto r = at::_flash_attention_forward(all, k, v, ends, rows.offsets, 1, rows.longest, p, false,
                                                  false, scale);
      f = {std::get<0>(r), std::get<1>(r), std::get<2>(r), std::get<3>(r)};
    }
    context->save_for_backward({all, kv, ends, f.out, f.lse, f.seed, f.offset});
    save_rows(*context, rows);
    context->saved_data["p"] = p;
    context->saved_data["scale"] = scale;
    return f.out.view(all.sizes()).narrow(0, 0, rows.count).contiguous();
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &all = saved[0], &ends = saved[2], &out = saved[3], &lse = saved[4];
    const auto [k, v] = keys(saved[1]);
    const Rows rows = saved_rows(*context);
    const double p = context->saved_data["p"].toDouble(), scale = context->saved_data["scale"].toDouble();
    const Tensor d_out = queries(gradients[0].contiguous(), rows);
    const DeterminismOrdered ordered;
    Heads d;
    if (all.scalar_type() == torch::kFloat) {
      const auto r = at::_efficient_attention_backward(
          d_out.unsqueeze(0), all.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0), std::nullopt, out, ends,
          rows.offsets, 1, rows.longest, lse, p, saved[5], saved[6], 0, false, scale);
      d = {std::get<0>(r).squeeze(0), std::get<1>(r).squeeze(0), std::get<2>(r).squeeze(0)};
    } else {
      const auto r = at::_flash_attention_backward(d_out, all, k, v, out, lse, ends, rows.offsets, 1,
                                                   rows.longest, p, false, saved[5], saved[6], scale);
      d = {std::get<0>(r), std::get<1>(r), std::get<2>(r)};
    }
    return {d.q.narrow(0, 0, rows.count), torch::stack({d.k, d.v}, 1), {}, {}, {}};
  }

 private:
  static std::pair<Tensor, Tensor> keys(const Tensor& kv) { return {kv.select(1, 0), kv.select(1, 1)}; }
  // The rows beyond `count` (batch/batch.h) get a query of zeros, so that every key has a gradient.
  static Tensor queries(const Tensor& q, const Rows& rows) {
    const int64_t more = rows.offsets.size(0) - 1 - rows.count;
    return more > 0 ? torch::constant_pad_nd(q, {0, 0, 0, 0, 0, more}) : q;
  }
};

}  // namespace

Tensor attention_first_library(const FirstAttentionInput& in) {
  const int64_t P = in.q.size(2), step = in.q.scalar_type() == torch::kFloat ? 4 : 8,
                more = (step - P % step) % step;
  const double scale = 1.0 / std::sqrt(static_cast<double>(P));
  const bool padded = in.rows.pitch > 0 && !in.rows.full;
  const bool unsafe = in.q.scalar_type() == torch::kFloat && in.dropout.active();  // see on_a_grid
  if (padded || unsafe) {
    const Tensor first = in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong);
    const Tensor q = torch::zeros_like(in.kv.select(1, 0)).index_copy(0, first, in.q);
    return attention_library({torch::cat({q.unsqueeze(1), in.kv}, 1), in.rows, in.dropout})
        .index_select(0, first);
  }
  if (more == 0) return LibraryFirst::apply(in.q, in.kv, in.rows, in.dropout.p, scale);
  return LibraryFirst::apply(torch::constant_pad_nd(in.q, {0, more}),
                             torch::constant_pad_nd(in.kv, {0, more}), in.rows, in.dropout.p, scale)
      .narrow(2, 0, P)
      .contiguous();
}

std::string attention_library_name(torch::Dtype type, bool full, double dropout) {
  if (type == torch::kDouble) return "lra: the definition, row by row (no library kernel knows fp64)";
  switch (attention_library_for(type, dropout)) {
    case Library::kCudnn:
      return full ? "library: cuDNN" : "library: cuDNN with cumulative lengths";
    case Library::kFlash:
      return full ? "library: flash" : "library: flash with cumulative lengths";
    case Library::kEfficient:
      return full || dropout == 0
                 ? "library: memory-efficient kernel (flash and cuDNN know no fp32)"
                 : "library: memory-efficient kernel on a padded grid (its packed form errs with dropout)";
  }
  return {};
}

}  // namespace lra
