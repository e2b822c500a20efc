#include "tasks/listops_tree.h"

#include <algorithm>
#include <numeric>
#include <sstream>

#include <gtest/gtest.h>

#include "base/philox.h"
#include "support/error_text.h"

namespace lra::listops {
namespace {

const Place kHere{"here", "line", 1};

std::vector<uint16_t> parse(std::string_view text) {
  std::vector<uint16_t> tokens;
  parse_tree(text, kHere, tokens);
  return tokens;
}
int value_of(std::string_view text) { return Evaluator().evaluate(parse(text), kHere).value; }
std::string complaint(std::string_view text) {
  return error_text([&] { parse(text); });
}

// An independent reference that follows the definition word by word, by recursion over the text without
// parentheses.
int reference_value(std::istringstream& words) {
  std::string word;
  words >> word;
  if (word[0] != '[') return word[0] - '0';
  std::vector<int> arguments;
  while (words >> std::ws && words.peek() != ']') arguments.push_back(reference_value(words));
  words.get();
  std::sort(arguments.begin(), arguments.end());
  const size_t n = arguments.size();
  if (word == "[MIN") return arguments.front();
  if (word == "[MAX") return arguments.back();
  if (word == "[SM") return std::accumulate(arguments.begin(), arguments.end(), 0) % 10;
  return n % 2 == 1 ? arguments[n / 2] : (arguments[n / 2 - 1] + arguments[n / 2]) / 2;
}

std::string random_text(Rng& rng, int level) {
  if (level > 6 || (level > 1 && rng.below(3) != 0)) return std::to_string(rng.below(10));
  std::string text = "[" + std::string(kOperatorNames[rng.below(4)]);
  for (uint32_t left = 1 + rng.below(6); left > 0; --left) text += " " + random_text(rng, level + 1);
  return text + " ]";
}

TEST(ListOpsEvaluator, AgreesWithARecursiveReferenceOnRandomTrees) {
  for (uint64_t i = 0; i < 2000; ++i) {
    Rng rng(5, stream_id("test.trees"), i);
    const std::string text = random_text(rng, 1);
    std::istringstream words(text);
    ASSERT_EQ(value_of(text), reference_value(words)) << text;
  }
}

TEST(ListOpsEvaluator, TakesTheFloorOfTheMeanForTheMedianOfAnEvenCount) {
  EXPECT_EQ(value_of("[MED 1 2 ]"), 1);
  EXPECT_EQ(value_of("[MED 9 0 4 7 ]"), 5);
  EXPECT_EQ(value_of("[MED 8 8 3 ]"), 8);
  EXPECT_EQ(value_of("[MED 6 ]"), 6);
}
TEST(ListOpsEvaluator, AddsModuloTen) { EXPECT_EQ(value_of("[SM 9 9 9 ]"), 7); }
TEST(ListOpsEvaluator, FindsTheSmallestAndTheLargest) {
  EXPECT_EQ(value_of("[MIN 4 2 9 ]"), 2);
  EXPECT_EQ(value_of("[MAX 4 2 9 ]"), 9);
}
// The example of the ListOps paper: [MAX 2 9 [MIN 4 7 ] 0 ] is 9.
TEST(ListOpsEvaluator, EvaluatesTheExampleOfThePaper) { EXPECT_EQ(value_of("[MAX 2 9 [MIN 4 7 ] 0 ]"), 9); }

TEST(ListOpsEvaluator, MeasuresTheShapeOfATree) {
  const Evaluation found = Evaluator().evaluate(parse("[MAX 2 9 [MIN 4 [SM 1 2 ] ] 0 ]"), kHere);
  EXPECT_EQ(found.deepest, 4);
  EXPECT_EQ(found.root_arity, 4);
  EXPECT_EQ(found.operators, 3);
}

TEST(ListOpsEvaluator, ReplacesOperatorsAtALevelByTheirMode) {
  const auto tree = parse("[MAX 2 [MED 5 5 [MIN 7 7 ] ] ]");
  Evaluator evaluator;
  EXPECT_EQ(evaluator.evaluate(tree, kHere, 1).value, 9);  // the root itself
  EXPECT_EQ(evaluator.evaluate(tree, kHere, 2).value, 4);  // max(2, MED -> 4)
  EXPECT_EQ(evaluator.evaluate(tree, kHere, 3).value, 5);  // median(5, 5, MIN -> 0)
  EXPECT_EQ(evaluator.evaluate(tree, kHere, 4).value, 5);
}

TEST(ListOpsEvaluator, EvaluatesAHundredThousandLevels) {
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 100'000; ++i) tokens.insert(tokens.end(), {kSm, kDigit0 + 1});
  tokens.push_back(kDigit0 + 3);
  tokens.insert(tokens.end(), 100'000, kClose);
  EXPECT_EQ(Evaluator().evaluate(tokens, kHere).value, 3);  // 100 000 ones and a three
  const std::string text = print_tree(tokens, kHere);
  EXPECT_EQ(parse(text), tokens);
  EXPECT_FALSE(draw_tree(tokens, kHere).empty());
}

TEST(ListOpsParser, ReadsThePublishedForm) {
  EXPECT_EQ(parse("( ( ( [MAX 4 ) ( ( ( [MIN 2 ) 3 ) ] ) ) ] )"),
            (std::vector<uint16_t>{kMax, 5, kMin, 3, 4, kClose, kClose}));
}
TEST(ListOpsParser, HasTheFixedTableOfIds) {
  EXPECT_EQ(parse("[MIN 0 1 2 3 4 5 6 7 8 9 [MAX 0 ] [MED 0 ] [SM 0 ] ]"),
            (std::vector<uint16_t>{11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 1, 15, 13, 1, 15, 14, 1, 15, 15}));
}
TEST(ListOpsParser, ReadsABareDigit) { EXPECT_EQ(value_of("7"), 7); }

TEST(ListOpsParser, RefusesWordsItDoesNotKnow) {
  EXPECT_TRUE(says(complaint("[FIRST 1 2 ]"), "here line 1: '[FIRST' at column 1 is no token"));
  EXPECT_TRUE(says(complaint("[MIN 1 12 ]"), "'12' at column 8"));
}
TEST(ListOpsParser, RefusesWhatIsNoTree) {
  EXPECT_TRUE(says(complaint(""), "no tokens"));
  EXPECT_TRUE(says(complaint("[MIN 1 2"), "do not close"));
  EXPECT_TRUE(says(complaint("]"), "closes nothing"));
  EXPECT_TRUE(says(complaint("[MIN ]"), "without arguments"));
  EXPECT_TRUE(says(complaint("1 2"), "more after the end of the tree at token 2 of 2"));
  EXPECT_TRUE(says(complaint("[MIN 1 ] ]"), "more after the end"));
}
TEST(ListOpsParser, RefusesParenthesesThatDoNotFit) {
  EXPECT_TRUE(says(complaint("( ( [MAX 4 ) 7 ) ] )"), "parentheses do not fit the brackets at column 5"));
  EXPECT_TRUE(says(complaint("( ( ( [MAX 4 ) 7 ) ] ) )"), "parentheses do not fit"));
  EXPECT_TRUE(says(complaint("( ( ( [MAX 4 ) 7 ) ]"), "parentheses do not fit"));
}

TEST(ListOpsPrinter, WritesThePublishedForm) {
  EXPECT_EQ(print_tree(parse("[MAX 4 [MIN 2 3 ] ]"), kHere), "( ( ( [MAX 4 ) ( ( ( [MIN 2 ) 3 ) ] ) ) ] )");
}
TEST(ListOpsPrinter, WritesThreeWordsATokenLessTwo) {
  for (uint64_t i = 0; i < 200; ++i) {
    Rng rng(6, stream_id("test.trees"), i);
    const auto tokens = parse(random_text(rng, 1));
    const std::string text = print_tree(tokens, kHere);
    EXPECT_EQ(std::count(text.begin(), text.end(), ' ') + 1, 3 * static_cast<int64_t>(tokens.size()) - 2);
  }
}
TEST(ListOpsPrinter, IsReadBackAsTheSameTree) {
  for (uint64_t i = 0; i < 200; ++i) {
    Rng rng(7, stream_id("test.trees"), i);
    const auto tokens = parse(random_text(rng, 1));
    EXPECT_EQ(parse(print_tree(tokens, kHere)), tokens);
  }
}
TEST(ListOpsPrinter, DrawsEveryOperatorWithItsValue) {
  EXPECT_EQ(draw_tree(parse("[MAX 4 1 [MIN 2 3 ] [SM 9 [MED 1 2 ] ] 0 ]"), kHere),
            "[MAX = 4\n"
            "  4 1\n"
            "  [MIN 2 3 ] = 2\n"
            "  [SM = 0\n"
            "    9\n"
            "    [MED 1 2 ] = 1\n"
            "  ]\n"
            "  0\n"
            "]\n");
}

}  // namespace
}  // namespace lra::listops
