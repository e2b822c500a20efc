#include "tasks/release.h"

#include <algorithm>
#include <tuple>

#include "base/log.h"
#include "base/progress.h"

namespace lra {
namespace {

int64_t count_of(std::string_view text, std::string_view part) {
  int64_t n = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

// What stands before `end` in `path`, if a part of the path begins there.
std::optional<std::string> before(std::string_view path, std::string_view end) {
  if (!path.ends_with(end)) return std::nullopt;
  path.remove_suffix(end.size());
  if (!path.empty() && path.back() != '/') return std::nullopt;
  return std::string(path);
}

}  // namespace

Download release_download() {
  return {.name = "lra",
          .url = "https://storage.googleapis.com/long-range-arena/lra_release.gz",
          .file = "lra_release.gz"};
}

std::optional<std::string> find_in_release(const FileSource& source, std::string_view what,
                                           const FolderOf& folder_of) {
  std::optional<std::string> best;
  const auto rank = [](const std::string& folder) {  // the smallest is the best
    return std::tuple(-count_of(folder, "lra_release/"), folder.size(), folder);
  };
  Progress progress(fmt::format("looking for {} in {}", what, source.path().filename().string()),
                    source.bytes_total(), "bytes");
  source.visit([&](const SourceFile& file, ByteStream&) {
    std::optional<std::string> folder = folder_of(file.path);
    if (folder && (!best || rank(*folder) < rank(*best))) best = std::move(folder);
    progress.update(source.bytes_read());
  });
  if (best) info("{}: reading {}", source.path().string(), best->empty() ? "its top folder" : *best);
  return best;
}

std::optional<std::string> find_in_release(const FileSource& source, std::string_view file) {
  const size_t slash = file.find('/');
  const std::string_view first = file.substr(0, slash + 1), rest = file.substr(slash + 1);
  return find_in_release(source, file, [&](std::string_view path) -> std::optional<std::string> {
    if (const auto folder = before(path, file)) return *folder + std::string(first);
    if (path == rest) return "";
    return std::nullopt;
  });
}

}  // namespace lra
