#include "tasks/pathfinder.h"

#include "tasks/baselines.h"
#include "tasks/pixels.h"
#include "tasks/release.h"

namespace lra {
namespace pathfinder {
namespace {

struct Golden {
  const char *train, *val, *test;
};

class Pathfinder : public Task {
 public:
  Pathfinder(std::string name, std::string title, int64_t side, const Golden& full, const Golden& tiny)
      : side_(side), full_(full), tiny_(tiny) {
    info_ = {
        .name = std::move(name),
        .title = std::move(title),
        .version = "1",
        .description = fmt::format(
            "Two round markers, two long dashed snakes and several short ones: are the markers on the same "
            "snake? {0} by {0} gray pixels, row by row, as {1} ids 0 to 255; no id is padding. Made by our "
            "own "
            "version of the generator, or imported from the arena's release.",
            side, side * side),
        .source = "Long Range Arena (Tay et al. 2020); Pathfinder (Linsley et al. 2018, Kim et al. 2020)",
        .vocab_size = 256,
        .num_classes = 2,
        .max_length = side * side,
        .pad_id = std::nullopt,
        .two_inputs = false,
    };
  }
  const TaskInfo& info() const override { return info_; }
  TaskInfo info_for(const TaskOptions& options) const override {
    const auto& mine = dynamic_cast<const Options&>(options);
    TaskInfo changed = info_;
    changed.max_length = mine.side * mine.side;
    if (mine.zero_is_pad) changed.pad_id = 0, changed.padding_inside = true;
    return changed;
  }

  std::unique_ptr<TaskOptions> options(std::string_view size) const override {
    auto options = std::make_unique<Options>();
    options->side = side_;
    if (size == "tiny") {
      options->side = side_ == 32 ? 16 : 32;
      options->levels = 4;
      options->difficulty = "easy";
    }
    return options;
  }
  SplitCounts counts(std::string_view size) const override {
    if (size != "tiny") return {160'000, 20'000, 20'000};
    return side_ == 32 ? SplitCounts{20'000, 1'000, 2'000} : SplitCounts{2'000, 500, 500};
  }

  Json make(const TaskOptions& options, const SplitCounts& counts, uint64_t seed,
            DataSink& out) const override {
    return make_images(dynamic_cast<const Options&>(options), counts, seed, out);
  }
  Json import(const TaskOptions& options, const fs::path& from, DataSink& out) const override {
    return import_published(dynamic_cast<const Options&>(options), from, out);
  }
  std::optional<Download> download() const override {
    Download release = release_download();
    release.by_default = side_ == 32 || side_ == 128;  // the arena's two
    return release;
  }

  std::string show(const Dataset& data, int64_t index) const override {
    const int64_t side = side_of(data);
    const MarkerPair m = find_markers(picture_of(data, index).pixels, side);
    return fmt::format("label {} ({}), markers near row {} column {} and row {} column {}, {} by {} pixels\n",
                       data.label(index), data.label(index) == 1 ? "one snake" : "two snakes", m.y[0], m.x[0],
                       m.y[1], m.x[1], side, side);
  }
  std::optional<GrayImage> picture(const Dataset& data, int64_t index) const override {
    return picture_of(data, index);
  }
  Stats stats(const std::vector<const Dataset*>& splits, const Json& notes) const override {
    return image_stats(splits, notes);
  }
  std::vector<Baseline> baselines(const Dataset& train, const Dataset& test) const override {
    return {{"majority class", accuracy_of_majority(train, test)},
            {"marker distance", accuracy_of_distance(train, test)}};
  }
  std::vector<std::pair<std::string, std::string>> golden_hashes() const override {
    std::vector<std::pair<std::string, std::string>> known;
    for (const auto& [variant, golden] : {std::pair("default", full_), std::pair("tiny", tiny_)}) {
      const char* hashes[] = {golden.train, golden.val, golden.test};
      for (size_t s = 0; s < std::size(kSplits); ++s) {
        known.emplace_back(fmt::format("{}/{}", variant, kSplits[s]), hashes[s]);
      }
    }
    return known;
  }

 private:
  TaskInfo info_;
  int64_t side_;
  Golden full_, tiny_;
};

constexpr Golden kDefault32 = {"c364f2cb0b8f0aa9a5594a3edc7c6d50d63e36abd32c1907b9ab56786ccde788",
                               "ff0ab95685616eecc1633076102be2ac9b6b54f31ea2029221fb1ac585f0d4f6",
                               "dfb509c783d3f904db868aacbac3a1c7e7b9ecaca5c8f0c1450131c596bd37e7"};
constexpr Golden kDefault64 = {"f1d0b619745a5b2087f21381a8177f95687a4d864e2be73f7f4605e18b35a30a",
                               "f79cd84837c4f1a83032aa50e114e906cf1107d0fca52ae7e0a3a314855e3a95",
                               "52b7f95e375903245c11b8c048a36bf4fdac2fc327add28e75d1e5580756b1e3"};
constexpr Golden kDefault128 = {"49a6ced52829e14c16f7956e27485e8318a5ee3842bbbcb0cf1dcd5c73feec99",
                                "74f24a8e7f8a27cf76884a1da0ad81527c8a361cdd7eba408d39d89c4e49afe3",
                                "afab40678b1fe75c8538141b3ae2e72c43a4e7e040c8776f2009a3d649d7bb7b"};
constexpr Golden kDefault256 = {"db62e132dabc98d6e0d06bbaa08732442222c11e1ddd93d9b7faff08e89d1cb4",
                                "af26a4450c1d86678ca65d41df2e447ad48fc14599c6236b700656667138bc3b",
                                "012cbfb899ae430eabe2d3945e2d74136472bffe512a485e99e703204fed12a6"};
constexpr Golden kTiny32 = {"fa187aa587f16c520ac50ad05f8a855178e2b3468a3f5a13595f7bde9fc5409d",
                            "63a86f8817804c1c54fd091dc6e2cef3c9320f73fc33cb729116d66f91c15772",
                            "543279107a3e36c5f2d135df6685f2631a304c4f21fcea9ca119ea742de250ad"};
// The small sets of the larger ones are of 32 pixels and the same for all.
constexpr Golden kTinyOfLarger = {"1a8debcc8c1bf91e2e4705df17b4a8c3308ba9d2e9e4c3f973268d9b179d8f1c",
                                  "636e004f59305e7cd62c172d468645e65234dc567a2d87fb47a86467acbffb77",
                                  "a74ffb9fe43c56d0c579f4296950a251d7d7b408274417e3b6b072dc4e688746"};

std::unique_ptr<Task> task(const char* name, const char* title, int64_t side, const Golden& full,
                           const Golden& tiny) {
  return std::make_unique<Pathfinder>(name, title, side, full, tiny);
}

const Registered<Task> pathfinder32(task("pathfinder", "Pathfinder (32)", 32, kDefault32, kTiny32), LRA_HERE);
const Registered<Task> pathfinder64(task("pathfinder64", "Pathfinder (64)", 64, kDefault64, kTinyOfLarger),
                                    LRA_HERE);
const Registered<Task> pathx(task("pathx", "Path-X (128)", 128, kDefault128, kTinyOfLarger), LRA_HERE);
const Registered<Task> pathfinder256(task("pathfinder256", "Pathfinder (256)", 256, kDefault256,
                                          kTinyOfLarger),
                                     LRA_HERE);

}  // namespace
}  // namespace pathfinder
}  // namespace lra
