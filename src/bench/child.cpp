#include "bench/child.h"

#include <cstdio>

#include "base/error.h"
#include "base/log.h"

namespace lra {
namespace {

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

std::optional<Json> run_for_json(const std::vector<std::string>& command) {
  std::string line;
  for (const auto& word : command) line += shell_quoted(word) + " ";
  verbose("{}", line);
  FILE* pipe = popen(line.c_str(), "r");
  if (!pipe) fail("bench", "cannot start: {}", line);
  std::string output;
  char buffer[4096];
  while (const size_t n = std::fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
  if (pclose(pipe) != 0) return std::nullopt;
  while (!output.empty() && output.back() == '\n') output.pop_back();
  return parse_json(output.substr(output.rfind('\n') + 1), command.front());
}

}  // namespace lra
