// lra train MODEL TASK: a run from its configuration to its result.
#include <iostream>

#include "base/log.h"
#include "base/progress.h"
#include "base/table.h"
#include "cli/verb.h"
#include "train/config_keys.h"
#include "train/trainer.h"

namespace lra {
namespace {

std::string percent(const Json& value) {
  return value.is_number() ? fmt::format("{:.2f} %", 100 * value.get<double>()) : "–";
}

class Train : public Verb {
 public:
  std::string_view name() const override { return "train"; }
  int order() const override { return 40; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    app_ = root.add_subcommand("train", "train a model on a task");
    app_->add_option("MODEL", model_, "see lra models");
    app_->add_option("TASK", task_, "see lra tasks");
    app_->add_option("--run", run_, "run folder; default RUNS/MODEL-TASK-PROTOCOL-sSEED")->type_name("DIR");
    steps_option_ = app_->add_option("--steps", steps_,
                                     "stop after N steps, with the schedule unchanged; 0: at its end. With "
                                     "--resume: go on to step N, also where the run had stopped before")
                        ->type_name("N")
                        ->check(CLI::Range(int64_t{0}, int64_t{1'000'000'000}));
    auto* resume = app_->add_flag("--resume", resume_, "go on from the run folder's last checkpoint");
    app_->add_flag("--force", force_, "replace a run that is there")->excludes(resume);
    app_->add_flag("--dry-run", dry_run_,
                   "print the resolved configuration, parameters and memory, and stop");
    app_->add_flag(
        "--deterministic", deterministic_,
        "on a GPU: the same bits in every run, at a price that lra bench prints (CPU runs always are)");
    app_->add_flag("--keys", keys_,
                   "print every key of config.yaml with its default, range and meaning (see also "
                   "docs/configuration.md), and stop; with MODEL: of this model");
    app_->add_flag("--markdown", markdown_, "with --keys: as the page docs/configuration.md")
        ->needs("--keys");
    add_config_options(*app_, shared_);
    add_device_options(*app_, shared_);
    add_data_option(*app_, shared_);
    add_runs_option(*app_, shared_);
    add_common_options(*app_, shared_);
    app_->footer("Example: lra train transformer listops --protocol tiny --run runs/mine");
    return app_;
  }

  int run() override {
    if (keys_) return print_keys();
    TrainRequest request;
    request.data = shared_.data;
    request.mode = resume_ ? RunMode::kResume : force_ ? RunMode::kForce : RunMode::kNew;
    request.config = resume_ ? resumed(request.run) : resolve_config(config_request());
    if (request.run.empty()) request.run = run_.empty() ? default_run(request.config) : fs::path(run_);
    if (dry_run_) {
      const Json described = describe_run(request.config, request.data);
      print_dry_run(described, request.config);
      return 0;
    }
    request.command = command_line();
    const Json result = train(request);
    if (shared_.json) {
      print_json(result);
    } else {
      print_result(result, request.run);
    }
    return 0;
  }

 private:
  ConfigRequest config_request() const {
    ConfigRequest r;
    r.model = model_;
    r.task = task_;
    if (app_->count("--protocol") > 0) r.protocol = shared_.protocol;
    r.config_file = shared_.config;
    r.set = shared_.set;
    if (app_->count("--seed") > 0) r.seed = static_cast<int64_t>(shared_.seed);
    if (steps_option_->count() > 0) r.steps = steps_;
    r.device = shared_.device;
    r.dtype = shared_.dtype;
    r.deterministic = deterministic_;
    return r;
  }

  fs::path default_run(const RunConfig& c) const {
    return fs::path(shared_.runs) / fmt::format("{}-{}-{}-s{}", c.model, c.task, c.protocol, c.seed);
  }

  int print_keys() const {
    if (markdown_) {
      std::cout << config_page();
    } else if (shared_.json) {
      print_json(config_keys_json(model_));
    } else {
      std::cout << config_keys_text(model_);
    }
    return 0;
  }

  // A resumed run is what its own config.yaml says, but for where it stops; options that would change it are
  // refused.
  RunConfig resumed(fs::path& run) const {
    for (const char* option : {"--config", "--set", "--device", "--dtype", "--deterministic"}) {
      if (app_->count(option) > 0) {
        fail("train", "--resume goes on with the run as it was configured; leave out {}.", option);
      }
    }
    run = run_.empty() ? default_run(resolve_config(config_request())) : fs::path(run_);
    const fs::path file = run / "config.yaml";
    if (!fs::exists(file))
      fail("train", "{}: there is no run to resume. Leave out --resume to start one.", run.string());
    RunConfig c = read_run_config(read_text(file, 1 << 20), file.string());
    const auto same = [&](const std::string& given, const std::string& configured, const char* what) {
      if (!given.empty() && given != configured) {
        fail("train", "{}: is a run with {} '{}', the command line says '{}'.", run.string(), what,
             configured, given);
      }
    };
    same(model_, c.model, "model");
    same(task_, c.task, "task");
    if (app_->count("--protocol") > 0) same(shared_.protocol, c.protocol, "protocol");
    if (app_->count("--seed") > 0) same(std::to_string(shared_.seed), std::to_string(c.seed), "seed");
    if (steps_option_->count() > 0) c.train.stop_after = steps_;
    return c;
  }

  void print_dry_run(const Json& d, RunConfig& config) const {
    if (shared_.json) {
      print_json(d);
      return;
    }
    std::cout << to_yaml(config.tree());
    const auto megabytes = [&](const char* part) {
      return d["estimated_memory_bytes"][part].get<double>() / 1e6;
    };
    std::cerr << fmt::format(
        "# parameters: {}\n# memory: at least {:.1f} MB (state {:.1f}, activations {:.1f})\n",
        d["parameters"].get<int64_t>(), megabytes("total"), megabytes("state"), megabytes("activations"));
    if (d["data"].is_null()) {
      std::cerr << fmt::format(
          "# the data is not there yet; these numbers are for length {}, that of {}\n",
          d["max_length"].get<int64_t>(),
          d["sizes_from"] == "variant"
              ? fmt::format("variant '{}'", config.variant)
              : fmt::format("the task's own data: variant '{}' may have another", config.variant));
    }
    const Departures found = departures(config);
    if (!found.empty()) {
      std::cerr << fmt::format("# departs from preset {}/{}: {}\n", config.protocol, config.task,
                               departures_text(found));
    }
  }

  static void print_result(const Json& r, const fs::path& run) {
    std::vector<std::vector<std::string>> rows;
    for (const auto& [key, title] : {std::pair{"best", "best on validation"}, {"last", "last step"}}) {
      const Json& c = r.at(key);
      rows.push_back({title, std::to_string(c.at("step").get<int64_t>()), percent(c.at("val_accuracy")),
                      percent(c.at("test_accuracy")),
                      fmt::format("{:.4f}", c.at("test_loss").get<double>())});
    }
    std::cout << format_table({"checkpoint", "step", "validation", "test accuracy", "test loss"}, rows)
              << "\n";
    std::vector<std::vector<std::string>> beside;
    for (const auto& b : r.at("baselines")) beside.push_back({b.at("name"), percent(b.at("accuracy"))});
    const bool comparable = !r.contains("departures");
    if (!r.at("published").is_null() && comparable) {
      beside.push_back({fmt::format("published: {}", r["published"]["source"].get<std::string>()),
                        fmt::format("{:.2f} %", r["published"]["value"].get<double>())});
    }
    std::cout << format_table({"for comparison", "test accuracy"}, beside) << "\n";
    if (!comparable) {
      std::cout << fmt::format(
          "Departs from the preset, so nothing published is comparable: {}\n\n",
          departures_text(departures_from_json(r["departures"], (run / "result.json").string())));
    }
    std::cout << fmt::format(
        "{} on {} ({}), seed {}, protocol {}; {} examples/s; everything is in {}\n",
        r.at("model").get<std::string>(), r.at("task").get<std::string>(), r.at("variant").get<std::string>(),
        r.at("seed").get<int64_t>(), r.at("protocol").get<std::string>(),
        r.at("train_examples_per_s").is_number() ? rate_text(r["train_examples_per_s"].get<double>()) : "–",
        run.string());
  }

  CLI::App* app_ = nullptr;
  CLI::Option* steps_option_ = nullptr;
  Shared shared_;
  std::string model_, task_, run_;
  int64_t steps_ = 0;
  bool resume_ = false, force_ = false, dry_run_ = false, deterministic_ = false, keys_ = false,
       markdown_ = false;
};

const Registered<Verb> train_verb(std::make_unique<Train>(), LRA_HERE);

}  // namespace
}  // namespace lra
