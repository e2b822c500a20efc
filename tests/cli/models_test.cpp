#include <gtest/gtest.h>

#include "base/file.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

class ModelsTest : public testing::Test {
 protected:
  Outcome lra(const std::vector<std::string>& arguments) const { return run_lra(arguments, dir_.path()); }
  TempDir dir_;
};

// A model that was added or says something new of itself: `make docs`.
TEST_F(ModelsTest, ThePageInTheDocumentationIsWhatTheProgramPrints) {
  const Outcome o = lra({"models", "--markdown"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(o.out, read_text(fs::path(LRA_SOURCE_DIR) / "docs" / "models.md"));
}

TEST_F(ModelsTest, ACardSaysPaperFormulaCostAndOptions) {
  const Outcome o = lra({"models", "performer"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  for (const char* part :
       {"Choromanski", "exp(ω_m·c x", "O(L·M)", "causal form  yes", "performer.features"}) {
    EXPECT_NE(o.out.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace lra
