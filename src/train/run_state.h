// What changes as a run goes on and must survive a kill, beside the tensors: the head of state.json.
#pragma once
#include <string_view>

#include "base/json.h"

namespace lra {

struct RunState {
  int64_t step = 0;
  double best_accuracy = -1;
  int64_t best_step = -1;
  int64_t evaluations_since_best = 0;
  double last_accuracy = -1;  // of the newest evaluation, and its step
  int64_t last_evaluated = -1;
  double seconds = 0;   // of all processes so far
  double sums[4] = {};  // metric sums since the last line of metrics, the tokens and the seconds they took
  double line_tokens = 0, line_seconds = 0;
  double trained_examples = 0, trained_seconds = 0;  // up to the last line

  Json to_json() const;
  static RunState from_json(const Json& j, std::string_view where);
};

}  // namespace lra
