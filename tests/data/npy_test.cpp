#include "data/npy.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lra {
namespace {

using std::string_literals::operator""s;

const StringTable kTable = {{"imgs/0", "sample_0.png", "1"}, {"imgs/0", "sample_1.png", "0"}};

std::string numpy_file(std::string header, const std::string& data, int version = 1) {
  const size_t begin = version == 1 ? 10 : 12;
  header += std::string(64 - (begin + header.size() + 1) % 64, ' ') + "\n";
  std::string bytes = "\x93NUMPY"s + static_cast<char>(version) + '\0';
  for (size_t i = 0; i < (version == 1 ? 2u : 4u); ++i)
    bytes += static_cast<char>(header.size() >> (8 * i) & 255);
  return bytes + header + data;
}
std::string header_of(const std::string& descr, const std::string& shape, bool fortran = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") +
         ", 'shape': " + shape + ", }";
}
// As numpy.save writes numpy.array(kTable).astype('S'): twelve bytes a string, filled up with zeros.
std::string cells(bool fortran, size_t bytes_per_character) {
  std::string data;
  for (size_t i = 0; i < 6; ++i) {
    const std::string& text = fortran ? kTable[i % 2][i / 2] : kTable[i / 3][i % 3];
    for (size_t c = 0; c < 12; ++c) {
      data += c < text.size() ? text[c] : '\0';
      data.append(bytes_per_character - 1, '\0');
    }
  }
  return data;
}
StringTable table_of(const std::string& bytes) { return read_string_table(bytes, "0.npy"); }
std::string complaint(const std::string& bytes) {
  return error_text([&] { table_of(bytes); });
}

TEST(StringTable, ReadsPlainText) {
  EXPECT_EQ(table_of("imgs/0 sample_0.png 1\nimgs/0 sample_1.png 0\n"), kTable);
}
TEST(StringTable, ToleratesOtherBlanksAndLineEnds) {
  EXPECT_EQ(table_of("imgs/0\tsample_0.png  1\r\n\n imgs/0 sample_1.png 0"), kTable);
}
TEST(StringTable, ReadsNumpyBytes) {
  EXPECT_EQ(table_of(numpy_file(header_of("|S12", "(2, 3)"), cells(false, 1))), kTable);
}
TEST(StringTable, ReadsNumpyUnicode) {
  EXPECT_EQ(table_of(numpy_file(header_of("<U12", "(2, 3)"), cells(false, 4))), kTable);
}
TEST(StringTable, ReadsFortranOrder) {
  EXPECT_EQ(table_of(numpy_file(header_of("|S12", "(2, 3)", true), cells(true, 1))), kTable);
}
TEST(StringTable, ReadsVersionsTwoAndThree) {
  for (const int version : {2, 3}) {
    EXPECT_EQ(table_of(numpy_file(header_of("|S12", "(2, 3)"), cells(false, 1), version)), kTable);
  }
}
TEST(StringTable, ReadsOneAxisAsRowsOfOne) {
  EXPECT_EQ(table_of(numpy_file(header_of("|S2", "(3,)"), "a\0bcd\0"s)), (StringTable{{"a"}, {"bc"}, {"d"}}));
}
TEST(StringTable, GivesUnicodeAsUtf8) {
  const std::string data = "\x41\0\0\0\xfc\0\0\0\xac\x20\0\0\x00\xf6\x01\0"s;
  EXPECT_EQ(table_of(numpy_file(header_of("<U4", "(1,)"), data)), (StringTable{{"Aü€😀"}}));
}

TEST(StringTable, RefusesObjects) {
  EXPECT_TRUE(says(complaint(numpy_file(header_of("|O", "(2, 3)"), "\x80\x03")),
                   "Python objects, which are never read"));
}
TEST(StringTable, RefusesOtherTypes) {
  for (const char* type :
       {"<f8", "<i8", ">U12", "|S", "|S-1", "|S12x", "|S99999999999999999999", "", "U12"}) {
    EXPECT_TRUE(says(complaint(numpy_file(header_of(type, "(2, 3)"), cells(false, 1))), "the type '"))
        << type;
  }
  EXPECT_TRUE(
      says(complaint(numpy_file("{'descr': [('a', '|S1')], 'fortran_order': False, 'shape': (1,), }", "a")),
           "named fields"));
}
TEST(StringTable, RefusesShapesThatDoNotFit) {
  for (const char* shape : {"(2, 4)", "(3, 3)", "(0, 3)", "(2, 0)", "(9223372036854775807, 3)",
                            "(2, 9223372036854775807)", "(4611686018427387904, 4)"}) {
    EXPECT_TRUE(says(complaint(numpy_file(header_of("|S12", shape), cells(false, 1))), "are claimed"))
        << shape;
  }
  EXPECT_TRUE(says(complaint(numpy_file(header_of("|S0", "(5, 3)"), "")), "are claimed"));
}
TEST(StringTable, RefusesOtherHeaders) {
  for (const char* header :
       {"", "{}", "{'descr': '|S1'}", "{'descr': '|S1', 'fortran_order': 3, 'shape': (1,)}",
        "{'descr': '|S1', 'fortran_order': False, 'shape': ()}",
        "{'descr': '|S1', 'fortran_order': False, 'shape': (1, 1, 1)}",
        "{'descr': '|S1', 'fortran_order': False, 'shape': (-1,)}", "{'descr': '|S1', 'descr': '|S1'}",
        "{'x': 1}", "{'descr", "{'descr': '|S1' 'shape': (1,)}",
        "{'descr': '|S1', 'fortran_order': False, 'shape': (1"}) {
    EXPECT_TRUE(says(complaint(numpy_file(header, "a")), "NumPy header")) << header;
  }
}
TEST(StringTable, RefusesOtherVersions) {
  EXPECT_TRUE(says(complaint(numpy_file(header_of("|S1", "(1,)"), "a", 4)), "version 4.0"));
}
TEST(StringTable, RefusesAHeaderLongerThanTheFile) {
  EXPECT_TRUE(says(complaint("\x93NUMPY\x01\0\xff\xff{"s), "the header claims 65535 bytes, 1 follow"));
}
TEST(StringTable, RefusesWhatIsNoText) {
  EXPECT_TRUE(says(complaint("ok 1\n\x01\x02\n"), "0.npy line 2: control characters"));
}
TEST(StringTable, RefusesCharactersBeyondUnicode) {
  EXPECT_TRUE(
      says(complaint(numpy_file(header_of("<U1", "(1,)"), "\xff\xff\xff\xff")), "byte 128 is no character"));
}

TEST(StringTable, RefusesANumpyFileCutAnywhere) {
  const std::string whole = numpy_file(header_of("|S12", "(2, 3)"), cells(false, 1));
  for (size_t size = 7; size < whole.size(); ++size) EXPECT_NE(complaint(whole.substr(0, size)), "") << size;
}
TEST(StringTable, SurvivesEveryFlippedBit) {
  std::string bytes = numpy_file(header_of("<U12", "(2, 3)"), cells(false, 4));
  int refused = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    refused += complaint(bytes).empty() ? 0 : 1;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lra
