#include "kernels/attention/attention_kernels.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/attention_library.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<AttentionForwardArguments> attention_forward_cuda = nullptr;
CudaLauncher<AttentionBackwardArguments> attention_backward_cuda = nullptr;
bool (*attention_kernels_run_here)() = nullptr;

namespace {

// Heads for which they are faster than cuDNN's kernels; with dropout, where flash is the other choice, all
// (docs/performance.md).
constexpr int64_t kNarrow = 32;

bool run_here() { return attention_kernels_run_here && attention_kernels_run_here(); }

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

AttentionData data_of(const Tensor& qkv, const Rows& rows, const Dropout& dropout, bool causal) {
  AttentionData d{};
  d.qkv = qkv.const_data_ptr();
  d.offsets = rows.offsets.const_data_ptr<int32_t>();
  d.positions = qkv.size(0);
  d.rows = rows.offsets.size(0) - 1;
  d.heads = static_cast<int32_t>(qkv.size(2));
  d.width = static_cast<int32_t>(qkv.size(3));
  d.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d.width)));
  d.causal = causal;
  d.draw = dropout.draw();
  return d;
}

class KernelAttention : public torch::autograd::Function<KernelAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& stacked, const Rows& rows,
                        const Dropout& dropout, bool causal) {
    const Tensor qkv = aligned(stacked);
    const int64_t T = qkv.size(0), H = qkv.size(2);
    const Tensor out = torch::empty({T, H, qkv.size(3)}, qkv.options()),
                 lse = torch::empty({H, T}, qkv.options().dtype(torch::kFloat));
    launch(attention_forward_cuda,
           {data_of(qkv, rows, dropout, causal), out.mutable_data_ptr(), lse.mutable_data_ptr<float>()},
           "attention");
    context->save_for_backward({qkv, out, lse});
    context->saved_data["causal"] = causal;
    save_rows(*context, rows);
    save_dropout(*context, dropout);
    return out;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor &qkv = saved[0], &out = saved[1], &lse = saved[2];
    const Rows rows = saved_rows(*context);
    const Dropout dropout = saved_dropout(*context);
    const Tensor d_out = aligned(gradients[0]), d_qkv = torch::empty_like(qkv),
                 delta = torch::empty_like(lse);
    const AttentionData data = data_of(qkv, rows, dropout, context->saved_data["causal"].toBool());
    Tensor query_sums;  // where rows are short, more would be padding than sums
    if (!at::globalContext().deterministicAlgorithms() && data.rows * kAttentionTile <= data.positions) {
      query_sums = torch::zeros({attention_query_sums(data)}, lse.options());
    }
    launch(attention_backward_cuda,
           {data, out.const_data_ptr(), d_out.const_data_ptr(), lse.const_data_ptr<float>(),
            delta.mutable_data_ptr<float>(),
            query_sums.defined() ? query_sums.mutable_data_ptr<float>() : nullptr, d_qkv.mutable_data_ptr()},
           "attention backward");
    return {d_qkv, {}, {}, {}};
  }
};

}  // namespace

std::string attention_kernels_refusal(const AttentionInput& in) {
  if (!on_device(in.qkv) || in.qkv.scalar_type() != torch::kBFloat16) return "they are for bf16 on a GPU";
  if (in.qkv.size(3) % 8 != 0 || in.qkv.size(3) > kAttentionWidest) {
    return fmt::format("they are for heads of 8, 16, … {}", kAttentionWidest);
  }
  if (in.rows.pitch > 0 && !in.rows.full) return "they are for rows without padding";
  if (in.rows.longest >= int64_t{1} << 20) return "dropout's counters end at 2^20 positions";
  if (!run_here()) return "they need a Hopper GPU";
  return {};
}

Tensor attention_by_kernels(const AttentionInput& in) {
  const std::string why = attention_kernels_refusal(in);
  TORCH_CHECK(why.empty(), "[attention] kernels cannot serve this: ", why);
  return KernelAttention::apply(in.qkv, in.rows, in.dropout, in.causal);
}

bool attention_kernels_serve(const AttentionInput& in) {
  return attention_kernels_serve(in.qkv.scalar_type(), in.qkv.size(3), in.dropout.p) &&
         attention_kernels_refusal(in).empty();
}

bool attention_kernels_serve(torch::Dtype type, int64_t width, double dropout) {
  return type == torch::kBFloat16 && (dropout > 0 || width <= kNarrow) && run_here();
}

}  // namespace lra
