// Writing a run folder: config.yaml, env.json, metrics.jsonl (and the same scalars for TensorBoard),
// result.json. One process at a time: the folder is locked from construction on, and the lock goes with the
// process however it ends.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "runs/events.h"

namespace lra {

enum class RunMode {
  kNew,     // the folder must not hold a run
  kForce,   // a run that is there is removed
  kResume,  // goes on with the run that is there
};

class RunFolder {
 public:
  RunFolder(fs::path path, RunMode mode);

  const fs::path& path() const { return path_; }
  std::string config_text() const;  // of the run that is there
  bool finished() const;            // it has a result.json
  Json result() const;
  void remove_result() const;

  void write_config(const std::string& yaml) const;
  void write_env(const Json& env) const;
  void write_result(const Json& result) const;

  // Forgets what metrics.jsonl says of steps after `step` (a resumed run makes them again) and opens it for
  // appending.
  void open_metrics(int64_t step);
  // One line; numbers that are not finite become null. Scalars go to TensorBoard as SPLIT/KEY too.
  void append_metrics(const Json& line);

 private:
  fs::path path_;
  std::optional<FileLock> lock_;
  std::unique_ptr<AppendFile> metrics_;
  std::unique_ptr<EventWriter> events_;
};

// What to do about a result.json that cannot be read: a resumed run writes it again.
std::string result_advice(const fs::path& run);

}  // namespace lra
