// lra compare RUN RUN
#include "report/compare.h"

#include "cli/verb.h"

namespace lra {
namespace {

class Compare : public Verb {
 public:
  std::string_view name() const override { return "compare"; }
  int order() const override { return 100; }
  CLI::App* add(CLI::App& root) override {
    CLI::App* app = root.add_subcommand(
        "compare", "two runs side by side: configurations, results and a paired test on their predictions");
    app->add_option("A", a_, "a run folder, or the name of a run under --runs")->required();
    app->add_option("B", b_, "the run to compare it with")->required();
    add_runs_option(*app, shared_);
    add_common_options(*app, shared_);
    return app;
  }
  int run() override {
    const Comparison comparison = compare_runs(find_run(a_, shared_.runs), find_run(b_, shared_.runs));
    if (shared_.json) {
      print_json(comparison_json(comparison));
    } else {
      fmt::print("{}", comparison_text(comparison));
    }
    return 0;
  }
  const Shared& shared() const override { return shared_; }

 private:
  Shared shared_;
  std::string a_, b_;
};

const Registered<Verb> compare(std::make_unique<Compare>(), LRA_HERE);

}  // namespace
}  // namespace lra
