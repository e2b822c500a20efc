// The three sources must train alike: the same examples at every step, however they reach the device.
#include <gtest/gtest.h>

#include "batch/sources.h"
#include "support/models.h"
#include "support/temp_dir.h"
#include "support/test_device.h"
#include "train/step_engine.h"

namespace lra {
namespace {

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

  // Losses of ten steps.
  template <class Make>
  std::vector<double> losses(const Make& make_source_of) {
    return device_.run([&] { return losses_there(make_source_of); });
  }

  static void expect_near(const std::vector<double>& ours, const std::vector<double>& expected) {
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], 1e-3) << "step " << i;
  }

  const TestDevice device_;
  TempDir dir_;
  std::optional<Dataset> data_;

 private:
  template <class Make>
  std::vector<double> losses_there(const Make& make_source_of) {
    EncoderConfig c = small_config();
    c.attention_dropout = 0;
    // On the emulator softmax attention is the CPU's, which knows no positions behind the last row.
    auto encoder = small_encoder(find_model(device_.emulated() ? "linear" : "transformer"), c);
    TrainState state = make_train_state(*encoder, device_, torch::kFloat, torch::kFloat);
    auto engine = make_engine(EngineKind::kGraph, *encoder, state, {}, {"constant", 1e-3, 0, 100}, 4);
    const std::unique_ptr<BatchSource> source = make_source_of(LoaderOptions{12, 2, 5, encoder->layout()});
    std::vector<double> out;
    for (int i = 0; i < 10; ++i) {
      state.sums.zero_();
      engine->step(*source);
      out.push_back(state.sums[0].item<double>());
    }
    return out;
  }
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

}  // namespace
}  // namespace lra
