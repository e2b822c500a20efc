#include <functional>

#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/temp_dir.h"
#include "tasks/task.h"

namespace lra {
namespace {

class VerifyData : public testing::Test {
 protected:
  VerifyData() {
    set_log_level(LogLevel::kQuiet);
    MakeRequest request;
    request.size = "tiny";
    request.counts = SplitCounts{40, 10, 10};
    made_ = make_data(task_, folder_.path(), request);
  }
  std::string complaint() const {
    return error_text([&] { verify_data(task_, made_); });
  }
  // Writes a split again with changed examples, its hash and manifest entry right.
  void rewrite(const std::string& split, const std::function<void(Examples&)>& change) {
    const Dataset old = made_.open(split);
    Examples examples;
    for (int64_t i = 0; i < old.size(); ++i) {
      std::vector<uint16_t> tokens;
      for (int64_t t = 0; t < old.length(i); ++t) tokens.push_back(static_cast<uint16_t>(old.tokens(i)[t]));
      examples.add(tokens, old.label(i));
    }
    change(examples);
    Json manifest = read_manifest(made_);
    manifest["splits"][split]["examples"] = examples.size();
    manifest["splits"][split]["sha256"] = write_dataset(made_.split_path(split), examples, old.info());
    write_text(made_.manifest_path(), manifest.dump());
  }

  const Task& task_ = find_task("listops");
  TempDir folder_;
  DataFolder made_;
};

TEST_F(VerifyData, AcceptsFreshData) {
  const Json report = verify_data(task_, made_);
  EXPECT_EQ(report.at("splits").at("train").at("examples"), 40);
  EXPECT_EQ(report.at("repeats").at("shared").at("train-test"), 0);
}

TEST_F(VerifyData, FindsEveryFlippedBitOfTheData) {
  std::string bytes = read_text(made_.split_path("val"));
  const size_t data = bytes.size() - SafetensorsFile(made_.split_path("val")).at("tokens").bytes.size();
  for (size_t at = data; at < bytes.size(); ++at) {
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    folder_.write("listops/tiny-n40-10-10/val.safetensors", bytes);
    EXPECT_TRUE(says(complaint(), "sha256")) << "byte " << at;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
  }
}

TEST_F(VerifyData, FindsALabelThatIsNotTheTreesValue) {
  rewrite("val", [](Examples& examples) { examples.labels[3] = (examples.labels[3] + 1) % 10; });
  EXPECT_TRUE(says(complaint(), "val.safetensors example 3: the label is"));
}

TEST_F(VerifyData, FindsExamplesSharedBetweenSplits) {
  const Dataset train = made_.open("train");
  rewrite("test", [&](Examples& examples) {
    std::vector<uint16_t> first;
    for (int64_t t = 0; t < train.length(0); ++t) first.push_back(static_cast<uint16_t>(train.tokens(0)[t]));
    examples.add(first, train.label(0));
  });
  EXPECT_TRUE(says(complaint(), "splits share examples: train example 0 = test example 10"));
}

TEST_F(VerifyData, FindsAManifestThatDoesNotFitTheFiles) {
  Json manifest = read_manifest(made_);
  manifest["splits"]["val"]["seed"] = "17";
  write_text(made_.manifest_path(), manifest.dump());
  EXPECT_TRUE(says(complaint(), "seed = '0', the manifest says '17'"));
}

TEST_F(VerifyData, FindsARenamedFolder) {
  fs::rename(made_.path(), folder_ / "listops/other");
  made_.variant = "other";
  EXPECT_TRUE(says(complaint(), "was made as variant 'tiny-n40-10-10'"));
}

TEST_F(VerifyData, RefusesAManifestThatIsNone) {
  for (const char* text : {"", "[]", "{}", R"({"splits": 3})", R"({"splits": {"train": 3}})"}) {
    write_text(made_.manifest_path(), text);
    EXPECT_NE(complaint(), "") << text;
  }
}

TEST_F(VerifyData, KnowsTheTinyData) {
  MakeRequest request;
  request.size = "tiny";
  const DataFolder tiny = make_data(task_, folder_.path(), request);
  const Json report = verify_data(task_, tiny);
  for (const char* split : kSplits) EXPECT_EQ(report.at("splits").at(split).at("benchmark"), "tiny") << split;
}

TEST_F(VerifyData, RefusesOtherDataUnderTheTinySetsName) {
  MakeRequest request;
  request.size = "tiny";
  made_ = make_data(task_, folder_.path(), request);
  rewrite("val", [](Examples& examples) {  // the last example is gone, everything else fits
    examples.labels.pop_back();
    examples.offsets.pop_back();
    examples.tokens.resize(static_cast<size_t>(examples.offsets.back()));
  });
  EXPECT_TRUE(says(complaint(), "the known small set is"));
}

}  // namespace
}  // namespace lra
