// Files over HTTP and HTTPS, by libcurl, which is loaded when it is first needed: the program starts without
// it and says which package to install.
//
//   download({.url = "https://…/aclImdb_v1.tar.gz", .to = cache / "aclImdb_v1.tar.gz", .md5 = "7c24…"});
//
// Bytes go to TO.part; TO appears only when it is complete and its checksum is right. What is there of
// TO.part is taken up again: the request names the ETag or the date that the bytes so far came with (kept in
// TO.part.json), and the answer must be exactly the range asked for. A server that sends everything starts
// the file over; one that sends another range is asked once more for everything. Broken connections and
// stalls are tried again after growing pauses, as long as attempts bring new bytes. An interruption keeps
// TO.part. Proxies are taken from the environment as curl does (https_proxy, no_proxy, …).
#pragma once
#include <cstdint>
#include <functional>
#include <string>

#include "base/file.h"

namespace lra {

struct DownloadRequest {
  std::string url;
  fs::path to;
  std::string sha256 = {}, md5 = {};  // hex; empty: not checked
  int64_t expected_size = 0;          // bytes; 0: not known

  int attempts = 6;                // in a row that bring nothing new
  double first_pause_seconds = 1;  // doubled with every such attempt
  double longest_pause_seconds = 30;
  double stall_seconds = 60;        // without a byte
  std::function<bool()> stop = {};  // asked often; empty: base/signals.h
};

// Returns when TO is there and right; if it is already, nothing is asked of the server. Errors say what was
// found, what was expected and what to do.
void download(const DownloadRequest& request);

}  // namespace lra
