// lra doctor: what this machine gives a run.
#include "train/doctor.h"

#include <iostream>

#include "base/table.h"
#include "cli/verb.h"

namespace lra {
namespace {

class Doctor : public Verb {
 public:
  std::string_view name() const override { return "doctor"; }
  int order() const override { return 90; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    auto* app = root.add_subcommand("doctor", "versions, device, threads, and what serves which operation");
    add_device_options(*app, shared_);
    add_common_options(*app, shared_);
    return app;
  }

  int run() override {
    const Json d = diagnose(shared_.device);
    if (shared_.json) {
      print_json(d);
      return 0;
    }
    const auto text = [](const Json& j) { return j.is_string() ? j.get<std::string>() : j.dump(); };
    std::vector<std::vector<std::string>> facts = {
        {"program", text(d["program"]["version"]) + " (" + text(d["program"]["commit"]) + ", " +
                        text(d["program"]["build"]) + ")"},
        {"torch", text(d["torch"])},
        {"compiler", text(d["compiler"])},
        {"device", text(d["device"]["used"]) + ", " + text(d["device"]["name"])},
        {"CPU", text(d["cpu"]["name"]) + ", " + text(d["cpu"]["capability"])},
        {"threads", text(d["threads"]) + " of " + text(d["cpu"]["cores"]) + " cores"}};
    for (const auto& runtime : d["openmp_runtimes"]) facts.push_back({"OpenMP", text(runtime)});
    std::vector<std::vector<std::string>> operations;
    for (const auto& o : d["operations"])
      operations.push_back({text(o["operation"]), text(o["implementation"]), text(o["why"])});
    std::cout << format_table({"what", "found"}, facts) << "\n"
              << format_table({"operation", "served by", "why"}, operations);
    if (!d["advice"].empty()) std::cout << "\nWhat would make it faster:\n";
    for (const auto& a : d["advice"]) std::cout << "  * " << text(a) << "\n";
    return 0;
  }

 private:
  Shared shared_;
};

const Registered<Verb> doctor_verb(std::make_unique<Doctor>(), LRA_HERE);

}  // namespace
}  // namespace lra
