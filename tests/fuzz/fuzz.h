// Fuzz targets: one small file for each parser of files that people download or are given. A new one is a new
// .cpp here with a line `// sources: …` that names what it is linked with (paths under src/), one `//
// libraries: …` if it needs others than ours, and seeds in corpus/NAME/.
//
//   make fuzz SECONDS_EACH=600          all of them, one after the other
//   build/release/fuzz/png FILE         the one input again that libFuzzer left behind
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

namespace lra {

// A parser reads its input or throws Error. Everything else (a crash, another exception, a sanitizer's
// complaint, too much memory or time) is a find.
template <class Action>
int reads_or_refuses(Action&& action) {
  try {
    action();
  } catch (const Error&) {
  }
  return 0;
}

inline void require(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::abort();
}

// The input as a file, for parsers that want a path.
class InputFile {
 public:
  InputFile(const uint8_t* data, size_t size) : fd_(::memfd_create("input", MFD_CLOEXEC)) {
    require(fd_ >= 0 && ::write(fd_, data, size) == static_cast<ssize_t>(size), "the input fits into a file");
  }
  ~InputFile() { ::close(fd_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
};

inline std::string_view text_of(const uint8_t* data, size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

}  // namespace lra
