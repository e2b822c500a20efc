// What a run takes of its device's memory, by estimate. All are lower bounds: what a model keeps beside the
// activations of every model is its own affair.
#pragma once
#include "batch/loader.h"
#include "train/session.h"

namespace lra {

struct MemoryEstimate {
  int64_t state;  // parameters, gradients, moments, copies in the activations' type, what a checkpoint takes
  int64_t activations;  // of a step
};
// With rows as long as the data's longest. Device, type and `two_inputs` of `config` are as resolved.
MemoryEstimate estimate_memory(const RunConfig& config, int64_t parameters);

// Before a run rather than in the middle of it: which examples a step has is known, so its largest
// micro-batch is, too. An error where that does not fit.
void check_memory(const Session& session, const Dataset& train, const LoaderOptions& options);

}  // namespace lra
