#include <cstdlib>

#include <gtest/gtest.h>

#include "base/log.h"
#include "support/error_text.h"
#include "support/http_server.h"
#include "support/pack.h"
#include "support/tar.h"
#include "support/temp_dir.h"
#include "tasks/task.h"

namespace lra {
namespace {

class GetData : public testing::Test {
 protected:
  GetData() {
    set_log_level(LogLevel::kQuiet);
    setenv("no_proxy", "127.0.0.1", 1);
    if (!archives_supported()) return;
    TarBuilder tar;
    for (const char* part : {"train/neg", "train/pos", "test/neg", "test/pos"}) {
      for (int i = 0; i < 10; ++i) {
        tar.file(fmt::format("aclImdb/{}/{}_7.txt", part, i), fmt::format("{} review {}", part, i));
      }
    }
    archive_ = pack(tar.bytes(), Packing::kGzip);
  }
  void SetUp() override {
    if (archive_.empty()) GTEST_SKIP() << "this build reads no archives";
  }
  std::string complaint(const GetRequest& request) const {
    return error_text([&] { get_data(folder_.path(), request); });
  }
  TempDir folder_;
  std::string archive_;
};

TEST_F(GetData, ImportsAFileThatIsThereAlready) {
  const fs::path file = folder_.write("here.tar.gz", archive_);
  const auto made = get_data(folder_.path(), {.name = "imdb", .from = file.string(), .offline = true});
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].open("test").size(), 20);
}

TEST_F(GetData, RefusesAnotherFileThanTheOwners) {
  const HttpServer server([&](const std::string&, int) {
    return ServerReply{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " +
                           std::to_string(archive_.size()) + "\r\n\r\n" + archive_,
                       false};
  });
  const std::string error = complaint({.name = "imdb", .from = server.url("/aclImdb_v1.tar.gz")});
  EXPECT_TRUE(says(error, "84125825") || says(error, "7c2ac02c03563afcf9b574c7e56c153a")) << error;
  EXPECT_FALSE(fs::exists(folder_ / ".downloads/aclImdb_v1.tar.gz"));
  EXPECT_TRUE(list_data(folder_.path()).empty());
}

TEST_F(GetData, NeverTouchesTheNetworkOffline) {
  const std::string error = complaint({.name = "cifar10", .offline = true});
  EXPECT_TRUE(says(error, "--offline forbids"));
  EXPECT_TRUE(says(error, "cifar-10-binary.tar.gz"));
}

TEST_F(GetData, SuggestsANameForAnUnknownOne) {
  EXPECT_TRUE(says(complaint({.name = "imbd", .offline = true}), "Did you mean 'imdb'?"));
}

TEST_F(GetData, RefusesATaskThatDoesNotReadTheFile) {
  const std::string error = complaint({.name = "imdb", .tasks = {"image"}, .offline = true});
  EXPECT_TRUE(says(error, "none of the tasks named with --task reads aclImdb_v1.tar.gz"));
}

}  // namespace
}  // namespace lra
