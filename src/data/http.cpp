#include "data/http.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cmath>
#include <dlfcn.h>
#include <exception>
#include <memory>

#include "base/error.h"

#ifdef LRA_HAVE_CURL
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>
#endif

namespace lra {

std::string_view HttpAnswer::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string_view() : found->second;
}

#ifndef LRA_HAVE_CURL
HttpResult http_get(const HttpRequest& request,
                    const std::function<bool(const HttpAnswer&, std::string_view)>&,
                    const std::function<bool()>&) {
  fail("download",
       "{}: this build cannot download. Install libcurl4-openssl-dev and build again, or fetch the file by "
       "other means.",
       request.url);
}
#else

namespace {

struct Curl {
  decltype(&curl_global_init) global_init;
  decltype(&curl_easy_init) easy_init;
  decltype(&curl_easy_setopt) easy_setopt;
  decltype(&curl_easy_perform) easy_perform;
  decltype(&curl_easy_strerror) easy_strerror;
  decltype(&curl_easy_cleanup) easy_cleanup;
  decltype(&curl_slist_append) slist_append;
  decltype(&curl_slist_free_all) slist_free_all;
};

Curl load_curl() {
  void* library = nullptr;
  for (const char* name : {"libcurl.so.4", "libcurl-gnutls.so.4"}) {
    if (!library) library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (!library) {
    const char* why = ::dlerror();
    fail("download",
         "libcurl could not be loaded: {}. Install it (apt-get install libcurl4), or fetch the file by other "
         "means.",
         why ? why : "not found");
  }
  const auto find = [&](const char* name) {
    void* symbol = ::dlsym(library, name);
    if (!symbol) fail("download", "libcurl.so.4 has no function {}. Install libcurl4 again.", name);
    return symbol;
  };
  Curl curl = {};
  curl.global_init = reinterpret_cast<decltype(curl.global_init)>(find("curl_global_init"));
  curl.easy_init = reinterpret_cast<decltype(curl.easy_init)>(find("curl_easy_init"));
  curl.easy_setopt = reinterpret_cast<decltype(curl.easy_setopt)>(find("curl_easy_setopt"));
  curl.easy_perform = reinterpret_cast<decltype(curl.easy_perform)>(find("curl_easy_perform"));
  curl.easy_strerror = reinterpret_cast<decltype(curl.easy_strerror)>(find("curl_easy_strerror"));
  curl.easy_cleanup = reinterpret_cast<decltype(curl.easy_cleanup)>(find("curl_easy_cleanup"));
  curl.slist_append = reinterpret_cast<decltype(curl.slist_append)>(find("curl_slist_append"));
  curl.slist_free_all = reinterpret_cast<decltype(curl.slist_free_all)>(find("curl_slist_free_all"));
  if (curl.global_init(CURL_GLOBAL_DEFAULT) != 0) fail("download", "libcurl does not start.");
  return curl;
}

const Curl& curl() {
  static const Curl loaded = load_curl();
  return loaded;
}

using Clock = std::chrono::steady_clock;

// What the callbacks share. libcurl is C: nothing is thrown through it.
struct Session {
  const std::function<bool(const HttpAnswer&, std::string_view)>& on_body;
  const std::function<bool()>& on_tick;
  double stall_seconds;
  HttpAnswer answer = {};
  std::exception_ptr failure = nullptr;
  Clock::time_point last_byte = Clock::now();
  bool stalled = false;

  template <class Action>
  bool guarded(const Action& action) {
    try {
      return action();
    } catch (...) {
      failure = std::current_exception();
      return false;
    }
  }
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

// "HTTP/1.1 206 Partial Content" begins an answer, the last of which counts; "Name: value" belongs to it.
void take_header(HttpAnswer& answer, std::string_view line) {
  line = trimmed(line);
  if (line.starts_with("HTTP/")) {
    answer = {};
    const std::string_view rest = trimmed(line.substr(std::min(line.find(' '), line.size())));
    std::from_chars(rest.data(), rest.data() + rest.size(), answer.status);
    return;
  }
  const size_t colon = line.find(':');
  if (colon == line.npos || answer.headers.size() > 200) return;
  std::string name(trimmed(line.substr(0, colon)));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(std::tolower(static_cast<unsigned char>(c))); });
  answer.headers[name] = trimmed(line.substr(colon + 1));
}

size_t on_header(char* bytes, size_t, size_t size, void* self) {
  auto& session = *static_cast<Session*>(self);
  session.last_byte = Clock::now();
  return session.guarded([&] { return take_header(session.answer, {bytes, size}), true; }) ? size : 0;
}
size_t on_write(char* bytes, size_t, size_t size, void* self) {
  auto& session = *static_cast<Session*>(self);
  session.last_byte = Clock::now();
  const bool go_on = session.guarded([&] { return session.on_body(session.answer, {bytes, size}); });
  return go_on ? size : size + 1;  // any other number ends the request
}
// libcurl calls this at least once a second. (Its own low-speed limit averages over several.)
int on_progress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& session = *static_cast<Session*>(self);
  const std::chrono::duration<double> silent = Clock::now() - session.last_byte;
  session.stalled = silent.count() > session.stall_seconds;
  if (session.stalled) return 1;
  return session.guarded([&] { return session.on_tick(); }) ? 0 : 1;
}

// The user's mistakes and ours stay as they are however often one asks.
bool may_be_better_next_time(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_TOO_MANY_REDIRECTS:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_OUT_OF_MEMORY:
      return false;
    default:
      return true;
  }
}

}  // namespace

HttpResult http_get(const HttpRequest& request,
                    const std::function<bool(const HttpAnswer&, std::string_view)>& on_body,
                    const std::function<bool()>& on_tick) {
  const Curl& c = curl();
  const std::unique_ptr<CURL, decltype(c.easy_cleanup)> handle(c.easy_init(), c.easy_cleanup);
  if (!handle) fail("download", "libcurl does not start.");
  Session session{on_body, on_tick, request.stall_seconds};
  std::unique_ptr<curl_slist, decltype(c.slist_free_all)> headers(nullptr, c.slist_free_all);
  for (const std::string& header : request.headers) {
    curl_slist* longer = c.slist_append(headers.get(), header.c_str());
    if (!longer) fail("download", "out of memory.");
    headers.release();
    headers.reset(longer);
  }
  char text[CURL_ERROR_SIZE] = {};
  const auto set = [&](CURLoption option, auto value) { c.easy_setopt(handle.get(), option, value); };
  const bool secure = request.url.starts_with("https:");
  set(CURLOPT_URL, request.url.c_str());
  set(CURLOPT_PROTOCOLS, static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(CURLOPT_REDIR_PROTOCOLS,
      secure ? static_cast<long>(CURLPROTO_HTTPS) : static_cast<long>(CURLPROTO_HTTP | CURLPROTO_HTTPS));
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 10L);
  set(CURLOPT_NOSIGNAL, 1L);
  set(CURLOPT_USERAGENT, "lra");
  set(CURLOPT_CONNECTTIMEOUT, std::max(1L, std::lround(request.stall_seconds)));
  set(CURLOPT_ERRORBUFFER, static_cast<char*>(text));
  set(CURLOPT_HEADERFUNCTION, &on_header);
  set(CURLOPT_HEADERDATA, static_cast<void*>(&session));
  set(CURLOPT_WRITEFUNCTION, &on_write);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&session));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &on_progress);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&session));
  if (!request.range.empty()) set(CURLOPT_RANGE, request.range.c_str());
  if (headers) set(CURLOPT_HTTPHEADER, headers.get());

  const CURLcode code = c.easy_perform(handle.get());
  if (session.failure) std::rethrow_exception(session.failure);
  HttpResult result{std::move(session.answer), code == CURLE_OK, false, {}};
  if (code != CURLE_OK) {
    result.may_retry = may_be_better_next_time(code);
    result.problem = session.stalled ? fmt::format("not a byte came for {:.0f} s", request.stall_seconds)
                     : text[0]       ? text
                                     : c.easy_strerror(code);
  }
  return result;
}
#endif

}  // namespace lra
