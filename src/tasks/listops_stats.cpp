// The numbers a correct set of ListOps trees must show. They tell a wrong generator from a right one, and
// what a model's accuracy is worth: reading the root operator alone gives 36 %, evaluating two levels 56 %.
#include <algorithm>
#include <array>
#include <mutex>

#include "base/error.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/threads.h"
#include "tasks/listops.h"

namespace lra::listops {
namespace {

constexpr int64_t kLadderLevels = 9;
constexpr int64_t kBlockTrees = 256;

struct Tally {
  int64_t trees = 0, tokens = 0, operators = 0;
  std::vector<int64_t> lengths;
  std::array<int64_t, 10> labels = {};
  std::array<std::array<int64_t, 10>, kOperators> by_root = {};  // [root operator][label]
  std::vector<int64_t> deepest, root_arity;                      // counted, [level] and [arity]
  std::array<int64_t, kLadderLevels + 1> ladder = {};  // [D] right answers when evaluated down to level D

  void count(std::vector<int64_t>& into, int64_t at) {
    if (into.size() <= static_cast<size_t>(at)) into.resize(static_cast<size_t>(at) + 1);
    ++into[static_cast<size_t>(at)];
  }
  void merge(const Tally& other) {
    const auto add = [](auto& mine, const auto& theirs) {
      if constexpr (requires { mine.resize(1); }) mine.resize(std::max(mine.size(), theirs.size()));
      for (size_t i = 0; i < theirs.size(); ++i) mine[i] += theirs[i];
    };
    trees += other.trees;
    tokens += other.tokens;
    operators += other.operators;
    lengths.insert(lengths.end(), other.lengths.begin(), other.lengths.end());
    add(labels, other.labels);
    for (size_t o = 0; o < by_root.size(); ++o) add(by_root[o], other.by_root[o]);
    add(deepest, other.deepest);
    add(root_arity, other.root_arity);
    add(ladder, other.ladder);
  }
};

void tally_tree(const Dataset& data, int64_t i, bool kept, Evaluator& evaluator,
                std::vector<uint16_t>& buffer, Tally& tally) {
  const auto tokens = tree_tokens(data, i, buffer);
  const int64_t label = data.label(i);
  if (label > 9) fail("listops", "{}: the label {} is no digit.", place_of(data, i).text(), label);
  ++tally.trees;
  tally.tokens += static_cast<int64_t>(tokens.size());
  tally.lengths.push_back(static_cast<int64_t>(tokens.size()));
  ++tally.labels[static_cast<size_t>(label)];
  ++tally.by_root[static_cast<size_t>(root_operator(data, i))][static_cast<size_t>(label)];
  tally.operators += std::count_if(tokens.begin(), tokens.end(), is_operator);
  if (!kept) return;
  const Evaluation whole = evaluator.evaluate(tokens, place_of(data, i));
  tally.count(tally.deepest, whole.deepest);
  tally.count(tally.root_arity, whole.root_arity);
  for (int64_t levels = 1; levels <= kLadderLevels; ++levels) {
    const int guess = evaluator.evaluate(tokens, place_of(data, i), levels).value;
    tally.ladder[static_cast<size_t>(levels)] += guess == label ? 1 : 0;
  }
}

Tally tally_all(const std::vector<const Dataset*>& splits, bool kept) {
  struct Block {
    const Dataset* data;
    int64_t first;
  };
  std::vector<Block> blocks;
  int64_t total = 0;
  for (const Dataset* data : splits) {
    for (int64_t first = 0; first < data->size(); first += kBlockTrees) blocks.push_back({data, first});
    total += data->size();
  }
  Tally all;
  std::mutex mutex;
  Progress progress("listops: evaluating trees", total, "trees");
  parallel_items(static_cast<int64_t>(blocks.size()), [&](int64_t b) {
    if (interrupted()) throw Interrupted("counting was interrupted");
    const auto [data, first] = blocks[static_cast<size_t>(b)];
    Tally tally;
    Evaluator evaluator;
    std::vector<uint16_t> buffer;
    const int64_t last = std::min(first + kBlockTrees, data->size());
    for (int64_t i = first; i < last; ++i) tally_tree(*data, i, kept, evaluator, buffer, tally);
    const std::lock_guard lock(mutex);
    all.merge(tally);
    progress.update(all.trees);
  });
  std::sort(all.lengths.begin(), all.lengths.end());
  return all;
}

double share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}
std::string percent(double value) { return fmt::format("{:.1f}", 100 * value); }

void add_summary(const Tally& all, const Json& notes, Stats& stats) {
  const auto at = [&](double q) {
    return all.lengths.empty()
               ? 0
               : all.lengths[static_cast<size_t>(q * static_cast<double>(all.lengths.size() - 1))];
  };
  const double mean = share(all.tokens, all.trees), operators = share(all.operators, all.tokens);
  Table table{"trees", {"quantity", "value"}, {}, ""};
  if (notes.contains("acceptance_rate") && notes.at("acceptance_rate").is_number()) {
    const auto rate = notes.at("acceptance_rate").get<double>();
    table.rows.push_back({"acceptance rate of raw draws", fmt::format("{:.4f}", rate)});
    stats.json["acceptance_rate"] = rate;
  }
  table.rows.push_back(
      {"length mean / median / 10 % / 90 % / min / max",
       fmt::format("{:.0f} / {} / {} / {} / {} / {}", mean, at(0.5), at(0.1), at(0.9), at(0), at(1))});
  table.rows.push_back({"operators per token", fmt::format("{:.4f}", operators)});
  for (size_t level = 0; level < all.deepest.size(); ++level) {
    if (all.deepest[level] == 0) continue;
    table.rows.push_back(
        {fmt::format("deepest level {}", level), percent(share(all.deepest[level], all.trees)) + " %"});
  }
  stats.json["trees"] = all.trees;
  stats.json["length"] = {{"mean", mean},   {"median", at(0.5)}, {"p10", at(0.1)},
                          {"p90", at(0.9)}, {"min", at(0)},      {"max", at(1)}};
  stats.json["operators_per_token"] = operators;
  stats.json["deepest_level"] = all.deepest;
  stats.tables.push_back(std::move(table));
}

void add_labels(const Tally& all, Stats& stats) {
  Table table{"label distribution, all trees and by root operator (%)", {"root", "share"}, {}, ""};
  for (int label = 0; label < 10; ++label) table.header.push_back(fmt::format("{}", label));
  table.header.push_back("mode");
  const auto add_row = [&](const std::string& name, const std::array<int64_t, 10>& counts) {
    int64_t n = 0;
    for (const int64_t c : counts) n += c;
    const auto mode = std::max_element(counts.begin(), counts.end()) - counts.begin();
    std::vector<std::string> row = {name, percent(share(n, all.trees))};
    std::vector<double> shares;
    for (const int64_t c : counts) {
      shares.push_back(share(c, n));
      row.push_back(percent(shares.back()));
    }
    row.push_back(fmt::format("{}", mode));
    table.rows.push_back(std::move(row));
    stats.json["labels"][name] = {{"share", share(n, all.trees)}, {"labels", shares}, {"mode", mode}};
  };
  add_row("all", all.labels);
  for (size_t o = 0; o < kOperators; ++o) add_row(std::string(kOperatorNames[o]), all.by_root[o]);
  stats.tables.push_back(std::move(table));
}

void add_root_arity(const Tally& all, Stats& stats) {
  Table table{"arguments of the root (%)", {"arguments"}, {{"trees"}}, ""};
  for (size_t arity = 0; arity < all.root_arity.size(); ++arity) {
    if (all.root_arity[arity] == 0) continue;
    const double part = share(all.root_arity[arity], all.trees);
    table.header.push_back(fmt::format("{}", arity));
    table.rows[0].push_back(percent(part));
    stats.json["root_arity"][fmt::format("{}", arity)] = part;
  }
  stats.tables.push_back(std::move(table));
}

void add_ladder(const Tally& all, Stats& stats) {
  Table table{"accuracy when evaluated exactly down to level D (%)", {"D"}, {{"accuracy"}}, ""};
  table.note = "Operators at level D count as their mode: MIN 0, MAX 9, MED 4, SM 0.";
  for (size_t levels = 1; levels <= kLadderLevels; ++levels) {
    const double part = share(all.ladder[levels], all.trees);
    table.header.push_back(fmt::format("{}", levels));
    table.rows[0].push_back(percent(part));
    stats.json["ladder"][fmt::format("{}", levels)] = part;
  }
  stats.tables.push_back(std::move(table));
}

}  // namespace

Stats tree_stats(const std::vector<const Dataset*>& splits, const Json& notes) {
  const bool kept =
      std::all_of(splits.begin(), splits.end(), [](const Dataset* data) { return brackets_kept(*data); });
  const Tally all = tally_all(splits, kept);
  Stats stats;
  add_summary(all, notes, stats);
  add_labels(all, stats);
  if (kept) {
    add_root_arity(all, stats);
    add_ladder(all, stats);
  }
  return stats;
}

}  // namespace lra::listops
