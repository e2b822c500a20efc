// Random inputs for tests of pooling, and what comes of them.
#pragma once
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "kernels/pool/pool.h"

namespace lra {

struct PoolExample {
  std::vector<int32_t> lengths;
  bool packed = true;
  int64_t D = 24;
  bool branch = true, bias = true, cls = false;
  double p = 0;
  int64_t tail = 0;  // unused positions at the end of the buffer

  // In double precision on the CPU, all asking for gradients.
  PoolInput input() const {
    const auto options = torch::dtype(torch::kDouble).requires_grad(true);
    PoolInput in;
    in.rows = lay_out(lengths, packed, 3);
    in.rows.slots = torch::cat({in.rows.slots, torch::zeros({tail}, torch::kLong)});
    in.rows.positions += tail;
    in.x = torch::randn({in.rows.positions, D}, options);
    if (branch) in.branch = torch::randn({in.rows.positions, D}, options);
    if (bias) in.bias = torch::randn({D}, options);
    in.weight = torch::randn({D}, options);
    in.offset = torch::randn({D}, options);
    in.cls = cls;
    if (p > 0) in.dropout = {p, 5, 42, torch::full({1}, 7, torch::kLong), in.rows.slots};
    return in;
  }
};

// The same in other types or on another device, as leaves of their own.
inline PoolInput pool_copy(const PoolInput& in, torch::Dtype parameters, torch::Dtype type,
                           const torch::Device& device = torch::kCPU) {
  const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
  const auto leaf = [&](const Tensor& t, torch::Dtype as) {
    return t.defined() ? t.detach().to(device, as, false, true).requires_grad_(true) : t;
  };
  PoolInput out = in;
  out.rows.offsets = moved(in.rows.offsets);
  out.rows.lengths = moved(in.rows.lengths);
  out.rows.slots = moved(in.rows.slots);
  out.dropout.step = moved(in.dropout.step);
  out.dropout.slots = moved(in.dropout.slots);
  out.x = leaf(in.x, type);
  out.branch = leaf(in.branch, type);
  out.bias = leaf(in.bias, parameters);
  out.weight = leaf(in.weight, parameters);
  out.offset = leaf(in.offset, parameters);
  return out;
}

// pooled, and the gradients of all inputs under a fixed weighting of it.
inline std::vector<Tensor> pool_results(const PoolInput& in, Tensor (*f)(const PoolInput&)) {
  const Tensor pooled = f(in);
  const Tensor weights = torch::sin(torch::arange(pooled.numel(), torch::kDouble)).view(pooled.sizes());
  std::vector<Tensor> leaves;
  for (const Tensor& t : {in.x, in.branch, in.bias, in.weight, in.offset}) {
    if (t.defined()) leaves.push_back(t);
  }
  std::vector<Tensor> results{pooled.detach()};
  for (const Tensor& g : torch::autograd::grad({pooled}, leaves, {weights.to(pooled.options())})) {
    results.push_back(g);
  }
  return results;
}

}  // namespace lra
