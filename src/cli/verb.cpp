#include "cli/verb.h"

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <malloc.h>

#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/tensor_threads.h"
#include "base/threads.h"
#include "base/version.h"
#include "cli/program.h"

namespace lra {
namespace {

std::string environment_or(const char* variable, const char* fallback) {
  const char* value = std::getenv(variable);
  return value && *value ? value : fallback;
}

std::vector<Verb*> verbs_in_order() {
  std::vector<Verb*> verbs;
  auto& registry = Registry<Verb>::instance();
  for (const auto& name : registry.names()) verbs.push_back(&registry.get(name, "verb"));
  std::sort(verbs.begin(), verbs.end(), [](const Verb* a, const Verb* b) { return a->order() < b->order(); });
  return verbs;
}

int run_verb(Verb& verb) {
  const Shared& shared = verb.shared();
  set_log_level(shared.quiet ? LogLevel::kQuiet : shared.verbose ? LogLevel::kVerbose : LogLevel::kNormal);
  set_thread_count(shared.threads);
  set_tensor_threads(thread_count());
  // Activations of a step are freed and wanted again at once; giving them back to the system in between costs
  // page faults, up to a tenth of a CPU step.
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
  catch_interrupts();
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is an error with a message, not the end
  return verb.run();
}

// CLI11 names no other verb for one that is not there, and --help behind it would hide that.
void check_verb(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const auto* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(verb->get_name());
  }
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  fail("command line", "there is no verb '{}'. {}", argv[1], suggestion(argv[1], known));
}

// An unknown option gets the nearest name.
std::string with_suggestion(const CLI::App& app, const std::string& message) {
  std::vector<std::string> known;
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  for (const auto* option : at->get_options()) {
    for (const auto& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const auto* sub : at->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(sub->get_name());
  const auto extras = app.remaining(true);
  if (extras.empty()) return message + ".";
  if (at != &app && std::find(known.begin(), known.end(), extras.front()) != known.end()) {
    return fmt::format("'{0}' stands after the verb: lra {1} {0}.", extras.front(), at->get_name());
  }
  return fmt::format("'{}' is not known here. {}", extras.front(), suggestion(extras.front(), known));
}

}  // namespace

void add_data_option(CLI::App& app, Shared& s) {
  s.data = environment_or("LRA_DATA", "data");
  app.add_option("--data", s.data, "where datasets live ($LRA_DATA)")
      ->type_name("DIR")
      ->capture_default_str();
}
void add_runs_option(CLI::App& app, Shared& s) {
  s.runs = environment_or("LRA_RUNS", "runs");
  app.add_option("--runs", s.runs, "where runs go ($LRA_RUNS)")->type_name("DIR")->capture_default_str();
}
void add_config_options(CLI::App& app, Shared& s) {
  app.add_option("--protocol", s.protocol,
                 "named set of sizes and rules: lra, lra-code, tiny, open (see docs/protocols.md)")
      ->type_name("NAME")
      ->capture_default_str();
  app.add_option("--config", s.config, "YAML layered over the preset")->type_name("FILE");
  app.add_option("--set", s.set, "highest layer, may repeat: --set train.batch=16")
      ->type_name("KEY=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--seed", s.seed, "one number decides everything random")
      ->type_name("N")
      ->capture_default_str();
}
void add_device_option(CLI::App& app, Shared& s) {
  app.add_option("--device", s.device, "cpu, cuda or cuda:N; default: cuda if there is one, else cpu")
      ->type_name("DEVICE");
}
void add_device_options(CLI::App& app, Shared& s) {
  add_device_option(app, s);
  app.add_option("--dtype", s.dtype,
                 "fp32, tf32 (fp32 with TF32 products) or bf16; default: bf16 on cuda, fp32 on cpu; "
                 "parameters stay fp32")
      ->type_name("TYPE")
      ->check(CLI::IsMember({"fp32", "tf32", "bf16"}));
}
void add_common_options(CLI::App& app, Shared& s) {
  app.add_option("--threads", s.threads, "CPU threads; default: all")
      ->type_name("N")
      ->check(CLI::Range(0, 4096));
  app.add_flag("--json", s.json, "one JSON document on stdout, nothing else there");
  app.add_flag("--quiet", s.quiet, "errors and warnings only");
  app.add_flag("--verbose", s.verbose, "more than usual");
}

std::vector<std::string> command_line() {
  std::vector<std::string> arguments;
  const std::string text = read_text("/proc/self/cmdline");
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

void print_json(const Json& document) {
  std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << std::endl;
}

int run_program(int argc, char** argv) {
  CLI::App app("The Long Range Arena: make or import the data, train a model, compare it, report it.", "lra");
  app.set_version_flag("--version",
                       fmt::format("lra {} ({}, {})", program_version(), program_commit(), build_type()));
  app.require_subcommand(1);
  app.footer(
      "Every verb has its own help: lra train --help. First steps: lra data make listops --size tiny, then "
      "lra train "
      "transformer listops --protocol tiny.");
  std::vector<std::pair<Verb*, CLI::App*>> verbs;
  for (Verb* verb : verbs_in_order()) verbs.emplace_back(verb, verb->add(app));
  try {
    check_verb(app, argc, argv);
    app.parse(argc, argv);
    for (const auto& [verb, command] : verbs) {
      if (command->parsed()) return run_verb(*verb);
    }
    return 0;
  } catch (const CLI::Success& e) {  // --help, --version
    return app.exit(e);
  } catch (const CLI::ConversionError& e) {
    std::cerr << "lra: [command line] " << e.what()
              << ", which is not what that option takes. See lra VERB --help.\n";
    return 1;
  } catch (const CLI::ParseError& e) {
    std::cerr << "lra: [command line] " << with_suggestion(app, e.what())
              << " See lra --help, or lra VERB --help.\n";
    return 1;
  } catch (const Interrupted& e) {
    clear_progress_line();
    std::cerr << "lra: " << e.what() << "\n";
    return 130;
  } catch (const Error& e) {
    clear_progress_line();
    std::cerr << "lra: " << e.what() << "\n";
    return 1;
  } catch (const fs::filesystem_error& e) {
    clear_progress_line();
    std::cerr << "lra: [file] " << e.what() << ". Check the path and the permissions.\n";
    return 1;
  } catch (const std::exception& e) {
    clear_progress_line();
    const std::string what = e.what();
    for (const char* sign : {"out of memory", "can't allocate memory", "bad_alloc"}) {
      if (what.find(sign) == what.npos) continue;
      std::cerr << "lra: [memory] the machine's memory is not enough for this. Lower train.batch, raise "
                   "train.micro_batches, or "
                   "look at --dry-run first.\n";
      return 1;
    }
    std::cerr << "lra: [internal] " << what.substr(0, what.find("\nException raised from"))
              << "\nThis is a defect of the program. Please report it with the command that caused it.\n";
    return 2;
  }
}

}  // namespace lra
