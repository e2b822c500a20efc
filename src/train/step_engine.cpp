#include "train/step_engine.h"

#include "base/philox.h"

namespace lra {
namespace {

// Offsets of the device generator between steps: more than any step draws (only CUDA's fused attention uses
// it).
constexpr uint64_t kDrawsPerStep = uint64_t{1} << 32;

Forward training_forward(const TrainState& state, const Batch& batch, uint64_t seed) {
  Forward f;
  f.training = true;
  f.key = {seed ^ stream_id("dropout"), state.step, batch.first_row};
  return f;
}

int64_t total_rows(std::span<const Batch> micro_batches) {
  int64_t rows = 0;
  for (const auto& batch : micro_batches) rows += batch.rows;
  return rows;
}

class EagerEngine : public StepEngine {
 public:
  EagerEngine(const Encoder& model, TrainState& state, const OptimizerConfig& optimizer,
              const Schedule& schedule, uint64_t seed)
      : model_(model), state_(state), optimizer_(optimizer), schedule_(schedule), seed_(seed) {}

  std::string name() const override { return "eager"; }

  void step(std::span<const Batch> micro_batches) override {
    const auto device = state_.step.device();
    if (device.is_cuda()) seed_device_generator(device, seed_, kDrawsPerStep * host_steps_++);
    state_.flat.gradients.zero_();
    const auto rows = static_cast<double>(total_rows(micro_batches));
    Tensor loss_sum, correct;
    for (const auto& batch : micro_batches) {
      const Tensor logits = model_.forward(batch, training_forward(state_, batch, seed_));
      const Tensor loss = torch::cross_entropy_loss(logits, batch.labels, {}, at::Reduction::Sum);
      (loss / rows).backward();
      const Tensor right = (logits.detach().argmax(1) == batch.labels).sum();
      loss_sum = loss_sum.defined() ? loss_sum + loss.detach() : loss.detach();
      correct = correct.defined() ? correct + right : right;
    }
    const torch::NoGradGuard no_grad;
    update(loss_sum, correct, rows);
  }

  void start_at(int64_t step) { host_steps_ = static_cast<uint64_t>(step); }

 private:
  void update(const Tensor& loss_sum, const Tensor& correct, double rows) {
    FlatState& flat = state_.flat;
    const Tensor norm = torch::dot(flat.gradients, flat.gradients).sqrt();
    const Tensor finite = torch::isfinite(loss_sum) & torch::isfinite(norm);
    const Tensor first_time = (state_.bad_step < 0) & ~finite;
    state_.bad_step.copy_(torch::where(first_time, state_.step, state_.bad_step));
    const Tensor stopped = (state_.bad_step >= 0).to(torch::kFloat);
    if (optimizer_.clip > 0) flat.gradients.mul_((optimizer_.clip / (norm + 1e-6)).clamp_max(1.0));
    const Tensor rate = schedule_.at(state_.step).squeeze(0);
    const Tensor count = (state_.step + 1).to(torch::kFloat);
    const auto part = [&](int64_t from, int64_t to, double decay) {
      if (to <= from) return;
      const auto cut = [&](const Tensor& t) { return t.narrow(0, from, to - from); };
      fused_adamw({cut(flat.parameters), cut(flat.gradients), cut(flat.first), cut(flat.second)},
                  count.squeeze(0), rate, optimizer_.beta1, optimizer_.beta2, decay, optimizer_.epsilon,
                  stopped.squeeze(0));
    };
    part(0, flat.decayed_end, optimizer_.weight_decay);
    part(flat.decayed_end, flat.parameters.numel(), 0.0);
    const auto number = [](const Tensor& t) { return t.to(torch::kDouble).view({1}); };
    state_.sums.add_(
        torch::cat({number(loss_sum), number(correct), torch::full_like(number(norm), rows), number(norm)}));
    state_.step.add_(1);
  }

  const Encoder& model_;
  TrainState& state_;
  OptimizerConfig optimizer_;
  Schedule schedule_;
  uint64_t seed_;
  uint64_t host_steps_ = 0;
};

}  // namespace

TrainState make_train_state(torch::nn::Module& model, const torch::Device& device, torch::Dtype type) {
  // The arena's optimiser decays every parameter, norms and biases included.
  FlatState flat(model, device, type, [](const std::string&) { return true; });
  const auto long_type = torch::TensorOptions().device(device).dtype(torch::kLong);
  return {std::move(flat), torch::zeros({1}, long_type), torch::zeros({4}, long_type.dtype(torch::kDouble)),
          torch::full({1}, -1, long_type)};
}

std::unique_ptr<StepEngine> make_eager_engine(const Encoder& model, TrainState& state,
                                              const OptimizerConfig& optimizer, const Schedule& schedule,
                                              uint64_t seed) {
  auto engine = std::make_unique<EagerEngine>(model, state, optimizer, schedule, seed);
  engine->start_at(state.step.item<int64_t>());
  return engine;
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
  std::string found;
  for (const auto& batch : micro_batches) {
    Forward f = training_forward(state, batch, seed);
    f.probe = [&](const std::string& name, const Tensor& x) {
      if (found.empty() && bad(x)) found = "output of " + name;
    };
    const Tensor loss =
        torch::cross_entropy_loss(model.forward(batch, f), batch.labels, {}, at::Reduction::Sum);
    if (found.empty() && bad(loss)) found = "loss";
    if (!found.empty()) return found;
    loss.backward();
  }
  // Backward runs from the head to the embedding: the last bad gradient in the order of the model was made
  // first.
  for (auto slot = state.flat.slots().rbegin(); slot != state.flat.slots().rend(); ++slot) {
    if (bad(view(state.flat.gradients, *slot))) return "gradient of " + slot->name;
  }
  return "norm of all gradients (each is finite, their squares overflow)";
}

}  // namespace lra
