#include "tasks/image.h"

#include "tasks/baselines.h"
#include "tasks/pixels.h"

namespace lra {
namespace image {
namespace {

constexpr const char* kNames[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                  "dog",      "frog",       "horse", "ship", "truck"};

class Image : public Task {
 public:
  const TaskInfo& info() const override {
    static const TaskInfo info = {
        .name = "image",
        .title = "Image (gray CIFAR-10)",
        .version = "1",
        .description =
            "Which of ten things does a picture show? 32 by 32 gray pixels, row by row, as 1,024 ids 0 to "
            "255; "
            "no id is padding. The data has to be imported (--size tiny alone is made, of made-up textures).",
        .source = "Long Range Arena (Tay et al. 2020); CIFAR-10 (Krizhevsky 2009)",
        .vocab_size = 256,
        .num_classes = kClasses,
        .max_length = kPublishedSide * kPublishedSide,
        .pad_id = std::nullopt,
        .two_inputs = false,
    };
    return info;
  }
  TaskInfo info_for(const TaskOptions& options) const override {
    const auto& mine = dynamic_cast<const Options&>(options);
    TaskInfo changed = info();
    changed.max_length = mine.side * mine.side;
    if (mine.zero_is_pad) changed.pad_id = 0, changed.padding_inside = true;
    return changed;
  }

  std::unique_ptr<TaskOptions> options(std::string_view size) const override {
    auto options = std::make_unique<Options>();
    if (size == "tiny") options->side = 8;
    return options;
  }
  SplitCounts counts(std::string_view size) const override {
    return size == "tiny" ? SplitCounts{8'000, 1'000, 1'000} : SplitCounts{45'000, 5'000, 10'000};
  }

  bool can_make(std::string_view size) const override { return size == "tiny"; }
  Json make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed,
            DataSink& out) const override {
    return generate(dynamic_cast<const Options&>(options), counts, seed, out);
  }
  Json import(const TaskOptions& options, const fs::path& from, DataSink& out) const override {
    return import_published(dynamic_cast<const Options&>(options), from, out);
  }
  std::optional<Download> download() const override {
    return Download{.name = "cifar10",
                    .url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    .file = "cifar-10-binary.tar.gz",
                    .md5 = "c32a1d4ab5d03f1284b67883e8d87530",
                    .bytes = 170'052'171};
  }

  std::string show(const Dataset& data, int64_t index) const override {
    const bool made_up = data.info().source.starts_with("lra data make");
    const int64_t label = data.label(index), side = side_of(data);
    const char* name = made_up ? "a texture" : kNames[label];
    return fmt::format("label {} ({}), {} by {} pixels\n", label, name, side, side);
  }
  std::optional<GrayImage> picture(const Dataset& data, int64_t index) const override {
    return picture_of(data, index);
  }

  Stats stats(const std::vector<const Dataset*>& splits, const Json&) const override {
    Stats stats;
    Table table{"gray values", {"split", "mean", "deviation"}, {}, ""};
    for (size_t s = 0; s < splits.size(); ++s) {
      const PixelMoments m = pixel_moments(*splits[s]);
      table.rows.push_back({kSplits[s], fmt::format("{:.2f}", m.mean), fmt::format("{:.2f}", m.deviation)});
      stats.json[kSplits[s]] = {{"mean", m.mean}, {"deviation", m.deviation}};
    }
    stats.tables.push_back(std::move(table));
    return stats;
  }

  std::vector<Baseline> baselines(const Dataset& train, const Dataset& test) const override {
    return {{"majority class", accuracy_of_majority(train, test)},
            {"nearest class mean", nearest_class_mean(train, test)}};
  }

  std::vector<std::pair<std::string, std::string>> golden_hashes() const override {
    return {
        {"tiny/train", "78fa62ea8e1ca58fa440131c78bd5f4cff0e2e6901dab002a773580cdc45649e"},
        {"tiny/val", "0fc6de239864667873f4525949e58a387bb5068e3482be5032f27c5f4c875e7d"},
        {"tiny/test", "3a37bb814645c82fd47ee1ed09359b3394c7e81365f4b31b6712063dd89c2843"},
    };
  }
};

const Registered<Task> registered(std::make_unique<Image>(), LRA_HERE);

}  // namespace
}  // namespace image
}  // namespace lra
