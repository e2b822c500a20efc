#include "train/run_state.h"

#include "base/error.h"

namespace lra {
namespace {

// Every field once: written and read by the same list.
template <class State, class F>
void each_field(State& s, const F& f) {
  f("step", s.step);
  f("best_accuracy", s.best_accuracy);
  f("best_step", s.best_step);
  f("evaluations_since_best", s.evaluations_since_best);
  f("last_accuracy", s.last_accuracy);
  f("last_evaluated", s.last_evaluated);
  f("seconds", s.seconds);
  f("line_tokens", s.line_tokens);
  f("line_seconds", s.line_seconds);
  f("trained_examples", s.trained_examples);
  f("trained_seconds", s.trained_seconds);
  f("loss_sum", s.sums[0]);
  f("correct_sum", s.sums[1]);
  f("example_sum", s.sums[2]);
  f("norm_sum", s.sums[3]);
}

}  // namespace

Json RunState::to_json() const {
  Json j;
  each_field(*this, [&](const char* key, const auto& value) { j[key] = value; });
  return j;
}

RunState RunState::from_json(const Json& j, std::string_view where) {
  RunState s;
  each_field(s, [&](const char* key, auto& value) {
    value = json_get<std::decay_t<decltype(value)>>(j, key, where);
  });
  if (s.step < 0) fail(where, "'step' is {}, expected a number of updates.", s.step);
  return s;
}

}  // namespace lra
