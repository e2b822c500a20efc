#include "nn/layer.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"

namespace lra {
namespace {

// A standard normal number by Box and Muller's transform.
double normal(Rng& rng) {
  const double u = 1.0 - rng.uniform(), v = rng.uniform();
  return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
}

double draw(const Init& init, Rng& rng) {
  switch (init.kind) {
    case Init::Kind::kConstant:
      return init.value;
    case Init::Kind::kNormal:
      return init.value * normal(rng);
    case Init::Kind::kUniform:
      return init.value * (2.0 * rng.uniform() - 1.0);
    case Init::Kind::kTruncatedNormal:
      for (;;) {
        if (const double x = normal(rng); std::abs(x) <= 2.0) return init.value * x;
      }
  }
  return 0;
}

void initialize_below(torch::nn::Module& module, uint64_t seed, const std::string& prefix) {
  if (auto* layer = dynamic_cast<Layer*>(&module)) {
    for (auto& entry : module.named_parameters(/*recurse=*/false)) {
      const std::string name = prefix + entry.key();
      const Init& init = layer->inits().at(entry.key());
      Rng rng(seed, stream_id("init") ^ stream_id(name));
      Tensor values = torch::empty(entry.value().sizes(), torch::kDouble);
      auto* at = values.mutable_data_ptr<double>();
      for (int64_t i = 0; i < values.numel(); ++i) at[i] = draw(init, rng);
      const torch::NoGradGuard no_grad;
      entry.value().copy_(values);
    }
  }
  for (auto& child : module.named_children())
    initialize_below(*child.value(), seed, prefix + child.key() + ".");
}

}  // namespace

Init Init::xavier(int64_t fan_in, int64_t fan_out) {
  return {Kind::kUniform, std::sqrt(6.0 / static_cast<double>(fan_in + fan_out))};
}

Init Init::lecun(int64_t fan_in) {
  constexpr double kCut = 0.87962566103423978;  // standard deviation of a normal number cut at ±2
  return {Kind::kTruncatedNormal, std::sqrt(1.0 / static_cast<double>(fan_in)) / kCut};
}

Tensor Layer::parameter(const std::string& name, torch::IntArrayRef shape, Init init) {
  inits_[name] = init;
  return register_parameter(name, torch::empty(shape, torch::kFloat));
}

Forward Forward::at_first_positions() const {
  Forward f = *this;
  Rows& r = f.rows;
  r.slots = rows.slots.index_select(0, first_positions());
  r.offsets = torch::arange(rows.count + 1, rows.offsets.options());
  r.lengths = torch::ones_like(rows.lengths);
  r.positions = rows.count;
  r.longest = r.pitch = 1;
  r.full = true;
  return f;
}

void initialize(torch::nn::Module& module, uint64_t seed) { initialize_below(module, seed, ""); }

}  // namespace lra
