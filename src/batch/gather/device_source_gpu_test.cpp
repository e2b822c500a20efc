#include <filesystem>

#include <gtest/gtest.h>

#include "batch/gather/device_source.h"
#include "data/split_writer.h"
#include "support/test_device.h"

namespace lra {
namespace {

constexpr int64_t kTailRow = 256;

// Examples whose lengths and tokens are told by their number: first document, then perhaps a second.
struct Kind {
  std::string name;
  int64_t examples, max_length, vocab_size;
  bool fixed_length = false, second = false, gaps = false;
};

Dataset make_data(const Kind& kind) {
  const auto document = [&](int64_t i, int64_t salt) {
    const int64_t n = kind.fixed_length ? kind.max_length : 1 + (i * 37 + salt) % kind.max_length;
    std::vector<uint16_t> row;
    for (int64_t t = 0; t < n; ++t) {
      row.push_back(static_cast<uint16_t>(1 + (i * 131 + t * 7 + salt) % (kind.vocab_size - 1)));
    }
    return row;
  };
  Examples examples;
  for (int64_t i = 0; i < kind.examples; ++i) {
    if (kind.second) {
      examples.add(document(i, 0), document(i, 11), i % 10);
    } else {
      examples.add(document(i, 0), i % 10);
    }
  }
  DatasetInfo info;
  info.task = "listops", info.version = "1", info.variant = "test", info.split = "train",
  info.source = "test";
  info.vocab_size = kind.vocab_size, info.num_classes = 10, info.max_length = kind.max_length,
  info.pad_id = 0;
  const fs::path path = fs::path(testing::TempDir()) / ("lra-gather-" + kind.name + ".safetensors");
  if (kind.gaps) {  // every third token is padding
    SplitWriter writer(path, info, Padding::kInside);
    for (int64_t i = 0; i < kind.examples; ++i) {
      std::vector<uint16_t> row = document(i, 0);
      for (size_t t = 2; t < row.size(); t += 3) row[t] = 0;
      writer.add(std::span<const uint16_t>(row), i % 10);
    }
    writer.commit();
  } else {
    write_dataset(path, examples, info);
  }
  Dataset data(path);
  fs::remove(path);  // it stays mapped
  return data;
}

std::vector<int64_t> numbers(const Tensor& t) {
  const Tensor host = t.cpu().to(torch::kLong).contiguous();
  return {host.const_data_ptr<int64_t>(), host.const_data_ptr<int64_t>() + host.numel()};
}

// The rows of one document, written out one after the other, and the tail.
void expect_document(const Sequences& got, const Dataset& data, const std::vector<int64_t>& examples,
                     bool second, const LoaderOptions& options, int64_t first_row) {
  std::vector<int64_t> tokens, slots, offsets = {0}, lengths;
  for (size_t r = 0; r < examples.size(); ++r) {
    const Tokens row = second ? data.tokens2(examples[r]) : data.tokens(examples[r]);
    if (options.layout.cls) tokens.push_back(options.layout.cls_id);
    for (int64_t t = 0; t < row.size(); ++t) tokens.push_back(row[t]);
    lengths.push_back(static_cast<int64_t>(tokens.size()) - offsets.back());
    const int64_t lead = options.layout.cls ? 1 : 0;
    for (int64_t t = 0; t < lengths.back(); ++t) {
      const bool moved = data.has_places() && t >= lead;
      const int64_t place = moved ? data.places(examples[r])[t - lead] + lead : t;
      slots.push_back(Rows::slot_of(first_row + static_cast<int64_t>(r), place));
    }
    offsets.push_back(static_cast<int64_t>(tokens.size()));
  }
  const auto T = static_cast<size_t>(got.rows.positions);
  ASSERT_LE(tokens.size(), T);
  const int64_t filled = offsets.back(), tail_row = std::min(kTailRow, got.rows.longest);
  tokens.resize(T, 0);
  slots.resize(T, Rows::slot_of(options.batch, 0));
  const auto tails = got.rows.offsets.numel() - static_cast<int64_t>(offsets.size());
  for (int64_t i = 1; i <= tails; ++i) offsets.push_back(std::min(got.rows.positions, filled + i * tail_row));
  EXPECT_EQ(offsets.back(), got.rows.positions);  // enough tail rows to reach the end of the buffer

  EXPECT_EQ(numbers(got.tokens), tokens);
  EXPECT_EQ(numbers(got.rows.slots), slots);
  EXPECT_EQ(numbers(got.rows.offsets), offsets);
  EXPECT_EQ(numbers(got.rows.lengths), lengths);
  EXPECT_EQ(got.rows.count, static_cast<int64_t>(examples.size()));
  EXPECT_LE(*std::max_element(lengths.begin(), lengths.end()), got.rows.longest);
}

class DeviceSourceGpuTest : public testing::Test {
 protected:
  static void expect_steps(const Kind& kind, const LoaderOptions& options) {
    const TestDevice test_device;
    const torch::Device device = test_device;
    const Dataset data = make_data(kind);
    const DeviceDataset on_device(data, device);
    const DeviceSource source(data, on_device, options);
    for (const int64_t step : {0, 1, 5, 1000}) {
      const Tensor counter = torch::full({1}, step, torch::TensorOptions(torch::kLong).device(device));
      for (int64_t m = 0; m < options.micro_batches; ++m) {
        const Batch got = source.gather(counter, m, source.capacity(step, m, false),
                                        kind.second ? source.capacity(step, m, true) : 0);
        const int64_t first = m * options.batch / options.micro_batches;
        const int64_t last = (m + 1) * options.batch / options.micro_batches;
        std::vector<int64_t> examples, labels;
        for (int64_t row = first; row < last; ++row) {
          examples.push_back(options.example(step, row, data.size()));
          labels.push_back(data.label(examples.back()));
        }
        EXPECT_EQ(numbers(got.labels), labels);
        EXPECT_EQ(got.rows, last - first);
        expect_document(got.input, data, examples, false, options, first);
        EXPECT_EQ(got.second.tokens.defined(), kind.second);
        if (kind.second) expect_document(got.second, data, examples, true, options, first);
      }
    }
  }
};

LoaderOptions options_of(int64_t batch, int64_t micro_batches, std::optional<int64_t> cls_id = {}) {
  LoaderOptions o;
  o.batch = batch, o.micro_batches = micro_batches, o.seed = 9;
  o.layout.cls = cls_id.has_value();
  o.layout.cls_id = cls_id.value_or(0);
  return o;
}

TEST_F(DeviceSourceGpuTest, GathersTheRowsOfTheStepInOneByteTokens) {
  expect_steps({"bytes", 50, 700, 200}, options_of(8, 1));
}

TEST_F(DeviceSourceGpuTest, NamesPositionsByTheirPlacesWherePaddingWasLeftOut) {
  expect_steps({"gaps", 50, 700, 200, true, false, true}, options_of(8, 2, 200));
}

TEST_F(DeviceSourceGpuTest, ShufflesBatchesWhenAsked) {
  LoaderOptions options = options_of(8, 2);
  options.shuffle_batches = true;
  expect_steps({"frozen", 50, 70, 200}, options);
}

TEST_F(DeviceSourceGpuTest, GathersTwoByteTokens) {
  expect_steps({"pairs", 50, 700, 1000}, options_of(8, 1));
}

TEST_F(DeviceSourceGpuTest, PutsTheClsPositionBeforeEveryRow) {
  expect_steps({"cls", 50, 700, 200}, options_of(8, 1, 200));
}

TEST_F(DeviceSourceGpuTest, MicroBatchesOfUnequalSizeKeepTheirPlaceInTheBatch) {
  expect_steps({"micro", 50, 300, 200}, options_of(8, 3, 200));
}

TEST_F(DeviceSourceGpuTest, GathersBothDocuments) {
  expect_steps({"second", 50, 300, 1000, false, true}, options_of(8, 2, 1000));
}

TEST_F(DeviceSourceGpuTest, HoldsBatchesLargerThanABlockAndThanTheData) {
  expect_steps({"large", 50, 9, 17}, options_of(1000, 1));
}

TEST_F(DeviceSourceGpuTest, OneRowOfOneExampleWorks) { expect_steps({"one", 1, 5, 17}, options_of(1, 1)); }

TEST_F(DeviceSourceGpuTest, RowsOfOneLengthFillTheirGridWithoutATail) {
  const Kind kind{"fixed", 20, 33, 200, true};
  const LoaderOptions options = options_of(5, 2, 200);
  expect_steps(kind, options);
  const Dataset data = make_data(kind);
  const TestDevice device;
  const DeviceDataset on_device(data, device);
  const DeviceSource source(data, on_device, options);
  const Tensor step = torch::zeros({1}, torch::TensorOptions(torch::kLong).device(device.device()));
  const Rows rows = source.gather(step, 1, source.capacity(0, 1, false), 0).input.rows;
  EXPECT_TRUE(rows.full);
  EXPECT_EQ(rows.pitch, 34);
  EXPECT_EQ(rows.positions, 3 * 34);
  EXPECT_EQ(rows.offsets.numel(), 4);
}

}  // namespace
}  // namespace lra
