// The numbers every task's data has: examples, lengths, labels, token ids used; the task's own tables follow.
#include <algorithm>
#include <iterator>
#include <numeric>

#include "base/error.h"
#include "base/threads.h"
#include "tasks/task.h"

namespace lra {
namespace {

struct SplitSummary {
  int64_t examples = 0, tokens = 0;
  std::vector<int64_t> lengths, labels;  // lengths sorted; labels counted
  std::vector<int64_t> token_counts;
};

SplitSummary summarize(const Dataset& data) {
  SplitSummary summary;
  summary.examples = data.size();
  summary.labels.resize(static_cast<size_t>(data.info().num_classes));
  summary.token_counts.resize(65536);
  const auto count = [&](const Tokens& tokens) {
    summary.tokens += tokens.size();
    summary.lengths.push_back(tokens.size());
    for (int64_t t = 0; t < tokens.size(); ++t) ++summary.token_counts[static_cast<size_t>(tokens[t])];
  };
  for (int64_t i = 0; i < data.size(); ++i) {
    ++summary.labels[static_cast<size_t>(data.label(i))];
    count(data.tokens(i));
    if (data.has_second()) count(data.tokens2(i));
  }
  std::sort(summary.lengths.begin(), summary.lengths.end());
  return summary;
}

// The smallest length that at least `share` of the sequences do not exceed.
int64_t quantile(const std::vector<int64_t>& sorted, double share) {
  if (sorted.empty()) return 0;
  return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

void add_sizes(const std::vector<SplitSummary>& all, int64_t vocab_size, Stats& stats) {
  Table table{"examples and lengths",
              {"split", "examples", "tokens", "mean", "min", "10 %", "median", "90 %", "max", "ids used"},
              {},
              ""};
  for (size_t s = 0; s < all.size(); ++s) {
    const SplitSummary& a = all[s];
    const double mean = ratio(a.tokens, static_cast<int64_t>(a.lengths.size()));
    const auto used = a.token_counts.size() - static_cast<size_t>(std::count(
                                                  a.token_counts.begin(), a.token_counts.end(), int64_t{0}));
    const int64_t low = quantile(a.lengths, 0), p10 = quantile(a.lengths, 0.1),
                  p50 = quantile(a.lengths, 0.5), p90 = quantile(a.lengths, 0.9),
                  high = quantile(a.lengths, 1);
    table.rows.push_back({kSplits[s], fmt::format("{}", a.examples), fmt::format("{}", a.tokens),
                          fmt::format("{:.1f}", mean), fmt::format("{}", low), fmt::format("{}", p10),
                          fmt::format("{}", p50), fmt::format("{}", p90), fmt::format("{}", high),
                          fmt::format("{}/{}", used, vocab_size)});
    Json& json = stats.json["splits"][kSplits[s]];
    json["examples"] = a.examples;
    json["tokens"] = a.tokens;
    json["length"] = {{"mean", mean},  {"min", low}, {"p10", p10},
                      {"median", p50}, {"p90", p90}, {"max", high}};
    json["labels"] = a.labels;
    json["token_counts"] = std::vector<int64_t>(a.token_counts.begin(),
                                                a.token_counts.begin() + static_cast<int64_t>(vocab_size));
  }
  stats.tables.push_back(std::move(table));
}

void add_labels(const std::vector<SplitSummary>& all, Stats& stats) {
  Table table{"labels (%)", {"split"}, {}, ""};
  for (size_t c = 0; c < all[0].labels.size(); ++c) table.header.push_back(fmt::format("{}", c));
  for (size_t s = 0; s < all.size(); ++s) {
    std::vector<std::string> row = {kSplits[s]};
    for (const int64_t n : all[s].labels)
      row.push_back(fmt::format("{:.1f}", 100 * ratio(n, all[s].examples)));
    table.rows.push_back(std::move(row));
  }
  stats.tables.push_back(std::move(table));
}

void add_baselines(const Task& task, const Dataset& train, const Dataset& test, Stats& stats) {
  Table table{
      "accuracy without learning (fitted on train, measured on test)", {"baseline", "accuracy (%)"}, {}, ""};
  for (const Baseline& baseline : task.baselines(train, test)) {
    table.rows.push_back({baseline.name, fmt::format("{:.2f}", 100 * baseline.accuracy)});
    stats.json["baselines"][baseline.name] = baseline.accuracy;
  }
  if (!table.rows.empty()) stats.tables.push_back(std::move(table));
}

}  // namespace

Stats data_stats(const Task& task, const DataFolder& folder) {
  const Json manifest = read_manifest(folder);
  std::vector<Dataset> splits;
  for (const char* split : kSplits) {
    splits.push_back(folder.open(split));
    splits.back().check_contents();  // the tables below trust every id
  }
  std::vector<SplitSummary> summaries(splits.size());
  parallel_items(static_cast<int64_t>(splits.size()), [&](int64_t s) {
    summaries[static_cast<size_t>(s)] = summarize(splits[static_cast<size_t>(s)]);
  });
  Stats stats;
  stats.json["task"] = folder.task;
  stats.json["variant"] = folder.variant;
  add_sizes(summaries, splits[0].info().vocab_size, stats);
  add_labels(summaries, stats);
  add_baselines(task, splits[0], splits[2], stats);

  std::vector<const Dataset*> views;
  for (const Dataset& data : splits) views.push_back(&data);
  Stats own = task.stats(views, manifest.value("notes", Json::object()));
  std::move(own.tables.begin(), own.tables.end(), std::back_inserter(stats.tables));
  stats.json[folder.task] = std::move(own.json);
  return stats;
}

}  // namespace lra
