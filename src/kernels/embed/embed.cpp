#include "kernels/embed/embed.h"

#include <algorithm>
#include <optional>

#include "base/torch_compat.h"
#include "kernels/embed/embed_arguments.h"
#include "kernels/embed/embed_cpu.h"
#include "kernels/parameter_gradient.h"
#include "kernels/portable.h"
#include "kernels/rows/row_bits.h"

namespace lra {

CudaLauncher<EmbedArguments> embed_forward_cuda = nullptr;
CudaLauncher<EmbedGradientArguments> embed_backward_cuda = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kPlaceMask = (int64_t{1} << 24) - 1;  // Rows::slot_of

template <class T>
void forward_cpu(const EmbedArguments& a) {
  const auto *table = static_cast<const T*>(a.table), *cls = static_cast<const T*>(a.cls),
             *positions = static_cast<const T*>(a.positions);
  const int64_t ids = a.V + (cls ? 1 : 0);
  parallel_for(0, a.T, std::max<int64_t>(1, 8192 / a.D), [&](int64_t begin, int64_t end) {
    RowBits bits(a.draw, a.D);
    for (int64_t r = begin; r < end; ++r) {
      const int32_t id = a.tokens[r];
      TORCH_CHECK(id >= 0 && id < ids, "[embed] token ", id, " at position ", r, " is not in 0..", ids - 1);
      embed_forward_cpu(id == a.V ? cls : table + id * a.D,
                        positions ? positions + (a.slots[r] & kPlaceMask) * a.D : nullptr,
                        static_cast<T*>(a.out) + r * a.D, a.D, bits.of(r), a.draw.rate);
    }
  });
}

// Positions summed into one private table: fixed, so that sums do not depend on the number of threads.
int64_t parts_cpu(int64_t T, int64_t D, int64_t V) {
  constexpr int64_t kPositions = 2048, kMost = 16, kElements = int64_t{1} << 25;
  return std::clamp<int64_t>(std::min((T + kPositions - 1) / kPositions, kElements / ((V + 1) * D)), 1,
                             kMost);
}

template <class T>
void table_backward_cpu(const EmbedGradientArguments& a) {
  auto* partial = static_cast<T*>(a.partial);
  const auto* dy = static_cast<const T*>(a.dy);
  const int64_t size = (a.T + a.parts - 1) / a.parts;
  parallel_for(0, a.parts, 1, [&](int64_t first, int64_t last) {
    RowBits bits(a.draw, a.D);
    for (int64_t part = first; part < last; ++part) {
      T* sums = partial + part * (a.V + 1) * a.D;
      std::fill_n(sums, (a.V + 1) * a.D, T(0));
      for (int64_t r = part * size; r < std::min(a.T, (part + 1) * size); ++r) {
        embed_backward_cpu(dy + r * a.D, sums + a.tokens[r] * a.D, a.D, bits.of(r), a.draw.rate);
      }
    }
  });
  parallel_for(0, a.V + 1, std::max<int64_t>(1, 8192 / (a.D * a.parts)), [&](int64_t first, int64_t last) {
    for (int64_t v = first; v < last; ++v) {
      T* into = v < a.V ? static_cast<T*>(a.d_table) : static_cast<T*>(a.d_cls);
      if (!into) continue;
      if (v < a.V) into += v * a.D;
      for (int64_t part = 0; part < a.parts; ++part) {
        embed_backward_cpu(partial + (part * (a.V + 1) + v) * a.D, into, a.D, nullptr, a.draw.rate);
      }
    }
  });
}

template <class T>
void positions_backward_cpu(const EmbedGradientArguments& a) {
  parallel_for(0, a.places, std::max<int64_t>(1, 8192 / (a.D * a.B)), [&](int64_t first, int64_t last) {
    RowBits bits(a.draw, a.D);
    for (int64_t b = 0; b < a.B; ++b) {
      // Places rise along a row.
      const int64_t *begin = a.slots + a.offsets[b], *end = begin + a.lengths[b];
      const auto before = [](int64_t slot, int64_t place) { return (slot & kPlaceMask) < place; };
      for (const int64_t* s = std::lower_bound(begin, end, first, before);
           s < end && (*s & kPlaceMask) < last; ++s) {
        const int64_t r = s - a.slots;
        embed_backward_cpu(static_cast<const T*>(a.dy) + r * a.D,
                           static_cast<T*>(a.d_positions) + (*s & kPlaceMask) * a.D, a.D, bits.of(r),
                           a.draw.rate);
      }
    }
  });
}

template <class T>
void backward_cpu(const EmbedGradientArguments& a) {
  if (a.d_table || a.d_cls) table_backward_cpu<T>(a);
  if (a.d_positions) positions_backward_cpu<T>(a);
}

class EmbedFunction : public torch::autograd::Function<EmbedFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& table, const std::optional<Tensor>& cls,
                        const std::optional<Tensor>& positions, const EmbedInput& input) {
    const int64_t T = input.tokens.numel(), D = table.size(1), V = table.size(0);
    Tensor out = torch::empty({T, D}, table.options().dtype(input.type).requires_grad(false));
    const EmbedArguments a{input.tokens.const_data_ptr<int32_t>(),
                           input.rows.slots.const_data_ptr<int64_t>(),
                           input.rows.offsets.const_data_ptr<int32_t>(),
                           table.const_data_ptr(),
                           data_or_null(input.cls),
                           data_or_null(input.positions),
                           out.mutable_data_ptr(),
                           T,
                           D,
                           V,
                           input.rows.count,
                           input.positions.defined() ? input.positions.size(0) : 0,
                           std::max(input.rows.longest, input.rows.pitch),
                           input.dropout.draw(),
                           static_cast<int>(out.element_size())};
    if (on_device(table)) {
      launch(embed_forward_cuda, a, "embed");
    } else {
      input.type == torch::kDouble ? forward_cpu<double>(a) : forward_cpu<float>(a);
    }
    context->save_for_backward({table, cls.value_or(Tensor()), positions.value_or(Tensor()), input.tokens,
                                input.rows.offsets, input.rows.lengths, input.rows.slots});
    context->saved_data["longest"] = input.rows.gaps && positions ? positions->size(0) : input.rows.longest;
    context->saved_data["rows"] = input.rows.count;
    save_dropout(*context, input.dropout);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &table = saved[0], &positions = saved[2], &tokens = saved[3], &lengths = saved[5];
    const ParameterGradient d_table(table), d_cls(saved[1]), d_positions(positions);
    const Dropout dropout = saved_dropout(*context);
    const Tensor dy = gradients[0].contiguous();
    const int64_t T = tokens.numel(), D = table.size(1), V = table.size(0);
    const auto element = static_cast<int>(dy.element_size());
    const int64_t parts = parts_cpu(T, D, V);
    const EmbedPlan plan(T, D, V);
    const auto options = table.options().requires_grad(false);
    const Tensor partial = torch::empty({on_device(dy) ? plan.partial_size() : parts * (V + 1) * D}, options);
    const Tensor sort = torch::empty({on_device(dy) ? plan.sort_size() : 0}, options.dtype(torch::kInt));
    const int64_t longest = context->saved_data["longest"].toInt();
    const EmbedGradientArguments a{tokens.const_data_ptr<int32_t>(),
                                   saved[4].const_data_ptr<int32_t>(),
                                   lengths.const_data_ptr<int32_t>(),
                                   saved[6].const_data_ptr<int64_t>(),
                                   dy.const_data_ptr(),
                                   mutable_data_or_null(d_table.into),
                                   mutable_data_or_null(d_cls.into),
                                   mutable_data_or_null(d_positions.into),
                                   partial.mutable_data_ptr(),
                                   sort.mutable_data_ptr<int32_t>(),
                                   T,
                                   D,
                                   V,
                                   context->saved_data["rows"].toInt(),
                                   positions.defined() ? std::min(positions.size(0), longest) : 0,
                                   parts,
                                   dropout.draw(),
                                   element};
    if (on_device(dy)) {
      launch(embed_backward_cuda, a, "embed backward");
    } else {
      element == 8 ? backward_cpu<double>(a) : backward_cpu<float>(a);
    }
    return {d_table.result, d_cls.result, d_positions.result, {}};
  }
};

std::optional<Tensor> if_defined(const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

}  // namespace

Tensor embed(const EmbedInput& input) {
  TORCH_CHECK(input.tokens.scalar_type() == torch::kInt && input.tokens.is_contiguous(),
              "[embed] tokens must be int32 and contiguous, not ", input.tokens.scalar_type());
  TORCH_CHECK(input.table.is_contiguous() && (!input.cls.defined() || input.cls.is_contiguous()) &&
                  (!input.positions.defined() || input.positions.is_contiguous()),
              "[embed] the table, CLS and positions must be contiguous");
  TORCH_CHECK(on_device(input.table) || input.type == input.table.scalar_type(),
              "[embed] the CPU computes in ", input.table.scalar_type(), ", the table's type, not in ",
              input.type);
  // The CUDA kernels take positions to follow each other without gaps.
  if (input.rows.gaps && input.positions.defined() && !on_cpu_path(input.table)) {
    EmbedInput plain = input;
    plain.positions = Tensor();
    plain.dropout = Dropout();
    const Tensor places = input.rows.slots.bitwise_and(kPlaceMask);
    return dropout(embed(plain) + input.positions.index_select(0, places).to(input.type), input.dropout);
  }
  return EmbedFunction::apply(input.table, if_defined(input.cls), if_defined(input.positions), input);
}

Tensor embed_reference(const EmbedInput& input) {
  Tensor rows = input.table;
  if (input.cls.defined()) rows = torch::cat({rows, input.cls.unsqueeze(0)});
  Tensor x = rows.index_select(0, input.tokens);  // [T, D]
  if (input.positions.defined()) {
    x = x + input.positions.index_select(0, input.rows.slots.bitwise_and(kPlaceMask));
  }
  return dropout_reference(x, input.dropout).to(input.type);
}

}  // namespace lra
