#include "kernels/adamw/adamw.h"

#include <numeric>

#include "base/torch_compat.h"
#include "kernels/adamw/adamw_cpu.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<AdamWArguments> adamw_cuda = nullptr;

namespace {

constexpr int64_t kScalars = sizeof(AdamWScalars) / sizeof(double);
// Elements that a CPU core handles at a time: they stay in its cache from one pass over them to the next.
constexpr int64_t kPart = 8192;

void check_buffer(const Tensor& t, const char* name, const AdamWState& state, torch::Dtype type, int64_t n) {
  TORCH_CHECK(t.defined() && t.scalar_type() == type && t.numel() == n && t.is_contiguous() &&
                  t.device() == state.parameters.device(),
              "[adamw] ", name, ": expected ", n, " contiguous numbers of type ", type, " on ",
              state.parameters.device(), ", found ", t.defined() ? t.toString() : "an undefined tensor");
}

void check_state(const AdamWState& s, const Tensor& loss_sum, const Tensor& correct) {
  const auto type = s.parameters.scalar_type();
  const int64_t n = s.parameters.numel();
  TORCH_CHECK(type == torch::kFloat || type == torch::kDouble,
              "[adamw] parameters are float or double, found ", type);
  check_buffer(s.parameters, "parameters", s, type, n);
  check_buffer(s.gradients, "gradients", s, type, n);
  check_buffer(s.first, "first", s, type, n);
  check_buffer(s.second, "second", s, type, n);
  if (s.working.defined()) check_buffer(s.working, "working", s, torch::kBFloat16, n);
  check_buffer(s.step, "step", s, torch::kLong, 1);
  check_buffer(s.bad_step, "bad_step", s, torch::kLong, 1);
  check_buffer(s.sums, "sums", s, torch::kDouble, 4);
  check_buffer(s.scratch, "scratch", s, torch::kDouble, kScalars + kAdamWPartials);
  check_buffer(loss_sum, "loss_sum", s, loss_sum.scalar_type(), 1);
  TORCH_CHECK(loss_sum.is_floating_point() && loss_sum.scalar_type() != torch::kHalf,
              "[adamw] loss_sum is bfloat16, float or double, found ", loss_sum.scalar_type());
  check_buffer(correct, "correct", s, torch::kLong, 1);
}

AdamWArguments arguments_of(const AdamWState& s, const AdamWOptions& options, const Tensor& loss_sum,
                            const Tensor& correct, int64_t rows) {
  AdamWArguments a{};
  a.parameters = s.parameters.mutable_data_ptr();
  a.gradients = s.gradients.mutable_data_ptr();
  a.first = s.first.mutable_data_ptr();
  a.second = s.second.mutable_data_ptr();
  a.working = s.working.defined() ? s.working.mutable_data_ptr() : nullptr;
  a.n = s.parameters.numel();
  a.element = static_cast<int>(s.parameters.element_size());
  a.step = s.step.mutable_data_ptr<int64_t>();
  a.bad_step = s.bad_step.mutable_data_ptr<int64_t>();
  a.sums = s.sums.mutable_data_ptr<double>();
  a.scalars = static_cast<AdamWScalars*>(s.scratch.mutable_data_ptr());
  a.partials = s.scratch.mutable_data_ptr<double>() + kScalars;
  a.loss_sum = loss_sum.const_data_ptr();
  a.loss_element = static_cast<int>(loss_sum.element_size());
  a.correct = correct.const_data_ptr<int64_t>();
  a.rows = rows;
  a.options = options;
  return a;
}

template <class T>
double squares_cpu(const AdamWArguments& a) {
  const auto* g = static_cast<const T*>(a.gradients);
  const int64_t chunk = std::max(kPart, (a.n + kAdamWPartials - 1) / kAdamWPartials);
  const int64_t chunks = (a.n + chunk - 1) / chunk;
  parallel_for(0, chunks, 4, [&](int64_t first, int64_t last) {
    for (int64_t c = first; c < last; ++c) {
      a.partials[c] = adamw_squares_cpu(g + c * chunk, std::min(chunk, a.n - c * chunk));
    }
  });
  return std::accumulate(a.partials, a.partials + chunks, 0.0);
}

template <class T>
void step_cpu(const AdamWArguments& a, double loss) {
  adamw_scalars(a, squares_cpu<T>(a), loss);
  parallel_for(0, (a.n + kPart - 1) / kPart, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      const int64_t begin = part * kPart, end = std::min(a.n, begin + kPart);
      if constexpr (sizeof(T) == 4) {
        adamw_update_float_cpu(a, begin, end);
      } else {
        adamw_update_double_cpu(a, begin, end);
      }
    }
  });
}

}  // namespace

Tensor adamw_scratch(const Tensor& parameters) {
  return torch::zeros({kScalars + kAdamWPartials},
                      parameters.options().dtype(torch::kDouble).requires_grad(false));
}

void adamw_step(const AdamWState& state, const AdamWOptions& options, const Tensor& loss_sum,
                const Tensor& correct, int64_t rows) {
  check_state(state, loss_sum, correct);
  const AdamWArguments a = arguments_of(state, options, loss_sum, correct, rows);
  if (on_device(state.parameters)) {
    launch(adamw_cuda, a, "adamw");
  } else if (state.parameters.scalar_type() == torch::kDouble) {
    step_cpu<double>(a, loss_sum.item<double>());
  } else {
    step_cpu<float>(a, loss_sum.item<double>());
  }
}

void adamw_step_reference(const AdamWState& state, const AdamWOptions& o, const Tensor& loss_sum,
                          const Tensor& correct, int64_t rows) {
  const torch::NoGradGuard no_grad;
  const int64_t step = state.step.item<int64_t>();
  const Tensor squares = state.gradients.to(torch::kDouble).square().sum();
  const double norm = squares.sqrt().item<double>();
  const bool finite = torch::isfinite(squares.to(state.gradients.scalar_type())).item<bool>() &&
                      torch::isfinite(loss_sum).item<bool>();
  if (!finite && state.bad_step.item<int64_t>() < 0) state.bad_step.fill_(step);
  if (state.bad_step.item<int64_t>() < 0) {
    const double rate = learning_rate(o.schedule, step), t = static_cast<double>(step + 1);
    const Tensor g = state.gradients * (o.clip > 0 ? std::min(1.0, o.clip / (norm + 1e-6)) : 1.0);
    state.first.mul_(o.beta1).add_((1 - o.beta1) * g);
    state.second.mul_(o.beta2).add_((1 - o.beta2) * g * g);
    const Tensor first = state.first / (1 - std::pow(o.beta1, t));
    const Tensor second = state.second / (1 - std::pow(o.beta2, t));
    state.parameters.narrow(0, 0, o.decayed_end).mul_(1 - rate * o.weight_decay);
    state.parameters.sub_(rate * first / (second.sqrt() + o.epsilon));
    if (state.working.defined()) state.working.copy_(state.parameters);
  }
  if (o.zero_gradients) state.gradients.zero_();
  state.sums.add_(
      torch::tensor({loss_sum.item<double>(), correct.item<double>(), static_cast<double>(rows), norm},
                    state.sums.options()));
  state.step.add_(1);
}

}  // namespace lra
