#include "nn/head_mixer.h"

#include "kernels/project/project.h"

namespace lra {

HeadMixer::HeadMixer(const EncoderConfig& c, bool keys) : heads_(c.heads), width_(c.qkv_width / c.heads) {
  const auto projection = [&](const char* name, int64_t in, int64_t out) {
    return register_module(
        name, std::make_shared<Linear>(in, out, Linear::Options{false, Init::xavier(in, out), {}}));
  };
  if (keys) {
    q_ = projection("q", c.width, c.qkv_width);
    k_ = projection("k", c.width, c.qkv_width);
  }
  v_ = projection("v", c.width, c.qkv_width);
  o_ = projection("o", c.qkv_width, c.width);
}

Tensor HeadMixer::queries_keys_values(const Tensor& x, const Forward& f) const {
  return project(x, {q_->weight, k_->weight, v_->weight}, f.copies).view({-1, 3, heads_, width_});
}
Tensor HeadMixer::keys_values(const Tensor& x, const Forward& f) const {
  return project(x, {k_->weight, v_->weight}, f.copies).view({-1, 2, heads_, width_});
}
Tensor HeadMixer::queries(const Tensor& x, const Forward& f) const {
  return q_->product(x, f).view({-1, heads_, width_});
}
Tensor HeadMixer::values(const Tensor& x, const Forward& f) const {
  return v_->product(x, f).view({-1, heads_, width_});
}
Tensor HeadMixer::output(const Tensor& mixed, const Forward& f) const {
  return o_->product(mixed.reshape({-1, heads_ * width_}), f);
}

Tensor HeadMixer::queries_keys_values_reference(const Tensor& x) const {
  return torch::cat({q_->reference(x), k_->reference(x), v_->reference(x)}, 1).view({-1, 3, heads_, width_});
}
Tensor HeadMixer::values_reference(const Tensor& x) const {
  return v_->reference(x).view({-1, heads_, width_});
}
Tensor HeadMixer::output_reference(const Tensor& mixed) const {
  return o_->reference(mixed.reshape({-1, heads_ * width_}));
}

}  // namespace lra
