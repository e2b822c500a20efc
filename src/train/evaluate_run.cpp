// A trained run on a split of its data: what `lra eval` does.
#include "base/error.h"
#include "base/progress.h"
#include "eval/evaluate.h"
#include "models/model.h"
#include "runs/checkpoint.h"
#include "tasks/task.h"
#include "train/flat_state.h"
#include "train/session.h"
#include "train/trainer.h"

namespace lra {

Json evaluate_run(const EvalRequest& request) {
  if (!fs::exists(request.run / "config.yaml")) {
    fail("eval", "{}: not a run folder (it holds no config.yaml).", request.run.string());
  }
  RunConfig config = read_run_config(read_text(request.run / "config.yaml", 1 << 20),
                                     (request.run / "config.yaml").string());
  if (!request.dtype.empty()) config.dtype = request.dtype;
  if (!request.device.empty()) {
    config.device = request.device;
    if (request.dtype.empty()) config.dtype = "auto";
  } else if (config.device != "cpu" && !load_cuda().available) {
    config.device = "cpu";  // a run made on a GPU may be looked at anywhere
    if (request.dtype.empty()) config.dtype = "fp32";
  }
  Session session(config, request.data);
  const Dataset data = session.open(request.split);
  const Checkpoint checkpoint = open_checkpoint(request.run, request.checkpoint);
  const std::string trained_on =
      json_get<std::string>(checkpoint.state, "data_sha256", (checkpoint.path / "state.json").string());
  if (const std::string found = session.folder.open("train").info().sha256; found != trained_on) {
    fail("eval", "{}: the run was trained on other data (sha256 {}) than the one in {} ({}).",
         request.run.string(), trained_on, session.folder.path().string(), found);
  }
  FlatState flat(*session.model, session.device, torch::kFloat, [](const std::string&) { return true; });
  flat.load_model(checkpoint.model);

  EvaluateOptions options;
  options.batch = config.train.eval_batch;
  options.device = session.device;
  options.capturable = find_model(config.model).info().capturable;
  options.keep_predictions = request.write_predictions;
  options.task = &find_task(config.task);
  Progress progress("evaluating", data.size(), "examples");
  options.progress = [&](int64_t done) { progress.update(done); };
  const Evaluation e = evaluate(*session.model, data, options);

  Json out = {
      {"run", request.run.string()},
      {"split", request.split},
      {"checkpoint", request.checkpoint},
      {"step", json_get<int64_t>(checkpoint.state, "step", (checkpoint.path / "state.json").string())},
      {"examples", e.examples},
      {"correct", e.correct},
      {"accuracy", e.accuracy()},
      {"loss", e.loss},
      {"data_sha256", data.info().sha256},
      {"groups", Json::object()}};
  for (const auto& g : e.groups) out["groups"][g.name] = {{"examples", g.examples}, {"correct", g.correct}};
  if (request.write_predictions) {
    const fs::path path = request.predictions.empty()
                              ? request.run / "predictions" / (request.split + ".jsonl")
                              : request.predictions;
    AtomicFile file(path);
    for (const auto& p : e.predictions) {
      file.write(Json{{"index", p.index},
                      {"label", p.label},
                      {"prediction", p.prediction},
                      {"logits", p.logits},
                      {"checkpoint", request.checkpoint}}
                     .dump() +
                 "\n");
    }
    file.commit();
    out["predictions"] = path.string();
  }
  return out;
}

}  // namespace lra
