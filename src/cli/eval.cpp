// lra eval RUN: a trained model on a split of its data.
#include <iostream>

#include "base/table.h"
#include "cli/verb.h"
#include "runs/run_reader.h"
#include "train/trainer.h"

namespace lra {
namespace {

class Eval : public Verb {
 public:
  std::string_view name() const override { return "eval"; }
  int order() const override { return 50; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    app_ = root.add_subcommand("eval", "evaluate a run's checkpoint on a split");
    app_->add_option("RUN", run_, "a run folder, or its name under --runs")->required();
    app_->add_option("--split", request_.split, "train, val or test")
        ->check(CLI::IsMember({"train", "val", "test"}))
        ->capture_default_str();
    app_->add_option("--checkpoint", request_.checkpoint, "best or last")
        ->check(CLI::IsMember({"best", "last"}))
        ->capture_default_str();
    app_->add_option("--predictions", predictions_,
                     "write predictions, to FILE or to RUN/predictions/SPLIT.jsonl")
        ->type_name("FILE")
        ->expected(0, 1);
    add_device_options(*app_, shared_);
    add_data_option(*app_, shared_);
    add_runs_option(*app_, shared_);
    add_common_options(*app_, shared_);
    return app_;
  }

  int run() override {
    request_.run = find_run(run_, shared_.runs);
    request_.data = shared_.data;
    request_.device = shared_.device;
    request_.dtype = shared_.dtype;
    request_.write_predictions = app_->count("--predictions") > 0;
    request_.predictions = predictions_;
    const Json result = evaluate_run(request_);
    if (shared_.json) {
      print_json(result);
      return 0;
    }
    const auto row = [](const std::string& name, const Json& j) {
      const auto n = j.at("examples").get<double>(), correct = j.at("correct").get<double>();
      return std::vector<std::string>{name, fmt::format("{}", n),
                                      n > 0 ? fmt::format("{:.2f} %", 100 * correct / n) : "–"};
    };
    std::vector<std::vector<std::string>> rows = {row("all", result)};
    for (const auto& [name, group] : result.at("groups").items()) rows.push_back(row(name, group));
    std::cout << format_table({request_.split, "examples", "accuracy"}, rows)
              << fmt::format("{} checkpoint, step {}, loss {:.4f}\n", request_.checkpoint,
                             result.at("step").get<int64_t>(), result.at("loss").get<double>());
    if (result.contains("predictions"))
      std::cout << "predictions: " << result["predictions"].get<std::string>() << "\n";
    return 0;
  }

 private:
  CLI::App* app_ = nullptr;
  Shared shared_;
  EvalRequest request_;
  std::string run_, predictions_;
};

const Registered<Verb> eval_verb(std::make_unique<Eval>(), LRA_HERE);

}  // namespace
}  // namespace lra
