// Parameters, gradients and the two moments of Adam, each one flat buffer. The model's parameters and their
// gradients become views into them, so one launch updates everything, one reduction gives the norm and one
// copy makes a checkpoint.
//
// Every parameter begins at a multiple of 64 bytes; the gaps hold zeros and stay zero.
#pragma once
#include <string>
#include <vector>

#include <torch/nn/module.h>
#include <torch/types.h>

#include "base/torch_compat.h"
#include "data/safetensors.h"
#include "runs/checkpoint.h"

namespace lra {

class FlatState {
 public:
  // Moves the module's parameters to `device` in `type` and into the flat buffers. Weight decay applies to
  // those for which `decayed` is true; they come first.
  FlatState(torch::nn::Module& module, const torch::Device& device, torch::Dtype type,
            const std::function<bool(const std::string&)>& decayed);

  struct Slot {
    std::string name;
    std::vector<int64_t> shape;
    int64_t offset, size;
  };
  const std::vector<Slot>& slots() const { return slots_; }

  Tensor parameters, gradients, first, second;  // [n]
  int64_t decayed_end = 0;                      // elements before it decay

  // A flat buffer on the host in the form of a checkpoint: `out` points into it.
  void describe(const Tensor& host, const std::string& prefix, std::vector<NamedTensor>& out) const;
  void load_model(const SafetensorsFile& file);
  void load_optimizer(const SafetensorsFile& file);

 private:
  void load(Tensor& flat, const std::string& prefix, const SafetensorsFile& file);

  std::vector<Slot> slots_;
};

}  // namespace lra
