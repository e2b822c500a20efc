#include "data/download.h"

#include <cstdlib>

#include <gtest/gtest.h>

#include "base/sha256.h"
#include "data/checksum.h"
#include "data/http.h"
#include "data/part_file.h"
#include "support/error_text.h"
#include "support/http_server.h"
#include "support/temp_dir.h"

namespace lra {
namespace {

std::string counted(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 7 + i / 256);
  return bytes;
}
const std::string kFile = counted(3000);

std::string reply(const std::string& status, const std::string& headers, const std::string& body) {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + headers + "\r\n" + body;
}
// All of it, of which only the first `sent` bytes come.
std::string whole(const std::string& bytes, size_t sent = std::string::npos,
                  const std::string& tag = "\"v1\"") {
  return reply(
      "200 OK",
      fmt::format("Content-Length: {}\r\n{}", bytes.size(), tag.empty() ? "" : "ETag: " + tag + "\r\n"),
      bytes.substr(0, sent));
}
std::string rest(const std::string& bytes, size_t from, size_t claimed_from) {
  return reply("206 Partial Content",
               fmt::format("Content-Length: {}\r\nETag: \"v1\"\r\nContent-Range: bytes {}-{}/{}\r\n",
                           bytes.size() - from, claimed_from, bytes.size() - 1, bytes.size()),
               bytes.substr(from));
}
std::string rest(const std::string& bytes, size_t from) { return rest(bytes, from, from); }
bool has(const std::string& request, const std::string& line) {
  return request.find("\r\n" + line + "\r\n") != request.npos;
}
bool asks_for_a_range(const std::string& request) { return request.find("\r\nRange:") != request.npos; }

class DownloadTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("no_proxy", "127.0.0.1", 1);  // whatever the environment says
    const std::string why = error_text([&] {
      http_get(
          {.url = "http://127.0.0.1:1/"}, [](const HttpAnswer&, std::string_view) { return true; },
          [] { return true; });
    });
    if (!why.empty()) GTEST_SKIP() << why;
  }
  DownloadRequest request(const HttpServer& server) const {
    return {.url = server.url("/file"),
            .to = folder_ / "file",
            .sha256 = sha256_hex(kFile),
            .attempts = 3,
            .first_pause_seconds = 0};
  }
  std::string complaint(const DownloadRequest& r) const {
    return error_text([&] { download(r); });
  }
  bool there(const std::string& name) const { return fs::exists(folder_ / name); }
  void expect_file() const {
    ASSERT_TRUE(there("file"));
    EXPECT_TRUE(read_text(folder_ / "file") == kFile);
    EXPECT_FALSE(there("file.part"));
    EXPECT_FALSE(there("file.part.json"));
  }
  // As an interrupted run leaves it.
  void leave_part(const HttpServer& server, size_t size) const {
    PartFile part(folder_ / "file", server.url("/file"));
    part.start_over("\"v1\"");
    part.write(kFile.substr(0, size));
  }
  TempDir folder_;
};

TEST_F(DownloadTest, WritesTheFile) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  download(request(server));
  expect_file();
}
TEST_F(DownloadTest, ChecksAnMd5) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole("abc")}; });
  DownloadRequest r = request(server);
  r.sha256.clear();
  r.md5 = "900150983cd24fb0d6963f7d28e17f72";  // RFC 1321
  EXPECT_EQ(complaint(r), "");
  fs::remove(r.to);
  r.md5[0] = '8';
  EXPECT_TRUE(says(complaint(r),
                   "its MD5 is 900150983cd24fb0d6963f7d28e17f72, expected 800150983cd24fb0d6963f7d28e17f72"));
}
TEST_F(DownloadTest, TakesAnAnswerOfUnknownLength) {
  HttpServer server([](const std::string&, int) { return ServerReply{reply("200 OK", "", kFile)}; });
  download(request(server));
  expect_file();
}
TEST_F(DownloadTest, TakesAnEmptyFile) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole("")}; });
  DownloadRequest r = request(server);
  r.sha256 = sha256_hex("");
  download(r);
  EXPECT_EQ(read_text(r.to), "");
}

TEST_F(DownloadTest, GoesOnAfterABrokenConnection) {
  HttpServer server([](const std::string&, int number) {
    return ServerReply{number == 0 ? whole(kFile, 1000) : rest(kFile, 1000)};
  });
  download(request(server));
  expect_file();
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_FALSE(asks_for_a_range(requests[0]));
  EXPECT_TRUE(has(requests[1], "Range: bytes=1000-")) << requests[1];
  EXPECT_TRUE(has(requests[1], "If-Range: \"v1\"")) << requests[1];
}
TEST_F(DownloadTest, GoesOnByTheDateWhereThereIsNoTag) {
  const std::string date = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
  HttpServer server([&](const std::string&, int number) {
    return ServerReply{number == 0 ? reply("200 OK", "Content-Length: 3000\r\nETag: W/\"weak\"\r\n" + date,
                                           kFile.substr(0, 1000))
                                   : rest(kFile, 1000)};
  });
  download(request(server));
  expect_file();
  EXPECT_TRUE(has(server.requests().at(1), "If-Range: Wed, 21 Oct 2015 07:28:00 GMT"));
}
TEST_F(DownloadTest, StartsOverWhereNothingNamesTheVersion) {
  HttpServer server([](const std::string&, int number) {
    return ServerReply{whole(kFile, number == 0 ? 1000 : 3000, "")};
  });
  download(request(server));
  expect_file();
  EXPECT_FALSE(asks_for_a_range(server.requests().at(1)));
}
TEST_F(DownloadTest, GoesOnWhereAnInterruptedRunEnded) {
  HttpServer server([](const std::string&, int number) {
    return number == 0 ? ServerReply{whole(kFile, 1000), true} : ServerReply{rest(kFile, 1000)};
  });
  DownloadRequest r = request(server);
  r.stop = [&] { return there("file.part") && fs::file_size(folder_ / "file.part") == 1000; };
  EXPECT_THROW(download(r), Interrupted);
  EXPECT_FALSE(there("file"));
  r.stop = {};
  download(r);
  expect_file();
}
TEST_F(DownloadTest, StartsOverWhenTheServerSendsEverything) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  leave_part(server, 1000);
  download(request(server));
  expect_file();
  EXPECT_TRUE(asks_for_a_range(server.requests().at(0)));
}
TEST_F(DownloadTest, AsksForEverythingAfterAWrongRange) {
  HttpServer server([](const std::string& request, int) {
    return ServerReply{asks_for_a_range(request) ? rest(kFile, 1000, 900) : whole(kFile)};
  });
  leave_part(server, 1000);
  download(request(server));
  expect_file();
  ASSERT_EQ(server.requests().size(), 2u);
  EXPECT_FALSE(asks_for_a_range(server.requests()[1]));
}
TEST_F(DownloadTest, RefusesARangeThatNobodyAskedFor) {
  HttpServer server([](const std::string&, int) { return ServerReply{rest(kFile, 1000)}; });
  EXPECT_TRUE(says(complaint(request(server)), "status 206 and the range 'bytes 1000-2999/3000', twice"));
  EXPECT_FALSE(there("file"));
}
TEST_F(DownloadTest, FinishesAPartThatIsComplete) {
  HttpServer server([](const std::string&, int) {
    return ServerReply{
        reply("416 Range Not Satisfiable", "Content-Range: bytes */3000\r\nContent-Length: 0\r\n", "")};
  });
  leave_part(server, 3000);
  download(request(server));
  expect_file();
}
TEST_F(DownloadTest, StartsOverWhereThePartIsTooLong) {
  HttpServer server([](const std::string& request, int) {
    return ServerReply{
        asks_for_a_range(request)
            ? reply("416 Range Not Satisfiable", "Content-Range: bytes */2000\r\nContent-Length: 0\r\n", "")
            : whole(kFile)};
  });
  leave_part(server, 2500);
  download(request(server));
  expect_file();
}
TEST_F(DownloadTest, ThrowsAwayThePartOfAnotherUrl) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  leave_part(server, 1000);
  DownloadRequest r = request(server);
  r.url = server.url("/other");
  download(r);
  EXPECT_FALSE(asks_for_a_range(server.requests().at(0)));
}
TEST_F(DownloadTest, ThrowsAwayAPartWithoutItsNote) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  for (const char* note : {"", "{", "[]", "{\"url\": 3}"}) {
    leave_part(server, 1000);
    folder_.write("file.part.json", note);
    download(request(server));
    expect_file();
    fs::remove(folder_ / "file");
    EXPECT_FALSE(asks_for_a_range(server.requests().back())) << note;
  }
}

TEST_F(DownloadTest, KeepsNothingOfAnotherFile) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole("something else")}; });
  const std::string text = complaint(request(server));
  EXPECT_TRUE(says(text, "its SHA-256 is " + sha256_hex("something else")));
  EXPECT_TRUE(says(text, "expected " + sha256_hex(kFile)));
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}
TEST_F(DownloadTest, RefusesAnotherSizeBeforeItComes) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile, 10), true}; });
  DownloadRequest r = request(server);
  r.expected_size = 2999;
  EXPECT_TRUE(says(complaint(r), "the server offers 3000 bytes, 2999 were expected"));
}
TEST_F(DownloadTest, RefusesMoreThanTheDiskCanHold) {
  HttpServer server([](const std::string&, int) {
    return ServerReply{reply("200 OK", "Content-Length: 4000000000000000000\r\n", "begin"), true};
  });
  EXPECT_TRUE(says(complaint(request(server)), "4000000000000000000 more bytes are needed"));
}
TEST_F(DownloadTest, RefusesMoreThanWasExpected) {
  HttpServer server([](const std::string&, int) { return ServerReply{reply("200 OK", "", kFile)}; });
  DownloadRequest r = request(server);
  r.expected_size = 2999;
  EXPECT_TRUE(says(complaint(r), "more than the 2999 bytes expected"));
}
TEST_F(DownloadTest, RefusesFewerThanWereExpected) {
  HttpServer server([](const std::string&, int) { return ServerReply{reply("200 OK", "", kFile)}; });
  DownloadRequest r = request(server);
  r.expected_size = 3001;
  EXPECT_TRUE(says(complaint(r), "it has 3000 bytes, expected 3001"));
}

TEST_F(DownloadTest, GivesUpAtOnceWhereTheFileIsGone) {
  HttpServer server([](const std::string&, int) {
    return ServerReply{reply("404 Not Found", "Content-Length: 4\r\n", "gone")};
  });
  EXPECT_TRUE(says(complaint(request(server)), "status 404. The file is not there any more"));
  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_FALSE(there("file"));
}
TEST_F(DownloadTest, TriesAgainWhereTheServerIsBusy) {
  HttpServer server([](const std::string&, int number) {
    return ServerReply{number < 2 ? reply("503 Service Unavailable", "Content-Length: 4\r\n", "busy")
                                  : whole(kFile)};
  });
  download(request(server));
  expect_file();
}
TEST_F(DownloadTest, GivesUpAfterAttemptsThatBringNothing) {
  HttpServer server([](const std::string&, int number) {
    return ServerReply{number == 0 ? whole(kFile, 1000) : std::string()};
  });
  const std::string text = complaint(request(server));
  EXPECT_TRUE(says(text, "3 attempts brought nothing new. 1000 bytes are kept"));
  EXPECT_EQ(server.requests().size(), 4u);
  EXPECT_EQ(fs::file_size(folder_ / "file.part"), 1000u);
}
TEST_F(DownloadTest, DoesNotTakeStartingOverForProgress) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile, 1000)}; });
  EXPECT_TRUE(says(complaint(request(server)), "3 attempts brought nothing new"));
}
TEST_F(DownloadTest, GoesOnAfterAStall) {
  HttpServer server([](const std::string& request, int number) {
    if (number == 0) return ServerReply{whole(kFile, 1000), true};
    return ServerReply{asks_for_a_range(request) ? rest(kFile, 1000) : whole(kFile)};
  });
  DownloadRequest r = request(server);
  r.stall_seconds = 0.5;
  r.attempts = 100;  // a busy machine may stall, too
  download(r);
  expect_file();
}
TEST_F(DownloadTest, FollowsRedirections) {
  HttpServer server([](const std::string& request, int) {
    return ServerReply{request.starts_with("GET /file ")
                           ? reply("302 Found", "Location: /elsewhere\r\nContent-Length: 5\r\n", "there")
                           : whole(kFile)};
  });
  download(request(server));
  expect_file();
}
TEST_F(DownloadTest, DoesNotFollowToOtherProtocols) {
  HttpServer server([](const std::string&, int) {
    return ServerReply{reply("302 Found", "Location: file:///etc/passwd\r\nContent-Length: 0\r\n", "")};
  });
  EXPECT_TRUE(says(complaint(request(server)), "Protocol \"file\""));
  EXPECT_FALSE(there("file"));
}
TEST_F(DownloadTest, EndsAnEndlessRedirection) {
  HttpServer server([](const std::string&, int) {
    return ServerReply{reply("302 Found", "Location: /file\r\nContent-Length: 0\r\n", "")};
  });
  EXPECT_NE(complaint(request(server)), "");
}

TEST_F(DownloadTest, AsksNothingWhereTheFileIsThere) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  folder_.write("file", kFile);
  download(request(server));
  EXPECT_EQ(server.requests().size(), 0u);
}
TEST_F(DownloadTest, LeavesAnotherFileOfThatNameAlone) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  folder_.write("file", "mine");
  EXPECT_TRUE(says(complaint(request(server)), "not the published file"));
  EXPECT_EQ(read_text(folder_ / "file"), "mine");
}
TEST_F(DownloadTest, LeavesAFileThatAnotherProcessIsAt) {
  HttpServer server([](const std::string&, int) { return ServerReply{whole(kFile)}; });
  const PartFile other(folder_ / "file", server.url("/file"));
  EXPECT_TRUE(says(complaint(request(server)), "another process is downloading it"));
}
TEST_F(DownloadTest, RefusesOtherProtocols) {
  EXPECT_TRUE(
      says(complaint({.url = "file:///etc/passwd", .to = folder_ / "file"}), "only http:// and https://"));
}

}  // namespace
}  // namespace lra
