#include "tasks/tsv_import.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/threads.h"
#include "tasks/release.h"

namespace lra {
namespace {

constexpr size_t kLinesAtOnce = 4096;  // parsed before they are written: a few megabytes

void check_header(const TsvLayout& layout, const SourceFile& file, std::vector<Line>& lines) {
  if (layout.header.empty()) return;
  const std::string_view found = lines.empty() ? std::string_view() : lines[0].text;
  if (found != layout.header) {
    std::string expected = layout.header;
    for (size_t tab; (tab = expected.find('\t')) != expected.npos;) expected.replace(tab, 1, "<TAB>");
    fail(layout.task, "{}: the first line is '{}', expected '{}'.", file.place, found.substr(0, 40),
         expected);
  }
  lines.erase(lines.begin());
}

int64_t import_split(const TsvLayout& layout, const SourceFile& file, ByteStream& bytes, size_t split,
                     const TsvParse& parse, bool two, Progress& progress, const FileSource& source,
                     DataSink& out) {
  LineBatches batches(bytes);
  std::vector<Line> lines;
  std::vector<TsvExample> parsed(kLinesAtOnce);
  int64_t examples = 0;
  for (bool first = true; batches.next(lines) || first; first = false) {
    if (first) check_header(layout, file, lines);
    for (size_t begin = 0; begin < lines.size(); begin += kLinesAtOnce) {
      const size_t count = std::min(kLinesAtOnce, lines.size() - begin);
      parallel_items(static_cast<int64_t>(count), [&](int64_t i) {
        parse(lines[begin + static_cast<size_t>(i)], parsed[static_cast<size_t>(i)]);
      });
      for (size_t i = 0; i < count; ++i) {
        const Tokens a{std::span<const uint16_t>(parsed[i].first)};
        if (two) {
          out.add(split, a, Tokens{std::span<const uint16_t>(parsed[i].second)}, parsed[i].label);
        } else {
          out.add(split, a, parsed[i].label);
        }
      }
      examples += static_cast<int64_t>(count);
      if (interrupted()) throw Interrupted("reading the files was interrupted; nothing was written");
    }
    progress.update(source.bytes_read());
  }
  if (examples == 0) fail(layout.task, "{}: there are no examples in it.", file.place);
  return examples;
}

}  // namespace

int64_t parse_binary_label(std::string_view text, std::string_view task, const Place& place) {
  double value = -1;
  const char* end = text.data() + text.size();
  const auto [at, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || at != end || (value != 0 && value != 1)) {
    fail(task, "{}: the label '{}' is neither 0 nor 1. The file may be damaged.", place.text(),
         text.substr(0, 40));
  }
  return value == 1 ? 1 : 0;
}

Json import_tsv(const TsvLayout& layout, const fs::path& from, const TsvParse& parse, bool two_documents,
                DataSink& out) {
  const FileSource source(from);
  const auto folder = find_in_release(source, fmt::format("{}/{}", layout.folder, layout.files[0]));
  if (!folder) {
    fail(layout.task,
         "{}: {} was not found in it. Expected the file at the top, or in {}, lra_release/{} or "
         "lra_release/lra_release/{}.",
         from.string(), layout.files[0], layout.folder, layout.folder, layout.folder);
  }
  Json notes = {{"source", from.string()}, {"folder", *folder}, {"rows", Json::object()}};
  const int64_t published[] = {layout.published.train, layout.published.val, layout.published.test};
  size_t found = 0;
  std::string unusual;
  Progress progress(fmt::format("{}: reading {}", layout.task, from.filename().string()),
                    source.bytes_total(), "bytes");
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    for (size_t s = 0; s < std::size(kSplits); ++s) {
      if (file.path != *folder + layout.files[s]) continue;
      const int64_t rows = import_split(layout, file, bytes, s, parse, two_documents, progress, source, out);
      notes["rows"][kSplits[s]] = rows;
      if (rows != published[s]) {
        unusual += fmt::format("{}{} has {} (published: {})", unusual.empty() ? "" : ", ", layout.files[s],
                               rows, published[s]);
      }
      if (++found == std::size(kSplits)) source.stop();
    }
  });
  for (size_t s = 0; s < std::size(kSplits); ++s) {
    if (!notes["rows"].contains(kSplits[s])) {
      fail(layout.task, "{}: {}{} is missing.", from.string(), *folder, layout.files[s]);
    }
  }
  if (!unusual.empty()) warn("{}: these are not the published counts: {}.", from.string(), unusual);
  return notes;
}

}  // namespace lra
