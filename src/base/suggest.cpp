#include "base/suggest.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lra {

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

std::string suggestion(std::string_view name, const std::vector<std::string>& known) {
  const std::string* nearest = nullptr;
  size_t best = std::max<size_t>(2, name.size() / 3) + 1;
  for (const auto& candidate : known) {
    const size_t d = edit_distance(name, candidate);
    const bool prefix = name.size() >= 3 && candidate.starts_with(name);
    if (d < best || (prefix && !nearest)) {
      best = std::min(d, best);
      nearest = &candidate;
    }
  }
  std::string text;
  if (nearest) text = fmt::format("Did you mean '{}'? ", *nearest);
  return text + fmt::format("Known: {}.", fmt::join(known, ", "));
}

}  // namespace lra
