// lra tasks [NAME]
#include "base/table.h"
#include "cli/verb.h"
#include "tasks/task.h"

namespace lra {
namespace {

Json card(const Task& task) {
  const TaskInfo& info = task.info();
  Json json = {{"name", info.name},
               {"title", info.title},
               {"version", info.version},
               {"description", info.description},
               {"source", info.source},
               {"vocab_size", info.vocab_size},
               {"num_classes", info.num_classes},
               {"max_length", info.max_length},
               {"pad_id", info.pad_id ? Json(*info.pad_id) : Json("none")},
               {"inputs", info.two_inputs ? 2 : 1},
               {"can_make", task.can_make("full")}};
  for (const char* size : {"full", "tiny"}) {
    const SplitCounts counts = task.counts(size);
    json["sizes"][size] = {{"train", counts.train},
                           {"val", counts.val},
                           {"test", counts.test},
                           {"options", options_json(*task.options(size))}};
  }
  for (const auto& [where, sha256] : task.golden_hashes()) json["sha256"][where] = sha256;
  return json;
}

std::string counts_text(const SplitCounts& counts) {
  return fmt::format("{} / {} / {}", counts.train, counts.val, counts.test);
}

std::string card_text(const Task& task) {
  const TaskInfo& info = task.info();
  std::string text = fmt::format("{} ({}), version {}\n{}\n\n{}\n\n", info.title, info.name, info.version,
                                 info.source, info.description);
  text += format_table({"", "full", "tiny"}, {{"train / val / test", counts_text(task.counts("full")),
                                               counts_text(task.counts("tiny"))}});
  text += fmt::format("\n{} token ids (padding: {}), {} classes, up to {} tokens, {} input{}\n",
                      info.vocab_size, info.pad_id ? std::to_string(*info.pad_id) : "none", info.num_classes,
                      info.max_length, info.two_inputs ? 2 : 1, info.two_inputs ? "s" : "");

  const auto fields = [&](const char* size) {
    const auto options = task.options(size);
    return describe_fields([&](Fields& f) { options->visit(f); });
  };
  const auto full = fields("full"), tiny = fields("tiny");
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < full.size(); ++i) {
    rows.push_back({full[i].key, full[i].value, tiny[i].value, full[i].range, full[i].help});
  }
  if (!rows.empty()) {
    text +=
        "\noptions (--option KEY=VALUE)\n" + format_table({"key", "full", "tiny", "values", "meaning"}, rows);
  }
  text +=
      fmt::format("\n{}\n", task.can_make("full") ? fmt::format("lra data make {} [--size tiny]", info.name)
                                                  : fmt::format("lra data import {} FROM", info.name));
  return text;
}

class Tasks : public Verb {
 public:
  std::string_view name() const override { return "tasks"; }
  int order() const override { return 10; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    CLI::App* app = root.add_subcommand("tasks", "the tasks, or everything about one");
    app->add_option("NAME", name_, "a task's name");
    add_common_options(*app, shared_);
    return app;
  }

  int run() override {
    if (!name_.empty()) {
      const Task& task = find_task(name_);
      if (shared_.json) {
        print_json(card(task));
      } else {
        fmt::print("{}", card_text(task));
      }
      return 0;
    }
    Json all = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const std::string& each : Registry<Task>::instance().names()) {
      const Task& task = find_task(each);
      const TaskInfo& info = task.info();
      all.push_back(card(task));
      rows.push_back({info.name, info.title, fmt::format("{}", info.num_classes),
                      fmt::format("{}", info.max_length), fmt::format("{}", info.vocab_size),
                      counts_text(task.counts("full"))});
    }
    if (shared_.json) {
      print_json(all);
    } else {
      fmt::print("{}",
                 format_table({"task", "title", "classes", "length", "ids", "train / val / test"}, rows));
    }
    return 0;
  }

 private:
  Shared shared_;
  std::string name_;
};

const Registered<Verb> tasks(std::make_unique<Tasks>(), LRA_HERE);

}  // namespace
}  // namespace lra
