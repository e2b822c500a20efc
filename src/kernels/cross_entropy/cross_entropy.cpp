#include "kernels/cross_entropy/cross_entropy.h"

#include "kernels/cross_entropy/cross_entropy_arguments.h"
#include "kernels/cross_entropy/cross_entropy_cpu.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<CrossEntropyArguments> cross_entropy_cuda = nullptr;

namespace {

void check(const Tensor& logits, const Tensor& labels) {
  TORCH_CHECK(
      logits.dim() == 2 && (logits.scalar_type() == torch::kFloat || logits.scalar_type() == torch::kDouble),
      "[cross_entropy] logits must be [B, C] of float or double, not ", logits.sizes(), " of ",
      logits.scalar_type());
  TORCH_CHECK(labels.scalar_type() == torch::kLong && labels.dim() == 1 && labels.size(0) == logits.size(0),
              "[cross_entropy] labels must be int64 [", logits.size(0), "], not ", labels.scalar_type(), " ",
              labels.sizes());
  if (on_device(labels)) return;
  for (int64_t b = 0; b < labels.size(0); ++b) {
    const int64_t label = labels.const_data_ptr<int64_t>()[b];
    TORCH_CHECK(label >= 0 && label < logits.size(1), "[cross_entropy] label ", label, " of row ", b,
                " is not in 0..", logits.size(1) - 1);
  }
}

}  // namespace

CrossEntropy cross_entropy(const Tensor& logits, const Tensor& labels, std::optional<double> scale) {
  const Tensor x = logits.contiguous(), y = labels.contiguous();
  check(x, y);
  const auto options = x.options().requires_grad(false);
  CrossEntropy out{torch::empty({}, options), torch::empty({}, options.dtype(torch::kLong))};
  if (scale) out.gradient = torch::empty(x.sizes(), options);
  CrossEntropyArguments a{x.const_data_ptr(),
                          y.const_data_ptr<int64_t>(),
                          x.size(0),
                          x.size(1),
                          out.loss.mutable_data_ptr(),
                          out.correct.mutable_data_ptr<int64_t>(),
                          scale ? out.gradient.mutable_data_ptr() : nullptr,
                          scale.value_or(0),
                          static_cast<int>(x.element_size()),
                          nullptr};
  if (on_device(x)) {
    const CrossEntropyPlan plan(x.size(0), x.size(1));
    const Tensor partial = torch::empty({plan.scratch_bytes()}, options.dtype(torch::kByte));
    a.partial = partial.mutable_data_ptr();
    launch(cross_entropy_cuda, a, "cross_entropy");
  } else {
    cross_entropy_cpu(a);
  }
  return out;
}

CrossEntropy cross_entropy_reference(const Tensor& logits, const Tensor& labels) {
  const Tensor log_softmax = logits - torch::logsumexp(logits, 1, true);
  const Tensor loss = -log_softmax.gather(1, labels.unsqueeze(1)).sum();
  return {loss, (logits.detach().argmax(1) == labels).sum()};
}

}  // namespace lra
