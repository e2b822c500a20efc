// The published ListOps files: TSV with the header `Source<TAB>Target`, one fully parenthesised tree and its
// value a line. Every label is checked against the evaluated tree.
#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/threads.h"
#include "tasks/listops.h"

namespace lra::listops {
namespace {

constexpr size_t kBatchLines = 4096;

// The release holds a copy of itself; the inner one is what everybody uses.
fs::path find_folder(const fs::path& from) {
  const fs::path candidates[] = {from / "lra_release" / "lra_release" / "listops-1000",
                                 from / "lra_release" / "listops-1000", from / "listops-1000", from};
  std::error_code code;
  for (const fs::path& folder : candidates) {
    if (fs::exists(folder / "basic_train.tsv", code)) return folder;
  }
  fail("listops",
       "{}: basic_train.tsv was found neither there nor in listops-1000, lra_release/listops-1000 or "
       "lra_release/lra_release/listops-1000 below it.",
       from.string());
}

int parse_label(std::string_view text, const Place& place) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '9') {
    fail("listops", "{}: the label '{}' is not in 0..9. The file may be truncated or damaged.", place.text(),
         text.substr(0, 40));
  }
  return text[0] - '0';
}

struct Line {
  std::string_view text;
  Place place;
};

bool read_batch(LineReader& reader, std::vector<Line>& lines) {
  lines.clear();
  for (std::string_view text; lines.size() < kBatchLines && reader.next(text);)
    lines.push_back({text, reader.place()});
  if (interrupted()) throw Interrupted("reading the ListOps files was interrupted; nothing was written");
  return !lines.empty();
}

struct Example {
  std::vector<uint16_t> tokens;
  int label = 0;
};

Example parse_example(const Line& line, const Options& options) {
  const auto [source, target] = split_tabs<2>(line.text, line.place);
  Example example;
  const Evaluation found = parse_tree(source, line.place, example.tokens);
  example.label = parse_label(target, line.place);
  if (found.value != example.label) {
    fail("listops", "{}: the label is {}, but the tree's value is {}.", line.place.text(), example.label,
         found.value);
  }
  if (found.operators == 0) fail("listops", "{}: a bare digit, expected an operator.", line.place.text());
  if (static_cast<int64_t>(example.tokens.size()) > options.max_length) {
    fail("listops", "{}: {} tokens, expected at most {}. Raise it with --option max_length=N.",
         line.place.text(), example.tokens.size(), options.max_length);
  }
  if (!options.kept()) std::erase(example.tokens, kClose);
  return example;
}

void import_split(const Options& options, const fs::path& file, Examples& examples) {
  LineReader reader(file);
  std::string_view header;
  if (!reader.next(header) || header != "Source\tTarget") {
    fail("listops", "{}: the first line is '{}', expected 'Source<TAB>Target'.", file.string(),
         header.substr(0, 40));
  }
  Progress progress(fmt::format("listops: reading {}", file.filename().string()),
                    static_cast<int64_t>(reader.bytes_total()), "bytes");
  std::vector<Line> lines;
  std::vector<Example> parsed(kBatchLines);
  while (read_batch(reader, lines)) {
    parallel_items(static_cast<int64_t>(lines.size()), [&](int64_t i) {
      parsed[static_cast<size_t>(i)] = parse_example(lines[static_cast<size_t>(i)], options);
    });
    for (size_t i = 0; i < lines.size(); ++i) examples.add(parsed[i].tokens, parsed[i].label);
    progress.update(static_cast<int64_t>(reader.bytes_read()));
  }
  if (examples.size() == 0) fail("listops", "{}: there are no examples in it.", file.string());
}

}  // namespace

void import_published(const Options& options, const fs::path& from, MadeData& made) {
  const fs::path folder = find_folder(from);
  info("listops: reading {}", folder.string());
  for (size_t s = 0; s < std::size(kSplits); ++s) {
    import_split(options, folder / fmt::format("basic_{}.tsv", kSplits[s]), made.splits[s]);
  }
  made.notes["folder"] = folder.string();
}

Json check_file(const fs::path& file) {
  LineReader reader(file);
  int64_t rows = 0, agree = 0;
  std::string first_disagreement;
  std::vector<uint16_t> tokens;
  for (std::string_view line; reader.next(line);) {
    if (rows == 0 && line == "Source\tTarget") continue;
    const Place place = reader.place();
    const auto [left, right] = split_tabs<2>(line, place);
    const bool label_first = left.size() == 1 && right.size() != 1;
    const int label = parse_label(label_first ? left : right, place);
    const int value = parse_tree(label_first ? right : left, place, tokens).value;
    ++rows;
    if (label == value) {
      ++agree;
    } else if (first_disagreement.empty()) {
      first_disagreement =
          fmt::format("{}: the label is {}, but the tree's value is {}", place.text(), label, value);
    }
    if (interrupted()) throw Interrupted("checking was interrupted");
  }
  Json report = {{"file", file.string()}, {"rows", rows}, {"agree", agree}, {"disagree", rows - agree}};
  if (!first_disagreement.empty()) report["first_disagreement"] = first_disagreement;
  return report;
}

}  // namespace lra::listops
