// One file per verb: it parses, calls the library and prints. A verb registers itself:
//
//   class Doctor : public Verb { … };
//   const Registered<Verb> doctor(std::make_unique<Doctor>(), LRA_HERE);
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/json.h"
#include "base/registry.h"

namespace lra {

// Options that verbs share; each verb adds the ones it needs with the functions below.
struct Shared {
  std::string data, runs, protocol = "lra", config, device, dtype;
  std::vector<std::string> set;
  uint64_t seed = 0;
  int threads = 0;
  bool json = false, quiet = false, verbose = false;
};

void add_data_option(CLI::App& app, Shared& shared);     // --data
void add_runs_option(CLI::App& app, Shared& shared);     // --runs
void add_config_options(CLI::App& app, Shared& shared);  // --protocol --config --set --seed
void add_device_option(CLI::App& app, Shared& shared);
void add_device_options(CLI::App& app, Shared& shared);  // --device --dtype
void add_common_options(CLI::App& app, Shared& shared);  // --threads --json --quiet --verbose

class Verb {
 public:
  virtual ~Verb() = default;
  virtual std::string_view name() const = 0;
  virtual int order() const = 0;  // place in the help text
  // Adds the subcommand with its options to `root`. Returned so that main knows which one was given.
  virtual CLI::App* add(CLI::App& root) = 0;
  virtual int run() = 0;  // the exit code
  virtual const Shared& shared() const = 0;
};

// The arguments this process was started with.
std::vector<std::string> command_line();

// --json: one document on stdout, nothing else there.
void print_json(const Json& document);

}  // namespace lra
