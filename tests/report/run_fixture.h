// Run folders as `lra train` leaves them, for the tests that read them back.
#pragma once
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "base/philox.h"

namespace lra {

// Not flushed to disk as write_text does: some tests write thousands of files.
inline void put_text(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

struct RunFixture {
  std::string model = "transformer", task = "listops", protocol = "lra", variant = "default";
  uint64_t seed = 0;
  int64_t steps = 5000, test_examples = 2000, train_rows = 250;
  double reached = 0.3685;  // test accuracy of the best checkpoint
  Json published = {{"value", 36.37}, {"source", "Tay et al. 2021, table 1"}};
  std::string data_sha256 = "3f5a9c0be1d27486aa10cc9356be77d04f10e8a2b6d90c117e5532fd8c4b6a19";
  Json departures = {};  // null: none
  double wall_seconds = 4211.7, examples_per_s = 38.2;
  bool finished = true;
};

inline std::string fixture_config(const RunFixture& run) {
  return fmt::format(
      "model:\n  name: {}\n  layers: 6\n  width: 512\n  heads: 8\ntask:\n  name: {}\n  variant: "
      "{}\nprotocol: {}\nseed: {}\n"
      "train:\n  steps: {}\n  batch: 32\n  lr: 0.05\n  schedule: rsqrt\n  warmup: 1000\n",
      run.model, run.task, run.variant, run.protocol, run.seed, run.steps);
}

inline Json fixture_result(const RunFixture& run) {
  const auto right = static_cast<int64_t>(std::lround(run.reached * static_cast<double>(run.test_examples)));
  const double best = static_cast<double>(right) / static_cast<double>(run.test_examples);
  const int64_t quarter = run.test_examples / 4;
  const auto group = [&](double share) {
    return Json{{"examples", quarter}, {"correct", std::lround(share * static_cast<double>(quarter))}};
  };
  Json result = {
      {"task", run.task},
      {"task_version", "1"},
      {"variant", run.variant},
      {"data_sha256", run.data_sha256},
      {"model", run.model},
      {"protocol", run.protocol},
      {"seed", run.seed},
      {"parameters", 19924490},
      {"steps", run.steps},
      {"best",
       {{"step", run.steps * 4 / 5},
        {"val_accuracy", best + 0.006},
        {"test_accuracy", best},
        {"test_loss", 1.7321},
        {"test_examples", run.test_examples}}},
      {"last",
       {{"step", run.steps},
        {"val_accuracy", best - 0.002},
        {"test_accuracy", best - 0.0075},
        {"test_loss", 1.7518},
        {"test_examples", run.test_examples}}},
      {"wall_seconds", run.wall_seconds},
      {"train_examples_per_s", run.examples_per_s},
      {"peak_memory_bytes", 3221225472},
      {"device", "cpu"},
      {"published", run.published},
      {"groups",
       {{"MIN", group(best * 1.55)},
        {"MAX", group(best * 1.5)},
        {"MED", group(best * 0.6)},
        {"SM", group(best * 0.35)}}},
      {"baselines",
       {{{"name", "majority class"}, {"accuracy", 0.17}}, {{"name", "root operator"}, {"accuracy", 0.361}}}},
      {"stop_reason", "steps"}};
  if (!run.departures.is_null()) result["departures"] = run.departures;
  return result;
}

inline void write_fixture_metrics(const fs::path& folder, const RunFixture& run) {
  Rng rng(run.seed, stream_id("fixture." + run.model));
  std::string lines;
  for (int64_t i = 1; i <= run.train_rows; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(run.train_rows);
    const int64_t step = run.steps * i / run.train_rows;
    const double loss =
        1.65 + 0.7 * std::exp(-6 * t) + 0.2 * (0.4 - run.reached) + 0.06 * (rng.uniform() - 0.5);
    Json row = {{"step", step},
                {"epoch", 0.01 * static_cast<double>(i)},
                {"split", "train"},
                {"loss", loss},
                {"accuracy", nullptr},
                {"lr", 0.0005},
                {"examples_per_s", 38.1},
                {"tokens_per_s", 39000.5},
                {"seconds", 0.8 * static_cast<double>(step)}};
    lines += row.dump() + "\n";
    if (i * 20 % run.train_rows != 0) continue;
    const double accuracy =
        0.17 + (run.reached - 0.17) * (1 - std::exp(-5 * t)) + 0.012 * (rng.uniform() - 0.5);
    row["split"] = "val";
    row["accuracy"] = accuracy;
    lines += row.dump() + "\n";
  }
  put_text(folder / "metrics.jsonl", lines);
}

// Writes the folder; a `finished` run has a result.
inline void write_fixture_run(const fs::path& folder, const RunFixture& run) {
  fs::create_directories(folder);
  put_text(folder / "config.yaml", fixture_config(run));
  const Json env = {
      {"program", "0.1.0"},
      {"commit", "1a2b3c4d5e6f"},
      {"torch", "2.11.0"},
      {"compiler", "GNU 12.2.0"},
      {"device", "cpu"},
      {"device_name", "AMD EPYC 9354"},
      {"host", "node17"},
      {"threads", 16},
      {"build", "Release"},
      {"system", "Linux 6.1"},
      {"command",
       {"lra", "train", run.model, run.task, "--protocol", run.protocol, "--set", "train.note=two words"}},
      {"started", "2025-03-01T12:00:00Z"}};
  put_text(folder / "env.json", env.dump(2) + "\n");
  write_fixture_metrics(folder, run);
  if (run.finished) put_text(folder / "result.json", fixture_result(run).dump(2) + "\n");
}

// Predictions on the test split: example i is right where right[i], its label is i % 10.
inline void write_fixture_predictions(const fs::path& folder, const std::vector<bool>& right) {
  fs::create_directories(folder / "predictions");
  std::string lines;
  for (size_t i = 0; i < right.size(); ++i) {
    const Json row = {{"index", i},
                      {"label", i % 10},
                      {"prediction", right[i] ? i % 10 : (i + 1) % 10},
                      {"logits", {0.1, 0.9}},
                      {"checkpoint", "best"}};
    lines += row.dump() + "\n";
  }
  put_text(folder / "predictions" / "test.jsonl", lines);
}

}  // namespace lra
