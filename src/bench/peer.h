// Runs a peer of bench/peers/ on a case.
#pragma once
#include "bench/bench.h"

namespace lra {

BenchRow run_peer(const BenchCase& c, const std::string& mode, const BenchOptions& options,
                  const std::string& device, const std::string& dtype);

}  // namespace lra
