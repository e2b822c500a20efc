#include "nn/layers.h"

#include <cmath>

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/bias_gelu/bias_gelu.h"

namespace lra {

Linear::Linear(int64_t in, int64_t out, const Options& options) {
  weight = parameter("weight", {out, in}, options.weight_init);
  if (options.bias) bias = parameter("bias", {out}, options.bias_init);
}

Tensor Linear::forward(const Tensor& x) const {
  const auto type = x.scalar_type();  // masters stay fp32; a no-op where x is
  return torch::linear(x, weight.to(type), bias.defined() ? bias.to(type) : bias);
}

namespace {

// The weights as one matrix: a view where they are neighbours, else a copy.
Tensor stacked(const std::vector<Tensor>& weights) {
  const Tensor& first = weights.front();
  bool neighbours = first.is_contiguous();
  int64_t end = first.storage_offset() + first.numel();
  for (size_t i = 1; i < weights.size(); ++i) {
    neighbours = neighbours && weights[i].is_contiguous() && weights[i].is_alias_of(first) &&
                 weights[i].storage_offset() == end;
    end += weights[i].numel();
  }
  if (!neighbours) return torch::cat(weights);
  const int64_t in = first.size(1);
  return first.as_strided({(end - first.storage_offset()) / in, in}, {in, 1});
}

class StackedLinear : public torch::autograd::Function<StackedLinear> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, torch::TensorList list) {
    const std::vector<Tensor> weights = list.vec();
    const Tensor matrix = stacked(weights).to(x.scalar_type());
    context->save_for_backward({x, matrix});
    std::vector<int64_t> rows;
    for (const auto& w : weights) rows.push_back(w.size(0));
    context->saved_data["rows"] = rows;
    context->saved_data["type"] = weights.front().scalar_type();
    return torch::linear(x, matrix);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor dy = gradients[0].flatten(0, -2), x = saved[0].flatten(0, -2);
    torch::autograd::variable_list out = {torch::matmul(dy, saved[1]).view(saved[0].sizes())};
    const Tensor dw = torch::matmul(dy.t(), x).to(context->saved_data["type"].toScalarType());
    for (const auto& part : dw.split_with_sizes(context->saved_data["rows"].toIntVector()))
      out.push_back(part);
    return out;
  }
};

}  // namespace

Tensor stacked_linear(const Tensor& x, const std::vector<Tensor>& weights) {
  return StackedLinear::apply(x, torch::TensorList(weights));
}

LayerNorm::LayerNorm(int64_t width) {
  weight = parameter("weight", {width}, Init::constant(1));
  bias = parameter("bias", {width}, Init::constant(0));
}

Tensor LayerNorm::forward(const Tensor& x) const {
  const auto type = x.scalar_type();
  return torch::layer_norm(x, {x.size(-1)}, weight.to(type), bias.to(type), 1e-6);
}

Tensor LayerNorm::reference(const Tensor& x) const {
  const Tensor centred = x - x.mean(-1, /*keepdim=*/true);
  const Tensor variance = centred.square().mean(-1, /*keepdim=*/true);
  return centred / (variance + 1e-6).sqrt() * weight + bias;
}

Embedding::Embedding(int64_t vocabulary, int64_t width, Init init) {
  weight = parameter("weight", {vocabulary, width}, init);
}

Tensor Embedding::forward(const Tensor& tokens) const { return torch::embedding(weight, tokens); }

Tensor sinusoidal_positions(int64_t length, int64_t width) {
  Tensor table = torch::empty({length, width}, torch::kDouble);
  auto at = table.accessor<double, 2>();
  for (int64_t t = 0; t < length; ++t) {
    for (int64_t d = 0; d < width; ++d) {
      const double exponent = -static_cast<double>(d / 2 * 2) / static_cast<double>(width);
      const double angle = static_cast<double>(t) * std::pow(10000.0, exponent);
      at[t][d] = d % 2 == 0 ? std::sin(angle) : std::cos(angle);
    }
  }
  return table;
}

FeedForward::FeedForward(int64_t width, int64_t inner, double dropout, uint64_t site)
    : dropout_(dropout), site_(site) {
  const auto options = [](int64_t in, int64_t out) {
    return Linear::Options{true, Init::xavier(in, out), Init::normal(1e-6)};
  };
  in_ = register_module("in", std::make_shared<Linear>(width, inner, options(width, inner)));
  out_ = register_module("out", std::make_shared<Linear>(inner, width, options(inner, width)));
}

Tensor FeedForward::forward(const Tensor& x, const Forward& f) const {
  const Tensor inner =
      torch::linear(x, in_->weight.to(x.scalar_type()));  // the bias goes with the activation
  return out_->forward(bias_gelu_dropout(inner, in_->bias, f.training ? dropout_ : 0.0, site_, f.key));
}

Tensor FeedForward::reference(const Tensor& x, const Forward& f) const {
  const Tensor inner = torch::matmul(x, in_->weight.t());
  const Tensor active =
      bias_gelu_dropout_reference(inner, in_->bias, f.training ? dropout_ : 0.0, site_, f.key);
  return torch::matmul(active, out_->weight.t()) + out_->bias;
}

Tensor pool_mean(const Tensor& x, const Tensor& lengths) {
  if (!lengths.defined()) return x.mean(1);
  const Tensor positions = torch::arange(x.size(1), lengths.options());
  const Tensor mask = (positions.unsqueeze(0) < lengths.unsqueeze(1)).unsqueeze(2);  // [B, L, 1]
  return (x * mask.to(x.scalar_type())).sum(1) / lengths.unsqueeze(1).to(x.scalar_type());
}

MlpHead::MlpHead(int64_t in, int64_t hidden, int64_t classes) {
  hidden_ =
      register_module("0", std::make_shared<Linear>(in, hidden, Linear::Options{true, Init::lecun(in), {}}));
  out_ = register_module(
      "1", std::make_shared<Linear>(hidden, classes, Linear::Options{true, Init::lecun(hidden), {}}));
}

Tensor MlpHead::forward(const Tensor& x) const { return out_->forward(torch::relu(hidden_->forward(x))); }

Tensor pair_features(const Tensor& first, const Tensor& second) {
  return torch::cat({first, second, first * second, first - second}, -1);
}

}  // namespace lra
