// lra bench: time and memory of training steps, beside the peers.
#include "bench/bench.h"

#include <algorithm>
#include <iostream>

#include <fmt/ranges.h>

#include "base/config.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/table.h"
#include "bench/child.h"
#include "bench/datasets.h"
#include "cli/verb.h"
#include "data/dataset.h"
#include "models/catalogue.h"

namespace lra {
namespace {

// Blanks around the commas of a list.
CLI::Validator trimmed() {
  return {[](std::string& text) {
            CLI::detail::trim(text);
            return std::string();
          },
          ""};
}

CLI::Validator above_zero() {
  return {[](std::string& text) {
            double value = 0;
            const bool number = CLI::detail::lexical_cast(text, value);
            return number && value > 0 ? "" : fmt::format("must be a number above 0, found {}", text);
          },
          "ABOVE 0"};
}

// What measures something else than steps, and what has sizes of its own, leaves options without a meaning.
struct Ignored {
  const char* by;
  std::vector<const char*> options;
};
const std::vector<Ignored> kIgnored = {
    {"--suite", {"--models", "--lengths", "--batches", "--phase", "--set"}},
    {"--train-on", {"--lengths", "--peers"}},
    {"--datasets",
     {"--suite", "--case", "--models", "--lengths", "--batches", "--phase", "--set", "--seconds", "--repeats",
      "--peers", "--train-on", "--eager", "--profile", "--kernels", "--max-batch", "--deterministic",
      "--device", "--dtype"}},
    {"--kernels",
     {"--suite", "--models", "--phase", "--set", "--repeats", "--peers", "--train-on", "--eager", "--profile",
      "--max-batch", "--deterministic"}},
    {"--max-batch",
     {"--batches", "--seconds", "--repeats", "--peers", "--train-on", "--profile", "--deterministic"}},
};
// One of which an option is for.
const std::vector<std::pair<const char*, std::vector<const char*>>> kNeeds = {
    {"--case", {"--suite", "--kernels"}},
    {"--kernel-width", {"--kernels"}},
    {"--peer-modes", {"--peers"}},
    {"--python", {"--peers"}}};

class Bench : public Verb {
 public:
  std::string_view name() const override { return "bench"; }
  int order() const override { return 60; }
  const Shared& shared() const override { return shared_; }

  CLI::App* add(CLI::App& root) override {
    app_ = root.add_subcommand("bench", "measure training steps: time, tokens per second, memory");
    app_->add_option("--suite", suite_,
                     fmt::format("a named set of cases: {}", fmt::join(bench_suites(), ", ")))
        ->type_name("NAME");
    app_->add_option("--case", only_,
                     "of the suite, only the cases with these names; of --kernels, only these kernels")
        ->delimiter(',')
        ->transform(trimmed());
    app_->add_option("--models", models_,
                     "without a suite: models, by comma; or all, with the Transformer also unfused")
        ->delimiter(',')
        ->transform(trimmed())
        ->capture_default_str();
    app_->add_option("--lengths", lengths_, "lengths in tokens, by comma")
        ->delimiter(',')
        ->transform(trimmed())
        ->capture_default_str();
    app_->add_option("--batches", batches_, "batch sizes, by comma")
        ->delimiter(',')
        ->transform(trimmed())
        ->capture_default_str();
    app_->add_option("--phase", phases_, "train, forward, or both by comma")
        ->delimiter(',')
        ->transform(trimmed())
        ->check(CLI::IsMember({"train", "forward"}))
        ->capture_default_str();
    app_->add_option("--set", shared_.set,
                     "sizes, and options of the models: --set model.width=512, --set performer.features=64; "
                     "may repeat")
        ->type_name("KEY=VALUE")
        ->take_all()
        ->allow_extra_args(false);
    app_->add_option("--seconds", options_.seconds, "measuring time of each case and implementation")
        ->check(above_zero())
        ->capture_default_str();
    app_->add_option("--repeats", options_.repeats, "steps at most")
        ->check(CLI::Range(1, 1'000'000))
        ->capture_default_str();
    app_->add_flag("--peers", options_.peers,
                   "also run PyTorch's modes, from bench/peers/ of the source folder");
    app_->add_option("--peer-modes", options_.peer_modes, "eager, compile, compile-graphs (CUDA), by comma")
        ->delimiter(',')
        ->transform(trimmed())
        ->check(CLI::IsMember({"eager", "compile", "compile-graphs"}))
        ->capture_default_str();
    app_->add_option("--python", options_.python,
                     "interpreter for the peers; default .venv/bin/python, else python3");
    app_->add_option(
            "--train-on", data_,
            "a split's .safetensors file: train on its examples, with their real lengths, instead of random "
            "tokens in full rows")
        ->type_name("FILE");
    app_->add_flag("--eager", eager_, "on CUDA: operation by operation instead of one graph a step");
    app_->add_flag(
        "--profile", profile_,
        "on CUDA: also where our steps' time goes, kernel by kernel, seen by processes of their own");
    app_->add_option("--profile-case", profile_case_)->group("");  // what such a process is asked for
    app_->add_option("--measure-case", measure_case_)->group("");  // what a process of one case is asked for
    app_->add_flag("--deterministic", options_.deterministic,
                   "as lra train --deterministic: shows its price");
    app_->add_flag("--datasets", datasets_, "how fast data sets are made, imported and opened");
    app_->add_flag("--max-batch", max_batch_, "find the largest batch that fits into the device's memory");
    app_->add_flag(
        "--kernels", kernels_,
        "the fused kernels one by one, on LENGTH·BATCH positions, beside a copy or a matrix product");
    app_->add_option("--kernel-width", kernel_width_, "width of the positions for --kernels")
        ->check(CLI::Range(1, 1 << 16))
        ->capture_default_str();
    app_->add_option("-o,--output", output_, "also write the JSON to FILE")->type_name("FILE");
    add_device_option(*app_, shared_);
    app_->add_option(
            "--dtype", dtypes_,
            "fp32, tf32 (fp32 with TF32 products), bf16, by comma; default: bf16 on cuda, fp32 on cpu")
        ->delimiter(',')
        ->type_name("TYPE")
        ->transform(trimmed())
        ->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
    add_common_options(*app_, shared_);
    return app_;
  }

  int run() override {
    options_.device = shared_.device;
    refuse_ignored();
    if (measure_case_ >= 0) return run_measure_case();
    if (profile_case_ >= 0) return run_profile_case();
    check_output();
    if (datasets_) return run_datasets();
    if (kernels_) return run_kernels();
    if (max_batch_) return run_max_batch();
    if (profile_) check_profile(options_);
    options_.own_process = command_line();
    options_.own_process.front() = fs::read_symlink("/proc/self/exe").string();
    const std::vector<BenchCase> all = cases();
    std::vector<BenchRow> rows;
    size_t done = 0;
    try {
      run_bench(all, options_, [&](const std::vector<BenchRow>& so_far) {
        rows = so_far;
        ++done;
        if (!output_.empty()) write_text(output_, with_command(bench_json(rows, options_)).dump(2) + "\n");
      });
      if (profile_) add_profiles(rows);
    } catch (const Interrupted&) {
      if (done > 0) show(rows);
      throw Interrupted(interruption(done, all.size()));
    } catch (...) {
      if (done > 0) show(rows);
      throw;
    }
    show(rows);
    return 0;
  }

 private:
  void refuse_ignored() const {
    for (const auto& [by, options] : kIgnored) {
      for (const char* option : options) {
        if (app_->count(by) > 0 && app_->count(option) > 0)
          fail("bench", "{} has no use for {}. Leave one of them out.", by, option);
      }
    }
    for (const auto& [option, needed] : kNeeds) {
      const auto given = [&](const char* other) { return app_->count(other) > 0; };
      if (app_->count(option) > 0 && std::none_of(needed.begin(), needed.end(), given))
        fail("bench", "{} means something with {} only. Add {}, or leave out {}.", option,
             fmt::join(needed, " or "), needed.size() > 1 ? "one of them" : needed.front(), option);
    }
    if (kernels_ && (lengths_.size() > 1 || batches_.size() > 1 || dtypes_.size() > 1))
      fail("bench",
           "--kernels takes one of --lengths, --batches and --dtype, found several. Run it for each.");
  }
  // Before hours of measuring, not after them.
  void check_output() const {
    if (output_.empty()) return;
    if (fs::is_directory(output_))
      fail("bench", "-o {}: is a folder, expected a file's name. Say -o {}.", output_,
           (fs::path(output_) / "bench.json").string());
    AtomicFile can_be_made(output_);
  }

  std::string interruption(size_t done, size_t total) const {
    if (done == 0) return "benchmark interrupted before its first case was measured.";
    return fmt::format("benchmark interrupted; {} of {} cases measured, {}.", done, total,
                       output_.empty() ? "kept in no file (-o FILE keeps them)" : "kept in " + output_);
  }

  void show(const std::vector<BenchRow>& rows) const {
    finish(bench_json(rows, options_));
    if (shared_.json) return;
    print_table(rows);
    for (const BenchRow& row : rows) {
      if (!row.kernels.empty()) print_kernels(row);
    }
    std::cout << std::flush;
  }

  Json with_command(Json document) const {
    document["env"]["command"] = command_line();
    return document;
  }
  void finish(const Json& document) const {
    const Json whole = with_command(document);
    if (!output_.empty()) write_text(output_, whole.dump(2) + "\n");
    if (shared_.json) print_json(whole);
  }

  // Whoever started it is interrupted by the same key, and says so.
  int run_measure_case() const {
    try {
      std::cout << measure_case(cases().at(static_cast<size_t>(measure_case_)), options_).dump() << "\n";
    } catch (const Interrupted&) {
      return 130;
    }
    return 0;
  }

  int run_profile_case() const {
    const auto kernels = profile_case(cases().at(static_cast<size_t>(profile_case_)), options_);
    std::cout << Json{{"kernels", kernels_json(kernels)}}.dump() << "\n";
    return 0;
  }
  // After all is measured: the profiler slows a process down.
  void add_profiles(std::vector<BenchRow>& rows) const {
    int64_t number = 0;  // of the case: each has one row of ours, in order
    for (BenchRow& row : rows) {
      if (!row.implementation.starts_with("lra")) continue;
      const std::string which = fmt::format("--profile-case={}", number++);
      if (!row.problem.empty()) continue;
      std::vector<std::string> command = options_.own_process;
      command.push_back(which);
      if (const auto found = run_for_json(command)) {
        row.kernels = kernels_from_json(found->at("kernels"));
      } else {
        warn("{} L {}: no profile; see above", row.bench_case.model, row.bench_case.sizes.max_length);
      }
    }
  }

  int run_datasets() const {
    const std::vector<DatasetRow> rows = run_dataset_bench();
    finish(dataset_json(rows));
    if (shared_.json) return 0;
    std::vector<std::vector<std::string>> table;
    for (const DatasetRow& r : rows) {
      table.push_back({r.task, r.what, fmt::format("{:.0f} {}", r.amount, r.unit),
                       fmt::format("{:.4f}", r.seconds),
                       fmt::format("{} {}/s", rate_text(r.amount / r.seconds), r.unit)});
    }
    fmt::print("{}", format_table({"task", "", "amount", "seconds", "rate"}, table));
    return 0;
  }

  int run_kernels() const {
    const std::string dtype = dtypes_.empty() ? "" : dtypes_.front();
    const auto rows =
        run_kernel_bench(options_, dtype, batches_.front() * lengths_.front(), kernel_width_, only_);
    finish(kernel_json(rows, options_));
    if (shared_.json) return 0;
    std::vector<std::vector<std::string>> table;
    for (const auto& r : rows) {
      table.push_back({r.kernel, r.name, fmt::format("{:.1f}", static_cast<double>(r.bytes) / 1e6),
                       fmt::format("{:.4f}", r.ms), fmt::format("{:.0f}", r.gigabytes_per_s),
                       fmt::format("{:.0f} %", 100 * r.share_of_ideal)});
    }
    std::cout << format_table({"kernel", "case", "MB", "ms", "GB/s", "of the ideal"}, table);
    return 0;
  }

  int run_max_batch() const {
    Json rows = Json::array();
    std::vector<std::vector<std::string>> table;
    for (const auto& c : cases()) {
      const int64_t batch = find_max_batch(c, options_);
      rows.push_back({{"model", c.model}, {"length", c.sizes.max_length}, {"max_batch", batch}});
      table.push_back({c.model, std::to_string(c.sizes.max_length), std::to_string(batch)});
    }
    finish({{"env", Json::object()}, {"rows", rows}});
    if (!shared_.json) std::cout << format_table({"model", "L", "largest batch"}, table);
    return 0;
  }

  std::vector<BenchCase> cases() const {
    std::vector<BenchCase> out;
    for (const std::string& dtype : dtypes_.empty() ? std::vector<std::string>{""} : dtypes_) {
      for (BenchCase c : plain_cases()) {
        c.dtype = dtype;
        out.push_back(c);
      }
    }
    for (auto& c : out) {
      c.eager = eager_;
      if (data_.empty()) continue;
      const DatasetInfo info = Dataset(data_).info();
      c.data = data_;
      c.sizes.vocab_size = info.vocab_size, c.sizes.num_classes = info.num_classes;
      c.sizes.max_length = info.max_length;
    }
    return out;
  }

  std::vector<BenchCase> plain_cases() const {
    std::vector<BenchCase> out;
    if (!suite_.empty()) {
      std::vector<std::string> known;
      for (const auto& c : bench_suite(suite_)) {
        const auto is = [&](const std::string& name) { return name == c.name; };
        // A name stands for the case with dropout and the one without.
        if (std::none_of(known.begin(), known.end(), is)) known.push_back(c.name);
        if (only_.empty() || std::any_of(only_.begin(), only_.end(), is)) out.push_back(c);
      }
      for (const auto& name : only_) {
        if (std::find(known.begin(), known.end(), name) == known.end())
          fail("bench", "suite '{}' has no case '{}'. {}", suite_, name, suggestion(name, known));
      }
      return out;
    }
    ConfigTree set;
    for (const auto& assignment : shared_.set) overlay(set, parse_assignment(assignment));
    const auto models = chosen_models();
    EncoderConfig sizes = read_settings(set, models);
    sizes.vocab_size = 257;
    sizes.num_classes = 2;
    for (const auto& model : models) {
      ConfigTree own;  // what is set of this model
      for (const auto& [section, keys] : set.children) {
        if (section == "model" || section == model) own.child(section) = keys;
      }
      const ConfigTree* options = own.find(model);
      const ConfigTree* attention = options ? options->find("attention") : nullptr;
      const bool unfused = attention && attention->value == "unfused";
      for (const int64_t length : lengths_) {
        for (const int64_t batch : batches_) {
          if (length < 1 || batch < 1)
            fail("bench", "lengths and batches must be at least 1, found {} and {}.", length, batch);
          for (const auto& phase : phases_) {
            sizes.max_length = length;
            BenchCase c;
            c.model = model, c.sizes = sizes, c.set = own, c.batch = batch, c.phase = phase;
            c.unfused = unfused;
            out.push_back(c);
            if (!all_models() || model != "transformer" || unfused || max_batch_) continue;
            c.unfused = true;  // what the efficient models were published against
            out.push_back(c);
          }
        }
      }
    }
    return out;
  }

  bool all_models() const { return std::find(models_.begin(), models_.end(), "all") != models_.end(); }
  std::vector<std::string> chosen_models() const {
    if (!all_models()) return models_;
    std::vector<std::string> all;
    for (const auto& card : model_cards()) all.push_back(card.name);
    return all;
  }

  // How many times as fast as the Transformer with fused and with unfused attention.
  static std::string speeds(const BenchRow& r) {
    const auto text = [](const std::optional<double>& x) {
      return x ? fmt::format("{:.2f}", *x) : std::string("–");
    };
    return fmt::format("{}, {}", text(r.speed_to_transformer), text(r.speed_to_unfused));
  }

  void print_table(const std::vector<BenchRow>& rows) const {
    std::vector<std::vector<std::string>> table;
    for (const auto& r : rows) {
      const EncoderConfig& e = r.bench_case.sizes;
      std::vector<std::string> line = {r.bench_case.name.empty() ? r.bench_case.model : r.bench_case.name,
                                       fmt::format("{}{}", data_.empty() ? "" : "≤ ", e.max_length),
                                       fmt::format("{}", r.bench_case.batch),
                                       fmt::format("{}", e.dropout),
                                       r.bench_case.phase,
                                       r.implementation};
      if (!r.problem.empty()) {
        line.insert(line.end(), {"–", "–", "–", "–", "–", "–", r.problem});
      } else {
        line.insert(line.end(),
                    {fmt::format("{:.2f}", r.ms_median), fmt::format("{:.2f}–{:.2f}", r.ms_p10, r.ms_p90),
                     rate_text(1e3 / r.ms_median), rate_text(r.tokens_per_s),
                     fmt::format("{:.0f}", static_cast<double>(r.peak_bytes) / 1e6), speeds(r),
                     r.ratio_to_lra ? fmt::format("{:.2f}", *r.ratio_to_lra) : "1"});
      }
      table.push_back(line);
    }
    std::cout << format_table(
        {"case", "L", "batch", "dropout", "phase", "implementation", "ms", "p10–p90", "steps/s", "tokens/s",
         "peak MB", "× fused, unfused Transformer", "time / ours"},
        table);
    if (!data_.empty())
      std::cout << "Rows have the lengths of the examples of " << data_
                << "; tokens/s counts their tokens, no padding.\n";
  }

  static void print_kernels(const BenchRow& r) {
    constexpr size_t kNameWidth = 100;
    double sum = 0, calls = 0, shown = 0;
    for (const KernelTime& k : r.kernels) sum += k.ms, calls += k.calls;
    std::cout << fmt::format("\n{} L {}: {:.0f} kernels a step, {:.2f} ms\n", r.bench_case.model,
                             r.bench_case.sizes.max_length, calls, sum);
    std::vector<std::vector<std::string>> table;
    for (const KernelTime& k : r.kernels) {
      if (shown > 0.97 * sum) break;
      shown += k.ms;
      table.push_back({k.kernel.substr(0, kNameWidth), fmt::format("{:.4g}", k.calls),
                       fmt::format("{:.3f}", k.ms), fmt::format("{:.1f} %", 100 * k.ms / sum)});
    }
    std::cout << format_table({"kernel", "calls", "ms", "share"}, table);
  }

  CLI::App* app_ = nullptr;
  Shared shared_;
  BenchOptions options_;
  std::string suite_, output_, data_;
  bool profile_ = false;
  int64_t profile_case_ = -1, measure_case_ = -1;
  bool eager_ = false, max_batch_ = false, kernels_ = false, datasets_ = false;
  int64_t kernel_width_ = 512;
  std::vector<std::string> dtypes_, only_, models_ = {"transformer"}, phases_ = {"train"};
  std::vector<int64_t> lengths_ = {1024}, batches_ = {32};
};

const Registered<Verb> bench_verb(std::make_unique<Bench>(), LRA_HERE);

}  // namespace
}  // namespace lra
