// The three sources must train alike: the same examples at every step, however they reach the device.
#include <gtest/gtest.h>

#include "base/log.h"
#include "batch/sources.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "support/test_device.h"
#include "tasks/task.h"
#include "train/step_engine.h"

namespace lra {
namespace {

using MakeSource = std::function<std::unique_ptr<BatchSource>(const LoaderOptions&)>;

// Losses of the first steps, fed by a source on `device`.
std::vector<double> losses_of(const char* model, const EncoderConfig& c, const torch::Device& device,
                              LoaderOptions options, int steps, const MakeSource& make_source_of) {
  auto encoder = small_encoder(find_model(model), c);
  TrainState state = make_train_state(*encoder, device, torch::kFloat, torch::kFloat);
  auto engine = make_engine(EngineKind::kGraph, *encoder, state, {}, {"constant", 1e-3, 0, 100}, 4);
  options.layout = encoder->layout();
  const std::unique_ptr<BatchSource> source = make_source_of(options);
  std::vector<double> out;
  for (int i = 0; i < steps; ++i) {
    state.sums.zero_();
    engine->step(*source);
    out.push_back(state.sums[0].item<double>());
  }
  return out;
}

void expect_near(const std::vector<double>& ours, const std::vector<double>& expected) {
  ASSERT_EQ(ours.size(), expected.size());
  for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], 1e-3) << "step " << i;
}

// On the emulator softmax attention is the CPU's, which knows no positions behind the last row.
const char* model_for(const TestDevice& device) { return device.emulated() ? "linear" : "transformer"; }

class SourcesGpuTest : public testing::Test {
 protected:
  void SetUp() override {
    Examples examples;
    Rng rng(3, stream_id("test"));
    for (int64_t i = 0; i < 100; ++i) {
      std::vector<uint16_t> row(1 + rng.below(60));
      for (auto& token : row) token = static_cast<uint16_t>(1 + rng.below(16));
      examples.add(row, static_cast<int64_t>(rng.below(10)));
    }
    DatasetInfo info;
    info.task = "listops", info.version = "1", info.variant = "test", info.split = "train",
    info.source = "test";
    info.vocab_size = 17, info.num_classes = 10, info.max_length = 64, info.pad_id = 0;
    write_dataset(dir_.path() / "train.safetensors", examples, info);
    data_.emplace(dir_.path() / "train.safetensors");
  }

  std::vector<double> losses(const MakeSource& make_source_of) {
    EncoderConfig c = small_config();
    c.attention_dropout = 0;
    return device_.run([&] {
      return losses_of(model_for(device_), c, device_, {.batch = 12, .micro_batches = 2, .seed = 5}, 10,
                       make_source_of);
    });
  }

  const TestDevice device_;
  TempDir dir_;
  std::optional<Dataset> data_;
};

TEST_F(SourcesGpuTest, GatheredOnTheDeviceGiveTheLossesOfTheHost) {
  const auto host =
      losses([&](const LoaderOptions& o) { return std::make_unique<LoaderSource>(*data_, o, 0, device_); });
  const auto resident =
      losses([&](const LoaderOptions& o) { return std::make_unique<ResidentSource>(*data_, o, device_); });
  expect_near(resident, host);
}

TEST_F(SourcesGpuTest, ThroughBuffersOfFixedSizeGiveTheLossesOfTheHost) {
  if (device_.emulated()) GTEST_SKIP() << load_cuda().why;
  const auto host =
      losses([&](const LoaderOptions& o) { return std::make_unique<LoaderSource>(*data_, o, 0, device_); });
  const auto staged =
      losses([&](const LoaderOptions& o) { return std::make_unique<StagedSource>(*data_, o, 0, device_); });
  expect_near(staged, host);
}

class TaskSourcesGpuTest : public testing::TestWithParam<std::string> {};

// Whatever a task's examples are like: one document or two, of one length or of many.
TEST_P(TaskSourcesGpuTest, TrainsFromTheDevicesMemoryAsOnTheCpu) {
  set_log_level(LogLevel::kQuiet);
  const TempDir folder;
  MakeRequest request;
  request.size = "tiny";
  request.counts = SplitCounts{20, 4, 4};
  const Dataset data = make_data(find_task(GetParam()), folder.path(), request).open("train");
  const DatasetInfo& info = data.info();
  EncoderConfig c = small_config();
  c.attention_dropout = 0;
  c.vocab_size = info.vocab_size, c.num_classes = info.num_classes, c.max_length = info.max_length;
  c.two_inputs = data.has_second(), c.pad_id = info.pad_id;
  const TestDevice device;
  const LoaderOptions options{.batch = 3, .seed = 5};
  const auto cpu = losses_of(model_for(device), c, torch::kCPU, options, 3, [&](const LoaderOptions& o) {
    return std::make_unique<LoaderSource>(data, o, 0, torch::kCPU);
  });
  const auto resident = device.run([&] {
    return losses_of(model_for(device), c, device, options, 3, [&](const LoaderOptions& o) {
      return std::make_unique<ResidentSource>(data, o, device);
    });
  });
  expect_near(resident, cpu);
}

INSTANTIATE_TEST_SUITE_P(Registry, TaskSourcesGpuTest, testing::ValuesIn(Registry<Task>::instance().names()),
                         [](const auto& entry) { return entry.param; });

}  // namespace
}  // namespace lra
