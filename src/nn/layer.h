// The base of every layer: a torch module whose parameters know how they are initialised.
//
//   class Linear : public Layer {
//     Linear(int64_t in, int64_t out) { weight = parameter("weight", {out, in}, Init::xavier(in, out)); }
//   };
//
// A parameter's initial value is a function of (seed, its full name) alone, not of the order in which layers
// are made.
#pragma once
#include <map>
#include <string>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "batch/batch.h"
#include "kernels/dropout/dropout.h"

namespace lra {

struct Init {
  enum class Kind { kConstant, kNormal, kUniform, kTruncatedNormal };
  Kind kind = Kind::kConstant;
  double value = 0;  // the constant, the standard deviation, or the bound

  static Init constant(double c) { return {Kind::kConstant, c}; }
  static Init normal(double stddev) { return {Kind::kNormal, stddev}; }
  static Init xavier(int64_t fan_in, int64_t fan_out);  // uniform ±√(6/(in+out))
  static Init lecun(int64_t fan_in);  // normal cut at two standard deviations, variance 1/in after the cut
};

class Layer : public torch::nn::Module {
 public:
  const std::map<std::string, Init>& inits() const { return inits_; }

 protected:
  Tensor parameter(const std::string& name, torch::IntArrayRef shape, Init init);

 private:
  std::map<std::string, Init> inits_;
};

// Fills every parameter below `module`.
void initialize(torch::nn::Module& module, uint64_t seed);

// What a forward pass knows besides its input.
struct Forward {
  bool training = false;
  Rows rows;          // of the positions that are passed through
  uint64_t seed = 0;  // of dropout
  Tensor step;        // int64 [1] on the device: with the seed, all that dropout draws from
  Tensor valid;       // bool [T] where padding is kept in the rows: false at padding; else undefined
  Tensor copies;  // the flat buffer of parameters in the type of the activations, where the engine keeps one
  // Sees named intermediate results when set; used to find the first bad tensor.
  std::function<void(const std::string&, const Tensor&)> probe;

  Dropout dropout(double p, uint64_t site) const {
    return training && p > 0 ? Dropout{p, site, seed, step, rows.slots} : Dropout{};
  }
  // Where the first position of each row stands, int64 [B], and the same pass with these positions alone.
  Tensor first_positions() const { return rows.offsets.narrow(0, 0, rows.count).to(torch::kLong); }
  Forward at_first_positions() const;
  void look(const std::string& name, const Tensor& x) const {
    if (probe) probe(name, x);
  }
};

}  // namespace lra
