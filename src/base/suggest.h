// "Did you mean": the nearest of a set of names.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace lra {

size_t edit_distance(std::string_view a, std::string_view b);

// "Did you mean 'x'? Known: x, y, z." The first sentence only where a name is near.
std::string suggestion(std::string_view name, const std::vector<std::string>& known);

}  // namespace lra
