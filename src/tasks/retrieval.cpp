#include "tasks/retrieval.h"

#include "tasks/baselines.h"
#include "tasks/bytes.h"
#include "tasks/release.h"
#include "tasks/remainder.h"

namespace lra {
namespace retrieval {
namespace {

class Retrieval : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "retrieval",
        .title = "Retrieval (AAN)",
        .version = "2",
        .description =
            "Does one paper of the ACL Anthology Network cite the other? Two documents of up to 4,000 bytes "
            "each go through one encoder; the head sees both encodings. The data has to be imported from the "
            "arena's release (--size tiny alone is made, of made-up pairs). Pairs of another origin should "
            "get a --variant of their own: they are not the arena's.",
        .source = "Long Range Arena (Tay et al. 2020); ACL Anthology Network (Radev et al. 2013)",
        .vocab_size = kByteVocabulary,
        .num_classes = 2,
        .max_length = 4000,
        .pad_id = kBytePad,
        .two_inputs = true,
    };
    return info;
  }
  TaskInfo info_for(const TaskOptions& options) const override {
    TaskInfo changed = info();
    changed.max_length = dynamic_cast<const Options&>(options).max_length;
    return changed;
  }

  std::unique_ptr<TaskOptions> options(std::string_view size) const override {
    auto options = std::make_unique<Options>();
    if (size == "tiny") options->max_length = 128;
    return options;
  }
  SplitCounts counts(std::string_view size) const override {
    return size == "tiny" ? SplitCounts{8'000, 1'000, 1'000} : SplitCounts{147'086, 18'090, 17'437};
  }

  bool can_make(std::string_view size) const override { return size == "tiny"; }
  Json make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed,
            DataSink& out) const override {
    const auto& mine = dynamic_cast<const Options&>(options);
    WholeBatches whole(out, mine.drop_remainder ? kBatch : 1);
    return generate(mine, counts, seed, whole);
  }
  Json import(const TaskOptions& options, const fs::path& from, DataSink& out) const override {
    return import_published(dynamic_cast<const Options&>(options), from, out);
  }
  std::optional<Download> download() const override { return release_download(); }

  std::string show(const Dataset& data, int64_t index) const override {
    const std::string& place = data.path().native();
    return fmt::format("{}\n\n{}\n\nlabel {} ({}), {} and {} bytes\n",
                       escaped(decode_bytes(data.tokens(index), place)),
                       escaped(decode_bytes(data.tokens2(index), place)), data.label(index),
                       data.label(index) == 1 ? "one cites the other" : "no citation", data.length(index),
                       data.tokens2(index).size());
  }

  Stats stats(const std::vector<const Dataset*>& splits, const Json&) const override {
    Stats stats;
    Table table{"documents", {"split", "mean of first", "mean of second", "at the limit (%)"}, {}, ""};
    for (size_t s = 0; s < splits.size(); ++s) {
      const Dataset& data = *splits[s];
      int64_t first = 0, second = 0, full = 0;
      for (int64_t i = 0; i < data.size(); ++i) {
        const int64_t a = data.length(i), b = data.tokens2(i).size();
        first += a, second += b;
        full += (a == data.info().max_length ? 1 : 0) + (b == data.info().max_length ? 1 : 0);
      }
      const auto n = static_cast<double>(data.size());
      const double mean1 = static_cast<double>(first) / n, mean2 = static_cast<double>(second) / n,
                   share = static_cast<double>(full) / (2 * n);
      table.rows.push_back({kSplits[s], fmt::format("{:.1f}", mean1), fmt::format("{:.1f}", mean2),
                            fmt::format("{:.2f}", 100 * share)});
      stats.json[kSplits[s]] = {{"first_mean", mean1}, {"second_mean", mean2}, {"at_limit", share}};
    }
    stats.tables.push_back(std::move(table));
    return stats;
  }

  std::vector<Baseline> baselines(const Dataset& train, const Dataset& test) const override {
    return {{"majority class", accuracy_of_majority(train, test)},
            {"bag of bytes", bag_of_bytes(train, test)}};
  }

  std::vector<std::pair<std::string, std::string>> golden_hashes() const override {
    return {
        {"tiny/train", "72ad03170dd20e2707ba459bec69f932bfb43cdb91d5e29edfd67b31e70c52e0"},
        {"tiny/val", "77709510d0874e853e9c39240055a5c87b5a2bb8f2801b47109f29f7bcde0240"},
        {"tiny/test", "be6925b51d835c046a96c21e99cdb31ac684c2ebf78e953b001033ded1a7c35a"},
    };
  }
};

const Registered<Task> registered(std::make_unique<Retrieval>(), LRA_HERE);

}  // namespace
}  // namespace retrieval
}  // namespace lra
