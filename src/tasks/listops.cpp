#include "tasks/listops.h"

#include <array>

#include "base/error.h"
#include "tasks/release.h"

namespace lra {
namespace listops {

std::span<const uint16_t> tree_tokens(const Dataset& data, int64_t i, std::vector<uint16_t>& buffer) {
  const Tokens tokens = data.tokens(i);
  buffer.resize(static_cast<size_t>(tokens.size()));
  for (int64_t t = 0; t < tokens.size(); ++t)
    buffer[static_cast<size_t>(t)] = static_cast<uint16_t>(tokens[t]);
  return buffer;
}

Place place_of(const Dataset& data, int64_t i) { return {data.path().native(), "example", i}; }

bool brackets_kept(const Dataset& data) { return data.info().vocab_size == kVocabularyKept; }

int root_operator(const Dataset& data, int64_t i) {
  const int32_t first = data.length(i) > 0 ? data.tokens(i)[0] : int32_t{kPad};
  if (!is_operator(static_cast<uint16_t>(first))) {
    fail("listops", "{}: the tree begins with token {}, expected an operator.", place_of(data, i).text(),
         first);
  }
  return first - kMin;
}

namespace {

class ListOps : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "listops",
        .title = "ListOps",
        .version = "1",
        .description =
            "Evaluate a nested expression of MIN, MAX, MED (median) and SM (sum modulo 10) over digits, "
            "given as "
            "501 to 1999 tokens; the answer is a digit. Trees are drawn at random: every node above level 10 "
            "is an "
            "operator of 2 to 10 arguments with probability 1/4. Reading only the root operator gives 36 %.",
        .source = "Long Range Arena (Tay et al. 2020), after ListOps (Nangia & Bowman 2018)",
        .vocab_size = kVocabularyKept,
        .num_classes = 10,
        .max_length = 2000,
        .pad_id = kPad,
        .two_inputs = false,
    };
    return info;
  }

  std::unique_ptr<TaskOptions> options(std::string_view size) const override {
    auto options = std::make_unique<Options>();
    if (size == "tiny") {
      options->max_depth = 3;
      options->max_args = 4;
      options->min_length = 4;
      options->max_length = 24;
    }
    return options;
  }
  SplitCounts counts(std::string_view size) const override {
    return size == "tiny" ? SplitCounts{20'000, 1'000, 2'000} : SplitCounts{96'000, 2'000, 2'000};
  }

  TaskInfo info_for(const TaskOptions& options) const override {
    const auto& mine = dynamic_cast<const Options&>(options);
    TaskInfo changed = info();
    changed.max_length = mine.max_length;
    changed.vocab_size = mine.kept() ? kVocabularyKept : kVocabularyDropped;
    return changed;
  }
  Json make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed,
            DataSink& out) const override {
    MadeData made;
    generate(dynamic_cast<const Options&>(options), counts, seed, made);
    return made.deliver(out);
  }
  Json import(const TaskOptions& options, const fs::path& from, DataSink& out) const override {
    return import_published(dynamic_cast<const Options&>(options), from, out);
  }
  std::optional<Download> download() const override { return release_download(); }
  Json check_file(const fs::path& file) const override { return listops::check_file(file); }

  void verify(const Dataset& data) const override {
    if (!brackets_kept(data)) return;  // without brackets there is no tree to evaluate
    Evaluator evaluator;
    std::vector<uint16_t> buffer;
    for (int64_t i = 0; i < data.size(); ++i) {
      const int value = evaluator.evaluate(tree_tokens(data, i, buffer), place_of(data, i)).value;
      if (value != data.label(i)) {
        fail("listops", "{}: the label is {}, but the tree's value is {}.", place_of(data, i).text(),
             data.label(i), value);
      }
    }
  }

  std::string show(const Dataset& data, int64_t index) const override {
    std::vector<uint16_t> buffer;
    const auto tokens = tree_tokens(data, index, buffer);
    std::string text;
    if (brackets_kept(data)) {
      text = draw_tree(tokens, place_of(data, index));
    } else {
      for (const uint16_t token : tokens) text += (text.empty() ? "" : " ") + token_text(token, false);
      text += "\n(closing brackets dropped: the tree cannot be drawn)\n";
    }
    return text + fmt::format("label {}, {} tokens\n", data.label(index), tokens.size());
  }

  std::string tsv_header() const override { return "Source\tTarget"; }
  std::string tsv_row(const Dataset& data, int64_t index) const override {
    if (!brackets_kept(data)) {
      fail("listops",
           "{}: the closing brackets were dropped, so the trees cannot be printed. Use --format jsonl.",
           data.path().string());
    }
    std::vector<uint16_t> buffer;
    return fmt::format("{}\t{}", print_tree(tree_tokens(data, index, buffer), place_of(data, index)),
                       data.label(index));
  }

  Stats stats(const std::vector<const Dataset*>& splits, const Json& notes) const override {
    return tree_stats(splits, notes);
  }

  std::vector<Baseline> baselines(const Dataset& train, const Dataset& test) const override {
    using Counts = std::array<int64_t, 10>;
    std::array<Counts, kOperators> by_root = {};
    Counts all = {};
    for (int64_t i = 0; i < train.size(); ++i) {
      if (train.label(i) > 9)
        fail("listops", "{}: the label {} is no digit.", place_of(train, i).text(), train.label(i));
      const auto label = static_cast<size_t>(train.label(i));
      ++all[label];
      ++by_root[static_cast<size_t>(root_operator(train, i))][label];
    }
    const auto most = [](const Counts& counts) {
      return std::max_element(counts.begin(), counts.end()) - counts.begin();
    };
    int64_t majority = 0, root = 0;
    for (int64_t i = 0; i < test.size(); ++i) {
      majority += test.label(i) == most(all) ? 1 : 0;
      root += test.label(i) == most(by_root[static_cast<size_t>(root_operator(test, i))]) ? 1 : 0;
    }
    const auto share = [&](int64_t n) {
      return static_cast<double>(n) / static_cast<double>(std::max<int64_t>(test.size(), 1));
    };
    return {{"majority class", share(majority)}, {"root operator", share(root)}};
  }

  std::vector<std::string> group_names() const override {
    std::vector<std::string> names;
    for (const std::string_view name : kOperatorNames) names.push_back(fmt::format("root {}", name));
    return names;
  }
  int64_t group_of(const Dataset& data, int64_t index) const override { return root_operator(data, index); }

  std::vector<std::pair<std::string, std::string>> golden_hashes() const override {
    return {
        {"default/train", "5b66c993a2b0c59b88d9e26cbc9e35d68cb00c6e1f0edd0f98549eb04659a0f0"},
        {"default/val", "7c527d75652049faee9dafdb43daed485017b03190d307a77b6b06be84a2f567"},
        {"default/test", "9bb59dc5ec917570eef4c82aa8fac0f8c5d462ae6391edeb0f9d96a9f26c6b1b"},
        {"tiny/train", "f5533b4da2586fc3dddb2cdc857fd81a55d38c9ac4d6887d3bb1eb7d69022ced"},
        {"tiny/val", "7a221d866d1bfaac23997beaa12f165bcd50a437a5ec68fa93a99a746b462dc6"},
        {"tiny/test", "32a9a2772a5bffd7dd5ac0f7cca58390c56ef588422b456aa2ab955194709055"},
    };
  }
};

const Registered<Task> registered(std::make_unique<ListOps>(), LRA_HERE);

}  // namespace
}  // namespace listops
}  // namespace lra
