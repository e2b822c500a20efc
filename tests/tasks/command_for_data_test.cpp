#include <gtest/gtest.h>

#include "data/dataset.h"
#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

TEST(CommandForData, SaysHowAVariantIsMadeOrImported) {
  EXPECT_EQ(command_for_data("listops", "default"), "lra data make listops");
  EXPECT_EQ(command_for_data("listops", "tiny"), "lra data make listops --size tiny");
  EXPECT_EQ(command_for_data("listops", "brackets-dropped"),
            "lra data make listops --option brackets=dropped");
  EXPECT_EQ(command_for_data("listops", "tiny-max_args-5-n1000-200-200-seed3"),
            "lra data make listops --size tiny --option max_args=5 --count 1000,200,200 --seed 3");
  EXPECT_EQ(command_for_data("text", "default"), "lra data import text FROM");
  EXPECT_EQ(command_for_data("text", "max_length-1000"),
            "lra data import text FROM --option max_length=1000");
  EXPECT_EQ(command_for_data("pathfinder", "imported"), "lra data import pathfinder FROM");
}

TEST(CommandForData, IsEmptyForANameOfSomebodysOwn) {
  EXPECT_EQ(command_for_data("listops", "mine"), "");
  EXPECT_EQ(command_for_data("listops", "max_args-many"), "");
  EXPECT_EQ(command_for_data("no-task", "default"), "");
}

TEST(CommandForData, StandsInTheErrorWhereThereIsNoData) {
  const TempDir folder;
  const DataFolder none{folder.path(), "text", "default"};
  const std::string text = error_text([&] { none.require(); });
  EXPECT_TRUE(says(text, "there is no data at"));
  EXPECT_TRUE(says(text, "lra data import text FROM --data " + folder.path().string()));
  fs::create_directories(none.path());
  EXPECT_TRUE(says(error_text([&] { none.require(); }), "is half-made: it has no manifest.json"));
}

}  // namespace
}  // namespace lra
