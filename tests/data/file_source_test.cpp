#include "data/file_source.h"

#include <cstring>
#include <map>
#include <sys/stat.h>
#include <vector>

#include <gtest/gtest.h>

#include "data/archive.h"
#include "support/error_text.h"
#include "support/pack.h"
#include "support/tar.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

using Files = std::vector<std::pair<std::string, std::string>>;

Files files_of(const FileSource& source) {
  Files files;
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    files.emplace_back(file.path, bytes.read_all(size_t{1} << 26));
  });
  return files;
}

// Without the file and the thread, for thousands of small hostile archives.
Files files_directly(std::string_view packed) {
  MemoryStream stream(packed, "a.tar.gz");
  std::atomic<int64_t> position{0};
  ArchiveReader archive(stream, packed.substr(0, 512), {}, position);
  Files files;
  for (SourceFile file; archive.next(file);) {
    std::string bytes(static_cast<size_t>(std::min<int64_t>(file.size, 100'000)), '\0');
    size_t had = 0;
    while (const size_t n = archive.read(bytes.data() + had, bytes.size() - had)) had += n;
    files.emplace_back(file.path, bytes);
  }
  return files;
}

class ArchiveTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!archives_supported()) GTEST_SKIP() << "this build has no archive support";
  }
  Files read(const std::string& bytes, SourceLimits limits = {}) const {
    return files_of(FileSource(folder_.write("a.tar.gz", bytes), limits));
  }
  std::string complaint(const std::string& bytes, SourceLimits limits = {}) const {
    return error_text([&] { read(bytes, limits); });
  }
  TempDir folder_;
};

std::string counted(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>('a' + i % 23);
  return bytes;
}

const Files kSample = {{"d/one.txt", "first"}, {"d/two.bin", counted(700)}, {"empty", ""}};
std::string sample_tar() {
  TarBuilder tar;
  tar.folder("d/");
  for (const auto& [path, bytes] : kSample) tar.file(path, bytes);
  return tar.bytes();
}

TEST_F(ArchiveTest, ReadsEveryPackingByItsContent) {
  for (const Packing how : kPackings) {
    EXPECT_EQ(read(pack(sample_tar(), how)), kSample) << name_of(how);
  }
}

TEST_F(ArchiveTest, ReadsGzipOfSeveralMembers) {
  const std::string tar = sample_tar();
  EXPECT_EQ(read(pack(tar.substr(0, 800), Packing::kGzip) + pack(tar.substr(800), Packing::kGzip)), kSample);
}
TEST_F(ArchiveTest, LetsZerosAfterGzipBe) {
  EXPECT_EQ(read(pack(sample_tar(), Packing::kGzip) + std::string(512, '\0')), kSample);
}
TEST_F(ArchiveTest, RefusesOtherBytesAfterGzip) {
  const std::string packed = pack(sample_tar(), Packing::kGzip);
  EXPECT_TRUE(says(complaint(packed + "rest"), fmt::format("not gzip follows at byte {}", packed.size())));
}

TEST_F(ArchiveTest, ReadsLongNames) {
  const std::string path = std::string(150, 'x') + "/" + std::string(150, 'y');
  EXPECT_EQ(read(TarBuilder().long_file(path, "z").bytes()), (Files{{path, "z"}}));
}

TEST_F(ArchiveTest, CleansPaths) {
  EXPECT_EQ(read(TarBuilder().file("./a//b/./c", "z").bytes()), (Files{{"a/b/c", "z"}}));
}

TEST_F(ArchiveTest, SkipsSmallFilesThatAreNotReadOrNotToTheirEnd) {
  const FileSource source(folder_.write(
      "a.tar", TarBuilder().file("no", "first").file("half", "second").file("all", "third").bytes()));
  std::string got;
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    char three[3];
    if (file.path == "half") got.append(three, bytes.read(three, 3));
    if (file.path == "all") got += bytes.read_all(10);
  });
  EXPECT_EQ(got, "secthird");
}

TEST_F(ArchiveTest, SkipsWhatIsNotRead) {
  // Larger than what is unpacked ahead, so that the skipping happens at both ends of the queue.
  const std::string large = counted(size_t{12} << 20);
  const std::string tar =
      TarBuilder().file("large", large).file("half", large).file("small", "s").file("all", large).bytes();
  const FileSource source(folder_.write("a.tar", tar));
  std::map<std::string, std::string> got;
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    if (file.path == "half") {
      std::string part(5'000'000, '\0');
      size_t had = 0;
      while (had < part.size()) had += bytes.read(part.data() + had, part.size() - had);
      got[file.path] = part;
    } else if (file.path != "large") {
      got[file.path] = bytes.read_all(large.size());
    }
  });
  ASSERT_EQ(got.size(), 3u);
  EXPECT_TRUE(got["half"] == large.substr(0, 5'000'000));
  EXPECT_EQ(got["small"], "s");
  EXPECT_TRUE(got["all"] == large);
}

TEST_F(ArchiveTest, StopsWhenTheVisitorSaysSo) {
  const FileSource source(folder_.write("a.tar", sample_tar()));
  std::vector<std::string> seen;
  source.visit([&](const SourceFile& file, ByteStream&) {
    seen.push_back(file.path);
    source.stop();
  });
  EXPECT_EQ(seen, std::vector<std::string>{"d/one.txt"});
}

TEST_F(ArchiveTest, CanBeVisitedAgain) {
  const FileSource source(folder_.write("a.tar", pack(sample_tar(), Packing::kXz)));
  EXPECT_EQ(files_of(source), kSample);
  EXPECT_EQ(files_of(source), kSample);
  EXPECT_EQ(source.bytes_read(), source.bytes_total());
}

TEST_F(ArchiveTest, HandsOnWhatTheVisitorThrows) {
  const FileSource source(folder_.write("a.tar", TarBuilder().file("x", counted(size_t{20} << 20)).bytes()));
  EXPECT_TRUE(says(
      error_text([&] { source.visit([](const SourceFile&, ByteStream&) { fail("visitor", "enough"); }); }),
      "enough"));
}

TEST_F(ArchiveTest, NamesArchiveAndEntryAsThePlace) {
  const FileSource source(folder_.write("a.tar", sample_tar()));
  std::string place;
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    if (place.empty()) place = file.place;
    EXPECT_EQ(bytes.place(), file.place);
  });
  EXPECT_EQ(place, (folder_ / "a.tar").string() + ": d/one.txt");
}

TEST_F(ArchiveTest, RefusesLinks) {
  EXPECT_TRUE(says(complaint(TarBuilder().entry("l", '2', "", "/etc/passwd").bytes()), "'l' is a link"));
  EXPECT_TRUE(says(complaint(TarBuilder().entry("l", '1', "", "d/one.txt").bytes()), "'l' is a link"));
}
TEST_F(ArchiveTest, RefusesDevices) {
  EXPECT_TRUE(says(complaint(TarBuilder().entry("d", '3', "").bytes()), "neither a file nor a folder"));
}
TEST_F(ArchiveTest, RefusesPathsThatPointOutside) {
  EXPECT_TRUE(
      says(complaint(TarBuilder().file("/etc/passwd", "x").bytes()), "'/etc/passwd' has an absolute path"));
  EXPECT_TRUE(says(complaint(TarBuilder().file("a/../../b", "x").bytes()), "'a/../../b' points outside"));
  EXPECT_TRUE(says(complaint(TarBuilder().folder("../").file("a", "x").bytes()), "points outside"));
}
TEST_F(ArchiveTest, RefusesControlCharactersInNames) {
  EXPECT_TRUE(
      says(complaint(TarBuilder().file("a\x1b[31m", "x").bytes()), "'a\\x1b[31m' has control characters"));
}
TEST_F(ArchiveTest, RefusesTheSamePathTwice) {
  EXPECT_TRUE(
      says(complaint(TarBuilder().file("a/b", "x").file("./a/b", "y").bytes()), "'a/b' is there twice"));
}
TEST_F(ArchiveTest, RefusesNamesBeyondTheLimit) {
  EXPECT_TRUE(says(complaint(TarBuilder().long_file(std::string(300, 'x'), "").bytes(), {.path_length = 200}),
                   "a name of 300 bytes"));
}
TEST_F(ArchiveTest, RefusesMoreFilesThanTheLimit) {
  EXPECT_TRUE(says(complaint(sample_tar(), {.files = 2}), "one of more than 2"));
}
TEST_F(ArchiveTest, RefusesSizesBeyondTheLimit) {
  const std::string tar = TarBuilder().entry("a", '0', "x", "", int64_t{1} << 32).bytes();
  EXPECT_TRUE(
      says(complaint(pack(tar, Packing::kGzip), {.file_size = 1 << 20}), "at most 1048576 are taken"));
}
TEST_F(ArchiveTest, RefusesASizeThatIsNotThere) {
  const std::string tar = TarBuilder().entry("a", '0', "x", "", int64_t{1} << 32).bytes();
  EXPECT_TRUE(says(complaint(tar), "ends in the middle"));
  EXPECT_TRUE(says(complaint(pack(tar, Packing::kGzip)), "ends in the middle"));
}
TEST_F(ArchiveTest, RefusesSparseFiles) {
  // GNU's old form: one stored part of 512 bytes at offset 1 GiB.
  std::string tar = TarBuilder().entry("s", 'S', counted(512)).bytes();
  std::memcpy(tar.data() + 257, "ustar  ", 8);
  std::memcpy(tar.data() + 386,
              "10000000000\0"
              "00000001000\0",
              24);
  std::memcpy(tar.data() + 483, "10000001000\0", 12);
  std::memset(tar.data() + 148, ' ', 8);
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(tar[i]);
  std::snprintf(tar.data() + 148, 8, "%06o", sum);
  EXPECT_TRUE(says(complaint(tar), "'s' is a sparse file"));
}
TEST_F(ArchiveTest, RefusesABomb) {
  const std::string tar = TarBuilder().file("zeros", std::string(size_t{8} << 20, '\0')).bytes();
  for (const Packing how : {Packing::kGzip, Packing::kXz, Packing::kZstd, Packing::kBzip2}) {
    EXPECT_TRUE(says(complaint(pack(tar, how), {.ratio = 300, .ratio_from = 1 << 20}), "more than 300 times"))
        << name_of(how);
  }
}
TEST_F(ArchiveTest, RefusesWhatIsPackedButNoTar) {
  for (const Packing how : {Packing::kGzip, Packing::kXz, Packing::kZstd, Packing::kBzip2}) {
    EXPECT_TRUE(says(complaint(pack(std::string(5000, 'x'), how)), "there is no tar archive in it"))
        << name_of(how);
  }
}

TEST_F(ArchiveTest, RefusesAnArchiveCutAnywhere) {
  for (const Packing how : kPackings) {
    const std::string whole = pack(sample_tar(), how);
    const size_t end = how == Packing::kPlain ? whole.size() - 1024 : whole.size();
    for (size_t size = 1; size < end; size += how == Packing::kPlain ? 61 : 1) {
      EXPECT_TRUE(says(error_text([&] { files_directly(whole.substr(0, size)); }), "a.tar.gz: "))
          << name_of(how) << " cut to " << size;
    }
  }
}
TEST_F(ArchiveTest, SaysWhereACutArchiveEnds) {
  const std::string tar = TarBuilder().file("a", std::string(200'000, 'x')).bytes();
  for (const Packing how : kPackings) {
    const std::string whole = pack(tar, how);
    const size_t half = whole.size() / 2;
    EXPECT_TRUE(says(complaint(whole.substr(0, half)), fmt::format("ends in the middle, at byte {}", half)))
        << name_of(how);
  }
}

// Packed archives have checksums: a flipped bit is refused, or changes nothing that matters.
TEST_F(ArchiveTest, NeverGivesOtherContentsForAFlippedBit) {
  for (const Packing how : {Packing::kGzip, Packing::kXz, Packing::kZstd, Packing::kBzip2}) {
    std::string bytes = pack(sample_tar(), how);
    int refused = 0;
    for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
      const auto mask = static_cast<char>(1 << (bit % 8));
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
      Files got;
      if (error_text([&] { got = files_directly(bytes); }).empty()) {
        EXPECT_EQ(got, kSample) << name_of(how) << " bit " << bit;
      } else {
        ++refused;
      }
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    }
    EXPECT_GT(refused, 0) << name_of(how);
  }
}
TEST_F(ArchiveTest, SurvivesFlippedBitsInAPlainTar) {
  std::string bytes = sample_tar();
  int refused = 0;
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 7) {
    const auto mask = static_cast<char>(1 << (bit % 8));
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
    refused += error_text([&] { files_directly(bytes); }).empty() ? 0 : 1;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ mask);
  }
  EXPECT_GT(refused, 100);
}

TEST(FileSource, VisitsAFolderSortedByTheParts) {
  const TempDir folder;
  fs::create_directories(folder / "a");
  folder.write("a/2", "x");
  folder.write("a/1", "y");
  folder.write("a.txt", "z");
  folder.write("b", "");
  EXPECT_EQ(files_of(FileSource(folder.path())),
            (Files{{"a/1", "y"}, {"a/2", "x"}, {"a.txt", "z"}, {"b", ""}}));
}
TEST(FileSource, TakesAPlainFileAsASourceOfOne) {
  const TempDir folder;
  const FileSource source(folder.write("pairs.tsv", "0\ta\n"));
  EXPECT_EQ(source.kind(), FileSource::Kind::kFile);
  EXPECT_EQ(files_of(source), (Files{{"pairs.tsv", "0\ta\n"}}));
  EXPECT_EQ(source.bytes_read(), 4);
}
TEST(FileSource, FollowsLinksInsideTheFolderOnly) {
  const TempDir folder;
  fs::create_directories(folder / "in");
  folder.write("outside", "secret");
  folder.write("in/real", "r");
  fs::create_symlink("real", folder / "in/inside");
  fs::create_symlink("../outside", folder / "in/leak");
  fs::create_directory_symlink("..", folder / "in/up");
  fs::create_symlink("nowhere", folder / "in/dangling");
  EXPECT_EQ(files_of(FileSource(folder / "in")), (Files{{"inside", "r"}, {"real", "r"}}));
}
TEST(FileSource, PassesOverWhatIsNoFile) {
  const TempDir folder;
  folder.write("a", "x");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(files_of(FileSource(folder.path())), (Files{{"a", "x"}}));
}
TEST(FileSource, NamesAMissingPath) {
  EXPECT_TRUE(says(error_text([] { FileSource("no/such/thing"); }), "no/such/thing: there is no such file"));
}
TEST(FileSource, NamesAFileItCannotOpen) {
  const TempDir folder;
  const fs::path file = folder.write("x", "abc");
  const FileSource source(folder.path());
  EXPECT_TRUE(says(error_text([&] {
                     source.visit([&](const SourceFile&, ByteStream& bytes) {
                       fs::remove(file);
                       bytes.read_all(10);
                     });
                   }),
                   "x: cannot open"));
}
TEST(ByteStream, RefusesMoreThanTheLimit) {
  MemoryStream four("1234", "f"), five("12345", "f");
  EXPECT_EQ(four.read_all(4), "1234");
  EXPECT_TRUE(says(error_text([&] { five.read_all(4); }), "f: larger than 4 bytes"));
}

}  // namespace
}  // namespace lra
