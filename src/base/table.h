// Tables as people read them in a terminal: aligned text, columns of numbers to the right.
//
//   model        accuracy  steps
//   transformer     36.37   5000
#pragma once
#include <string>
#include <vector>

namespace lra {

std::string format_table(const std::vector<std::string>& header,
                         const std::vector<std::vector<std::string>>& rows);

}  // namespace lra
