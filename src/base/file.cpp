#include "base/file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace lra {
namespace {

[[noreturn]] void fail_with_errno(const fs::path& path, std::string_view what) {
  const int code = errno;
  const char* advice = code == ENOSPC || code == EDQUOT  ? " Free some space and try again."
                       : code == EFBIG                   ? " The file size limit was reached (ulimit -f)."
                       : code == EACCES || code == EROFS ? " Check the permissions."
                                                         : "";
  fail("file", "{}: {}: {}.{}", path.string(), what, std::strerror(code), advice);
}

void write_all(int fd, const fs::path& path, const void* bytes, size_t size) {
  const char* at = static_cast<const char*>(bytes);
  while (size > 0) {
    const ssize_t n = ::write(fd, at, size);
    if (n < 0) {
      if (errno == EINTR) continue;
      fail_with_errno(path, "cannot write");
    }
    at += n;
    size -= static_cast<size_t>(n);
  }
}

}  // namespace

std::string read_text(const fs::path& path, size_t limit) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_with_errno(path, "cannot open");
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      ::close(fd);
      fail_with_errno(path, "cannot read");
    }
    if (n == 0) break;
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > limit) {
      ::close(fd);
      fail("file", "{}: larger than {} bytes, which is more than such a file should be.", path.string(),
           limit);
    }
  }
  ::close(fd);
  return text;
}

MappedFile::MappedFile(const fs::path& path) : path_(path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail_with_errno(path, "cannot open");
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    fail("file", "{}: not a regular file.", path.string());
  }
  size_ = static_cast<size_t>(info.st_size);
  if (size_ > 0) {
    void* map = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd, 0);
    const int code = errno;
    ::close(fd);
    errno = code;
    if (map == MAP_FAILED) fail_with_errno(path, "cannot map");
    data_ = {static_cast<const char*>(map),
             [size = size_](const char* p) { ::munmap(const_cast<char*>(p), size); }};
  } else {
    ::close(fd);
  }
}

AtomicFile::AtomicFile(fs::path path) : path_(std::move(path)) {
  if (path_.has_parent_path()) {
    std::error_code code;
    fs::create_directories(path_.parent_path(), code);
    if (code) fail("file", "{}: cannot make the folder: {}.", path_.parent_path().string(), code.message());
  }
  temporary_ = path_;
  temporary_ += fmt::format(".tmp{}", ::getpid());
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_with_errno(temporary_, "cannot create");
}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::write(const void* bytes, size_t size) {
  write_all(fd_, path_, bytes, size);
  written_ += static_cast<int64_t>(size);
  // A large file goes to disk while it is still being written, so that commit has less to wait for.
  constexpr int64_t kAtOnce = int64_t{8} << 20;
  if (written_ - on_the_way_ >= kAtOnce) {
    ::sync_file_range(fd_, on_the_way_, written_ - on_the_way_, SYNC_FILE_RANGE_WRITE);
    on_the_way_ = written_;
  }
}

void AtomicFile::commit() {
  if (::fsync(fd_) != 0) fail_with_errno(path_, "cannot flush to disk");
  const int fd = fd_;
  fd_ = -1;
  if (::close(fd) != 0 || ::rename(temporary_.c_str(), path_.c_str()) != 0) {
    ::unlink(temporary_.c_str());
    fail_with_errno(path_, "cannot put in place");
  }
  sync_directory(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
}

void write_text(const fs::path& path, std::string_view text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

AppendFile::AppendFile(fs::path path) : path_(std::move(path)) {
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_with_errno(path_, "cannot open for appending");
}
AppendFile::~AppendFile() { ::close(fd_); }
void AppendFile::append(std::string_view text) { write_all(fd_, path_, text.data(), text.size()); }
void AppendFile::flush_to_disk() {
  if (::fsync(fd_) != 0) fail_with_errno(path_, "cannot flush to disk");
}

FileLock::FileLock(const fs::path& path, std::string_view where, std::string_view message) {
  fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) fail_with_errno(path, "cannot open the lock");
  if (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd_);
    throw Error(where, message);
  }
}
FileLock::~FileLock() { ::close(fd_); }

void sync_directory(const fs::path& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  ::fsync(fd);
  ::close(fd);
}

void replace_directory(const fs::path& fresh, const fs::path& target) {
  if (!fs::exists(target)) {
    if (::rename(fresh.c_str(), target.c_str()) != 0) fail_with_errno(target, "cannot put in place");
  } else if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    fs::remove_all(fresh);
  } else {
    // File systems without RENAME_EXCHANGE: a kill between the two renames leaves the old folder as
    // TARGET.old.
    fs::path old = target;
    old += ".old";
    fs::remove_all(old);
    if (::rename(target.c_str(), old.c_str()) != 0 || ::rename(fresh.c_str(), target.c_str()) != 0) {
      fail_with_errno(target, "cannot put in place");
    }
    fs::remove_all(old);
  }
  sync_directory(target.parent_path());
}

}  // namespace lra
