// Runs the peers of bench/peers/ on a case.
#pragma once
#include "bench/bench.h"

namespace lra {

// An error where no peer could run: no folder, no interpreter with torch, nothing like what a case asks for.
void check_peers(const std::vector<BenchCase>& cases, const BenchOptions& options, const std::string& device);

// A row for each mode. On a GPU they get ready (imports, compilation, the first steps) at the same time; they
// are measured one after the other.
// What they compile is kept in torch's caches; see compile_peers.
std::vector<BenchRow> run_peers(const BenchCase& c, const BenchOptions& options, const std::string& device,
                                const std::string& dtype);

// Has the peers of all cases compiled beforehand, several side by side, on a GPU: one after the other that
// takes most of the time of a benchmark of many models. What goes wrong is left to run_peers to say. A case's
// type is dtypes[i].
void compile_peers(const std::vector<BenchCase>& cases, const std::vector<std::string>& dtypes,
                   const BenchOptions& options, const std::string& device);

}  // namespace lra
