// What this machine gives a run: versions, device, threads, which implementation serves which operation and
// why, and what would make it faster. Nothing falls back silently: this is where it is said.
#pragma once
#include <string>

#include "base/json.h"

namespace lra {
// {program, torch, device, threads, openmp_runtimes, operations: [{operation, implementation, why}], advice:
// [text]}
Json diagnose(const std::string& device);
}  // namespace lra
