#include "tasks/image.h"

#include <set>

#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/memory_sink.h"
#include "support/pack.h"
#include "support/tar.h"

namespace lra::image {
namespace {

// `count` records; image i of batch b is gray with the value 20·b + i, its label i mod 10.
std::string batch(int b, int count) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    bytes.append(3 * 1024, static_cast<char>(20 * b + i));
  }
  return bytes;
}
std::string name_of_batch(int b) { return b == 0 ? "test_batch.bin" : fmt::format("data_batch_{}.bin", b); }

void publish(const TempDir& root, int count = 20) {
  for (int b = 0; b <= 5; ++b) root.write(name_of_batch(b), batch(b, count));
}

MemorySink import_from(const fs::path& from, const Options& options = {}) {
  set_log_level(LogLevel::kQuiet);
  MemorySink made;
  made.notes = find_task("image").import(options, from, made);
  return made;
}

TEST(ImageGray, FollowsTensorFlow) {
  // tf.image.rgb_to_grayscale's arithmetic by hand: (0.2989 R + 0.587 G + 0.114 B) / 255 * 255.5, truncated.
  EXPECT_EQ(gray_tf(255, 0, 0), 76);
  EXPECT_EQ(gray_tf(0, 255, 0), 149);
  EXPECT_EQ(gray_tf(0, 0, 255), 29);
  for (int v = 0; v < 256; ++v) {
    const auto g = static_cast<uint8_t>(v);
    EXPECT_EQ(gray_tf(g, g, g), g);
    EXPECT_EQ(gray_pil(g, g, g), g);
  }
}
TEST(ImageGray, IsNeverAbovePillowsAndAtMostOneBelow) {
  int lower = 0;
  for (int r = 0; r < 256; r += 5) {
    for (int g = 0; g < 256; g += 5) {
      for (int b = 0; b < 256; b += 5) {
        const int tf = gray_tf(static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b));
        const int pil = gray_pil(static_cast<uint8_t>(r), static_cast<uint8_t>(g), static_cast<uint8_t>(b));
        ASSERT_TRUE(tf == pil || tf == pil - 1) << r << " " << g << " " << b;
        lower += tf < pil ? 1 : 0;
      }
    }
  }
  EXPECT_NEAR(lower / (52.0 * 52 * 52), 0.26, 0.03);  // the share known for random colours
}

TEST(ImageImport, HoldsOutATenthOfEachClass) {
  const TempDir root;
  publish(root);
  const MemorySink made = import_from(root.path());
  EXPECT_EQ(made.splits[0].size(), 90);
  EXPECT_EQ(made.splits[1].size(), 10);
  EXPECT_EQ(made.splits[2].size(), 20);
  const std::set<int64_t> classes(made.splits[1].labels.begin(), made.splits[1].labels.end());
  EXPECT_EQ(classes.size(), 10u);
}
TEST(ImageImport, KeepsEveryImageOnceWithItsLabel) {
  const TempDir root;
  publish(root);
  const MemorySink made = import_from(root.path());
  std::set<int> seen;
  for (const Examples& split : made.splits) {
    for (int64_t i = 0; i < split.size(); ++i) {
      const int value = split.first(i)[0];
      EXPECT_EQ(split.first(i).size(), 1024);
      EXPECT_EQ(split.labels[static_cast<size_t>(i)], value % 20 % 10);
      EXPECT_EQ(value < 20, &split == &made.splits[2]);
      seen.insert(value);
    }
  }
  EXPECT_EQ(seen.size(), 120u);
}
TEST(ImageImport, GivesTheSameFromAnArchiveInAnyOrder) {
  if (!archives_supported()) GTEST_SKIP() << "this build reads no archives";
  const TempDir root, other;
  publish(root);
  TarBuilder tar;
  for (const int b : {4, 0, 2, 5, 1, 3}) tar.file("cifar-10-batches-bin/" + name_of_batch(b), batch(b, 20));
  const MemorySink one = import_from(root.path()),
                   two = import_from(other.write("c.tar.gz", pack(tar.bytes(), Packing::kGzip)));
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(one.splits[s].tokens, two.splits[s].tokens);
    EXPECT_EQ(one.splits[s].labels, two.splits[s].labels);
  }
}
TEST(ImageImport, AveragesDownWhenAsked) {
  const TempDir root;
  publish(root);
  Options options;
  options.side = 8;
  EXPECT_EQ(import_from(root.path(), options).splits[0].first(0).size(), 64);
  options.side = 12;
  EXPECT_TRUE(says(error_text([&] { import_from(root.path(), options); }), "side=12"));
}
TEST(ImageImport, DropsTheRemainderOfValAndTestWhenAsked) {
  const TempDir root;
  publish(root, 260);
  Options options;
  options.drop_remainder = true;
  const MemorySink made = import_from(root.path(), options);
  EXPECT_EQ(made.splits[0].size(), 1170);
  EXPECT_EQ(made.splits[1].size(), 0);
  EXPECT_EQ(made.splits[2].size(), 256);
}
TEST(ImageImport, RefusesAFileOfTheWrongLength) {
  const TempDir root;
  publish(root);
  root.write("data_batch_3.bin", batch(3, 20).substr(0, 3073 * 7 + 100));
  const std::string error = error_text([&] { import_from(root.path()); });
  EXPECT_TRUE(says(error, "data_batch_3.bin"));
  EXPECT_TRUE(says(error, "byte 21511 begins one that does not end"));
}
TEST(ImageImport, RefusesALabelOutsideTheClasses) {
  const TempDir root;
  publish(root);
  std::string bytes = batch(2, 20);
  bytes[3073 * 4] = 11;
  root.write("data_batch_2.bin", bytes);
  EXPECT_TRUE(says(error_text([&] { import_from(root.path()); }), "image 4 has the label 11"));
}
TEST(ImageImport, SaysWhatIsMissing) {
  const TempDir root;
  publish(root);
  fs::remove(root / "data_batch_5.bin");
  EXPECT_TRUE(says(error_text([&] { import_from(root.path()); }), "data_batch_5 is missing"));
}
TEST(ImageImport, RefusesASourceThatHoldsTheSetTwice) {
  const TempDir root;
  publish(root);
  fs::create_directories(root / "copy");
  root.write("copy/test_batch.bin", batch(0, 20));
  EXPECT_TRUE(says(error_text([&] { import_from(root.path()); }), "twice"));
}

// What CIFAR-10's Python version holds, by the opcodes of Python 2's pickle protocol 2.
std::string python_batch(int b, int count) {
  const auto number = [](uint32_t v) { return std::string(reinterpret_cast<const char*>(&v), 4); };
  const auto key = [](const std::string& s) { return "U" + std::string(1, static_cast<char>(s.size())) + s; };
  std::string data, labels;
  for (int i = 0; i < count; ++i) {
    data.append(3 * 1024, static_cast<char>(20 * b + i));
    labels += "K" + std::string(1, static_cast<char>(i % 10));
  }
  std::string shape = "J" + number(static_cast<uint32_t>(count)) + "J" + number(3072) + "\x86";
  std::string bytes = "\x80\x02}(" + key("data");
  bytes +=
      "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK" + std::string(1, '\0') + "\x85" + key("b");
  bytes += "\x87R(K\x01" + shape + "cnumpy\ndtype\n" + key("u1") + "K" + std::string(1, '\0') +
           "K\x01\x87R(K\x03" + key("|") + "NNNJ" + number(0xFFFFFFFFu) + "J" + number(0xFFFFFFFFu) + "K" +
           std::string(1, '\0') + "tb";
  bytes += "\x89T" + number(static_cast<uint32_t>(data.size())) + data + "tb";
  bytes += key("labels") + "](" + labels + "eu.";
  return bytes;
}

TEST(ImageImport, ReadsThePythonVersionAlike) {
  const TempDir binary, python;
  publish(binary);
  for (int b = 0; b <= 5; ++b) {
    const std::string name = name_of_batch(b);
    python.write(name.substr(0, name.size() - 4), python_batch(b, 20));
  }
  const MemorySink one = import_from(binary.path()), two = import_from(python.path());
  for (size_t s = 0; s < 3; ++s) {
    EXPECT_EQ(one.splits[s].tokens, two.splits[s].tokens);
    EXPECT_EQ(one.splits[s].labels, two.splits[s].labels);
  }
}

}  // namespace
}  // namespace lra::image
