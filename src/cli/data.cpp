// lra data make|import|get|verify|stats|show|export|check|list
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/table.h"
#include "cli/draw_image.h"
#include "cli/verb.h"
#include "tasks/task.h"

namespace lra {
namespace {

SplitCounts parse_counts(const std::string& text) {
  int64_t counts[3] = {};
  const char* at = text.data();
  const char* const end = at + text.size();
  for (int i = 0; i < 3; ++i) {
    const auto [stop, code] = std::from_chars(at, end, counts[i]);
    const bool separated = i < 2 ? stop != end && *stop == ',' : stop == end;
    if (code != std::errc() || !separated) {
      fail("data", "--count '{}': expected three numbers TRAIN,VAL,TEST, for example 1000,200,200.", text);
    }
    at = stop + 1;
  }
  return {counts[0], counts[1], counts[2]};
}

// Lines for a file, written atomically, or for standard output where the name is "-".
class LineSink {
 public:
  explicit LineSink(const std::string& name) {
    if (name != "-") file_.emplace(fs::path(name));
  }
  void write(const std::string& line) {
    if (file_) {
      file_->write(line + "\n");
    } else if (std::fwrite(line.data(), 1, line.size(), stdout) != line.size() ||
               std::fputc('\n', stdout) == EOF) {
      fail("data", "cannot write to standard output.");
    }
  }
  void finish() {
    if (file_) file_->commit();
    if (!file_ && std::fflush(stdout) != 0) fail("data", "cannot write to standard output.");
  }

 private:
  std::optional<AtomicFile> file_;
};

Json describe(const DataFolder& folder) {
  Json json = {{"task", folder.task}, {"variant", folder.variant}, {"path", folder.path().string()}};
  const Json manifest = read_manifest(folder);
  for (const auto& [split, entry] : manifest.at("splits").items()) {
    for (const char* key : {"examples", "tokens", "sha256"})
      json["splits"][split][key] = entry.value(key, Json());
  }
  json["notes"] = manifest.value("notes", Json::object());
  return json;
}

std::string split_table(const Json& splits) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [split, entry] : splits.items()) {
    rows.push_back({split, entry.at("examples").dump(), entry.at("tokens").dump(),
                    entry.at("sha256").get<std::string>()});
  }
  return format_table({"split", "examples", "tokens", "sha256"}, rows);
}

class Data : public Verb {
 public:
  std::string_view name() const override { return "data"; }
  int order() const override { return 30; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    CLI::App* app = root.add_subcommand("data", "make, import, check and look at data sets");
    app->require_subcommand(1);
    CLI::App* make = add_action(*app, "make", "make a task's data", &Data::make);
    make->add_option("--size", request_.size, "full for the benchmark's own, tiny for minutes on a CPU")
        ->type_name("NAME")
        ->capture_default_str();
    make->add_option("--count", counts_, "examples as TRAIN,VAL,TEST instead of the size's own")
        ->type_name("TRAIN,VAL,TEST");
    make->add_option("--seed", request_.seed, "one number decides everything random")
        ->type_name("N")
        ->check([](const std::string& text) {
          return text.starts_with('-') ? "found " + text + ", expected a number from 0 on" : std::string();
        })
        ->capture_default_str();
    add_making_options(*make);

    CLI::App* import =
        add_action(*app, "import", "bring published files into the program's form", &Data::import);
    import->add_option("FROM", from_, "folder or archive in the layout its owners publish")
        ->type_name("PATH")
        ->required();
    add_making_options(*import);

    CLI::App* get = add_action(*app, "get", "download what the owners publish, then import it", &Data::get);
    get->get_option("TASK")->description("imdb, cifar10 or lra; or the task that reads it");
    get->add_option("--from", get_.from, "another address, or a file that is there already")
        ->type_name("URL|FILE");
    get->add_option("--task", get_.tasks, "import into this task only, may repeat")
        ->type_name("NAME")
        ->allow_extra_args(false);
    get->add_flag("--offline", get_.offline, "never touch the network");
    add_making_options(*get);

    add_variant_option(
        *add_action(*app, "verify", "recompute every hash and check every example", &Data::verify));
    add_variant_option(
        *add_action(*app, "stats", "counts, lengths, labels and the task's own tables", &Data::stats));

    CLI::App* show = add_action(*app, "show", "print one example as a person wants to see it", &Data::show);
    show->add_option("--index", index_, "which example, from 0 on")->type_name("N")->capture_default_str();
    show->add_option("--png", png_, "write an image to this file instead of drawing it")->type_name("FILE");
    add_split_option(*show);
    add_variant_option(*show);

    CLI::App* convert = add_action(*app, "export", "write a split as text", &Data::convert);
    convert->add_option("--format", format_, "tsv as the owners publish it, or jsonl with token ids")
        ->check(CLI::IsMember({"tsv", "jsonl"}))
        ->capture_default_str();
    convert->add_option("-o,--output", output_, "the file to write, or - for standard output")
        ->type_name("FILE")
        ->capture_default_str();
    add_split_option(*convert);
    add_variant_option(*convert);

    CLI::App* check =
        add_action(*app, "check", "compare a published file with the task's own rules", &Data::check);
    check->add_option("FILE", from_, "the file (ListOps: TSV, tree and label in either order)")->required();

    add_action(*app, "list", "what there is under --data", &Data::list, false);
    return app;
  }

  int run() override {
    for (const auto& [app, action] : actions_) {
      if (app->parsed()) return (this->*action)();
    }
    return 1;
  }

 private:
  using Action = int (Data::*)();

  CLI::App* add_action(CLI::App& parent, const char* verb, const char* help, Action action,
                       bool needs_task = true) {
    CLI::App* app = parent.add_subcommand(verb, help);
    CLI::Option* task = app->add_option("TASK", task_, "the task's name ('lra tasks' lists them)");
    if (needs_task) task->required();
    add_data_option(*app, shared_);
    add_common_options(*app, shared_);
    actions_.emplace_back(app, action);
    return app;
  }
  void add_variant_option(CLI::App& app) {
    app.add_option("--variant", variant_, "which of the task's data sets: default, tiny, imported, …")
        ->capture_default_str();
  }
  void add_split_option(CLI::App& app) {
    app.add_option("--split", split_, "train, val or test")->type_name("NAME")->capture_default_str();
  }
  void add_making_options(CLI::App& app) {
    app.add_option("--option", request_.options,
                   "changes the data, may repeat; 'lra tasks TASK' lists the keys")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    app.add_option("--variant", request_.variant, "name of the data set (default: derived from the options)")
        ->type_name("NAME");
    app.add_flag("--force", request_.force, "overwrite data that is there");
  }

  DataFolder folder() const { return {shared_.data, std::string(find_task(task_).name()), variant_}; }

  int report_folder(const DataFolder& made) {
    if (shared_.json) {
      print_json(describe(made));
    } else {
      print_folder(made);
    }
    return 0;
  }
  static void print_folder(const DataFolder& made) {
    fmt::print("{}\n{}", made.path().string(), split_table(describe(made).at("splits")));
  }

  int make() {
    if (!counts_.empty()) request_.counts = parse_counts(counts_);
    return report_folder(make_data(find_task(task_), shared_.data, request_));
  }

  int import() { return report_folder(import_data(find_task(task_), shared_.data, from_, request_)); }

  int get() {
    get_.name = task_;
    get_.make = request_;
    const std::vector<DataFolder> folders = get_data(shared_.data, get_);
    if (!shared_.json) {
      for (const DataFolder& folder : folders) print_folder(folder);
      return 0;
    }
    Json all = Json::array();
    for (const DataFolder& folder : folders) all.push_back(describe(folder));
    print_json(all);
    return 0;
  }

  int verify() {
    const Json report = verify_data(find_task(task_), folder());
    if (shared_.json) {
      print_json(report);
      return 0;
    }
    fmt::print("{}\n{}", folder().path().string(), split_table(report.at("splits")));
    const auto all = [&](const char* which) {
      bool are = true;
      for (const Json& split : report.at("splits")) are = are && split.at("benchmark") == which;
      return are;
    };
    fmt::print("hashes, contents and labels are right{}\n",
               all("matches") ? "; this is the benchmark's own data, bit for bit"
               : all("tiny")  ? "; this is the known small set, bit for bit (not the benchmark's data)"
                              : "");
    for (const auto& [pair, count] : report.at("repeats").at("shared").items()) {
      fmt::print("examples shared by {}: {}\n", pair, count.get<int64_t>());
    }
    return 0;
  }

  int stats() {
    const Stats stats = data_stats(find_task(task_), folder());
    if (shared_.json) {
      print_json(stats.json);
      return 0;
    }
    for (const Table& table : stats.tables) {
      fmt::print("{}\n{}{}{}\n", table.title, format_table(table.header, table.rows), table.note,
                 table.note.empty() ? "" : "\n");
    }
    return 0;
  }

  int show() {
    const Task& task = find_task(task_);
    const Dataset data = folder().open(split_);
    if (index_ < 0 || index_ >= data.size()) {
      fail("data", "there is no example {} in {}, expected 0 to {}.", index_, data.path().string(),
           data.size() - 1);
    }
    const auto picture = task.picture(data, index_);
    if (!png_.empty()) {
      if (!picture) fail("data", "an example of {} is no image: --png is for tasks that have some.", task_);
      write_png(png_, *picture);
      info("written to {}", png_);
    }
    const bool colour = !shared_.json && ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
    std::string text = task.show(data, index_);
    if (picture && png_.empty()) text = draw_image(*picture, colour) + text;
    if (shared_.json) {
      print_json({{"task", task_},
                  {"variant", variant_},
                  {"split", split_},
                  {"index", index_},
                  {"label", data.label(index_)},
                  {"length", data.length(index_)},
                  {"text", text}});
    } else {
      fmt::print("{}", text);
    }
    return 0;
  }

  static Json row_json(const Dataset& data, int64_t i) {
    const auto ids = [](const Tokens& tokens) {
      std::vector<int32_t> all(static_cast<size_t>(tokens.size()));
      tokens.copy_to(all);
      return all;
    };
    Json row = {{"index", i}, {"label", data.label(i)}, {"tokens", ids(data.tokens(i))}};
    if (data.has_second()) row["tokens2"] = ids(data.tokens2(i));
    if (data.has_places()) row["places"] = ids(data.places(i));
    return row;
  }

  int convert() {
    if (shared_.json && output_ == "-") {
      fail("data", "--json and the rows cannot share standard output: name a file with -o FILE.");
    }
    const Task& task = find_task(task_);
    const Dataset data = folder().open(split_);
    const bool tsv = format_ == "tsv";
    LineSink sink(output_);
    if (tsv) sink.write(task.tsv_header());
    for (int64_t i = 0; i < data.size(); ++i) {
      if (interrupted()) throw Interrupted("exporting was interrupted; no file was written");
      sink.write(tsv ? task.tsv_row(data, i) : row_json(data, i).dump());
    }
    sink.finish();
    if (shared_.json) print_json({{"file", output_}, {"rows", data.size()}, {"format", format_}});
    if (output_ != "-") info("{} examples written to {}.", data.size(), output_);
    return 0;
  }

  int check() {
    const Json report = find_task(task_).check_file(from_);
    const bool agreed = report.at("disagree") == 0;
    if (shared_.json) {
      print_json(report);
    } else {
      fmt::print("{} of {} rows agree\n", report.at("agree").get<int64_t>(),
                 report.at("rows").get<int64_t>());
      if (!agreed) fmt::print("{}\n", report.at("first_disagreement").get<std::string>());
    }
    return agreed ? 0 : 1;
  }

  int list() {
    Json found = Json::array();
    std::vector<std::vector<std::string>> rows;
    for (const DataFolder& data : list_data(shared_.data)) {
      if (!task_.empty() && data.task != find_task(task_).name()) continue;
      try {
        const Json& json = found.emplace_back(describe(data)).at("splits");
        const auto count = [&](const char* split) { return json.at(split).at("examples").dump(); };
        rows.push_back({data.task, data.variant, count("train"), count("val"), count("test")});
      } catch (const Error& e) {
        warn("{}", e.what());  // one damaged data set must not hide the others
      }
    }
    if (shared_.json) {
      print_json(found);
    } else if (rows.empty()) {
      info("There is no data under {}. Make some with 'lra data make TASK'.", shared_.data);
    } else {
      fmt::print("{}", format_table({"task", "variant", "train", "val", "test"}, rows));
    }
    return 0;
  }

  Shared shared_;
  std::vector<std::pair<CLI::App*, Action>> actions_;
  MakeRequest request_;
  GetRequest get_;
  std::string png_, task_, counts_, from_, variant_ = "default", split_ = "train", format_ = "tsv",
                                           output_ = "-";
  int64_t index_ = 0;
};

const Registered<Verb> data(std::make_unique<Data>(), LRA_HERE);

}  // namespace
}  // namespace lra
