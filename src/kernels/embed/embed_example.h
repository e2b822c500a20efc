// Random inputs for tests of the embedding, and what comes of them.
#pragma once
#include <vector>

#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "kernels/embed/embed.h"

namespace lra {

struct EmbedExample {
  std::vector<int32_t> lengths;
  bool packed = true;
  int64_t V = 11, D = 24;
  bool cls = false, positions = false;
  double p = 0;
  int64_t tail = 0;   // positions of no row, behind the rows
  bool gaps = false;  // every place but the first is doubled
  int64_t spare = 2;  // places of the table behind the longest row's

  // In double precision on the CPU; parameters ask for gradients.
  EmbedInput input() const {
    const auto options = torch::dtype(torch::kDouble).requires_grad(true);
    EmbedInput in;
    in.rows = lay_out(lengths, packed, 3);
    if (gaps) {
      in.rows.gaps = true;
      in.rows.slots = in.rows.slots + in.rows.slots.bitwise_and((1 << 24) - 1);
    }
    in.rows.positions += tail;
    in.rows.slots = torch::cat({in.rows.slots, torch::full({tail}, Rows::slot_of(99, 1), torch::kLong)});
    in.tokens = torch::randint(V, {in.rows.positions}, torch::kInt);
    if (cls) {
      in.cls = torch::randn({D}, options);
      in.tokens.index_fill_(0, in.rows.offsets.narrow(0, 0, in.rows.count).to(torch::kLong), V);
    }
    in.table = torch::randn({V, D}, options);
    if (positions) in.positions = torch::randn({(gaps ? 2 : 1) * in.rows.longest + spare, D}, options);
    if (p > 0) in.dropout = {p, 5, 42, torch::full({1}, 7, torch::kLong), in.rows.slots};
    in.type = torch::kDouble;
    return in;
  }
};

// The same with parameters of another type or on another device, as leaves of their own.
inline EmbedInput embed_copy(const EmbedInput& in, torch::Dtype parameters, torch::Dtype type,
                             const torch::Device& device = torch::kCPU) {
  const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
  const auto leaf = [&](const Tensor& t) {
    return t.defined() ? t.detach().to(device, parameters, false, true).requires_grad_(true) : t;
  };
  EmbedInput out = in;
  out.tokens = moved(in.tokens);
  out.rows.offsets = moved(in.rows.offsets);
  out.rows.lengths = moved(in.rows.lengths);
  out.rows.slots = moved(in.rows.slots);
  out.dropout.step = moved(in.dropout.step);
  out.dropout.slots = moved(in.dropout.slots);
  out.table = leaf(in.table);
  out.cls = leaf(in.cls);
  out.positions = leaf(in.positions);
  out.type = type;
  return out;
}

// x, d_table, d_cls, d_positions under a fixed weighting of x that is zero at positions of no row.
inline std::vector<Tensor> embed_results(const EmbedInput& in, Tensor (*f)(const EmbedInput&)) {
  const Tensor x = f(in);
  Tensor real = torch::zeros({x.size(0), 1}, torch::kDouble);
  const Tensor offsets = in.rows.offsets.cpu(), lengths = in.rows.lengths.cpu();
  for (int64_t b = 0; b < in.rows.count; ++b) {
    real.narrow(0, offsets[b].item<int>(), lengths[b].item<int>()).fill_(1);
  }
  const Tensor weights = torch::sin(torch::arange(x.numel(), torch::kDouble)).view(x.sizes()) * real;
  std::vector<Tensor> leaves{in.table};
  if (in.cls.defined()) leaves.push_back(in.cls);
  if (in.positions.defined() && in.positions.requires_grad()) leaves.push_back(in.positions);
  std::vector<Tensor> results{x.detach()};
  for (const Tensor& g : torch::autograd::grad({x}, leaves, {weights.to(x.options())})) results.push_back(g);
  return results;
}

}  // namespace lra
