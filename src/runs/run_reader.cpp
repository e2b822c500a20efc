#include "runs/run_reader.h"

#include <algorithm>

#include "base/error.h"
#include "base/suggest.h"
#include "runs/run_folder.h"
#include "runs/run_reader_json.h"

namespace lra {
namespace {

// A folder that may not be looked into has no files for us; opening them would say why.
bool there_is(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

CheckpointRecord read_checkpoint(const JsonMembers& result, const char* key, const Json& object) {
  const JsonMembers in(object, fmt::format("{}: {}", result.where(), key));
  CheckpointRecord c;
  c.step = in.needed_count("step");
  c.val_accuracy = in.fraction("val_accuracy");
  c.test_accuracy = in.fraction("test_accuracy");
  c.test_loss = in.number("test_loss");
  c.test_examples = in.count("test_examples").value_or(0);
  return c;
}

void read_groups(const JsonMembers& result, const Json& groups, std::vector<GroupRecord>& out) {
  if (!groups.is_object()) result.bad("groups", groups, "an object of group names");
  for (const auto& [name, value] : groups.items()) {
    const JsonMembers in(value, fmt::format("{}: groups.{}", result.where(), name));
    const GroupRecord g{name, in.needed_count("examples"), in.needed_count("correct")};
    if (g.correct > g.examples) {
      fail(in.where(), "{} of {} examples are correct, expected at most all. Repeat 'lra eval'.", g.correct,
           g.examples);
    }
    out.push_back(g);
  }
}

ResultRecord read_result(const fs::path& path) {
  const Json document = parse_run_json(read_text(path), path.string());
  const JsonMembers in(document, path.string());
  ResultRecord r;
  r.task = in.needed_text("task");
  r.model = in.needed_text("model");
  r.protocol = in.needed_text("protocol");
  r.seed = in.seed("seed");
  r.task_version = in.text("task_version");
  r.variant = in.text("variant");
  r.data_sha256 = in.text("data_sha256");
  r.device = in.text("device");
  r.stop_reason = in.text("stop_reason");
  r.parameters = in.count("parameters");
  r.steps = in.count("steps");
  r.peak_memory_bytes = in.count("peak_memory_bytes");
  r.wall_seconds = in.number("wall_seconds", 0, 1e12);
  r.train_examples_per_s = in.number("train_examples_per_s", 0, 1e15);
  if (const Json* best = in.find("best")) r.best = read_checkpoint(in, "best", *best);
  if (const Json* last = in.find("last")) r.last = read_checkpoint(in, "last", *last);
  if (const Json* groups = in.find("groups")) read_groups(in, *groups, r.groups);
  if (const Json* published = in.find("published")) {
    const JsonMembers p(*published, in.where() + ": published");
    if (const auto value = p.number("value", 0, 100)) r.published = {*value, p.text("source")};
  }
  if (const Json* baselines = in.find("baselines")) {
    if (!baselines->is_array()) in.bad("baselines", *baselines, "a list");
    for (const Json& one : *baselines) {
      const JsonMembers b(one, in.where() + ": baselines");
      r.baselines.push_back({b.needed_text("name"), b.needed_fraction("accuracy")});
    }
  }
  if (const Json* departures = in.find("departures"))
    r.departures = departures_from_json(*departures, in.where() + ": departures");
  return r;
}

// A list becomes one command line that a shell would read back as the same words.
std::string env_text(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::string line;
  for (const Json& word : value) {
    std::string text = env_text(word);
    const bool plain = !text.empty() && text.find_first_of(" \t\n'\"\\$`*?[]{}()<>|&;#~!") == text.npos;
    for (size_t at = 0; !plain && (at = text.find('\'', at)) != text.npos; at += 4)
      text.replace(at, 1, "'\\''");
    line += (line.empty() ? "" : " ") + (plain ? text : "'" + text + "'");
  }
  return line;
}

void read_env(const fs::path& path, RunRecord& run) {
  if (!there_is(path)) {
    run.notes.push_back("env.json is missing: it is not known with what the run was made.");
    return;
  }
  const Json document = parse_run_json(read_text(path), path.string());
  const JsonMembers check(document, path.string());
  for (const auto& [key, value] : document.items()) {
    if (!value.is_null()) run.env.emplace_back(key, env_text(value));
  }
}

// A resumed run writes steps again that the killed process had already written: the later line counts.
void add_metrics(MetricsRecord row, std::vector<MetricsRecord>& rows) {
  const auto again = [&](const MetricsRecord& old) { return old.split == row.split && old.step >= row.step; };
  for (auto at = rows.rbegin(); at != rows.rend(); ++at) {
    if (at->split != row.split) continue;
    if (at->step >= row.step) rows.erase(std::remove_if(rows.begin(), rows.end(), again), rows.end());
    break;
  }
  rows.push_back(std::move(row));
}

void read_metrics(const fs::path& path, RunRecord& run) {
  if (!there_is(path)) {
    run.notes.push_back("metrics.jsonl is missing: there are no learning curves.");
    return;
  }
  read_json_lines(path, &run.notes, [&](const JsonMembers& in) {
    MetricsRecord row;
    row.step = in.needed_count("step");
    row.split = in.needed_text("split");
    row.epoch = in.number("epoch");
    row.loss = in.number("loss");
    row.accuracy = in.fraction("accuracy");
    row.lr = in.number("lr");
    row.examples_per_s = in.number("examples_per_s");
    row.tokens_per_s = in.number("tokens_per_s");
    row.seconds = in.number("seconds");
    add_metrics(std::move(row), run.metrics);
  });
}

void name_the_run(RunRecord& run) {
  if (run.result) {
    run.model = run.result->model;
    run.task = run.result->task;
    run.task_version = run.result->task_version;
    run.variant = run.result->variant;
    run.protocol = run.result->protocol;
    run.seed = fmt::format("{}", run.result->seed);
    return;
  }
  const auto value = [&](const char* key) {
    const ConfigTree* leaf = config_leaf(run.config, key);
    return leaf ? leaf->value : std::string();
  };
  run.model = value("model.name");
  run.task = value("task.name");
  run.variant = value("task.variant");
  run.protocol = value("protocol");
  run.seed = value("seed");
  run.notes.push_back(
      "The run has not finished: there is no result.json. 'lra train … --resume' goes on with it.");
}

}  // namespace

std::string RunRecord::env_value(std::string_view key) const {
  for (const auto& [known, value] : env) {
    if (known == key) return value;
  }
  return "";
}

const ConfigTree* config_leaf(const ConfigTree& tree, std::string_view dotted) {
  const size_t dot = dotted.find('.');
  const ConfigTree* found = tree.find(dotted.substr(0, dot));
  if (!found) return nullptr;
  if (dot != dotted.npos) return config_leaf(*found, dotted.substr(dot + 1));
  return found->is_section ? nullptr : found;
}

bool is_run_folder(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / "config.yaml", ignored);
}

fs::path find_run(std::string_view argument, const fs::path& runs) {
  const fs::path given(argument);
  if (argument.empty()) fail("run", "the name of a run is empty. Give a run folder.");
  if (is_run_folder(given)) return given;
  if (is_run_folder(runs / given)) return runs / given;
  std::vector<std::string> known;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(runs, ignored)) {
    if (is_run_folder(entry.path())) known.push_back(entry.path().filename().string());
  }
  std::sort(known.begin(), known.end());
  const bool folder = fs::is_directory(given, ignored);
  fail("run", "'{}' is {}, expected a run folder or the name of one under {}. {}", argument,
       folder ? "a folder without a config.yaml" : "not a folder", runs.string(),
       known.empty() ? "There are none yet: 'lra train MODEL TASK' makes one." : suggestion(argument, known));
}

RunRecord read_run(const fs::path& folder) {
  if (!is_run_folder(folder)) {
    fail("run", "{} holds no config.yaml, expected the folder of a run as 'lra train' writes it.",
         folder.string());
  }
  RunRecord run;
  run.folder = folder;
  std::error_code ignored;
  run.name = fs::weakly_canonical(folder, ignored).filename().string();  // "runs/a/" and "." have a name too
  run.config_text = read_text(folder / "config.yaml", 1 << 20);
  run.config = parse_yaml(run.config_text, (folder / "config.yaml").string());
  read_env(folder / "env.json", run);
  read_metrics(folder / "metrics.jsonl", run);
  if (there_is(folder / "result.json")) {
    try {
      run.result = read_result(folder / "result.json");
    } catch (const Error& e) {
      fail("run", "{} {}", e.what(), result_advice(folder));
    }
  }
  for (const char* name : {"best", "last"}) {
    if (there_is(folder / "checkpoints" / name / "model.safetensors")) run.checkpoints.emplace_back(name);
  }
  for (const char* split : {"train", "val", "test"}) {
    if (there_is(folder / "predictions" / (std::string(split) + ".jsonl")))
      run.predictions.emplace_back(split);
  }
  name_the_run(run);
  return run;
}

PredictionsRecord read_predictions(const fs::path& folder, std::string_view split) {
  const fs::path path = folder / "predictions" / fmt::format("{}.jsonl", split);
  if (!there_is(path)) {
    fail("run", "{} does not exist. 'lra eval {} --predictions' writes it.", path.string(), folder.string());
  }
  PredictionsRecord out;
  read_json_lines(path, nullptr, [&](const JsonMembers& in) {
    const std::string checkpoint = in.text("checkpoint");
    if (out.rows.empty()) out.checkpoint = checkpoint;
    if (checkpoint != out.checkpoint) {
      fail(in.where(), "the checkpoint is '{}', but '{}' above. Repeat 'lra eval {} --predictions'.",
           checkpoint, out.checkpoint, folder.string());
    }
    out.rows.push_back({in.needed_count("index"), in.needed_count("label"), in.needed_count("prediction")});
  });
  const auto by_index = [](const PredictionRecord& a, const PredictionRecord& b) {
    return a.index < b.index;
  };
  std::sort(out.rows.begin(), out.rows.end(), by_index);
  for (size_t i = 1; i < out.rows.size(); ++i) {
    if (out.rows[i].index == out.rows[i - 1].index) {
      fail(path.string(), "the index {} appears twice. Repeat 'lra eval {} --predictions'.",
           out.rows[i].index, folder.string());
    }
  }
  return out;
}

}  // namespace lra
