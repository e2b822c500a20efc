#include "runs/run_folder.h"

#include <chrono>

#include "base/error.h"

namespace lra {
namespace {

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// The complete lines of metrics.jsonl up to `step`. A last line that a kill cut short is dropped.
std::string lines_up_to(const fs::path& path, int64_t step) {
  const std::string text = read_text(path);
  std::string kept;
  size_t number = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (end == text.npos) break;
    ++number;
    const std::string line = text.substr(at, end + 1 - at);
    const std::string where = fmt::format("{} line {}", path.string(), number);
    if (json_get<int64_t>(parse_json(line, where), "step", where) <= step) kept += line;
    at = end + 1;
  }
  return kept;
}

}  // namespace

RunFolder::RunFolder(fs::path path, RunMode mode) : path_(std::move(path)) {
  const bool holds_run = fs::exists(path_ / "config.yaml");
  if (mode == RunMode::kResume && !holds_run) {
    fail("run", "{}: there is no run to resume. Leave out --resume to start one.", path_.string());
  }
  if (mode == RunMode::kNew && holds_run) {
    fail("run",
         "{}: holds a run already. Say --resume to go on with it, --force to replace it, or name another "
         "folder "
         "with --run.",
         path_.string());
  }
  if (!holds_run && fs::exists(path_) && !fs::is_directory(path_)) {
    fail("run", "{}: is a file, expected a folder.", path_.string());
  }
  std::error_code code;
  fs::create_directories(path_, code);
  if (code) fail("run", "{}: cannot make the folder: {}.", path_.string(), code.message());
  lock_.emplace(
      path_ / ".lock", "run",
      fmt::format(
          "{}: another process is working in this run folder. Wait for it, or name another folder with "
          "--run.",
          path_.string()));
  if (mode == RunMode::kForce) {  // config.yaml last: until then it is a run
    for (const char* name :
         {"result.json", "checkpoints", "predictions", "metrics.jsonl", "env.json", "config.yaml"}) {
      fs::remove_all(path_ / name);
    }
    for (const auto& entry : fs::directory_iterator(path_)) {
      if (entry.path().filename().string().starts_with("events.out.tfevents.")) fs::remove(entry.path());
    }
  }
}

std::string RunFolder::config_text() const { return read_text(path_ / "config.yaml", 1 << 20); }
bool RunFolder::finished() const { return fs::exists(path_ / "result.json"); }
void RunFolder::remove_result() const { fs::remove(path_ / "result.json"); }

Json RunFolder::result() const {
  try {
    return read_json(path_ / "result.json");
  } catch (const Error& e) {
    fail("run", "{} {}", e.what(), result_advice(path_));
  }
}

std::string result_advice(const fs::path& run) {
  return fmt::format(
      "Remove the file: 'lra train --run {} --resume' tests the run's checkpoints again and writes it.",
      run.string());
}

void RunFolder::write_config(const std::string& yaml) const { write_text(path_ / "config.yaml", yaml); }
void RunFolder::write_env(const Json& env) const {
  write_text(path_ / "env.json", env.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}
void RunFolder::write_result(const Json& result) const {
  write_text(path_ / "result.json", result.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

void RunFolder::open_metrics(int64_t step) {
  const fs::path file = path_ / "metrics.jsonl";
  if (fs::exists(file)) write_text(file, lines_up_to(file, step));
  metrics_ = std::make_unique<AppendFile>(file);
  events_ = std::make_unique<EventWriter>(path_, step > 0 ? step + 1 : 0);
}

void RunFolder::append_metrics(const Json& line) {
  metrics_->append(line.dump() + "\n");
  const std::string split = line.value("split", "train");
  const double now = seconds_since_1970();
  for (const auto& [key, value] : line.items()) {
    if (!value.is_number() || key == "step" || key == "seconds") continue;
    events_->scalar(split + "/" + key, line.at("step").get<int64_t>(), value.get<double>(), now);
  }
}

}  // namespace lra
