#include "data/png.h"

#include <gtest/gtest.h>

#include "support/error_text.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

using std::string_literals::operator""s;

GrayImage sample(int64_t width, int64_t height) {
  GrayImage image{width, height, {}};
  for (int64_t i = 0; i < width * height; ++i)
    image.pixels.push_back(static_cast<uint8_t>(i * 37 + i / width));
  return image;
}

class PngTest : public testing::Test {
 protected:
  void SetUp() override {
    if (says(error_text([] { png_bytes(sample(1, 1)); }), "this build cannot"))
      GTEST_SKIP() << "this build has no PNG";
  }
};

std::string complaint(const std::string& bytes, int64_t largest = 100) {
  return error_text([&] { read_png(bytes, "imgs/0/sample_3.png", largest); });
}

// Images made by hand: signature, then chunks of length, type, data and CRC-32.
const std::string kSignature = "\x89PNG\r\n\x1a\n";
uint32_t crc(const std::string& bytes) {
  uint32_t c = 0xFFFFFFFFu;
  for (const char byte : bytes) {
    c ^= static_cast<unsigned char>(byte);
    for (int k = 0; k < 8; ++k) c = c & 1 ? 0xEDB88320u ^ (c >> 1) : c >> 1;
  }
  return ~c;
}
std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}
std::string chunk(const std::string& type, const std::string& data) {
  return big_endian(static_cast<uint32_t>(data.size())) + type + data + big_endian(crc(type + data));
}
std::string header_chunk(uint32_t width, uint32_t height, char depth, char colour, char interlace = 0) {
  return chunk("IHDR", big_endian(width) + big_endian(height) + depth + colour + "\0\0"s + interlace);
}
// zlib's stored form, so that the tests need no zlib.
std::string data_chunk(const std::string& rows) {
  uint32_t a = 1, b = 0;
  for (const char c : rows) a = (a + static_cast<unsigned char>(c)) % 65521, b = (b + a) % 65521;
  const auto n = static_cast<uint16_t>(rows.size());
  const std::string sizes = {static_cast<char>(n & 255), static_cast<char>(n >> 8),
                             static_cast<char>(~n & 255), static_cast<char>((~n >> 8) & 255)};
  return chunk("IDAT", "\x78\x01\x01"s + sizes + rows + big_endian(b << 16 | a));
}
std::string png(char depth, char colour, const std::string& row, const std::string& extra = "") {
  return kSignature + header_chunk(2, 1, depth, colour) + extra + data_chunk("\0"s + row) + chunk("IEND", "");
}
std::vector<uint8_t> pixels_of(const std::string& bytes) { return read_png(bytes, "x.png", 100).pixels; }
using Pixels = std::vector<uint8_t>;

TEST_F(PngTest, GivesBackWhatWasWritten) {
  for (const auto& [width, height] : {std::pair<int64_t, int64_t>{1, 1}, {32, 32}, {7, 3}, {128, 128}}) {
    const GrayImage image = sample(width, height);
    EXPECT_EQ(read_png(png_bytes(image), "x.png", 128), image);
  }
}
TEST_F(PngTest, WritesAFile) {
  const TempDir folder;
  write_png(folder / "a.png", sample(5, 4));
  EXPECT_EQ(read_png(read_text(folder / "a.png"), "a.png", 5), sample(5, 4));
}

TEST_F(PngTest, TakesEightBitGrayAsItIs) { EXPECT_EQ(pixels_of(png(8, 0, "\x01\xfe")), (Pixels{1, 254})); }
TEST_F(PngTest, IgnoresGamma) {
  EXPECT_EQ(pixels_of(png(8, 0, "\x01\x80", chunk("gAMA", big_endian(100000)))), (Pixels{1, 128}));
}
TEST_F(PngTest, StretchesFewerBits) {
  EXPECT_EQ(pixels_of(png(1, 0, "\x40")), (Pixels{0, 255}));
  EXPECT_EQ(pixels_of(png(4, 0, "\x1f")), (Pixels{17, 255}));
}
TEST_F(PngTest, KeepsTheUpperByteOfSixteenBits) {
  EXPECT_EQ(pixels_of(png(16, 0, "\x12\x34\xff\x00"s)), (Pixels{0x12, 0xff}));
}
TEST_F(PngTest, ReadsColoursAsGray) {
  EXPECT_EQ(pixels_of(png(8, 2, "\x37\x37\x37\xff\x00\x00"s)), (Pixels{0x37, 76}));
  EXPECT_EQ(pixels_of(png(8, 3, "\x01\x00"s, chunk("PLTE", "\x0a\x0a\x0a\x00\xff\x00"s))), (Pixels{150, 10}));
}
TEST_F(PngTest, RefusesTransparency) {
  EXPECT_TRUE(says(complaint(png(8, 4, "\x01\xff\x01\xff")), "transparent"));
  EXPECT_TRUE(says(complaint(png(8, 0, "\x01\x02", chunk("tRNS", "\0\x01"s))), "transparent"));
}
TEST_F(PngTest, RefusesSizesBeyondTheLimitBeforeAskingForMemory) {
  const std::string huge =
      kSignature + header_chunk(0x7fffffff, 0x7fffffff, 8, 0) + data_chunk("\0\0"s) + chunk("IEND", "");
  EXPECT_TRUE(says(complaint(huge), "2147483647 x 2147483647 pixels, at most 100 a side"));
  EXPECT_TRUE(says(complaint(png_bytes(sample(101, 1))), "101 x 1 pixels"));
}
TEST_F(PngTest, RefusesOtherFiles) {
  EXPECT_TRUE(says(complaint(""), "imgs/0/sample_3.png: empty"));
  EXPECT_TRUE(says(complaint("GIF89a, or so"), "does not begin as a PNG does"));
}
TEST_F(PngTest, RefusesAnImageWithoutRows) {
  EXPECT_TRUE(
      says(complaint(kSignature + header_chunk(2, 1, 8, 0) + chunk("IEND", "")), "not a readable PNG"));
}
TEST_F(PngTest, RefusesAnImageCutAnywhereAndSaysWhere) {
  const std::string whole = png_bytes(sample(9, 9));
  for (size_t size = 8; size < whole.size(); ++size) {
    EXPECT_TRUE(says(complaint(whole.substr(0, size)), fmt::format("at byte {} of {}", size, size))) << size;
  }
}
// Every chunk has a checksum: a flipped bit is refused, unless it is in one that is not looked at.
TEST_F(PngTest, NeverGivesOtherPixelsForAFlippedBit) {
  const GrayImage image = sample(9, 9);
  std::string bytes = png_bytes(image);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    GrayImage got = image;
    error_text([&] { got = read_png(bytes, "x", 100); });
    EXPECT_EQ(got, image) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
}
TEST_F(PngTest, RefusesToWriteWhatIsNoImage) {
  EXPECT_TRUE(says(error_text([] { png_bytes({2, 2, {1, 2, 3}}); }), "3 pixels are no image of 2 x 2"));
}

}  // namespace
}  // namespace lra
