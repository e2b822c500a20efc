#include "data/safetensors.h"

#include <cstring>

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

std::string file_bytes(const std::string& header, const std::string& data) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

// Writes the bytes and says what reading them complains about.
std::string complaint(const std::string& bytes) {
  const TempDir folder;
  const fs::path file = folder.write("x.safetensors", bytes);
  return error_text([&] { SafetensorsFile opened(file); });
}
std::string complaint(const std::string& header, const std::string& data) {
  return complaint(file_bytes(header, data));
}

std::string one_tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return fmt::format(R"({{"t":{{"dtype":"{}","shape":{},"data_offsets":{}}}}})", dtype, shape, offsets);
}

std::string sample_file(const TempDir& folder) {
  const std::vector<float> weights = {1.5f, -2.0f, 0.25f};
  const std::vector<int64_t> steps = {7};
  SafetensorsWriter writer(folder / "sample.safetensors", {{"format", "pt"}, {"note", "a \"quoted\" ü"}});
  writer.add("mask", DType::kU8, {3}, "\x01\x02\x03");
  writer.add("weights", DType::kF32, {3, 1}, {reinterpret_cast<const char*>(weights.data()), 12});
  writer.add("steps", DType::kI64, {}, {reinterpret_cast<const char*>(steps.data()), 8});
  writer.commit();
  return read_text(folder / "sample.safetensors");
}

TEST(Safetensors, GivesBackWhatWasWritten) {
  const TempDir folder;
  sample_file(folder);
  const SafetensorsFile file(folder / "sample.safetensors");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}, {"note", "a \"quoted\" ü"}}));
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.at("weights").dtype, DType::kF32);
  EXPECT_EQ(file.at("weights").shape, (std::vector<int64_t>{3, 1}));
  EXPECT_EQ(file.at("weights").as<float>()[2], 0.25f);
  EXPECT_EQ(file.at("steps").numel(), 1);
  EXPECT_EQ(file.at("steps").as<int64_t>()[0], 7);
  EXPECT_EQ(file.at("mask").bytes, "\x01\x02\x03");
}

TEST(Safetensors, AlignsTheDataToEightBytes) {
  const TempDir folder;
  const std::string bytes = sample_file(folder);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  EXPECT_EQ(length % 8, 0u);
}

TEST(Safetensors, KeepsViewsValidInACopy) {
  const TempDir folder;
  sample_file(folder);
  auto file = std::make_unique<SafetensorsFile>(folder / "sample.safetensors");
  const SafetensorsFile copy = *file;
  file.reset();
  EXPECT_EQ(copy.at("weights").as<float>()[0], 1.5f);
}

TEST(Safetensors, ReadsTensorsThatOthersLeftUnaligned) {
  const TempDir folder;
  std::string data(9, '\0');
  const float value = 3.5f;
  std::memcpy(data.data() + 1, &value, 4);
  std::memcpy(data.data() + 5, &value, 4);
  write_text(folder / "u.safetensors", file_bytes(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                                  R"("b":{"dtype":"F32","shape":[2],"data_offsets":[1,9]}})",
                                                  data));
  const SafetensorsFile file(folder / "u.safetensors");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file.at("b").bytes.data()) % 4, 0u);
  EXPECT_EQ(file.at("b").as<float>()[1], 3.5f);
}

TEST(Safetensors, SuggestsTheNearestNameForAMissingTensor) {
  const TempDir folder;
  sample_file(folder);
  const SafetensorsFile file(folder / "sample.safetensors");
  EXPECT_TRUE(says(error_text([&] { file.at("weihgts"); }), "Did you mean 'weights'?"));
}

TEST(Safetensors, RefusesAFileCutAnywhere) {
  const TempDir folder;
  const std::string bytes = sample_file(folder);
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_NE(complaint(bytes.substr(0, size)), "")
        << "cut to " << size << " of " << bytes.size() << " bytes";
  }
}

// A flipped bit gives an error or another valid file; anything else (a crash, another exception) fails the
// test.
TEST(Safetensors, SurvivesEveryFlippedBitOfTheHeader) {
  const TempDir folder;
  std::string bytes = sample_file(folder);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  int refused = 0;
  for (size_t bit = 0; bit < (8 + length) * 8; ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    refused += complaint(bytes).empty() ? 0 : 1;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
  EXPECT_GT(refused, 64);  // at least every bit of the length
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFile) {
  EXPECT_TRUE(
      says(complaint(std::string("\x20\0\0\0\0\0\0\0{}", 10)), "claims 32 bytes, but 2 bytes follow"));
}
TEST(Safetensors, RefusesBytesAfterTheLastTensor) {
  EXPECT_TRUE(says(complaint(one_tensor("U8", "[2]", "[0,2]"), "abc"), "there are 3 bytes"));
}
TEST(Safetensors, RefusesATensorBeyondTheEnd) {
  EXPECT_TRUE(says(complaint(one_tensor("U8", "[4]", "[0,4]"), "abc"), "truncated"));
}
TEST(Safetensors, RefusesAHoleBetweenTensors) {
  EXPECT_TRUE(says(complaint(one_tensor("U8", "[2]", "[1,3]"), "abc"), "leave a hole"));
}
TEST(Safetensors, RefusesTensorsThatOverlap) {
  EXPECT_TRUE(says(complaint(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                             R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                             "abc"),
                   "overlap"));
}
TEST(Safetensors, RefusesASizeThatDoesNotFitTheShape) {
  EXPECT_TRUE(says(complaint(one_tensor("F32", "[1]", "[0,3]"), "abc"), "needs 4 bytes"));
}
TEST(Safetensors, RefusesAnEndBeforeTheBegin) {
  EXPECT_TRUE(says(complaint(one_tensor("U8", "[1]", "[2,1]"), "abc"), "bytes 2 to 1"));
}
TEST(Safetensors, RefusesAShapeWhoseProductOverflows) {
  EXPECT_TRUE(
      says(complaint(one_tensor("U8", "[4611686018427387904,4]", "[0,0]"), ""), "larger than any memory"));
}
TEST(Safetensors, RefusesNegativeSizes) {
  EXPECT_TRUE(says(complaint(one_tensor("U8", "[-1]", "[0,3]"), "abc"), "holds -1"));
}
TEST(Safetensors, RefusesNumbersBeyondSixtyFourBits) {
  EXPECT_TRUE(
      says(complaint(one_tensor("U8", "[99999999999999999999]", "[0,3]"), "abc"), "expected whole numbers"));
}
TEST(Safetensors, RefusesNumbersBeyondADouble) {
  EXPECT_NE(complaint(one_tensor("U8", "[1e999]", "[0,3]"), "abc"), "");
}
TEST(Safetensors, SuggestsATypeForAnUnknownOne) {
  EXPECT_TRUE(says(complaint(one_tensor("F31", "[3]", "[0,3]"), "abc"), "Did you mean 'F32'?"));
}
TEST(Safetensors, RefusesTheSameNameTwice) {
  EXPECT_TRUE(says(complaint(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                             R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                             ""),
                   "appears twice"));
}
TEST(Safetensors, RefusesMetadataThatIsNoString) {
  EXPECT_TRUE(says(complaint(R"({"__metadata__":{"epoch":3}})", ""), "'epoch' is 3"));
}
TEST(Safetensors, RefusesEntriesOfTheWrongKind) {
  for (const char* header :
       {"[]", "3", R"({"t":3})", R"({"t":{}})", R"({"t":{"dtype":1,"shape":[],"data_offsets":[0,1]}})",
        R"({"t":{"dtype":"U8","shape":{},"data_offsets":[0,1]}})",
        R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0]}})", R"({"__metadata__":[]})"}) {
    EXPECT_TRUE(says(complaint(header, "a"), "[safetensors]")) << header;
  }
}
TEST(Safetensors, RefusesAHeaderNestedWithoutEnd) {
  EXPECT_TRUE(says(complaint(R"({"t":)" + std::string(100'000, '['), ""), "nested deeper"));
}
TEST(Safetensors, NamesTheFileInItsErrors) { EXPECT_TRUE(says(complaint("short"), "x.safetensors")); }

TEST(SafetensorsWriter, LeavesNothingWithoutACommit) {
  const TempDir folder;
  { SafetensorsWriter writer(folder / "x.safetensors"); }
  EXPECT_TRUE(fs::is_empty(folder.path()));
}
TEST(SafetensorsWriter, RefusesBytesThatDoNotFillTheShape) {
  SafetensorsWriter writer("x.safetensors");
  EXPECT_TRUE(
      says(error_text([&] { writer.add("t", DType::kF32, {2}, "1234"); }), "4 bytes for 2 elements of F32"));
}

}  // namespace
}  // namespace lra
