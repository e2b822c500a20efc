// Runs the peers of bench/peers/ on a case.
#pragma once
#include "bench/bench.h"

namespace lra {

// A row for each mode. On a GPU they get ready (imports, compilation, the first steps) at the same time; they
// are measured one after the other.
std::vector<BenchRow> run_peers(const BenchCase& c, const BenchOptions& options, const std::string& device,
                                const std::string& dtype);

}  // namespace lra
