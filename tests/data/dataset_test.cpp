#include "data/dataset.h"

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

DatasetInfo sample_info() {
  DatasetInfo info;
  info.task = "sample";
  info.version = "1";
  info.variant = "default";
  info.split = "train";
  info.options = R"({"a":1})";
  info.source = "a test";
  info.seed = ~uint64_t{0};
  info.vocab_size = 20;
  info.num_classes = 3;
  info.max_length = 4;
  info.pad_id = 0;
  return info;
}

Examples sample_examples() {
  Examples examples;
  examples.add(std::vector<uint16_t>{1, 2, 3}, 0);
  examples.add(std::vector<uint16_t>{19}, 2);
  return examples;
}

// Writes the sample with the tensors or metadata changed and says what reading complains about.
struct Damage {
  std::vector<uint8_t> tokens = {1, 2, 3, 19};
  std::vector<int64_t> offsets = {0, 3, 4}, labels = {0, 2};
  Metadata metadata = to_metadata(sample_info());
  DType offsets_type = DType::kI64;

  std::string complaint() const {
    const TempDir folder;
    const auto bytes = [](const auto& v) {
      return std::string_view(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(v[0]));
    };
    SafetensorsWriter writer(folder / "train.safetensors", metadata);
    writer.add("tokens", DType::kU8, {static_cast<int64_t>(tokens.size())}, bytes(tokens));
    writer.add("offsets", offsets_type, {static_cast<int64_t>(offsets.size())}, bytes(offsets));
    writer.add("labels", DType::kI64, {static_cast<int64_t>(labels.size())}, bytes(labels));
    writer.commit();
    return error_text([&] { Dataset(folder / "train.safetensors").check_contents(); });
  }
};

TEST(Dataset, GivesBackWhatWasWritten) {
  const TempDir folder;
  DatasetInfo info = sample_info();
  info.sha256 = write_dataset(folder / "train.safetensors", sample_examples(), info);
  const Dataset data(folder / "train.safetensors");
  EXPECT_EQ(data.info(), info);
  ASSERT_EQ(data.size(), 2);
  EXPECT_EQ(data.length(0), 3);
  EXPECT_EQ(data.tokens(0)[2], 3);
  EXPECT_EQ(data.tokens(1)[0], 19);
  EXPECT_EQ(data.label(1), 2);
  EXPECT_FALSE(data.has_second());
}

// sha256 of tokens 01 02 03 13, offsets 0 3 4 and labels 0 2 as little-endian i64, computed with Python's
// hashlib.
TEST(Dataset, HashesTokensThenOffsetsThenLabels) {
  const TempDir folder;
  EXPECT_EQ(write_dataset(folder / "a.safetensors", sample_examples(), sample_info()),
            "0151cdd5096bc47cd6f521e2124cd646ea5c328378d1e8b450973d1c260dc172");
  EXPECT_EQ(Dataset(folder / "a.safetensors").compute_sha256(),
            Dataset(folder / "a.safetensors").info().sha256);
}

TEST(Dataset, StoresLargeVocabulariesInTwoBytes) {
  const TempDir folder;
  DatasetInfo info = sample_info();
  info.vocab_size = 257;
  Examples examples;
  examples.add(std::vector<uint16_t>{256, 1}, 1);
  write_dataset(folder / "a.safetensors", examples, info);
  const Dataset data(folder / "a.safetensors");
  EXPECT_EQ(SafetensorsFile(data.path()).at("tokens").dtype, DType::kU16);
  EXPECT_EQ(data.tokens(0)[0], 256);
}

TEST(Dataset, KeepsASecondDocument) {
  const TempDir folder;
  Examples examples;
  examples.add(std::vector<uint16_t>{1}, std::vector<uint16_t>{2, 3}, 1);
  write_dataset(folder / "a.safetensors", examples, sample_info());
  const Dataset data(folder / "a.safetensors");
  ASSERT_TRUE(data.has_second());
  EXPECT_EQ(data.tokens2(0).size(), 2);
  EXPECT_EQ(data.tokens2(0)[1], 3);
  EXPECT_EQ(data.compute_sha256(), data.info().sha256);
}

TEST(Dataset, StaysReadableInACopy) {
  const TempDir folder;
  write_dataset(folder / "a.safetensors", sample_examples(), sample_info());
  auto data = std::make_unique<Dataset>(folder / "a.safetensors");
  const Dataset copy = *data;
  data.reset();
  EXPECT_EQ(copy.tokens(0)[1], 2);
}

TEST(Dataset, RefusesToWriteATokenOutsideTheVocabulary) {
  const TempDir folder;
  Examples examples = sample_examples();
  examples.tokens[0] = 20;
  EXPECT_TRUE(says(error_text([&] { write_dataset(folder / "a.safetensors", examples, sample_info()); }),
                   "token 20 does not fit the vocabulary of 20"));
}

TEST(Dataset, AcceptsTheSampleUndamaged) { EXPECT_EQ(Damage().complaint(), ""); }
TEST(Dataset, RefusesALabelOutsideTheClasses) {
  EXPECT_TRUE(says(Damage{.labels = {0, 3}}.complaint(), "example 1 has the label 3, expected 0 to 2"));
  EXPECT_TRUE(says(Damage{.labels = {-1, 0}}.complaint(), "the label -1"));
}
TEST(Dataset, RefusesATokenOutsideTheVocabulary) {
  EXPECT_TRUE(says(Damage{.tokens = {1, 20, 3, 4}}.complaint(), "example 0 has the token 20 at position 1"));
}
TEST(Dataset, RefusesPaddingInsideASequence) {
  EXPECT_TRUE(says(Damage{.tokens = {1, 2, 3, 0}}.complaint(), "without the padding id"));
}
TEST(Dataset, RefusesASequenceLongerThanDeclared) {
  EXPECT_TRUE(
      says(Damage{.tokens = {1, 2, 3, 4, 5, 6}, .offsets = {0, 5, 6}}.complaint(), "expected 1 to 4 tokens"));
}
TEST(Dataset, RefusesAnEmptySequence) {
  EXPECT_TRUE(says(Damage{.offsets = {0, 4, 4}}.complaint(), "example 1 of 'tokens' runs from 4 to 4"));
}
TEST(Dataset, RefusesOffsetsThatFall) {
  EXPECT_TRUE(says(Damage{.offsets = {0, 5, 4}}.complaint(), "example 0 of 'tokens' runs from 0 to 5"));
  EXPECT_TRUE(says(Damage{.offsets = {0, -3, 4}}.complaint(), "runs from 0 to -3"));
}
TEST(Dataset, RefusesOffsetsThatDoNotCoverTheTokens) {
  EXPECT_TRUE(says(Damage{.offsets = {0, 3, 5}}.complaint(), "expected 0 to 4"));
  EXPECT_TRUE(says(Damage{.offsets = {1, 3, 4}}.complaint(), "run from 1"));
}
TEST(Dataset, RefusesAMissingOffset) {
  EXPECT_TRUE(says(Damage{.offsets = {0, 4}}.complaint(), "2 labels, but 2 offsets"));
}
TEST(Dataset, RefusesOffsetsOfAnotherType) {
  EXPECT_TRUE(says(Damage{.offsets_type = DType::kU64}.complaint(), "'offsets' is U64"));
}
TEST(Dataset, RefusesMissingMetadata) {
  for (const auto& [key, value] : to_metadata(sample_info())) {
    Damage damage;
    damage.metadata.erase(key);
    EXPECT_TRUE(says(damage.complaint(), fmt::format("'{}' is missing", key)));
  }
}
TEST(Dataset, RefusesMetadataThatIsNoNumber) {
  Damage damage;
  damage.metadata["vocab_size"] = "20x";
  EXPECT_TRUE(says(damage.complaint(), "'vocab_size' is '20x'"));
}
TEST(Dataset, RefusesAPaddingIdOutsideTheVocabulary) {
  Damage damage;
  damage.metadata["pad_id"] = "20";
  EXPECT_TRUE(says(damage.complaint(), "padding id 20"));
}

TEST(DataFolder, SaysTheCommandThatMakesMissingData) {
  const DataFolder full{"elsewhere", "listops", "default"}, tiny{"elsewhere", "listops", "tiny"};
  EXPECT_TRUE(says(error_text([&] { full.open("train"); }), "'lra data make listops --data elsewhere'"));
  EXPECT_TRUE(
      says(error_text([&] { tiny.open("train"); }), "'lra data make listops --size tiny --data elsewhere'"));
}

TEST(DataFolder, TakesAFolderWithoutManifestForNothing) {
  const TempDir folder;
  const DataFolder data{folder.path(), "sample", "default"};
  write_dataset(data.split_path("train"), sample_examples(), sample_info());
  EXPECT_TRUE(says(error_text([&] { data.open("train"); }), "is half-made: it has no manifest.json"));
}

TEST(DataFolder, RefusesASplitInTheWrongPlace) {
  const TempDir folder;
  const DataFolder data{folder.path(), "sample", "default"};
  write_dataset(data.split_path("val"), sample_examples(), sample_info());
  write_text(data.manifest_path(), "{}");
  EXPECT_TRUE(says(error_text([&] { data.open("val"); }), "holds the split 'train'"));
}

TEST(DataFolder, SuggestsASplitForAnUnknownOne) {
  const TempDir folder;
  const DataFolder data{folder.path(), "sample", "default"};
  write_text(data.manifest_path(), "{}");
  EXPECT_TRUE(says(error_text([&] { data.open("tset"); }), "Did you mean 'test'?"));
}

}  // namespace
}  // namespace lra
