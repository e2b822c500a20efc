#include "report/compare.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "report/format.h"

namespace lra {
namespace {

using Leaves = std::vector<std::pair<std::string, std::string>>;

void collect(const ConfigTree& tree, const std::string& path, Leaves& out) {
  for (const auto& [key, child] : tree.children) {
    const std::string dotted = path.empty() ? key : path + "." + key;
    if (child.is_section) {
      collect(child, dotted, out);
    } else {
      out.emplace_back(dotted, child.value);
    }
  }
}

std::string command_for(const RunRecord& run) {
  return fmt::format("lra eval {} --predictions", run.folder.string());
}

// Why no example of one run can be set against the same example of the other; "" where it can.
std::string pairing_obstacle(const RunRecord& a, const RunRecord& b) {
  for (const RunRecord* run : {&a, &b}) {
    if (!run->result)
      return fmt::format("{} has not finished. Finish it with 'lra train … --resume'.", run->name);
  }
  if (a.task != b.task) return fmt::format("the runs are about different tasks, {} and {}.", a.task, b.task);
  const std::string &hash_a = a.result->data_sha256, &hash_b = b.result->data_sha256;
  if (hash_a.empty() || hash_b.empty())
    return "a run does not say which data it was tested on (data_sha256).";
  if (hash_a != hash_b) {
    return fmt::format("the runs were tested on different data, {} and {}.", short_hash(hash_a),
                       short_hash(hash_b));
  }
  std::string commands;
  for (const RunRecord* run : {&a, &b}) {
    if (std::find(run->predictions.begin(), run->predictions.end(), "test") != run->predictions.end())
      continue;
    commands += fmt::format("{}'{}'", commands.empty() ? "" : " and ", command_for(*run));
  }
  return commands.empty()
             ? ""
             : fmt::format("predictions on the test split are missing. Write them with {}.", commands);
}

PairedTest paired_test(const RunRecord& run_a, const RunRecord& run_b, const std::vector<PredictionRecord>& a,
                       const std::vector<PredictionRecord>& b) {
  PairedTest test;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].index != b[i].index || a[i].label != b[i].label) {
      fail("compare",
           "the predictions disagree about the data: {} has example {} with label {}, {} has example {} with "
           "label {}. "
           "Write both again: '{}', '{}'.",
           run_a.name, a[i].index, a[i].label, run_b.name, b[i].index, b[i].label, command_for(run_a),
           command_for(run_b));
    }
    const bool right_a = a[i].prediction == a[i].label, right_b = b[i].prediction == b[i].label;
    ++(right_a ? (right_b ? test.counts.both : test.counts.only_a)
               : (right_b ? test.counts.only_b : test.counts.neither));
  }
  if (a.size() != b.size() || a.empty()) {
    fail("compare", "{} has {} predictions on the test split and {} has {}. Write both again: '{}', '{}'.",
         run_a.name, a.size(), run_b.name, b.size(), command_for(run_a), command_for(run_b));
  }
  const PairedCounts& c = test.counts;
  const auto n = static_cast<double>(c.total());
  test.accuracy_a = static_cast<double>(c.both + c.only_a) / n;
  test.accuracy_b = static_cast<double>(c.both + c.only_b) / n;
  test.difference = static_cast<double>(c.only_a - c.only_b) / n;
  test.interval = paired_interval(c);
  test.log_p = mcnemar_log_p(c.only_a, c.only_b);
  test.p = mcnemar_p(c.only_a, c.only_b);
  return test;
}

// Predictions are written on request, results at the end of training: they may be of different checkpoints.
void note_stale(const RunRecord& run, const PredictionsRecord& predictions, double accuracy,
                std::vector<std::string>& notes) {
  const bool last = predictions.checkpoint == "last";
  const std::optional<CheckpointRecord>& result = last ? run.result->last : run.result->best;
  if (!result || !result->test_accuracy || predictions.rows.empty()) return;
  const double half_example = 0.5 / static_cast<double>(predictions.rows.size());
  if (std::abs(*result->test_accuracy - accuracy) <= half_example) return;
  notes.push_back(fmt::format(
      "The predictions of {} give {} %, its result says {} % for the {} checkpoint: they may be from another "
      "evaluation. '{}' writes them again.",
      run.name, percent_text(accuracy), percent_text(*result->test_accuracy), last ? "last" : "best",
      command_for(run)));
}

void compare_predictions(Comparison& c) {
  const PredictionsRecord a = read_predictions(c.a.folder, "test"), b = read_predictions(c.b.folder, "test");
  c.paired = paired_test(c.a, c.b, a.rows, b.rows);
  if (a.checkpoint != b.checkpoint) {
    const auto shown = [](const std::string& name) {
      return name.empty() ? std::string("an unnamed") : "the " + name;
    };
    c.notes.push_back(fmt::format("The predictions of {} are of {} checkpoint, those of {} of {} one.",
                                  c.a.name, shown(a.checkpoint), c.b.name, shown(b.checkpoint)));
  }
  note_stale(c.a, a, c.paired->accuracy_a, c.notes);
  note_stale(c.b, b, c.paired->accuracy_b, c.notes);
}

}  // namespace

std::vector<ConfigDifference> config_differences(const ConfigTree& a, const ConfigTree& b) {
  Leaves in_a, in_b;
  collect(a, "", in_a);
  collect(b, "", in_b);
  const std::map<std::string, std::string> look_a(in_a.begin(), in_a.end()), look_b(in_b.begin(), in_b.end());
  std::vector<ConfigDifference> differences;
  for (const auto& [key, value] : in_a) {
    const auto other = look_b.find(key);
    if (other == look_b.end()) {
      differences.push_back({key, value, std::nullopt});
    } else if (other->second != value) {
      differences.push_back({key, value, other->second});
    }
  }
  for (const auto& [key, value] : in_b) {
    if (!look_a.count(key)) differences.push_back({key, std::nullopt, value});
  }
  return differences;
}

Comparison compare_runs(const fs::path& a, const fs::path& b) {
  Comparison c;
  c.a = read_run(a);
  c.b = read_run(b);
  if (c.a.name == c.b.name) {  // two folders of one name: their paths tell them apart
    c.a.name = a.string();
    c.b.name = b.string();
  }
  c.differences = config_differences(c.a.config, c.b.config);
  if (c.a.protocol != c.b.protocol) {
    c.notes.push_back(fmt::format(
        "The runs follow different protocols, {} and {}: their numbers are not comparable.",
        c.a.protocol.empty() ? "unknown" : c.a.protocol, c.b.protocol.empty() ? "unknown" : c.b.protocol));
  }
  std::error_code ignored;
  const bool same = fs::equivalent(a, b, ignored);
  for (const RunRecord* run : {&c.a, &c.b}) {
    if (!run->result || run->result->departures.empty() || (same && run == &c.b)) continue;
    c.notes.push_back(fmt::format(
        "{} departs from the preset of protocol {} ({}): its numbers are not comparable with that "
        "protocol's.",
        run->name, run->protocol, departures_text(run->result->departures)));
  }
  if (same) {
    c.notes.push_back("A and B are the same run.");
  } else if (c.a.result && c.b.result && c.a.task == c.b.task && c.a.result->steps != c.b.result->steps) {
    const auto steps = [](const RunRecord& run) {
      return run.result->steps ? fmt::format("{}", *run.result->steps) : "an unknown number";
    };
    c.notes.push_back(
        fmt::format("The runs trained for different numbers of steps, {} and {}: a difference may be that of "
                    "the training's length.",
                    steps(c.a), steps(c.b)));
  }
  c.unpaired_because = pairing_obstacle(c.a, c.b);
  if (c.unpaired_because.empty()) compare_predictions(c);
  return c;
}

}  // namespace lra
