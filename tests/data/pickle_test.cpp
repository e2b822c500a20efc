#include "data/pickle.h"

#include <gtest/gtest.h>

#include "support/error_text.h"

namespace lra {
namespace {

using Kind = PickleValue::Kind;
using std::string_literals::operator""s;

// As Python 2 wrote CIFAR-10's batches (protocol 2, NumPy 1): {'batch_label': 'b', 'labels': [6, 9], 'data':
// array([[0, 50, 100], [150, 200, 250]], uint8), 'filenames': ['x.png', 'y.png']}.
const std::string kPython2 =
    "\x80\x02}q\x01(U\x0b"
    "batch_labelq\x02U\x01"
    "bq\x03U\x06labelsq\x04]q\x05(K\x06K\x09"
    "eU\x04"
    "dataq\x06"
    "cnumpy.core.multiarray\n_reconstruct\nq\x07"
    "cnumpy\nndarray\nq\x08K\x00\x85q\x09U\x01"
    "b\x87Rq\x0a(K\x01K\x02K\x03\x86"
    "cnumpy\ndtype\nq\x0bU\x02u1K\x00K\x01\x87Rq\x0c(K\x03U\x01|"
    "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    "T\x06\x00\x00\x00\x00\x32\x64\x96\xc8\xfatbU\x09"
    "filenamesq\x0d]q\x0e(U\x05x.pngq\x0fU\x05y.pngq\x10"
    "eu."s;

// pickle.dumps({b'labels': [6, 9], b'data': the same array}, protocol) by Python 3.11 and NumPy 2.4.
const std::string kProtocol2 =
    "\x80\x02}q\x00(c_codecs\nencode\nq\x01X\x06\x00\x00\x00labelsq\x02X\x06\x00\x00\x00latin1q\x03\x86"
    "q\x04Rq\x05]q\x06(K\x06K\x09"
    "eh\x01X\x04\x00\x00\x00"
    "dataq\x07h\x03\x86q\x08Rq\x09"
    "cnumpy."
    "_core.multiarray\n_reconstruct\nq\ncnumpy\nndarray\nq\x0bK\x00\x85q\x0ch\x01X\x01\x00\x00\x00"
    "b"
    "q\x0dh\x03\x86q\x0eRq\x0f\x87q\x10Rq\x11(K\x01K\x02K\x03\x86q\x12"
    "cnumpy\ndtype\nq\x13X\x02\x00"
    "\x00\x00u1q\x14\x89\x88\x87q\x15Rq\x16(K\x03X\x01\x00\x00\x00|q\x17NNNJ\xff\xff\xff\xffJ\xff\xff"
    "\xff\xffK\x00tq\x18"
    "b\x89h\x01X\x09\x00\x00\x00\x00"
    "2d\xc2\x96\xc3\x88\xc3\xbaq\x19h\x03\x86"
    "q\x1aRq\x1btq\x1c"
    "bu."s;
const std::string kProtocol4 =
    "\x80\x04\x95\xad\x00\x00\x00\x00\x00\x00\x00}\x94(C\x06labels\x94]\x94(K\x06K\x09"
    "eC\x04"
    "dat"
    "a\x94\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07"
    "ndarray\x94\x93\x94K\x00\x85\x94"
    "C\x01"
    "b\x94\x87\x94R\x94(K\x01K\x02K\x03\x86\x94h\x07\x8c\x05"
    "dtype\x94\x93\x94\x8c\x02u1\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94NNNJ\xff\xff\xff\xffJ\xff"
    "\xff\xff\xffK\x00t\x94"
    "b\x89"
    "C\x06\x00"
    "2d\x96\xc8\xfa\x94t\x94"
    "bu."s;

std::string complaint(std::string bytes) {
  return error_text([&] { Pickle(std::move(bytes), "data_batch_1"); });
}
const PickleValue& root_of(const Pickle& pickle) { return pickle.root(); }

void expect_batch(const Pickle& batch) {
  const PickleValue& data = batch.at(batch.root(), "data");
  EXPECT_EQ(data.kind, Kind::kArray);
  EXPECT_EQ(data.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(data.bytes, "\0\x32\x64\x96\xc8\xfa"s);
  const PickleValue& labels = batch.at(batch.root(), "labels");
  ASSERT_EQ(labels.items.size(), 2u);
  EXPECT_EQ(labels.items[0]->number, 6);
  EXPECT_EQ(labels.items[1]->number, 9);
}

TEST(Pickle, ReadsABatchOfPython2) {
  const Pickle batch(kPython2, "data_batch_1");
  expect_batch(batch);
  const PickleValue& names = batch.at(batch.root(), "filenames");
  ASSERT_EQ(names.kind, Kind::kList);
  EXPECT_EQ(names.items[1]->bytes, "y.png");
  EXPECT_EQ(batch.at(batch.root(), "batch_label").bytes, "b");
}
TEST(Pickle, ReadsABatchWrittenAgainByPython3) {
  expect_batch(Pickle(kProtocol2, "data_batch_1"));
  expect_batch(Pickle(kProtocol4, "data_batch_1"));
}

TEST(Pickle, StaysWholeWhenMoved) {
  Pickle first(kPython2, "data_batch_1");
  const Pickle second = std::move(first);
  expect_batch(second);
}

TEST(Pickle, ReadsNumbersOfEveryWidth) {
  const Pickle numbers(
      "\x80\x02(K\xffM\xff\xffJ\xfe\xff\xff\xff\x8a\x02\x00\x80\x8a\x00\x8a\x08\x01\x00\x00\x00\x00\x00\x00\x80t."s,
      "n");
  const auto& items = root_of(numbers).items;
  ASSERT_EQ(items.size(), 6u);
  const int64_t expected[] = {255, 65535, -2, -32768, 0, std::numeric_limits<int64_t>::min() + 1};
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(items[i]->number, expected[i]) << i;
}

TEST(Pickle, NamesAMissingKey) {
  const Pickle empty("}."s, "batches.meta");
  EXPECT_EQ(empty.find(empty.root(), "data"), nullptr);
  EXPECT_TRUE(says(error_text([&] { empty.at(empty.root(), "data"); }), "batches.meta: there is no 'data'"));
}
TEST(Pickle, RefusesToLookForAKeyInAList) {
  const Pickle list("]."s, "x");
  EXPECT_TRUE(says(error_text([&] { list.find(list.root(), "data"); }), "a list where a dict was expected"));
}

TEST(Pickle, NeverCallsWhatItIsAskedTo) {
  EXPECT_TRUE(says(complaint("cos\nsystem\n(U\x07rm -rf tR."s), "byte 0: it asks for 'os.system'"));
  EXPECT_TRUE(says(complaint("\x80\x04\x8c\x08"
                             "builtins\x8c\x04"
                             "eval\x93."s),
                   "'builtins.eval'"));
}
TEST(Pickle, NamesAnUnknownInstructionAndItsPlace) {
  EXPECT_TRUE(says(complaint("\x80\x02]\x81."s), "data_batch_1: byte 3: the instruction 0x81"));
}
TEST(Pickle, RefusesOtherArrays) {
  std::string floats = kPython2;
  floats.replace(floats.find("u1"), 2, "f4");
  EXPECT_TRUE(says(complaint(floats), "an array of type 'f4'"));
  std::string fortran = kPython2;
  fortran.replace(fortran.find("\x89T"), 1, "\x88");
  EXPECT_TRUE(says(complaint(fortran), "Fortran order"));
}
TEST(Pickle, RefusesAShapeThatDoesNotFitTheBytes) {
  std::string wide = kPython2;
  wide.replace(wide.find("K\x02K\x03\x86"), 5, "K\x02K\x04\x86");
  EXPECT_TRUE(says(complaint(wide), "shape does not fit its 6 bytes"));
}
TEST(Pickle, RefusesAnEmptyFile) { EXPECT_TRUE(says(complaint(""), "the file is empty")); }
TEST(Pickle, RefusesSizesBeyondTheEnd) {
  EXPECT_TRUE(says(complaint("T\xff\xff\xff\x7f."s), "2147483647 more bytes were expected, 1 are there"));
  EXPECT_TRUE(says(complaint("\x8e\xff\xff\xff\xff\xff\xff\xff\xff."s), "more bytes were expected"));
}
TEST(Pickle, RefusesValuesThatAreMissing) {
  for (const char* program :
       {"a.", "e.", "s.", "t.", "\x87.", "R.", "b.", "q\x01.", "h\x01.", "(a.", "K\x01(\x85.", "."}) {
    EXPECT_NE(complaint(program), "") << program;
  }
}
std::string repeated(size_t count, char instruction) {
  std::string program(count, instruction);
  program += '.';
  return program;
}
TEST(Pickle, RefusesTooManyValues) {
  EXPECT_TRUE(says(complaint(repeated(2'000'000, 'N')), "more values"));
  EXPECT_TRUE(says(complaint(repeated(2'000'000, '(')), "more marks"));
}
TEST(Pickle, BearsAnyNesting) {
  // [[[…]]], 400,000 deep, and a list that holds itself.
  std::string nested(400'000, ']');
  nested.append(399'999, 'a').append(".");
  EXPECT_EQ(complaint(nested), "");
  EXPECT_EQ(complaint("]q\x01h\x01"
                      "a."s),
            "");
}
TEST(Pickle, RefusesToDecodeTheSameTextAgainAndAgain) {
  std::string program =
      "c_codecs\nencode\nq\x01X\x08\x00\x00\x00"
      "aaaaaaaaX\x06\x00\x00\x00latin1\x86q\x02"s;
  for (int i = 0; i < 1000; ++i) program += "0h\x01h\x02R"s;
  EXPECT_TRUE(says(complaint(program + "."), "again and again"));
}

TEST(Pickle, RefusesAFileCutAnywhere) {
  for (const std::string& whole : {kPython2, kProtocol2, kProtocol4}) {
    for (size_t size = 0; size < whole.size(); ++size)
      EXPECT_NE(complaint(whole.substr(0, size)), "") << size;
  }
}
// A flipped bit gives an error or other values; anything else (a crash, another exception) fails the test.
TEST(Pickle, SurvivesEveryFlippedBit) {
  for (std::string bytes : {kPython2, kProtocol2, kProtocol4}) {
    int refused = 0;
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const auto mask = static_cast<char>(1 << (bit % 8));
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
      refused += complaint(bytes).empty() ? 0 : 1;
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    }
    EXPECT_GT(refused, 100);
  }
}

}  // namespace
}  // namespace lra
