#include "batch/loader.h"

#include <set>

#include <gtest/gtest.h>

#include "data/split_writer.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

Dataset numbered(const TempDir& dir, int64_t n) {
  Examples examples;
  for (int64_t i = 0; i < n; ++i) {
    const std::vector<uint16_t> row(static_cast<size_t>(1 + i % 7), static_cast<uint16_t>(1 + i % 15));
    examples.add(row, i % 10);
  }
  DatasetInfo info;
  info.task = "listops", info.version = "1", info.variant = "test", info.split = "train",
  info.source = "test";
  info.vocab_size = 17, info.num_classes = 10, info.max_length = 7, info.pad_id = 0;
  write_dataset(dir.path() / "train.safetensors", examples, info);
  return Dataset(dir.path() / "train.safetensors");
}

TEST(ShuffleTest, AnEpochVisitsEveryExampleOnce) {
  for (const int64_t n : {1, 2, 7, 64, 1000}) {
    std::set<int64_t> seen;
    for (int64_t j = 3 * n; j < 4 * n; ++j) seen.insert(example_at(j, n, 9));
    EXPECT_EQ(static_cast<int64_t>(seen.size()), n);
  }
}

TEST(ShuffleTest, EpochsAndSeedsDiffer) {
  int same_epoch = 0, same_seed = 0;
  for (int64_t j = 0; j < 1000; ++j) {
    same_epoch += example_at(j, 1000, 1) == example_at(j + 1000, 1000, 1);
    same_seed += example_at(j, 1000, 1) == example_at(j, 1000, 2);
  }
  EXPECT_LT(same_epoch, 10);
  EXPECT_LT(same_seed, 10);
}

TEST(ShuffleTest, FrozenBatchesKeepTheirCompositionAndCoverAnEpoch) {
  constexpr int64_t n = 103, batch = 10;
  std::set<int64_t> seen;
  bool in_order = true;
  for (int64_t step = 0; step < n / batch; ++step) {
    const int64_t first = example_at(step * batch, n, 3, batch);
    in_order = in_order && first == step * batch;
    for (int64_t r = 0; r < batch; ++r) {
      EXPECT_EQ(example_at(step * batch + r, n, 3, batch), (first + r) % n);
      seen.insert((first + r) % n);
    }
  }
  EXPECT_EQ(seen.size(), 100u) << "what is left over opens the next epoch";
  EXPECT_TRUE(seen.count(99) == 1 && seen.count(100) == 0);
  EXPECT_FALSE(in_order);
}

// Pixels 0 8 0 5 and 7 0 0 0, the black ones left out.
Dataset with_black_pixels(const TempDir& dir) {
  DatasetInfo info;
  info.task = "image", info.version = "1", info.variant = "test", info.split = "train", info.source = "test";
  info.vocab_size = 256, info.num_classes = 2, info.max_length = 4, info.pad_id = 0;
  SplitWriter writer(dir / "train.safetensors", info, Padding::kInside);
  const std::vector<uint16_t> one = {0, 8, 0, 5}, two = {7, 0, 0, 0};
  writer.add(std::span<const uint16_t>(one), 1);
  writer.add(std::span<const uint16_t>(two), 0);
  writer.commit();
  return Dataset(dir / "train.safetensors");
}

TEST(CollateTest, NamesPositionsByTheirPlacesWherePaddingWasLeftOut) {
  const TempDir dir;
  const Dataset data = with_black_pixels(dir);
  const Batch batch = collate(data, std::vector<int64_t>{0, 1}, {true, true, 256}, 4);
  EXPECT_TRUE(torch::equal(batch.input.tokens, torch::tensor({256, 8, 5, 256, 7}, torch::kInt)));
  EXPECT_TRUE(batch.input.rows.gaps);
  std::vector<int64_t> expected;
  for (const auto& [row, place] : {std::pair(4, 0), {4, 2}, {4, 4}, {5, 0}, {5, 1}}) {
    expected.push_back(Rows::slot_of(row, place));
  }
  EXPECT_TRUE(torch::equal(batch.input.rows.slots, torch::tensor(expected)));
}

TEST(CollateTest, FillsRowsUpWherePaddingIsKept) {
  const TempDir dir;
  const Dataset data = numbered(dir, 20);
  const Batch batch = collate(data, std::vector<int64_t>{0, 2}, {true, true, 17, 7, 0});
  EXPECT_TRUE(torch::equal(batch.input.tokens,
                           torch::tensor({17, 1, 0, 0, 0, 0, 0, 0, 17, 3, 3, 3, 0, 0, 0, 0}, torch::kInt)));
  EXPECT_TRUE(batch.input.rows.full);
  EXPECT_EQ(batch.real_tokens, 4);
}

TEST(CollateTest, PutsBlackPixelsBackWherePaddingIsKept) {
  const TempDir dir;
  const Dataset data = with_black_pixels(dir);
  const Batch batch = collate(data, std::vector<int64_t>{0, 1}, {true, true, 256, 4, 0}, 4);
  EXPECT_TRUE(
      torch::equal(batch.input.tokens, torch::tensor({256, 0, 8, 0, 5, 256, 7, 0, 0, 0}, torch::kInt)));
  EXPECT_FALSE(batch.input.rows.gaps);
  EXPECT_EQ(batch.input.rows.slots[4].item<int64_t>(), Rows::slot_of(4, 4));
}

TEST(CollateTest, PacksRowsEndToEndWithClsFirst) {
  const TempDir dir;
  const Dataset data = numbered(dir, 20);
  const Batch batch = collate(data, std::vector<int64_t>{0, 6, 2}, {true, true, 17}, 4);
  const Rows& rows = batch.input.rows;
  EXPECT_TRUE(torch::equal(batch.input.tokens,
                           torch::tensor({17, 1, 17, 7, 7, 7, 7, 7, 7, 7, 17, 3, 3, 3}, torch::kInt)));
  EXPECT_TRUE(torch::equal(rows.offsets, torch::tensor({0, 2, 10, 14}, torch::kInt)));
  EXPECT_TRUE(torch::equal(rows.lengths, torch::tensor({2, 8, 4}, torch::kInt)));
  EXPECT_EQ(rows.slots[11].item<int64_t>(), Rows::slot_of(6, 1));
  EXPECT_EQ(rows.longest, 8);
  EXPECT_EQ(rows.pitch, 0);
  EXPECT_EQ(batch.real_tokens, 11);
}

TEST(CollateTest, PadsToTheLongestRow) {
  const TempDir dir;
  const Dataset data = numbered(dir, 20);
  const Batch batch = collate(data, std::vector<int64_t>{0, 2}, {false, false, 0});
  EXPECT_TRUE(torch::equal(batch.input.tokens, torch::tensor({1, 0, 0, 3, 3, 3}, torch::kInt)));
  EXPECT_TRUE(torch::equal(batch.input.rows.lengths, torch::tensor({1, 3}, torch::kInt)));
  EXPECT_EQ(batch.input.rows.pitch, 3);
  EXPECT_FALSE(batch.input.rows.full);
}

TEST(CollateTest, RowsOfOneLengthAreAFullGrid) {
  const Rows rows = lay_out({5, 5, 5}, true);
  EXPECT_TRUE(rows.full);
  EXPECT_EQ(rows.pitch, 5);
  EXPECT_EQ(rows.positions, 15);
}

TEST(LoaderTest, GivesTheBatchesOfEachStepInOrderFromAnyStepOn) {
  const TempDir dir;
  const Dataset data = numbered(dir, 50);
  const LoaderOptions options{8, 2, 3, {}};
  Loader loader(data, options, 5);
  for (int64_t step = 5; step < 15; ++step) {
    const auto got = loader.next(), expected = Loader::make(data, options, step);
    ASSERT_EQ(got.size(), 2u);
    for (size_t m = 0; m < 2; ++m) {
      EXPECT_TRUE(torch::equal(got[m].input.tokens, expected[m].input.tokens));
      EXPECT_TRUE(torch::equal(got[m].labels, expected[m].labels));
      EXPECT_EQ(got[m].input.rows.slots[0].item<int64_t>(), Rows::slot_of(static_cast<int64_t>(4 * m), 0));
    }
  }
}

TEST(EvaluationBatchesTest, HoldEveryExampleOnce) {
  const TempDir dir;
  const Dataset data = numbered(dir, 53);
  std::multiset<int64_t> seen;
  for (const auto& batch : evaluation_batches(data, 8)) seen.insert(batch.begin(), batch.end());
  EXPECT_EQ(seen.size(), 53u);
  EXPECT_EQ(std::set<int64_t>(seen.begin(), seen.end()).size(), 53u);
}

}  // namespace
}  // namespace lra
