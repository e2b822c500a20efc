#include "base/philox.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace lra {
namespace {

std::vector<uint32_t> words(uint64_t key, uint64_t high, uint64_t low) {
  const PhiloxBlock block = philox(key, high, low);
  return {std::begin(block.word), std::end(block.word)};
}

// The three known answers for philox4x32-10 in Random123's kat_vectors. Counter words are listed there from
// the lowest on.
TEST(Philox, EqualsTheKnownAnswersOfRandom123) {
  EXPECT_EQ(words(0, 0, 0), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(words(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Rng, GivesTheBlocksOfItsSequenceInOrder) {
  Rng rng(7, 11, 3);
  std::vector<uint32_t> drawn, expected;
  for (int i = 0; i < 8; ++i) drawn.push_back(rng.next());
  for (uint64_t block = 0; block < 2; ++block) {
    for (const uint32_t word : words(7, 11, (uint64_t{3} << 32) + block)) expected.push_back(word);
  }
  EXPECT_EQ(drawn, expected);
}

TEST(Rng, DrawsEveryValueBelowABoundAboutEquallyOften) {
  Rng rng(1, 2);
  std::vector<int> counts(7);
  for (int i = 0; i < 70'000; ++i) ++counts.at(rng.below(7));
  // Ten thousand each; six standard deviations are 556.
  EXPECT_GT(*std::min_element(counts.begin(), counts.end()), 9'444);
  EXPECT_LT(*std::max_element(counts.begin(), counts.end()), 10'556);
}

TEST(Permuted, VisitsEveryNumberOnce) {
  for (const uint64_t n : {1, 2, 3, 5, 64, 1000}) {
    std::vector<int> visits(n);
    for (uint64_t i = 0; i < n; ++i) ++visits.at(permuted(i, n, 42, 1));
    EXPECT_EQ(visits, std::vector<int>(n, 1)) << n;
  }
}

}  // namespace
}  // namespace lra
