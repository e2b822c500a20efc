#include "data/byte_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace lra {

std::string ByteStream::read_all(size_t limit) {
  std::string all;
  char part[1 << 15];  // grows with what comes, not with what was declared
  while (const size_t got = read(part, std::min(sizeof part, limit + 1 - all.size()))) {
    all.append(part, got);
    if (all.size() > limit) {
      fail("import", "{}: larger than {} bytes, which is more than such a file should be.", place(), limit);
    }
  }
  all.shrink_to_fit();  // data sets of many small files keep them all
  return all;
}

size_t MemoryStream::read(char* into, size_t most) {
  const size_t n = std::min(most, bytes_.size());
  if (n > 0) std::memcpy(into, bytes_.data(), n);
  bytes_.remove_prefix(n);
  return n;
}

FileStream::FileStream(const fs::path& path) : place_(path.string()) {
  fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd_ < 0) fail("file", "{}: cannot open: {}.", place_, std::strerror(errno));
  struct stat info = {};
  if (::fstat(fd_, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd_);
    fail("file", "{}: not a regular file.", place_);
  }
  size_ = info.st_size;
  if (size_ > (1 << 20)) ::posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
}
FileStream::~FileStream() { ::close(fd_); }

size_t FileStream::read(char* into, size_t most) {
  const auto wanted = std::min(most, static_cast<size_t>(size_ - position_));
  if (wanted == 0) return 0;
  ssize_t n = 0;
  do {
    n = ::read(fd_, into, wanted);
  } while (n < 0 && errno == EINTR);
  if (n < 0) fail("file", "{}: cannot read at byte {}: {}.", place_, position_, std::strerror(errno));
  if (n == 0) {
    fail("file", "{}: ends at byte {} of {}: it was cut while it was read. Try again.", place_, position_,
         size_);
  }
  position_ += n;
  return static_cast<size_t>(n);
}

std::string read_head(const fs::path& path, size_t size) {
  FileStream file(path);
  std::string head(size, '\0');
  size_t had = 0;
  while (had < size) {
    const size_t n = file.read(head.data() + had, size - had);
    if (n == 0) break;
    had += n;
  }
  head.resize(had);
  return head;
}

}  // namespace lra
