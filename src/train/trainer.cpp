#include "train/trainer.h"

#include <chrono>
#include <cmath>

#include <ATen/Parallel.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/sha256.h"
#include "base/signals.h"
#include "batch/sources.h"
#include "eval/evaluate.h"
#include "models/model.h"
#include "runs/checkpoint.h"
#include "tasks/task.h"
#include "train/checkpoint_writer.h"
#include "train/memory.h"
#include "train/run_state.h"
#include "train/session.h"
#include "train/step_engine.h"

namespace lra {
namespace {

constexpr size_t kNamed = 6;  // keys of departures; result.json has them all

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

class Trainer {
 public:
  explicit Trainer(TrainRequest request)
      : request_(std::move(request)),
        session_(request_.config, request_.data),
        config_(session_.config),
        task_(find_task(config_.task)),
        train_(session_.open("train")),
        val_(session_.open("val")),
        folder_(claim_folder()),  // after everything that may refuse: --force removes the old run
        state_(make_train_state(*session_.model, session_.device, torch::kFloat,
                                session_.model->compute_type())),
        writer_(folder_.path(), state_.flat) {}

  Json run() {
    prepare();
    const TrainConfig& t = config_.train;
    warn_of_departures();
    auto engine = make_engine(capturable() ? EngineKind::kGraph : EngineKind::kEager, *session_.model, state_,
                              {t.beta1, t.beta2, t.epsilon, t.weight_decay, t.clip},
                              {t.schedule, t.learning_rate, t.warmup, t.steps}, seed());
    auto source = make_source(train_, loader_options(), run_.step, session_.device, t.device_data_mb << 20);
    info("{} on {}: {} parameters, {} steps of {} examples, {}, {}, engine {}, {}", config_.model,
         config_.task, session_.model->parameter_count(), t.last_step(), t.batch, session_.device.str(),
         config_.dtype, engine->name(*source), source->description());
    Progress progress("step", t.last_step(), "steps", run_.step);
    loop(*engine, *source, progress);
    progress.finish(run_.step);
    finish_line();
    check_finite();
    writer_.wait();
    return finish();
  }

 private:
  uint64_t seed() const { return static_cast<uint64_t>(config_.seed); }
  bool capturable() const { return find_model(config_.model).info().capturable; }
  LoaderOptions loader_options() const {
    return {config_.train.batch, config_.train.micro_batches, seed(), session_.model->layout(),
            config_.train.shuffle == "batches"};
  }
  // Without where the run stops, which changes nothing before that step.
  static std::string config_hash(RunConfig config) {
    config.train.stop_after = 0;
    return sha256_hex(to_yaml(config.tree()));
  }

  void warn_of_departures() const {
    const Departures found = departures(config_);
    if (found.empty()) return;
    std::vector<std::string> keys;
    for (const Departure& d : found) keys.push_back(d.key);
    if (keys.size() > kNamed) keys.resize(kNamed), keys.emplace_back("…");
    warn(
        "departs from preset {}/{} in {} key{} ({}); its numbers are not comparable with that protocol's. "
        "Use --protocol open for runs of your own.",
        config_.protocol, config_.task, found.size(), found.size() == 1 ? "" : "s", fmt::join(keys, ", "));
  }

  RunFolder claim_folder() const {
    check_memory(session_, train_, loader_options());
    return RunFolder(request_.run, request_.mode);
  }

  void prepare() {
    const bool saved = has_checkpoint(folder_.path(), "last") || has_checkpoint(folder_.path(), "best");
    if (request_.mode == RunMode::kResume && saved) {
      restore();
    } else {
      folder_.write_config(to_yaml(config_.tree()));
      folder_.write_env(environment(session_.device.str(), request_.command));
      folder_.open_metrics(0);
      run_ = {};
    }
    began_ = Clock::now();
    line_began_ = began_;
  }

  // From the newer of the two checkpoints: a kill may have come between a new best one and the next regular
  // one.
  void restore() {
    std::string name = has_checkpoint(folder_.path(), "last") ? "last" : "best";
    Checkpoint checkpoint = open_checkpoint(folder_.path(), name);
    if (name == "last" && has_checkpoint(folder_.path(), "best")) {
      Checkpoint best = open_checkpoint(folder_.path(), "best");
      if (step_of(best) > step_of(checkpoint)) checkpoint = std::move(best), name = "best";
    }
    const std::string where = (checkpoint.path / "state.json").string();
    if (const auto trained = json_get<std::string>(checkpoint.state, "data_sha256", where);
        trained != train_.info().sha256) {
      fail("run",
           "{}: the training data is not the one this run was started with. Expected sha256 {}, found {} in "
           "{}.",
           folder_.path().string(), trained, train_.info().sha256, train_.path().string());
    }
    RunConfig there = read_run_config(folder_.config_text(), (folder_.path() / "config.yaml").string());
    const auto hash = json_get<std::string>(checkpoint.state, "config_sha256", where);
    // Or of all of it, as earlier checkpoints have it.
    if (hash != config_hash(there) && hash != sha256_hex(to_yaml(there.tree()))) {
      fail("run", "{}: config.yaml was changed since the checkpoint. Put it back, or start a new run.",
           folder_.path().string());
    }
    if (const auto threads = json_get<int64_t>(checkpoint.state, "threads", where);
        threads != at::get_num_threads()) {
      warn("the run was started with {} threads and goes on with {}: results may differ in the last bits",
           threads, at::get_num_threads());
    }
    run_ = RunState::from_json(checkpoint.state, where);
    try {
      state_.flat.load_model(checkpoint.model);
      state_.flat.load_optimizer(checkpoint.optimizer());
    } catch (const Error& e) {
      fail("checkpoint", "{} {}", e.what(), checkpoint_advice(folder_.path(), name));
    }
    if (there.train.stop_after != config_.train.stop_after) stop_elsewhere();
    state_.parameters_changed();
    state_.step.fill_(run_.step);
    state_.sums.copy_(
        torch::tensor({run_.sums[0], run_.sums[1], run_.sums[2], run_.sums[3]}, torch::kDouble));
    from_best_ = name == "best";
    folder_.open_metrics(run_.step);
    info("resumed {} at step {}", folder_.path().string(), run_.step);
  }

  // The result goes first: a kill in between leaves a run to resume.
  void stop_elsewhere() {
    const std::string run = folder_.path().string();
    if (out_of_patience()) fail("train", "{}: {}; more steps do not change that.", run, stop_reason());
    if (config_.train.last_step() <= run_.step) {
      fail("train",
           "{}: is at step {} already, --steps would end it at {}. The schedule has {}; say 0 for all.", run,
           run_.step, config_.train.last_step(), config_.train.steps);
    }
    folder_.remove_result();
    folder_.write_config(to_yaml(config_.tree()));
  }

  static int64_t step_of(const Checkpoint& c) {
    return json_get<int64_t>(c.state, "step", (c.path / "state.json").string());
  }

  void loop(StepEngine& engine, BatchSource& source, Progress& progress) {
    const TrainConfig& t = config_.train;
    if (from_best_) save("last");  // it is missing or older, and there may be no step left that saves it
    if (run_.step > 0 && evaluation_due() && run_.last_evaluated != run_.step)
      validate_or_save();  // interrupted in it
    while (run_.step < t.last_step() && !out_of_patience()) {
      engine.step(source);
      run_.line_tokens += static_cast<double>(source.tokens(run_.step));
      ++run_.step;
      if (run_.step % t.log_every == 0 || run_.step == t.last_step()) log_training(source);
      progress.update(run_.step, remark_);
      if (evaluation_due()) validate_or_save();
      if (interrupted()) {
        save_and_wait("last");
        throw Interrupted(
            fmt::format("interrupted at step {}, checkpoint saved; go on with --resume", run_.step));
      }
      if (run_.step % t.checkpoint_every == 0 || run_.step == t.last_step() || out_of_patience())
        save("last");
    }
  }

  bool evaluation_due() const {
    return run_.step % config_.train.eval_every == 0 || run_.step == config_.train.last_step();
  }
  bool out_of_patience() const {
    return config_.train.patience > 0 && run_.evaluations_since_best >= config_.train.patience;
  }
  std::string stop_reason() const {
    return out_of_patience()
               ? fmt::format("no better validation accuracy in {} evaluations", config_.train.patience)
               : "steps";
  }

  void validate_or_save() {
    try {
      validate();
    } catch (const Interrupted&) {
      save_and_wait("last");
      throw Interrupted(fmt::format(
          "interrupted in the evaluation at step {}, checkpoint saved; go on with --resume", run_.step));
    }
  }

  // A line of metrics about the steps since the last one. On a GPU the sums travel while the next steps run,
  // and the line is written when they are there: nothing waits for the device but the writing of the line
  // before.
  void log_training(const BatchSource& source) {
    finish_line();
    Line line{run_.step, epoch(), schedule_rate(), run_.line_tokens, source.waited_seconds() - line_waited_,
              {}};
    line.numbers = std::make_unique<HostCopy>(torch::cat({state_.sums, state_.bad_step.to(torch::kDouble)}));
    line_ = std::move(line);
    state_.sums.zero_();
    run_.line_tokens = 0;
    line_waited_ = source.waited_seconds();
    if (session_.device.is_cpu()) finish_line();
  }

  void finish_line() {
    if (!line_) return;
    const Line line = std::move(*line_);
    line_.reset();
    const Tensor numbers = line.numbers->get();
    const auto* s = numbers.const_data_ptr<double>();
    if (s[4] >= 0) check_finite();
    const double now = run_.line_seconds + seconds_since(line_began_), examples = std::max(1.0, s[2]);
    const double steps = std::max(1.0, s[2] / static_cast<double>(config_.train.batch));
    folder_.append_metrics({{"step", line.step},
                            {"epoch", line.epoch},
                            {"split", "train"},
                            {"loss", s[0] / examples},
                            {"accuracy", s[1] / examples},
                            {"lr", line.rate},
                            {"gradient_norm", s[3] / steps},
                            {"examples_per_s", s[2] / now},
                            {"tokens_per_s", line.tokens / now},
                            {"data_wait", line.waited / now},
                            {"seconds", run_.seconds + seconds_since(began_)}});
    remark_ =
        fmt::format("loss {:.4f}  accuracy {:.1f} %  {} tokens/s  data wait {:.0f} %{}", s[0] / examples,
                    100 * s[1] / examples, rate_text(line.tokens / now), 100 * line.waited / now,
                    run_.best_step >= 0 ? fmt::format("  best val {:.1f} %", 100 * run_.best_accuracy) : "");
    run_.trained_examples += s[2];
    run_.trained_seconds += now;
    line_began_ = Clock::now();
    run_.line_seconds = 0;
  }

  double epoch() const {
    return static_cast<double>(run_.step * config_.train.batch) / static_cast<double>(train_.size());
  }
  double schedule_rate() const {
    const TrainConfig& t = config_.train;
    return Schedule{t.schedule, t.learning_rate, t.warmup, t.steps}.at(run_.step - 1);
  }

  // Nothing is saved and no result is given from behind the first step that was not finite.
  void check_finite() {
    const int64_t step = state_.bad_step.item<int64_t>();
    if (step < 0) return;
    writer_.wait();
    std::vector<Batch> batches = Loader::make(train_, loader_options(), step);
    for (auto& batch : batches) batch = batch.to(session_.device);
    const std::string tensor = find_bad_tensor(*session_.model, state_, batches, step, seed());
    const bool saved = has_checkpoint(folder_.path(), "last");
    fail("train",
         "step {}: the loss or its gradient is not finite; the first bad tensor is the {}. {} Lower "
         "train.learning_rate or "
         "set train.clip.",
         step, tensor,
         saved ? "The last checkpoint is from before it and usable." : "No checkpoint had been saved yet.");
  }

  void validate() {
    finish_line();
    check_finite();
    const auto began = Clock::now();
    if (!evaluator_) evaluator_.emplace(*session_.model, val_, eval_options());
    const Evaluation e = evaluator_->run();
    const double took = seconds_since(began);
    folder_.append_metrics({{"step", run_.step},
                            {"epoch", epoch()},
                            {"split", "val"},
                            {"loss", e.loss},
                            {"accuracy", e.accuracy()},
                            {"lr", schedule_rate()},
                            {"examples_per_s", static_cast<double>(e.examples) / took},
                            {"tokens_per_s", static_cast<double>(val_.total_tokens()) / took},
                            {"seconds", run_.seconds + seconds_since(began_)}});
    verbose("step {}: validation accuracy {:.2f} %, loss {:.4f}", run_.step, 100 * e.accuracy(), e.loss);
    run_.last_accuracy = e.accuracy();
    run_.last_evaluated = run_.step;
    if (e.accuracy() > run_.best_accuracy) {
      run_.best_accuracy = e.accuracy();
      run_.best_step = run_.step;
      run_.evaluations_since_best = 0;
      save("best");
    } else {
      ++run_.evaluations_since_best;
    }
    line_began_ +=
        std::chrono::duration_cast<Clock::duration>(Clock::now() - began);  // evaluation is not training time
  }

  EvaluateOptions eval_options() const {
    EvaluateOptions options;
    options.batch = config_.train.eval_batch;
    options.device = session_.device;
    options.copies = state_.copies;
    options.capturable = capturable();
    return options;
  }

  void save(const std::string& name) {
    finish_line();
    RunState saved = run_;
    saved.seconds += seconds_since(began_);
    saved.line_seconds += seconds_since(line_began_);
    const Json common = {
        {"epoch", epoch()},
        {"data_sha256", train_.info().sha256},
        {"config_sha256", config_hash(config_)},
        {"threads", at::get_num_threads()},
        // Every random number is a function of these (base/philox.h): there is no other state.
        {"random",
         {{"seed", config_.seed},
          {"order", {{"examples", run_.step * config_.train.batch}}},
          {"dropout", {{"step", run_.step}}}}}};
    writer_.save(name, state_, [saved, common](const double* sums) mutable {
      std::copy_n(sums, 4, saved.sums);
      Json json = saved.to_json();
      json.update(common);
      return json;
    });
  }

  // Everything is on disk when it returns. The last step may have been a bad one.
  void save_and_wait(const std::string& name) {
    check_finite();
    save(name);
    writer_.wait();
  }

  // Tests the last and the best checkpoint and writes the result.
  Json finish() {
    const Dataset test = session_.open("test");
    Json last = test_checkpoint(test, run_.step, run_.last_accuracy, false).first;
    const Checkpoint best_checkpoint = open_checkpoint(folder_.path(), "best");
    if (step_of(best_checkpoint) != run_.best_step) {
      fail("run",
           "{}: is of step {}, but the best validation accuracy was at step {}. The folder was changed by "
           "hand?",
           best_checkpoint.path.string(), step_of(best_checkpoint), run_.best_step);
    }
    state_.flat.load_model(best_checkpoint.model);
    state_.parameters_changed();
    auto [best, evaluation] = test_checkpoint(test, run_.best_step, run_.best_accuracy, true);
    Json groups = Json::object();
    for (const auto& g : evaluation.groups)
      groups[g.name] = {{"examples", g.examples}, {"correct", g.correct}};
    Json baselines = Json::array();
    for (const auto& b : task_.baselines(train_, test))
      baselines.push_back({{"name", b.name}, {"accuracy", b.accuracy}});
    const PublishedConfig& p = config_.published;
    Json result = {{"task", config_.task},
                   {"task_version", train_.info().version},
                   {"variant", config_.variant},
                   {"data_sha256", train_.info().sha256},
                   {"test_sha256", test.info().sha256},
                   {"model", config_.model},
                   {"protocol", config_.protocol},
                   {"seed", config_.seed},
                   {"parameters", session_.model->parameter_count()},
                   {"steps", run_.step},
                   {"stop_reason", stop_reason()},
                   {"best", best},
                   {"last", last},
                   {"groups", groups},
                   {"baselines", baselines},
                   {"wall_seconds", run_.seconds + seconds_since(began_)},
                   {"train_examples_per_s",
                    run_.trained_seconds > 0 ? Json(run_.trained_examples / run_.trained_seconds) : Json()},
                   {"peak_memory_bytes", peak_memory_bytes(session_.device)},
                   {"device", device_name(session_.device)},
                   {"published", p.value > 0 ? Json{{"value", p.value}, {"source", p.source}} : Json()}};
    if (const Departures found = departures(config_); !found.empty())
      result["departures"] = departures_json(found);
    folder_.write_result(result);
    return result;
  }

  std::pair<Json, Evaluation> test_checkpoint(const Dataset& test, int64_t step, double val_accuracy,
                                              bool groups) {
    EvaluateOptions options = eval_options();
    if (groups) options.task = &task_;
    Progress progress("testing", test.size(), "examples");
    options.progress = [&](int64_t done) { progress.update(done); };
    Evaluation e = evaluate(*session_.model, test, options);
    Json json = {{"step", step},
                 {"val_accuracy", val_accuracy},
                 {"test_accuracy", e.accuracy()},
                 {"test_loss", e.loss},
                 {"test_examples", e.examples}};
    return {std::move(json), std::move(e)};
  }

  TrainRequest request_;
  Session session_;
  RunConfig& config_;
  const Task& task_;
  Dataset train_, val_;
  RunFolder folder_;
  TrainState state_;
  CheckpointWriter writer_;
  std::optional<Evaluator> evaluator_;  // on the validation split
  RunState run_;
  // What is known of a line of metrics before its sums have come from the device.
  struct Line {
    int64_t step;
    double epoch, rate, tokens, waited;
    std::unique_ptr<HostCopy> numbers;  // the four sums and the first bad step
  };
  std::optional<Line> line_;
  std::string remark_;
  Clock::time_point began_, line_began_;  // of this process, of the metrics line that is being gathered
  double line_waited_ = 0;
  bool from_best_ = false;
};

}  // namespace

Json train(TrainRequest request) {
  if (request.mode == RunMode::kResume) {
    const RunFolder folder(request.run, RunMode::kResume);
    const TrainConfig& t = request.config.train;
    const auto there = read_run_config(folder.config_text(), (request.run / "config.yaml").string()).train;
    if (folder.finished() && there.stop_after == t.stop_after) {
      const Json result = folder.result();
      const bool capped = t.last_step() < t.steps && result.is_object() && result.contains("stop_reason") &&
                          result["stop_reason"] == "steps";
      info("{}: this run is finished{}", request.run.string(),
           capped
               ? fmt::format(" at step {} of {}; --resume --steps N goes on to step N, --steps 0 to the end",
                             t.last_step(), t.steps)
               : "");
      return result;
    }
  }
  return Trainer(std::move(request)).run();
}

}  // namespace lra
