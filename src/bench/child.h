// Measurements in processes of their own: PyTorch's, and those that leave a process changed.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"

namespace lra {

// Starts a command and waits for it; the JSON document in the last line that it writes to stdout. Nothing if
// it fails, having said why on stderr.
std::optional<Json> run_for_json(const std::vector<std::string>& command);

}  // namespace lra
