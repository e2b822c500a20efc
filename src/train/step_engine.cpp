#include "train/step_engine.h"

#include "base/cuda_graph.h"
#include "base/philox.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/rows/partial_sums.h"

namespace lra {
namespace {

// Offsets of the device generator between steps: more than any step draws (only CUDA's fused attention uses
// it).
constexpr uint64_t kDrawsPerStep = uint64_t{1} << 32;

Forward training_forward(const TrainState& state, uint64_t seed) {
  Forward f;
  f.training = true;
  f.seed = seed ^ stream_id("dropout");
  f.step = state.step;
  f.copies = state.copies;
  return f;
}

AdamWOptions adamw_options(const OptimizerConfig& o, const Schedule& schedule, const FlatState& flat) {
  AdamWOptions options;
  options.beta1 = o.beta1, options.beta2 = o.beta2, options.epsilon = o.epsilon;
  options.weight_decay = o.weight_decay, options.clip = o.clip;
  options.schedule = schedule.numbers();
  options.decayed_end = flat.decayed_end;
  options.zero_gradients = true;
  return options;
}

// The step itself, from batches to counters. Nothing in it waits for the device or depends on what is there,
// so it can be run as it stands or recorded once and replayed.
class Step {
 public:
  Step(const Encoder& model, TrainState& state, const OptimizerConfig& optimizer, const Schedule& schedule,
       uint64_t seed)
      : model_(model), state_(state), options_(adamw_options(optimizer, schedule, state.flat)), seed_(seed) {
    const FlatState& flat = state.flat;
    adamw_ = {flat.parameters, flat.gradients, flat.first,
              flat.second,     state.copies,   state.step,
              state.bad_step,  state.sums,     adamw_scratch(flat.parameters)};
    flat.gradients.zero_();
    loss_sum_ = torch::zeros({}, state.sums.options());
    correct_ = torch::zeros({}, state.step.options());
  }

  // A step of one micro-batch.
  void whole(const Batch& batch) {
    const CrossEntropy ce = add_gradients(batch, batch.rows);
    adamw_step(adamw_, options_, ce.loss, ce.correct, batch.rows);
  }

  // A step of several: begin, each of them, end.
  void begin() {
    loss_sum_.zero_();
    correct_.zero_();
  }
  void part(const Batch& batch, int64_t rows_of_all) {
    const CrossEntropy ce = add_gradients(batch, rows_of_all);
    loss_sum_ += ce.loss;
    correct_ += ce.correct;
  }
  void end(int64_t rows_of_all) { adamw_step(adamw_, options_, loss_sum_, correct_, rows_of_all); }

 private:
  // Of the mean loss over all examples of the step, whatever part of it this is. The buffer holds zeros
  // before the first: the optimiser leaves them.
  CrossEntropy add_gradients(const Batch& batch, int64_t rows_of_all) {
    const Tensor logits = model_.forward(batch, training_forward(state_, seed_));
    const CrossEntropy ce = cross_entropy(logits, batch.labels, 1.0 / static_cast<double>(rows_of_all));
    PartialSumsTogether sums;
    logits.backward(ce.gradient);
    sums.finish();
    return ce;
  }

  const Encoder& model_;
  TrainState& state_;
  AdamWState adamw_;
  AdamWOptions options_;
  uint64_t seed_;
  Tensor loss_sum_, correct_;  // over the micro-batches of a step
};

// Counts steps on the host beside the counter on the device, for what the host must set: which batches come,
// and where the device generator stands.
class CountingEngine : public StepEngine {
 public:
  CountingEngine(Step step, const TrainState& state, uint64_t seed)
      : step_(std::move(step)),
        counter_(state.step),
        device_(state.step.device()),
        seed_(seed),
        done_(counter_.item<int64_t>()) {}

  void step(BatchSource& source) override {
    seed_device_generator(device_, seed_, kDrawsPerStep * static_cast<uint64_t>(done_));
    source.prepare(done_);
    run(source);
    ++done_;
  }

 protected:
  virtual void run(BatchSource& source) = 0;

  // Operation by operation.
  void run_eagerly(BatchSource& source) {
    if (source.micro_batches() == 1) return step_.whole(source.batch(0, counter_));
    step_.begin();
    for (int64_t m = 0; m < source.micro_batches(); ++m) step_.part(source.batch(m, counter_), source.rows());
    step_.end(source.rows());
  }

  Step step_;
  Tensor counter_;

 private:
  torch::Device device_;
  uint64_t seed_;
  int64_t done_;
};

class EagerEngine : public CountingEngine {
 public:
  using CountingEngine::CountingEngine;
  std::string name(const BatchSource&) const override { return "eager"; }

 protected:
  void run(BatchSource& source) override { run_eagerly(source); }
};

// One replay a step; of a step of several micro-batches one for each of them, so that there are as many
// graphs as shapes, not as there are combinations of shapes.
class GraphEngine : public CountingEngine {
 public:
  using CountingEngine::CountingEngine;
  std::string name(const BatchSource& source) const override {
    return source.capturable() ? "CUDA graph" : "eager (batches that keep their padding are not recorded)";
  }

 protected:
  void run(BatchSource& source) override {
    if (!source.capturable()) return run_eagerly(source);
    if (source.micro_batches() == 1) {
      return graphs_.run(source.shape(0), [&] { step_.whole(source.batch(0, counter_)); });
    }
    step_.begin();
    for (int64_t m = 0; m < source.micro_batches(); ++m) {
      std::vector<int64_t> shape = source.shape(m);
      shape.push_back(m);
      graphs_.run(shape, [&] { step_.part(source.batch(m, counter_), source.rows()); });
    }
    step_.end(source.rows());
  }

 private:
  GraphPerShape graphs_;
};

}  // namespace

TrainState make_train_state(torch::nn::Module& model, const torch::Device& device, torch::Dtype type,
                            torch::Dtype compute) {
  // The arena's optimiser decays every parameter, norms and biases included.
  FlatState flat(model, device, type, [](const std::string&) { return true; });
  const auto long_type = torch::TensorOptions().device(device).dtype(torch::kLong);
  TrainState state{std::move(flat),
                   {},
                   torch::zeros({1}, long_type),
                   torch::zeros({4}, long_type.dtype(torch::kDouble)),
                   torch::full({1}, -1, long_type)};
  if (compute != type) state.copies = state.flat.parameters.to(compute);
  return state;
}

void TrainState::parameters_changed() {
  if (copies.defined()) copies.copy_(flat.parameters);
}

std::unique_ptr<StepEngine> make_engine(EngineKind kind, const Encoder& model, TrainState& state,
                                        const OptimizerConfig& optimizer, const Schedule& schedule,
                                        uint64_t seed) {
  Step step(model, state, optimizer, schedule, seed);
  if (kind == EngineKind::kGraph && state.step.is_cuda()) {
    return std::make_unique<GraphEngine>(std::move(step), state, seed);
  }
  return std::make_unique<EagerEngine>(std::move(step), state, seed);
}

std::string find_bad_tensor(const Encoder& model, TrainState& state, std::span<const Batch> micro_batches,
                            int64_t step, uint64_t seed) {
  const auto bad = [](const Tensor& t) { return !torch::isfinite(t).all().item<bool>(); };
  const auto view = [&](const Tensor& flat, const FlatState::Slot& slot) {
    return flat.narrow(0, slot.offset, slot.size);
  };
  for (const auto& slot : state.flat.slots()) {
    if (bad(view(state.flat.parameters, slot))) return "parameter " + slot.name;
  }
  state.step.fill_(step);
  state.flat.gradients.zero_();
  seed_device_generator(state.step.device(), seed, kDrawsPerStep * static_cast<uint64_t>(step));
  std::string found;
  for (const auto& batch : micro_batches) {
    Forward f = training_forward(state, seed);
    f.probe = [&](const std::string& name, const Tensor& x) {
      if (found.empty() && bad(x)) found = "output of " + name;
    };
    const Tensor logits = model.forward(batch, f);
    const CrossEntropy ce = cross_entropy(logits, batch.labels, 1.0);
    if (found.empty() && bad(ce.loss)) found = "loss";
    if (!found.empty()) return found;
    logits.backward(ce.gradient);
  }
  // Backward runs from the head to the embedding: the last bad gradient in the order of the model was made
  // first.
  for (auto slot = state.flat.slots().rbegin(); slot != state.flat.slots().rend(); ++slot) {
    if (bad(view(state.flat.gradients, *slot))) return "gradient of " + slot->name;
  }
  return "norm of all gradients (each is finite, their squares overflow)";
}

}  // namespace lra
