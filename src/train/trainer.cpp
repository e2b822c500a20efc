#include "train/trainer.h"

#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "base/signals.h"
#include "batch/loader.h"
#include "eval/evaluate.h"
#include "models/model.h"
#include "runs/checkpoint.h"
#include "tasks/task.h"
#include "train/session.h"
#include "train/step_engine.h"

namespace lra {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

// What changes as a run goes on and must survive a kill, beside the tensors.
struct RunState {
  int64_t step = 0;
  double best_accuracy = -1;
  int64_t best_step = -1;
  int64_t evaluations_since_best = 0;
  double last_accuracy = -1;   // of the newest evaluation, and its step
  int64_t last_evaluated = -1;
  double seconds = 0;          // training time of all processes so far
  double sums[4] = {};         // metric sums since the last line

  Json to_json() const {
    return {{"step", step}, {"best_accuracy", best_accuracy}, {"best_step", best_step},
            {"evaluations_since_best", evaluations_since_best}, {"last_accuracy", last_accuracy},
            {"last_evaluated", last_evaluated}, {"seconds", seconds}, {"sums", {sums[0], sums[1], sums[2], sums[3]}}};
  }
  static RunState from_json(const Json& j, const std::string& where) {
    RunState s;
    s.step = json_get<int64_t>(j, "step", where);
    s.best_accuracy = json_get<double>(j, "best_accuracy", where);
    s.best_step = json_get<int64_t>(j, "best_step", where);
    s.evaluations_since_best = json_get<int64_t>(j, "evaluations_since_best", where);
    s.last_accuracy = json_get<double>(j, "last_accuracy", where);
    s.last_evaluated = json_get<int64_t>(j, "last_evaluated", where);
    s.seconds = json_get<double>(j, "seconds", where);
    if (!j.contains("sums") || j["sums"].size() != 4) fail(where, "'sums' must hold four numbers.");
    for (size_t i = 0; i < 4; ++i) s.sums[i] = j["sums"][i].get<double>();
    return s;
  }
};

class Trainer {
 public:
  explicit Trainer(TrainRequest request)
      : request_(std::move(request)),
        folder_(request_.run, request_.mode),
        session_(request_.config, request_.data),
        config_(session_.config),
        task_(find_task(config_.task)),
        train_(session_.folder.open("train")),
        val_(session_.folder.open("val")),
        state_(make_train_state(*session_.model, session_.device, torch::kFloat)) {}

  Json run() {
    prepare();
    const TrainConfig& t = config_.train;
    auto engine = make_eager_engine(*session_.model, state_,
                                    {t.beta1, t.beta2, t.epsilon, t.weight_decay, t.clip},
                                    {t.schedule, t.learning_rate, t.warmup, t.steps}, seed());
    info("{} on {}: {} parameters, {} steps of {} examples, {}, {}, engine {}", config_.model, config_.task,
         session_.model->parameter_count(), t.last_step(), t.batch, session_.device.str(), config_.dtype, engine->name());
    Loader loader(train_, loader_options(), run_.step);
    Progress progress("step", t.last_step(), "steps", run_.step);
    loop(*engine, loader, progress);
    progress.finish();
    return finish();
  }

 private:
  uint64_t seed() const { return static_cast<uint64_t>(config_.seed); }
  LoaderOptions loader_options() const { return {config_.train.batch, config_.train.micro_batches, seed()}; }
  std::string config_hash() { return sha256_hex(to_yaml(config_.tree())); }

  void prepare() {
    if (request_.mode == RunMode::kResume && has_checkpoint(folder_.path(), "last")) {
      restore();
    } else {
      if (request_.mode != RunMode::kResume) folder_.write_config(to_yaml(config_.tree()));
      folder_.write_env(environment(session_.device.str(), request_.command));
      folder_.open_metrics(0);
      run_ = {};
    }
    began_ = Clock::now();
    line_began_ = began_;
  }

  void restore() {
    const Checkpoint checkpoint = open_checkpoint(folder_.path(), "last");
    const std::string where = (checkpoint.path / "state.json").string();
    if (json_get<std::string>(checkpoint.state, "data_sha256", where) != train_.info().sha256) {
      fail("run", "{}: the training data is not the one this run was started with. Expected sha256 {}, found {} in {}.",
           folder_.path().string(), checkpoint.state["data_sha256"].get<std::string>(), train_.info().sha256,
           train_.path().string());
    }
    if (json_get<std::string>(checkpoint.state, "config_sha256", where) != config_hash()) {
      fail("run", "{}: config.yaml was changed since the checkpoint. Put it back, or start a new run.", folder_.path().string());
    }
    run_ = RunState::from_json(checkpoint.state, where);
    state_.flat.load_model(checkpoint.model);
    state_.flat.load_optimizer(checkpoint.optimizer());
    state_.step.fill_(run_.step);
    state_.sums.copy_(torch::tensor({run_.sums[0], run_.sums[1], run_.sums[2], run_.sums[3]}, torch::kDouble));
    folder_.open_metrics(run_.step);
    info("resumed {} at step {}", folder_.path().string(), run_.step);
  }

  void loop(StepEngine& engine, Loader& loader, Progress& progress) {
    const TrainConfig& t = config_.train;
    while (run_.step < t.last_step() && stop_reason_.empty()) {
      std::vector<Batch> batches = loader.next();
      for (auto& batch : batches) {
        line_tokens_ += batch.real_tokens;
        batch = batch.to(session_.device);
      }
      engine.step(batches);
      ++run_.step;
      const bool last = run_.step == t.last_step();
      if (run_.step % t.log_every == 0 || last) log_training(loader);
      progress.update(run_.step, remark_);
      if (run_.step % t.eval_every == 0 || last) validate();
      if (interrupted()) {
        save("last");
        throw Interrupted(fmt::format("interrupted at step {}; go on with --resume", run_.step));
      }
      if (run_.step % t.checkpoint_every == 0 || last || !stop_reason_.empty()) save("last");
    }
    if (stop_reason_.empty()) stop_reason_ = "steps";
  }

  // Reads the sums of the steps since the last line: the only place where training waits for the device.
  void log_training(const Loader& loader) {
    const Tensor sums = state_.sums.cpu();
    const auto* s = sums.const_data_ptr<double>();
    if (const int64_t bad = state_.bad_step.item<int64_t>(); bad >= 0) stop_at_bad_step(bad);
    const double now = seconds_since(line_began_), waited = loader.waited_seconds() - line_waited_;
    const double steps = std::max(1.0, s[2] / static_cast<double>(config_.train.batch));
    const double examples = std::max(1.0, s[2]), seconds = run_.seconds + seconds_since(began_);
    folder_.append_metrics({{"step", run_.step}, {"epoch", epoch()}, {"split", "train"}, {"loss", s[0] / examples},
                            {"accuracy", s[1] / examples}, {"lr", schedule_rate()}, {"gradient_norm", s[3] / steps},
                            {"examples_per_s", s[2] / now}, {"tokens_per_s", static_cast<double>(line_tokens_) / now},
                            {"data_wait", waited / now}, {"seconds", seconds}});
    remark_ = fmt::format("loss {:.4f}  accuracy {:.1f} %  {:.3g} tokens/s  data wait {:.0f} %{}", s[0] / examples,
                          100 * s[1] / examples, static_cast<double>(line_tokens_) / now, 100 * waited / now,
                          run_.best_step >= 0 ? fmt::format("  best val {:.1f} %", 100 * run_.best_accuracy) : "");
    trained_examples_ += s[2];
    trained_seconds_ += now;
    state_.sums.zero_();
    start_line(loader.waited_seconds());
  }

  void start_line(double waited) {
    line_began_ = Clock::now();
    line_waited_ = waited;
    line_tokens_ = 0;
  }

  double epoch() const {
    return static_cast<double>(run_.step * config_.train.batch) / static_cast<double>(train_.size());
  }
  double schedule_rate() const {
    const TrainConfig& t = config_.train;
    return Schedule{t.schedule, t.learning_rate, t.warmup, t.steps}.at(run_.step - 1);
  }

  [[noreturn]] void stop_at_bad_step(int64_t step) {
    std::vector<Batch> batches = Loader::make(train_, loader_options(), step);
    for (auto& batch : batches) batch = batch.to(session_.device);
    const std::string tensor = find_bad_tensor(*session_.model, state_, batches, step, seed());
    const bool saved = has_checkpoint(folder_.path(), "last");
    fail("train", "step {}: the loss or its gradient is not finite; the first bad tensor is the {}. {} Lower train.learning_rate or "
         "set train.clip.", step, tensor,
         saved ? "The last checkpoint is from before it and usable." : "No checkpoint had been saved yet.");
  }

  void validate() {
    const auto began = Clock::now();
    const Evaluation e = evaluate(*session_.model, val_, eval_options());
    folder_.append_metrics({{"step", run_.step}, {"epoch", epoch()}, {"split", "val"}, {"loss", e.loss},
                            {"accuracy", e.accuracy()}, {"seconds", run_.seconds + seconds_since(began_)}});
    verbose("step {}: validation accuracy {:.2f} %, loss {:.4f}", run_.step, 100 * e.accuracy(), e.loss);
    run_.last_accuracy = e.accuracy();
    run_.last_evaluated = run_.step;
    if (e.accuracy() > run_.best_accuracy) {
      run_.best_accuracy = e.accuracy();
      run_.best_step = run_.step;
      run_.evaluations_since_best = 0;
      save("best");
    } else if (++run_.evaluations_since_best >= config_.train.patience && config_.train.patience > 0) {
      stop_reason_ = fmt::format("no better validation accuracy in {} evaluations", config_.train.patience);
    }
    line_began_ += std::chrono::duration_cast<Clock::duration>(Clock::now() - began);  // evaluation is not training time
  }

  EvaluateOptions eval_options() const {
    EvaluateOptions options;
    options.batch = config_.train.eval_batch;
    options.device = session_.device;
    return options;
  }

  void save(std::string_view name) {
    RunState saved = run_;
    saved.seconds += seconds_since(began_);
    const Tensor sums = state_.sums.cpu();
    std::copy_n(sums.const_data_ptr<double>(), 4, saved.sums);
    Json json = saved.to_json();
    json["epoch"] = epoch();
    json["data_sha256"] = train_.info().sha256;
    json["config_sha256"] = config_hash();
    // Every random number is a function of these (base/philox.h): there is no other generator state.
    json["random"] = {{"seed", config_.seed}, {"order", {{"examples", run_.step * config_.train.batch}}},
                      {"dropout", {{"step", run_.step}}}};
    std::vector<Tensor> storage;
    save_checkpoint(folder_.path(), name, state_.flat.model_tensors(storage), state_.flat.optimizer_tensors(storage), json);
  }

  // Tests the last and the best checkpoint and writes the result.
  Json finish() {
    const Dataset test = session_.folder.open("test");
    Json last = test_checkpoint(test, run_.step, run_.last_accuracy, false).first;
    state_.flat.load_model(open_checkpoint(folder_.path(), "best").model);
    auto [best, evaluation] = test_checkpoint(test, run_.best_step, run_.best_accuracy, true);
    Json groups = Json::object();
    for (const auto& g : evaluation.groups) groups[g.name] = {{"examples", g.examples}, {"correct", g.correct}};
    Json baselines = Json::array();
    for (const auto& b : task_.baselines(train_, test)) baselines.push_back({{"name", b.name}, {"accuracy", b.accuracy}});
    const PublishedConfig& p = config_.published;
    Json result = {
        {"task", config_.task}, {"task_version", train_.info().version}, {"variant", config_.variant},
        {"data_sha256", train_.info().sha256}, {"test_sha256", test.info().sha256}, {"model", config_.model},
        {"protocol", config_.protocol}, {"seed", config_.seed}, {"parameters", session_.model->parameter_count()},
        {"steps", run_.step}, {"stop_reason", stop_reason_}, {"best", best}, {"last", last}, {"groups", groups},
        {"baselines", baselines}, {"wall_seconds", run_.seconds + seconds_since(began_)},
        {"train_examples_per_s", trained_seconds_ > 0 ? Json(trained_examples_ / trained_seconds_) : Json()},
        {"peak_memory_bytes", peak_memory_bytes(session_.device)}, {"device", device_name(session_.device)},
        {"published", p.value > 0 ? Json{{"value", p.value}, {"source", p.source}} : Json()}};
    folder_.write_result(result);
    return result;
  }

  std::pair<Json, Evaluation> test_checkpoint(const Dataset& test, int64_t step, double val_accuracy, bool groups) {
    EvaluateOptions options = eval_options();
    if (groups) options.task = &task_;
    Progress progress("testing", test.size(), "examples");
    options.progress = [&](int64_t done) { progress.update(done); };
    Evaluation e = evaluate(*session_.model, test, options);
    Json json = {{"step", step}, {"val_accuracy", val_accuracy}, {"test_accuracy", e.accuracy()}, {"test_loss", e.loss},
                 {"test_examples", e.examples}};
    return {std::move(json), std::move(e)};
  }

  TrainRequest request_;
  RunFolder folder_;
  Session session_;
  RunConfig& config_;
  const Task& task_;
  Dataset train_, val_;
  TrainState state_;
  RunState run_;
  std::string stop_reason_, remark_;
  Clock::time_point began_, line_began_;
  double line_waited_ = 0, trained_examples_ = 0, trained_seconds_ = 0;
  int64_t line_tokens_ = 0;
};

}  // namespace

Json train(TrainRequest request) {
  if (request.mode == RunMode::kResume) {
    RunFolder folder(request.run, RunMode::kResume);
    if (folder.finished()) {
      info("{}: this run is finished", request.run.string());
      return read_json(request.run / "result.json");
    }
  }
  return Trainer(std::move(request)).run();
}

}  // namespace lra
