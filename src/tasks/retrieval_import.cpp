// The pairs of the Long Range Arena's release: tsv_data/new_aan_pairs.{train,eval,test}.tsv, no header, and
// in each line
//
//   label <TAB> id1 <TAB> id2 <TAB> text1 <TAB> text2
//
// The label is a number that is 0 or 1 ("1.0"). Quotes are data: a line ends at its end and nowhere else, and
// is cut at its first four tabs.
#include <atomic>

#include "base/error.h"
#include "base/log.h"
#include "tasks/bytes.h"
#include "tasks/remainder.h"
#include "tasks/retrieval.h"
#include "tasks/tsv_import.h"

namespace lra::retrieval {
namespace {

constexpr size_t kFields = 5;

void parse_pair(const Line& line, const Options& options, TsvExample& pair, std::atomic<int64_t>& empty) {
  std::string_view fields[kFields], rest = line.text;
  for (size_t i = 0; i + 1 < kFields; ++i) {
    const size_t tab = rest.find('\t');
    if (tab == rest.npos) fail_fields(line.place, i + 1, kFields);
    fields[i] = rest.substr(0, tab);
    rest.remove_prefix(tab + 1);
  }
  fields[4] = rest;
  pair.label = parse_binary_label(fields[0], "retrieval", line.place);
  for (const auto& [text, ids] : {std::pair(fields[3], &pair.first), std::pair(fields[4], &pair.second)}) {
    encode_bytes(text.empty() ? " " : text, options.max_length, *ids);  // a document has at least one byte
    if (text.empty()) ++empty;
  }
}

}  // namespace

Json import_published(const Options& options, const fs::path& from, DataSink& out) {
  const TsvLayout layout = {
      .task = "retrieval",
      .folder = "tsv_data",
      .files = {"new_aan_pairs.train.tsv", "new_aan_pairs.eval.tsv", "new_aan_pairs.test.tsv"},
      .header = "",
      .published = {147'086, 18'090, 17'437}};
  std::atomic<int64_t> empty = 0;
  WholeBatches whole(out, options.drop_remainder ? kBatch : 1);
  Json notes = import_tsv(
      layout, from, [&](const Line& line, TsvExample& pair) { parse_pair(line, options, pair, empty); }, true,
      whole);
  notes["empty_documents"] = empty.load();
  if (empty > 0) warn("{}: {} empty documents became a single blank.", from.string(), empty.load());
  return notes;
}

}  // namespace lra::retrieval
