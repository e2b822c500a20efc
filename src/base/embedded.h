// Files compiled into the program (presets, the report's style sheet), by their path in the source tree.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace lra {
const std::map<std::string, std::string_view>& embedded_files();
}
