#include "data/part_file.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <limits>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/json.h"

namespace lra {

PartFile::PartFile(const fs::path& to, std::string url)
    : to_(to), part_(to), note_(to), url_(std::move(url)) {
  part_ += ".part";
  note_ += ".part.json";
  if (to.has_parent_path()) {
    std::error_code code;
    fs::create_directories(to.parent_path(), code);
    if (code) fail("download", "{}: cannot make the folder: {}.", to.parent_path().string(), code.message());
  }
  fd_ = ::open(part_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_here("cannot create");
  try {
    if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      fail("download", "{}: another process is downloading it. Wait for it, or end it.", part_.string());
    }
    struct stat info = {};
    if (::fstat(fd_, &info) != 0) fail_here("cannot look at it");
    size_ = info.st_size;
    if (size_ > 0 && !read_note()) start_over();
  } catch (...) {
    ::close(fd_);
    throw;
  }
}
PartFile::~PartFile() { ::close(fd_); }

void PartFile::fail_here(const char* what) const {
  const int code = errno;
  fail("download", "{}: {}: {}.{}", part_.string(), what, std::strerror(code),
       code == ENOSPC || code == EDQUOT ? " Free some space; the same command then goes on from there." : "");
}

bool PartFile::read_note() {
  try {
    const Json note = read_json(note_);
    validator_ = json_get<std::string>(note, "validator", note_.string());
    return json_get<std::string>(note, "url", note_.string()) == url_ && !validator_.empty() &&
           validator_.find_first_of("\r\n") == validator_.npos;
  } catch (const Error&) {
    return false;
  }
}

int64_t PartFile::free_space() const {
  struct statvfs disk = {};
  if (::fstatvfs(fd_, &disk) != 0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(disk.f_bavail) * static_cast<int64_t>(disk.f_frsize);
}

void PartFile::start_over() {
  if (::ftruncate(fd_, 0) != 0) fail_here("cannot empty");
  size_ = 0;
  validator_.clear();
}

void PartFile::start_over(const std::string& validator) {
  start_over();
  validator_ = validator;
  write_text(note_, Json{{"url", url_}, {"validator", validator_}}.dump(2) + "\n");
}

void PartFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd_, bytes.data(), bytes.size(), size_);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_here("cannot write");
    size_ += n;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

void PartFile::flush() {
  if (::fsync(fd_) != 0) fail_here("cannot flush to disk");
}

void PartFile::put_in_place() {
  if (::rename(part_.c_str(), to_.c_str()) != 0) fail_here("cannot put in place");
  fs::remove(note_);
  sync_directory(to_.has_parent_path() ? to_.parent_path() : fs::path("."));
}

void PartFile::remove() {
  fs::remove(note_);
  fs::remove(part_);
}

}  // namespace lra
