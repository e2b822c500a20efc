#include "runs/events.h"

#include <bit>
#include <map>

#include <gtest/gtest.h>

#include "base/file.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

// A protobuf message as field -> raw value (numbers as their bits).
struct Message {
  std::map<uint64_t, uint64_t> numbers;
  std::map<uint64_t, std::string> bytes;
};

uint64_t take_varint(std::string_view& in) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(in.at(0));
    in.remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
}

Message decode(std::string_view in) {
  Message message;
  while (!in.empty()) {
    const uint64_t key = take_varint(in), field = key >> 3, wire_type = key & 7;
    if (wire_type == 0) {
      message.numbers[field] = take_varint(in);
      continue;
    }
    const size_t size = wire_type == 1 ? 8 : wire_type == 5 ? 4 : take_varint(in);
    if (wire_type == 2) {
      message.bytes[field] = in.substr(0, size);
    } else {
      message.numbers[field] = little_endian(in.substr(0, size));
    }
    in.remove_prefix(size);
  }
  return message;
}

// The payloads of a file of TFRecords, with both checksums of each checked.
std::vector<std::string> records(const fs::path& path) {
  const std::string file = read_text(path);
  std::vector<std::string> all;
  for (std::string_view in = file; !in.empty();) {
    const std::string_view length_bytes = in.substr(0, 8);
    const size_t size = little_endian(length_bytes);
    EXPECT_EQ(little_endian(in.substr(8, 4)), masked_crc32c(length_bytes));
    all.emplace_back(in.substr(12, size));
    EXPECT_EQ(little_endian(in.substr(12 + size, 4)), masked_crc32c(all.back()));
    in.remove_prefix(16 + size);
  }
  return all;
}

TEST(EventsTest, Crc32cHasItsPublishedValues) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // the check value of the CRC-32C catalogue
  EXPECT_EQ(crc32c(""), 0u);
  // RFC 3720, B.4: 32 bytes of zeros, of ones, and 0 … 31.
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string ascending;
  for (char c = 0; c < 32; ++c) ascending += c;
  EXPECT_EQ(crc32c(ascending), 0x46dd794eu);
}

TEST(EventsTest, TheFileBeginsLikeEveryTensorBoardFile) {
  // TensorFlow writes 18 00 00 00 00 00 00 00 a3 7f 4b 22 before a first event of 24 bytes.
  EXPECT_EQ(masked_crc32c(std::string("\x18\0\0\0\0\0\0\0", 8)), 0x224b7fa3u);
  TempDir folder;
  const EventWriter writer(folder.path());
  EXPECT_EQ(writer.path().filename().string().rfind("events.out.tfevents.", 0), 0u);
  const std::vector<std::string> all = records(writer.path());
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(decode(all[0]).bytes.at(3), "brain.Event:2");
}

TEST(EventsTest, ScalarsComeBackWithTagStepValueAndTime) {
  TempDir folder;
  EventWriter writer(folder.path());
  writer.scalar("train/loss", 300, 1.25, 1700000000.5);
  writer.scalar("val/accuracy", 1'000'000'000'000, 0.3637, 1700000001.0);
  const std::vector<std::string> all =
      records(writer.path());  // before the writer ends: nothing waits in memory
  ASSERT_EQ(all.size(), 3u);
  const Message event = decode(all[1]), value = decode(decode(event.bytes.at(5)).bytes.at(1));
  EXPECT_EQ(std::bit_cast<double>(event.numbers.at(1)), 1700000000.5);
  EXPECT_EQ(event.numbers.at(2), 300u);
  EXPECT_EQ(value.bytes.at(1), "train/loss");
  EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(value.numbers.at(2))), 1.25f);
  EXPECT_EQ(decode(all[2]).numbers.at(2), 1'000'000'000'000u);
}

TEST(EventsTest, AResumedRunWritesAFileOfItsOwnThatSaysFromWhere) {
  TempDir folder;
  const EventWriter first(folder.path()), second(folder.path(), 200);
  EXPECT_NE(first.path(), second.path());
  const std::vector<std::string> all = records(second.path());
  ASSERT_EQ(all.size(), 2u);
  const Message start = decode(all[1]);
  EXPECT_EQ(start.numbers.at(2), 200u);
  EXPECT_EQ(decode(start.bytes.at(7)).numbers.at(1), 1u);  // SessionLog.START
}

}  // namespace
}  // namespace lra
