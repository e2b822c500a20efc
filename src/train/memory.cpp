#include "train/memory.h"

#include "base/error.h"
#include "batch/sources.h"

namespace lra {
namespace {

int64_t state_bytes(const RunConfig& config, int64_t parameters) {
  const bool copies = config.dtype == "bf16", on_device = config.device != "cpu";
  return parameters * (16 + (copies ? 2 : 0) + (on_device ? 12 : 0));
}

int64_t bytes_of_activations(const RunConfig& config) { return config.dtype == "bf16" ? 2 : 4; }

int64_t activation_bytes(const RunConfig& config, int64_t positions) {
  return config.encoder.activation_bytes(positions, bytes_of_activations(config));
}

// The weights of attention, where the model's options ask to keep them.
int64_t attention_bytes(const RunConfig& config, int64_t rows, int64_t longest) {
  // Models that can do without a fused form all call it so.
  const ConfigTree* form = config.model_options.find("attention");
  if (!form || form->value != "unfused") return 0;
  return config.encoder.attention_weight_bytes(rows, longest, bytes_of_activations(config), true);
}

int64_t micro_batch_rows(const RunConfig& config) {  // of the largest
  return config.train.batch / config.train.micro_batches * (config.encoder.two_inputs ? 2 : 1);
}

int64_t largest_attention(const RunConfig& config, const Dataset& train, LoaderOptions grid) {
  if (attention_bytes(config, 1, 1) == 0) return 0;
  grid.layout.packed = false;  // rows of the longest's length
  const int64_t rows = micro_batch_rows(config);
  return attention_bytes(config, rows, largest_micro_batch(train, grid, config.train.last_step()) / rows);
}

}  // namespace

MemoryEstimate estimate_memory(const RunConfig& config, int64_t parameters) {
  const int64_t rows = micro_batch_rows(config), longest = config.encoder.positions_count();
  return {state_bytes(config, parameters),
          activation_bytes(config, rows * longest) + attention_bytes(config, rows, longest)};
}

void check_memory(const Session& session, const Dataset& train, const LoaderOptions& options) {
  const RunConfig& config = session.config;
  const bool cuda = session.device.is_cuda(),
             resident = cuda && options.layout.packed && options.layout.filled_to == 0;
  const int64_t granted = config.train.device_data_mb << 20,
                data = resident ? std::min(granted, DeviceDataset::bytes_of(train)) : 0,
                positions = largest_micro_batch(train, options, config.train.last_step());
  const int64_t needed = state_bytes(config, session.model->parameter_count()) + data +
                         activation_bytes(config, positions) + largest_attention(config, train, options),
                free = cuda ? free_device_memory(session.device) : free_host_memory();
  const auto gigabytes = [](int64_t bytes) { return static_cast<double>(bytes) / 1e9; };
  if (needed > free) {
    fail("memory",
         "the largest step needs at least {:.1f} GB, {} has {:.1f} GB free. Raise train.micro_batches or "
         "lower train.batch.",
         gigabytes(needed), session.device.str(), gigabytes(free));
  }
}

}  // namespace lra
