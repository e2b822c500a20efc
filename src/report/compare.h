// Two runs side by side: configurations, results, and a paired test on their predictions.
//
//   const Comparison c = compare_runs("runs/a", "runs/b");
//   if (c.paired) … c.paired->p …  else … c.unpaired_because …
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "report/statistics.h"
#include "runs/run_reader.h"

namespace lra {

struct ConfigDifference {
  std::string key;                  // dotted
  std::optional<std::string> a, b;  // none: the run's configuration does not have the key
};

struct PairedTest {
  PairedCounts counts;
  double accuracy_a = 0, accuracy_b = 0, difference = 0;  // fractions; difference = A - B
  Interval interval;                                      // 95 %, of the difference
  double p = 1, log_p = 0;                                // exact McNemar test, two-sided
};

struct Comparison {
  RunRecord a, b;
  std::vector<ConfigDifference> differences;
  std::optional<PairedTest> paired;
  std::string unpaired_because;    // why there is no paired test, and what to do
  std::vector<std::string> notes;  // what a reader of the numbers should know
};

Comparison compare_runs(const fs::path& a, const fs::path& b);
std::vector<ConfigDifference> config_differences(const ConfigTree& a, const ConfigTree& b);

std::string comparison_text(const Comparison& comparison);
Json comparison_json(const Comparison& comparison);

}  // namespace lra
