#include "train/config_keys.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "models/model.h"
#include "support/error_text.h"

namespace lra {
namespace {

// A key that was added or says something new of itself: `make docs`.
TEST(ConfigKeysTest, ThePageInTheDocumentationIsWhatTheProgramPrints) {
  EXPECT_EQ(config_page(), read_text(fs::path(LRA_SOURCE_DIR) / "docs" / "configuration.md"));
}

TEST(ConfigKeysTest, EveryKeyStandsOnceWithItsDefaultRangeAndMeaning) {
  const std::string text = config_keys_text("local");
  EXPECT_NE(
      text.find("train.warmup = 1000\n    updates over which the rate rises linearly [integer: from 0]\n"),
      text.npos)
      << text;
  EXPECT_NE(text.find("local.block = "), text.npos);
  EXPECT_EQ(text.find("bigbird."), text.npos);
  std::set<std::string> keys;
  for (const Json& key : config_keys_json("")) EXPECT_TRUE(keys.insert(key["key"]).second) << key["key"];
  for (const char* key : {"seed", "model.layers", "train.steps", "bigbird.block", "published.value"})
    EXPECT_TRUE(keys.contains(key)) << key;
}

TEST(ConfigKeysTest, AnUnknownModelGetsTheNearestName) {
  EXPECT_NE(error_text([] { config_keys_text("transformr"); }).find("Did you mean 'transformer'?"),
            std::string::npos);
}

}  // namespace
}  // namespace lra
