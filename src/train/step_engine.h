// One training step: forward, loss, backward, clipping, update, counters and metric sums.
//
// The engine never reads from the device: learning rate, step counter, metric sums and the stop flag are
// tensors there. The trainer reads them when it wants to print. If loss or gradients stop being finite, the
// flag is set at that step and every later update leaves the parameters as they were, so that the cause can
// be found afterwards.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "batch/source.h"
#include "kernels/adamw/adamw.h"
#include "nn/encoder.h"
#include "train/flat_state.h"
#include "train/schedule.h"

namespace lra {

struct OptimizerConfig {
  double beta1 = 0.9, beta2 = 0.98, epsilon = 1e-9, weight_decay = 0.1;
  double clip = 0;  // global norm; 0 for none
};

// Everything a step changes, on the device.
struct TrainState {
  FlatState flat;
  Tensor copies;  // the parameters in the type of the activations, kept by the optimiser; undefined: the same
                  // type
  Tensor step;    // int64 [1]: updates done
  Tensor sums;    // double [4]: loss·examples, correct, examples, gradient norm·steps since the last read
  Tensor bad_step;  // int64 [1]: the first step whose loss or gradient was not finite, or -1

  void parameters_changed();  // by others than a step: makes the copies again
};
TrainState make_train_state(torch::nn::Module& model, const torch::Device& device, torch::Dtype type,
                            torch::Dtype compute);

class StepEngine {
 public:
  virtual ~StepEngine() = default;
  virtual std::string name(const BatchSource& source) const = 0;  // how it will run that source's steps
  // One update from the micro-batches of the next step; their mean loss counts every example once. Called by
  // one thread.
  virtual void step(BatchSource& source) = 0;
};

enum class EngineKind {
  kEager,  // operation by operation, on CPU and GPU
  kGraph,  // on CUDA one recorded graph a step; elsewhere, and for batches that cannot be recorded, eager
};
// `model`, `state` and the sources must outlive it.
std::unique_ptr<StepEngine> make_engine(EngineKind kind, const Encoder& model, TrainState& state,
                                        const OptimizerConfig& optimizer, const Schedule& schedule,
                                        uint64_t seed);

// Runs the step again on the parameters as they are, looking at every tensor in order; names the first that
// is not finite.
std::string find_bad_tensor(const Encoder& model, TrainState& state, std::span<const Batch> micro_batches,
                            int64_t step, uint64_t seed);

}  // namespace lra
