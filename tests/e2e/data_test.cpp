// The data commands of the real program: what a person types, and what goes wrong on their machine.
#include <sys/resource.h>

#include <gtest/gtest.h>

#include "base/json.h"
#include "support/program.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

std::string cifar_batch(int count, char value) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    bytes += static_cast<char>(i % 10);
    bytes.append(3 * 1024, static_cast<char>(value + i % 50));
  }
  return bytes;
}
void publish_cifar(const TempDir& root, int count) {
  std::filesystem::create_directories(root / "cifar");
  for (int b = 1; b <= 5; ++b)
    root.write("cifar/data_batch_" + std::to_string(b) + ".bin",
               cifar_batch(count, static_cast<char>(b * 20)));
  root.write("cifar/test_batch.bin", cifar_batch(count, 0));
}

TEST(DataCommands, ImportVerifyShowAndExportAnImageSet) {
  const TempDir root;
  publish_cifar(root, 20);
  ASSERT_EQ(run_lra({"data", "import", "image", "cifar"}, root.path()).exit_code, 0);
  const Outcome verified = run_lra({"data", "verify", "image", "--json"}, root.path());
  ASSERT_EQ(verified.exit_code, 0) << verified.err;
  EXPECT_EQ(Json::parse(verified.out).at("splits").at("test").at("examples"), 20);
  const Outcome shown = run_lra({"data", "show", "image", "--png", "one.png"}, root.path());
  ASSERT_EQ(shown.exit_code, 0) << shown.err;
  EXPECT_EQ(read_text(root / "one.png").substr(1, 3), "PNG");
  EXPECT_NE(run_lra({"data", "show", "image"}, root.path()).out.find("32 by 32 pixels"), std::string::npos);
}

// A disk that is full: no file may grow beyond a limit. What was there stays as it was.
TEST(DataCommands, LeaveOldDataAsItWasOnAFullDisk) {
  const TempDir root;
  publish_cifar(root, 20);
  ASSERT_EQ(run_lra({"data", "import", "image", "cifar"}, root.path()).exit_code, 0);
  const std::string before = read_text(root / "data/image/default/manifest.json");
  publish_cifar(root, 400);
  rlimit old = {};
  getrlimit(RLIMIT_FSIZE, &old);
  const rlimit small = {200'000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const Outcome failed = run_lra({"data", "import", "image", "cifar", "--force"}, root.path());
  std::signal(SIGXFSZ, handler);
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_EQ(failed.exit_code, 1) << failed.err;
  EXPECT_NE(failed.err.find("cannot write"), std::string::npos) << failed.err;
  EXPECT_EQ(read_text(root / "data/image/default/manifest.json"), before);
  EXPECT_EQ(run_lra({"data", "verify", "image"}, root.path()).exit_code, 0);
}

TEST(DataCommands, SayThatAFolderCannotBeWritten) {
  const TempDir root;
  root.write("data", "a file where the folder should be");
  const Outcome failed = run_lra({"data", "make", "image", "--size", "tiny"}, root.path());
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.err.find("cannot make the folder"), std::string::npos) << failed.err;
}

TEST(DataCommands, RefusePngForATaskWithoutPictures) {
  const TempDir root;
  ASSERT_EQ(run_lra({"data", "make", "listops", "--size", "tiny", "--count", "20,5,5", "--variant", "x"},
                    root.path())
                .exit_code,
            0);
  const Outcome failed =
      run_lra({"data", "show", "listops", "--variant", "x", "--png", "x.png"}, root.path());
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.err.find("is no image"), std::string::npos) << failed.err;
}

}  // namespace
}  // namespace lra
