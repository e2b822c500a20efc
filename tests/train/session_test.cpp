// What a run would be, said before its data is there.
#include "train/session.h"

#include <gtest/gtest.h>

#include "support/temp_dir.h"
#include "train/trainer.h"

namespace lra {
namespace {

Json described(const std::string& model, const std::string& task, const std::string& protocol,
               std::vector<std::string> set = {}) {
  const TempDir nowhere;
  ConfigRequest r;
  r.model = model, r.task = task, r.protocol = protocol, r.set = std::move(set), r.device = "cpu";
  RunConfig config = resolve_config(r);
  return describe_run(config, nowhere.path());
}

// 19,518,738: the released code's, at the 1000 bytes that the preset's variant names (PresetsTest).
TEST(SessionTest, AVariantThatNamesItsLengthIsCountedAtThatLength) {
  const Json d = described("synthesizer", "text", "lra-code");
  EXPECT_EQ(d["max_length"], 1000);
  EXPECT_EQ(d["sizes_from"], "variant");
  EXPECT_EQ(d["parameters"], 19'518'738);
}

TEST(SessionTest, SmallVariantsAndThoseWithCountsAndSeedsAreUnderstood) {
  const auto length = [](const std::string& variant) {
    const Json d = described("transformer", "listops", "lra", {"task.variant=" + variant});
    return d["sizes_from"] == "variant" ? d["max_length"].get<int64_t>() : -1;
  };
  EXPECT_EQ(length("default"), 2000);
  EXPECT_EQ(length("imported"), 2000);
  EXPECT_EQ(length("tiny"), 24);
  EXPECT_EQ(length("max_length-700-n1000-20-20-seed3"), 700);
  EXPECT_EQ(length("tiny-max_args-3-seed3"), 24);
  EXPECT_EQ(length("seed7"), 2000);
  for (const char* own : {"mine", "max_length-many", "max_length-700-mine", "tiny2", "seed7-max_length-700"})
    EXPECT_EQ(length(own), -1) << own;
  EXPECT_EQ(described("transformer", "listops", "lra", {"task.variant=mine"})["sizes_from"], "task");
}

TEST(SessionTest, UnfusedAttentionNeedsTheSquareOfTheLength) {
  const auto activations = [](const std::string& form, int64_t batch) {
    const Json d = described("transformer", "listops", "lra-code",
                             {"transformer.attention=" + form, "train.batch=" + std::to_string(batch)});
    return d["estimated_memory_bytes"]["activations"].get<int64_t>();
  };
  // Scores and weights of 4 layers and three of one on its way back, of 8 heads in 4 bytes, 2001 positions.
  EXPECT_EQ(activations("unfused", 2) - activations("fused", 2), 11LL * 2 * 8 * 4 * 2001 * 2001);
}

TEST(SessionTest, TheConfigurationIsAnObjectAndDeparturesStandBesideIt) {
  const Json d = described("transformer", "listops", "lra", {"model.layers=2"});
  EXPECT_EQ(d["config"]["model"]["layers"], 2);
  EXPECT_EQ(d["config"]["device"], "cpu");
  EXPECT_EQ(d["departures"].dump(), R"({"model.layers":[6,2]})");
}

}  // namespace
}  // namespace lra
