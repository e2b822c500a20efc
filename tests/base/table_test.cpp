#include "base/table.h"

#include <gtest/gtest.h>

namespace lra {
namespace {

TEST(FormatTable, AlignsNumbersToTheRightAndTextToTheLeft) {
  EXPECT_EQ(format_table({"model", "accuracy", "note"},
                         {{"transformer", "36.4", "ok"}, {"linear", "9.1", "better"}}),
            "model        accuracy  note\n"
            "transformer      36.4  ok\n"
            "linear            9.1  better\n");
}

TEST(FormatTable, CountsCharactersNotBytes) {
  EXPECT_EQ(format_table({"a", "b"}, {{"é", "x"}, {"ee", "y"}}),
            "a   b\n"
            "é   x\n"
            "ee  y\n");
}

TEST(FormatTable, ShowsTheHeaderAloneWithoutRows) {
  EXPECT_EQ(format_table({"task", "variant"}, {}), "task  variant\n");
}

}  // namespace
}  // namespace lra
