// One HTTP(S) request with libcurl, the only place that knows it. It is loaded when it is first needed, so
// that the program starts where it is missing.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

struct HttpRequest {
  std::string url;
  std::string range = {};                 // "100-"; empty: everything
  std::vector<std::string> headers = {};  // "If-Range: …"
  double stall_seconds = 60;
};

struct HttpAnswer {
  int64_t status = 0;                          // 0: none came
  std::map<std::string, std::string> headers;  // names in lower case

  std::string_view header(const std::string& name) const;  // empty if there is none
};

struct HttpResult {
  HttpAnswer answer;
  bool complete = false;   // as much came as was announced
  bool may_retry = false;  // what went wrong may be better next time
  std::string problem;     // in words, if not complete
};

// Redirections are followed (never from https to http). `on_body` gets what comes, with the answer's status
// and headers; `on_tick` is called now and then. Either ends the request by returning false; what they throw
// is thrown here.
HttpResult http_get(const HttpRequest& request,
                    const std::function<bool(const HttpAnswer&, std::string_view)>& on_body,
                    const std::function<bool()>& on_tick);

}  // namespace lra
