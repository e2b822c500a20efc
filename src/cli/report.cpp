// lra report RUN… -o FILE.html
#include "report/report.h"

#include "base/log.h"
#include "cli/verb.h"

namespace lra {
namespace {

class Report : public Verb {
 public:
  std::string_view name() const override { return "report"; }
  int order() const override { return 90; }
  CLI::App* add(CLI::App& root) override {
    CLI::App* app =
        root.add_subcommand("report", "write runs as one HTML page: tables, learning curves, environment");
    app->add_option("RUN", runs_, "run folders, or names of runs under --runs")->required();
    app->add_option("-o,--output", output_,
                    "the page to write (default: RUN/report.html for one run, else report.html)");
    add_runs_option(*app, shared_);
    add_common_options(*app, shared_);
    return app;
  }
  int run() override {
    std::vector<fs::path> folders;
    for (const std::string& argument : runs_) folders.push_back(find_run(argument, shared_.runs));
    const fs::path out = !output_.empty()      ? fs::path(output_)
                         : folders.size() == 1 ? folders[0] / "report.html"
                                               : fs::path("report.html");
    write_report(folders, out);
    if (shared_.json) {
      Json names = Json::array();
      for (const fs::path& folder : folders) names.push_back(folder.string());
      print_json({{"file", out.string()}, {"runs", names}});
    } else {
      info("report: {}", out.string());
    }
    return 0;
  }
  const Shared& shared() const override { return shared_; }

 private:
  Shared shared_;
  std::vector<std::string> runs_;
  std::string output_;
};

const Registered<Verb> report(std::make_unique<Report>(), LRA_HERE);

}  // namespace
}  // namespace lra
