// The efficiency benchmark: model × length × batch × phase → time and memory, ours and the peers' in one go
// on the same machine.
//
// Random tokens, full rows. A training step is everything from batch to updated parameters. Ours is measured
// before and after the peers and the samples pooled, so that a machine that changes its pace in between shows
// in the spread, not in the ratio. Steps run back to back, as in training, ours and the peers'.
//
// On a CPU the peak of memory is that of a process: each case has one of its own, as each peer has, so that
// it does not depend on what was measured before.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "base/json.h"
#include "nn/encoder_config.h"

namespace lra {

struct BenchCase {
  std::string name;  // of a suite's case; else empty
  std::string model = "transformer";
  EncoderConfig sizes;
  ConfigTree set = {};  // what --set says of this model: the sections `model` and its own
  int64_t batch = 32;
  std::string phase = "train";  // or "forward"
  std::string dtype = {};       // fp32, tf32 or bf16; empty: as for training
  std::string data = {};        // a split whose examples are trained on instead of random tokens in full rows
  bool eager = false;           // operation by operation, to show what the graph saves
  bool unfused = false;         // a Transformer that keeps its L×L weights in memory: a baseline
};

// Named sets of cases; "foundation" is what `make bench` runs.
std::vector<std::string> bench_suites();
std::vector<BenchCase> bench_suite(const std::string& name);

// The sizes that --set asks for. Names of models, and names and values of everything set, are checked.
EncoderConfig read_settings(const ConfigTree& set, const std::vector<std::string>& models);

struct BenchOptions {
  std::string device;    // empty: as for training
  double seconds = 10;   // of measuring a case and implementation
  int64_t repeats = 50;  // at most
  bool deterministic = false;
  bool peers = false;
  std::vector<std::string> peer_modes = {"eager", "compile"};
  fs::path peers_folder = "bench/peers";
  std::string python;  // empty: .venv/bin/python, else python3
  // Measures case N, on a CPU, with --measure-case=N added (measure_case); empty: cases are measured here.
  std::vector<std::string> own_process = {};
};

// Work of the device (bench/profile.h).
struct KernelTime {
  std::string kernel;  // its name without parameters; copies and fills of memory, too
  double calls = 0;    // a step
  double ms = 0;       // a step, of all its calls
};

struct BenchRow {
  BenchCase bench_case;
  std::string implementation, device, dtype;
  double ms_median = 0, ms_p10 = 0, ms_p90 = 0, tokens_per_s = 0;
  int64_t peak_bytes = 0, repeats = 0;
  std::optional<double> ratio_to_lra = {};  // its time over ours: above 1, ours is faster
  // How many times as fast as our Transformer, fused and unfused, where those were measured beside it.
  std::optional<double> speed_to_transformer = {}, speed_to_unfused = {};
  std::vector<KernelTime> kernels = {};  // where they were asked for
  std::string problem = {};              // why there is no number
};

// All cases are checked before the first is measured. `so_far` is called after each: a long benchmark that is
// stopped keeps what it has measured.
std::vector<BenchRow> run_bench(const std::vector<BenchCase>& cases, const BenchOptions& options,
                                const std::function<void(const std::vector<BenchRow>&)>& so_far);
// A case in a process of its own, which says "ready" between the two rounds and waits to be told to go on.
// Its numbers are for read_numbers.
Json measure_case(const BenchCase& c, const BenchOptions& options);
void read_numbers(BenchRow& row, const Json& numbers, std::string_view where);
// Where the time of our steps goes, on CUDA; once in a process, which should do nothing else.
std::vector<KernelTime> profile_case(const BenchCase& c, const BenchOptions& options);
void check_profile(const BenchOptions& options);  // refuses a device that cannot be profiled
Json kernels_json(const std::vector<KernelTime>& kernels);
std::vector<KernelTime> kernels_from_json(const Json& kernels);
// The largest batch that fits into the device's memory, to a sixteenth.
int64_t find_max_batch(const BenchCase& c, const BenchOptions& options);
Json bench_json(const std::vector<BenchRow>& rows, const BenchOptions& options);

// The fused kernels one by one (kernels/kernel_bench.h), or `only` these, beside a plain copy of as many
// bytes; ideal is that copy or, where it takes longer, a large matrix product with as many multiplications.
struct KernelRow {
  std::string kernel, name;
  int64_t bytes = 0;
  double ms = 0, gigabytes_per_s = 0, share_of_copy = 0, share_of_ideal = 0;
};
std::vector<KernelRow> run_kernel_bench(const BenchOptions& options, const std::string& dtype,
                                        int64_t positions, int64_t width,
                                        const std::vector<std::string>& only);
Json kernel_json(const std::vector<KernelRow>& rows, const BenchOptions& options);

}  // namespace lra
