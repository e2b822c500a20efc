#include "tasks/text.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace lra {
namespace text {

std::string bytes_of_example(const Dataset& data, int64_t i) {
  const Tokens tokens = data.tokens(i);
  std::string bytes(static_cast<size_t>(tokens.size()), '\0');
  for (int64_t t = 0; t < tokens.size(); ++t) {
    if (tokens[t] < 1 || tokens[t] >= kVocabulary) {
      fail("text", "{} example {}: the id {} is no byte, expected 1 to {}.", data.path().string(), i,
           tokens[t], kVocabulary - 1);
    }
    bytes[static_cast<size_t>(t)] = static_cast<char>(tokens[t] - 1);
  }
  return bytes;
}

namespace {

// Length of the well-formed UTF-8 character at the front; 0 where there is none.
size_t utf8_character(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF5 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = at(1);  // no overlong forms, no surrogates, nothing above U+10FFFF
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return wrong ? 0 : length;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;
}

// The smallest value that at least `share` of the values do not exceed.
int64_t quantile(const std::vector<int64_t>& sorted, double share) {
  return sorted.empty() ? 0 : sorted[static_cast<size_t>(share * static_cast<double>(sorted.size() - 1))];
}

double ratio(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

double accuracy_of_majority(const Dataset& train, const Dataset& test) {
  std::array<int64_t, 2> counts = {};
  for (int64_t i = 0; i < train.size(); ++i) ++counts.at(static_cast<size_t>(train.label(i)));
  const int64_t majority = counts[kPositive] > counts[kNegative] ? kPositive : kNegative;
  int64_t right = 0;
  for (int64_t i = 0; i < test.size(); ++i) right += test.label(i) == majority ? 1 : 0;
  return ratio(right, test.size());
}

}  // namespace

std::string escaped(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t length = utf8_character(bytes);
    const std::string_view character = bytes.substr(0, std::max<size_t>(length, 1));
    if (character == "\\") {
      text += "\\\\";
    } else if (character == "\n") {
      text += "\\n";
    } else if (character == "\t") {
      text += "\\t";
    } else if (length == 0 || is_control(character)) {
      for (const char c : character) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      text += character;
    }
    bytes.remove_prefix(character.size());
  }
  return text;
}

void add_reviews(const std::vector<Review>& reviews, const Options& options, size_t split, MadeData& made) {
  const auto most = static_cast<size_t>(options.max_length);
  Examples& examples = made.splits[split];
  std::vector<uint16_t> tokens;
  std::vector<int64_t> lengths;
  int64_t bytes = 0, truncated = 0;
  for (const Review& review : reviews) {
    tokens.clear();
    for (const char c : review.bytes.substr(0, most)) {
      tokens.push_back(static_cast<uint16_t>(static_cast<uint8_t>(c) + 1));
    }
    examples.add(tokens, review.label);
    lengths.push_back(static_cast<int64_t>(review.bytes.size()));
    bytes += lengths.back();
    truncated += review.bytes.size() > most ? 1 : 0;
  }
  std::sort(lengths.begin(), lengths.end());
  made.notes["reviews"][kSplits[split]] = {{"bytes", bytes},
                                           {"mean", ratio(bytes, examples.size())},
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
        .version = "1",
        .description =
            "Is a film review positive or negative, read as raw bytes? 25,000 reviews to train on and 25,000 "
            "to test, half of each class, 1,300 bytes on average; 3 % are longer than 4,000 bytes and cut "
            "there. The data has to be imported (--size tiny alone is made, of made-up reviews).",
        .source =
            "Long Range Arena (Tay et al. 2020); Large Movie Review Dataset, aclImdb (Maas et al. 2011)",
        .vocab_size = kVocabulary,
        .num_classes = 2,
        .max_length = 4000,
        .pad_id = kPad,
        .two_inputs = false,
    };
    return info;
  }

  std::unique_ptr<TaskOptions> options(std::string_view size) const override {
    auto options = std::make_unique<Options>();
    if (size == "tiny") {
      options->max_length = 256;
      options->made_up = true;
    }
    return options;
  }
  SplitCounts counts(std::string_view size) const override {
    return size == "tiny" ? SplitCounts{8'000, 1'000, 1'000} : SplitCounts{22'500, 2'500, 25'000};
  }

  // can_make() stays false: of the sizes only tiny is made, the benchmark's own data is imported.
  MadeData make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed) const override {
    const auto& mine = dynamic_cast<const Options&>(options);
    if (!mine.made_up) {
      fail("text",
           "these reviews cannot be made, they have to be imported: 'lra data import text FOLDER', where "
           "FOLDER is the "
           "unpacked Large Movie Review Dataset (aclImdb) as its owners "
           "publish it. Short made-up reviews come from 'lra data make text --size tiny'.");
    }
    MadeData made = empty(mine);
    generate(mine, counts, seed, made);
    return made;
  }
  MadeData import(const TaskOptions& options, const fs::path& from) const override {
    const auto& mine = dynamic_cast<const Options&>(options);
    MadeData made = empty(mine);
    import_published(mine, from, made);
    return made;
  }

  std::string show(const Dataset& data, int64_t index) const override {
    return fmt::format("{}\nlabel {} ({}), {} bytes\n", escaped(bytes_of_example(data, index)),
                       data.label(index), kClassNames[data.label(index) == kPositive ? 1 : 0],
                       data.length(index));
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
        for (const char c : bytes_of_example(data, i)) ++counts[static_cast<uint8_t>(c)];
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
        {"tiny/train", "325ab3ce06c0c2dfcc3ebc265e95467e72ae9bf1c4b50b6271ce06fdde17db93"},
        {"tiny/val", "db5bab46759e58a11f800a0e7c8944e6672cfcff67299fea0b1727f00b15d084"},
        {"tiny/test", "ccc151470128fcb08cef9ac1b3c3f2298b4bd9f05fe085cef0c66acb082181a1"},
    };
  }

 private:
  MadeData empty(const Options& options) const {
    MadeData made;
    made.info = info();
    made.info.max_length = options.max_length;
    return made;
  }
};

const Registered<Task> registered(std::make_unique<Text>(), LRA_HERE);

}  // namespace
}  // namespace text
}  // namespace lra
