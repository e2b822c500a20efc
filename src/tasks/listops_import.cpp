// The published ListOps files: TSV with the header `Source<TAB>Target`, one fully parenthesised tree and its
// value a line. Every label is checked against the evaluated tree.
#include <vector>

#include "base/error.h"
#include "base/signals.h"
#include "tasks/listops.h"
#include "tasks/tsv_import.h"

namespace lra::listops {
namespace {

int parse_label(std::string_view text, const Place& place) {
  if (text.size() != 1 || text[0] < '0' || text[0] > '9') {
    fail("listops", "{}: the label '{}' is not in 0..9. The file may be truncated or damaged.", place.text(),
         text.substr(0, 40));
  }
  return text[0] - '0';
}

void parse_example(const Line& line, const Options& options, TsvExample& example) {
  const auto [source, target] = split_tabs<2>(line.text, line.place);
  const Evaluation found = parse_tree(source, line.place, example.first);
  example.label = parse_label(target, line.place);
  if (found.value != example.label) {
    fail("listops", "{}: the label is {}, but the tree's value is {}.", line.place.text(), example.label,
         found.value);
  }
  if (found.operators == 0) fail("listops", "{}: a bare digit, expected an operator.", line.place.text());
  if (static_cast<int64_t>(example.first.size()) > options.max_length) {
    fail("listops", "{}: {} tokens, expected at most {}. Raise it with --option max_length=N.",
         line.place.text(), example.first.size(), options.max_length);
  }
  if (!options.kept()) std::erase(example.first, kClose);
}

}  // namespace

Json import_published(const Options& options, const fs::path& from, DataSink& out) {
  const TsvLayout layout = {.task = "listops",
                            .folder = "listops-1000",
                            .files = {"basic_train.tsv", "basic_val.tsv", "basic_test.tsv"},
                            .header = "Source\tTarget",
                            .published = {96'000, 2'000, 2'000}};
  return import_tsv(
      layout, from, [&](const Line& line, TsvExample& example) { parse_example(line, options, example); },
      false, out);
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
