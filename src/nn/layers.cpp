#include "nn/layers.h"

#include <cmath>

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/add_norm/add_norm.h"
#include "kernels/bias_act/bias_act.h"
#include "kernels/mlp_head/mlp_head.h"
#include "kernels/project/project.h"

namespace lra {

Linear::Linear(int64_t in, int64_t out, const Options& options) {
  weight = parameter("weight", {out, in}, options.weight_init);
  if (options.bias) bias = parameter("bias", {out}, options.bias_init);
}

Tensor Linear::product(const Tensor& x, const Forward& f) const { return project(x, {weight}, f.copies); }

Tensor Linear::forward(const Tensor& x, const Forward& f) const {
  const Tensor y = product(x, f);
  return bias.defined() ? y + bias.to(y.scalar_type()) : y;
}

Tensor Linear::reference(const Tensor& x) const {
  const Tensor y = torch::matmul(x, weight.t());
  return bias.defined() ? y + bias : y;
}

LayerNorm::LayerNorm(int64_t width) {
  weight = parameter("weight", {width}, Init::constant(1));
  bias = parameter("bias", {width}, Init::constant(0));
}

Tensor LayerNorm::reference(const Tensor& x) const {
  const Tensor centred = x - x.mean(-1, /*keepdim=*/true);
  const Tensor variance = centred.square().mean(-1, /*keepdim=*/true);
  return centred / (variance + 1e-6).sqrt() * weight + bias;
}

Tensor row_mask(const Rows& rows, torch::Dtype type) {
  const Tensor begins = rows.offsets.narrow(0, 0, rows.count).unsqueeze(1),
               ends = begins + rows.lengths.unsqueeze(1);
  const Tensor positions = torch::arange(rows.positions, rows.offsets.options()).unsqueeze(0);
  return ((positions >= begins) & (positions < ends)).to(type);
}

namespace {

class Take : public torch::autograd::Function<Take> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& positions) {
    context->save_for_backward({positions});
    context->saved_data["rows"] = x.size(0);
    return x.index_select(0, positions);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    Tensor d =
        torch::zeros({context->saved_data["rows"].toInt(), gradients[0].size(1)}, gradients[0].options());
    return {d.index_copy_(0, context->get_saved_variables()[0], gradients[0]), {}};
  }
};

}  // namespace

Tensor take_rows(const Tensor& x, const Tensor& positions) { return Take::apply(x, positions); }

Residual::Normed Residual::normed(const LayerNorm& norm) const {
  const AddNormOutput out = add_norm({x, branch, bias, dropout, norm.weight, norm.bias});
  return {out.sum, out.normed};
}

Tensor Residual::sum() const {
  if (!branch.defined()) return x;
  return x + lra::dropout(bias.defined() ? branch + bias.to(branch.scalar_type()) : branch, dropout);
}

Embedding::Embedding(int64_t vocabulary, int64_t width, Init init) {
  weight = parameter("weight", {vocabulary, width}, init);
}

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
  const Tensor inner = in_->product(x, f);
  return out_->product(bias_activation(inner, in_->bias, Activation::kGelu, f.dropout(dropout_, site_)), f);
}

Tensor FeedForward::reference(const Tensor& x, const Forward& f) const {
  const Tensor inner = torch::matmul(x, in_->weight.t());
  return out_->reference(
      bias_activation_reference(inner, in_->bias, Activation::kGelu, f.dropout(dropout_, site_)));
}

MlpHead::MlpHead(int64_t in, int64_t hidden, int64_t classes, bool deep) {
  const auto layer = [&](size_t index, int64_t from, int64_t to) {
    return register_module(std::to_string(index),
                           std::make_shared<Linear>(from, to, Linear::Options{true, Init::lecun(from), {}}));
  };
  hidden_ = {layer(0, in, hidden)};
  if (deep) hidden_.push_back(layer(1, hidden, hidden / 2));
  out_ = layer(hidden_.size(), deep ? hidden / 2 : hidden, classes);
}

Tensor MlpHead::forward(const Tensor& x) const {
  if (hidden_.size() == 1) {
    const Linear& hidden = *hidden_.front();
    return mlp_head({x, hidden.weight, hidden.bias, out_->weight, out_->bias});
  }
  Tensor inner = x;
  for (const auto& layer : hidden_) {
    inner = bias_activation(layer->product(inner, {}), layer->bias, Activation::kRelu, {});
  }
  return out_->forward(inner, {});
}

Tensor pair_features(const Tensor& first, const Tensor& second) {
  return torch::cat({first, second, first * second, first - second}, -1);
}

}  // namespace lra
