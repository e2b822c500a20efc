// What the host knows of batches that are made on the device.
#include "batch/gather/device_source.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "batch/gather/gather_arguments.h"

namespace lra {
namespace {

Dataset two_documents() {
  Examples examples;
  for (int64_t i = 0; i < 40; ++i) {
    examples.add(std::vector<uint16_t>(static_cast<size_t>(1 + i % 7), 3),
                 std::vector<uint16_t>(static_cast<size_t>(1 + i % 3), 4), i % 2);
  }
  DatasetInfo info;
  info.task = "listops", info.version = "1", info.variant = "test", info.split = "train",
  info.source = "test";
  info.vocab_size = 300, info.num_classes = 2, info.max_length = 7, info.pad_id = 0;
  const fs::path path = fs::path(testing::TempDir()) / "lra-device-source.safetensors";
  write_dataset(path, examples, info);
  Dataset data(path);
  fs::remove(path);  // it stays mapped
  return data;
}

TEST(DeviceSourceTest, CountsThePositionsOfBothDocuments) {
  const Dataset data = two_documents();
  const DeviceDataset on_device(data, torch::kCPU);
  LoaderOptions options;
  options.batch = 9, options.micro_batches = 2, options.seed = 4;
  options.layout.cls = true;
  const DeviceSource source(data, on_device, options);
  int64_t first = 0, second = 0;
  for (int64_t row = 4; row < 9; ++row) {  // the second micro-batch
    const int64_t i = example_at(6 * 9 + row, 40, 4);
    first += data.length(i) + 1;
    second += data.tokens2(i).size() + 1;
  }
  EXPECT_EQ(source.positions(6, 1, false), first);
  EXPECT_EQ(source.positions(6, 1, true), second);
  EXPECT_EQ(source.real_tokens(6, 1), first + second - 2 * 5);
  EXPECT_EQ(source.capacity(6, 1, false), 128);
}

TEST(DeviceSourceTest, TheUploadHoldsTokensOffsetsAndLabels) {
  const Dataset data = two_documents();
  const DeviceDataset on_device(data, torch::kCPU);
  EXPECT_EQ(on_device.bytes(), data.total_tokens() + 8 * (2 * 41 + 40));
}

TEST(DeviceSourceTest, PaddedRowsAreRefused) {
  const Dataset data = two_documents();
  const DeviceDataset on_device(data, torch::kCPU);
  LoaderOptions options;
  options.layout.packed = false;
  EXPECT_THROW(DeviceSource(data, on_device, options), c10::Error);
}

}  // namespace
}  // namespace lra
