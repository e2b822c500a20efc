#include "tasks/text.h"

#include <algorithm>
#include <array>

#include "tasks/baselines.h"
#include "tasks/bytes.h"

namespace lra {
namespace text {

namespace {

// The smallest value that at least `share` of the values do not exceed.
int64_t quantile(const std::vector<int64_t>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

}  // namespace

Json add_reviews(const std::vector<Review>& reviews, const Options& options, size_t split, DataSink& out) {
  const auto most = static_cast<size_t>(options.max_length);
  std::vector<uint16_t> tokens;
  std::vector<int64_t> lengths;
  int64_t bytes = 0, truncated = 0;
  for (const Review& review : reviews) {
    encode_bytes(review.bytes, options.max_length, tokens);
    out.add(split, Tokens{std::span<const uint16_t>(tokens)}, review.label);
    lengths.push_back(static_cast<int64_t>(review.bytes.size()));
    bytes += lengths.back();
    truncated += review.bytes.size() > most ? 1 : 0;
  }
  std::sort(lengths.begin(), lengths.end());
  return {{"bytes", bytes},
          {"mean", ratio(bytes, static_cast<int64_t>(reviews.size()))},
          {"p10", quantile(lengths, 0.1)},
          {"median", quantile(lengths, 0.5)},
          {"p90", quantile(lengths, 0.9)},
          {"max", quantile(lengths, 1)},
          {"truncated", truncated}};
}

namespace {

class Text : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "text",
        .title = "Text (IMDb)",
        .version = "2",
        .description =
            "Is a film review positive or negative, read as raw bytes? 25,000 reviews to train on and 25,000 "
            "to test, half of each class, 1,300 bytes on average; 3 % are longer than 4,000 bytes and cut "
            "there. The data has to be imported (--size tiny alone is made, of made-up reviews).",
        .source =
            "Long Range Arena (Tay et al. 2020); Large Movie Review Dataset, aclImdb (Maas et al. 2011)",
        .vocab_size = kByteVocabulary,
        .num_classes = 2,
        .max_length = 4000,
        .pad_id = kBytePad,
        .two_inputs = false,
    };
    return info;
  }

  std::unique_ptr<TaskOptions> options(std::string_view size) const override {
    auto options = std::make_unique<Options>();
    if (size == "tiny") options->max_length = 256;
    return options;
  }
  SplitCounts counts(std::string_view size) const override {
    return size == "tiny" ? SplitCounts{8'000, 1'000, 1'000} : SplitCounts{22'500, 2'500, 25'000};
  }

  TaskInfo info_for(const TaskOptions& options) const override {
    TaskInfo changed = info();
    changed.max_length = dynamic_cast<const Options&>(options).max_length;
    return changed;
  }
  // The benchmark's own data is imported.
  bool can_make(std::string_view size) const override { return size == "tiny"; }
  Json make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed,
            DataSink& out) const override {
    return generate(dynamic_cast<const Options&>(options), counts, seed, out);
  }
  Json import(const TaskOptions& options, const fs::path& from, DataSink& out) const override {
    return import_published(dynamic_cast<const Options&>(options), from, out);
  }
  std::optional<Download> download() const override {
    return Download{.name = "imdb",
                    .url = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                    .file = "aclImdb_v1.tar.gz",
                    .md5 = "7c2ac02c03563afcf9b574c7e56c153a",
                    .bytes = 84'125'825};
  }

  std::string show(const Dataset& data, int64_t index) const override {
    return fmt::format("{}\nlabel {} ({}), {} bytes\n",
                       escaped(decode_bytes(data.tokens(index), data.path().native())), data.label(index),
                       kClassNames[data.label(index) == kPositive ? 1 : 0], data.length(index));
  }

  Stats stats(const std::vector<const Dataset*>& splits, const Json& notes) const override {
    Stats stats;
    Table before{"reviews before they are cut (bytes)",
                 {"split", "mean", "10 %", "median", "90 %", "max", "cut (%)"},
                 {},
                 ""};
    Table bytes{"bytes", {"split", "distinct", "beyond ASCII (%)"}, {}, ""};
    for (size_t s = 0; s < splits.size(); ++s) {
      const Dataset& data = *splits[s];
      std::array<int64_t, 256> counts = {};
      for (int64_t i = 0; i < data.size(); ++i) {
        for (const char c : decode_bytes(data.tokens(i), data.path().native()))
          ++counts[static_cast<uint8_t>(c)];
      }
      const int64_t distinct = 256 - std::count(counts.begin(), counts.end(), 0);
      int64_t beyond = 0;
      for (size_t b = 128; b < counts.size(); ++b) beyond += counts[b];
      const double share = ratio(beyond, data.total_tokens());
      bytes.rows.push_back({kSplits[s], fmt::format("{}", distinct), fmt::format("{:.3f}", 100 * share)});
      Json& json = stats.json[kSplits[s]];
      json["distinct_bytes"] = distinct;
      json["beyond_ascii"] = share;

      const Json reviews = notes.value("reviews", Json::object()).value(kSplits[s], Json::object());
      if (reviews.empty()) continue;
      const double cut = ratio(reviews.value("truncated", int64_t{0}), data.size());
      std::vector<std::string> row = {kSplits[s], fmt::format("{:.1f}", reviews.value("mean", 0.0))};
      for (const char* key : {"p10", "median", "p90", "max"}) {
        row.push_back(fmt::format("{}", reviews.value(key, int64_t{0})));
      }
      row.push_back(fmt::format("{:.2f}", 100 * cut));
      before.rows.push_back(std::move(row));
      json["reviews"] = reviews;
      json["truncated"] = cut;
    }
    if (!before.rows.empty()) stats.tables.push_back(std::move(before));
    stats.tables.push_back(std::move(bytes));
    return stats;
  }

  std::vector<Baseline> baselines(const Dataset& train, const Dataset& test) const override {
    return {{"majority class", accuracy_of_majority(train, test)},
            {"bag of bytes", bag_of_bytes(train, test)}};
  }

  std::vector<std::pair<std::string, std::string>> golden_hashes() const override {
    return {
        {"default/train", "4a8ac933f98b95d786858478ec2b7fcd736487834a40c7a4ee79ba834c3d4ed3"},
        {"default/val", "f63d4b42825f5594eab47dd78d9cc449133f7ddc6af6a19594e576eca641ab0d"},
        {"default/test", "5a74fdbbb20178a03f12f5ff26870300500260ce45bb3dc0b479e2e90f9d618c"},
        {"tiny/train", "430216d958248ee3701f6da22e8054d2a60e81e154f977969b9584a8b56f5981"},
        {"tiny/val", "f910b67359ad8959a95971a1ffa496b8f17499e8b84cc0f673f51675a502bc2b"},
        {"tiny/test", "8d9cec7ac6b463268f73ae67732c3dd0175b7f9d088cde2f125ff96bcf89d5ba"},
    };
  }
};

const Registered<Task> registered(std::make_unique<Text>(), LRA_HERE);

}  // namespace
}  // namespace text
}  // namespace lra
