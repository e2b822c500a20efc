// Files: whole reads, memory maps, atomic writes, exclusive locks. Every error names the file.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace lra {

namespace fs = std::filesystem;

std::string read_text(const fs::path& path, size_t limit = size_t{1} << 30);

// A file as read-only memory. Copies share the map.
class MappedFile {
 public:
  explicit MappedFile(const fs::path& path);
  std::string_view bytes() const { return {data_.get(), size_}; }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::shared_ptr<const char> data_;
  size_t size_ = 0;
};

// Writes to a temporary name beside `path`; commit() flushes to disk and renames. Without a commit nothing
// remains.
class AtomicFile {
 public:
  explicit AtomicFile(fs::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  void write(const void* bytes, size_t size);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void commit();

 private:
  fs::path path_, temporary_;
  int fd_ = -1;
  int64_t written_ = 0, on_the_way_ = 0;  // bytes, and how many of them the disk was told to begin with
};

void write_text(const fs::path& path, std::string_view text);  // atomic

// An append-only text file whose lines are handed to the system at once.
class AppendFile {
 public:
  explicit AppendFile(fs::path path);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;
  void append(std::string_view text);
  void flush_to_disk();

 private:
  fs::path path_;
  int fd_ = -1;
};

// An advisory lock on `path`, held until destruction or the end of the process, however it ends.
class FileLock {
 public:
  // Throws Error(where, message) if another process holds it.
  FileLock(const fs::path& path, std::string_view where, std::string_view message);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_ = -1;
};

void sync_directory(const fs::path& directory);  // makes renames in it durable
// Puts the finished folder `fresh` in the place of `target`: at every moment `target` is the old or the new
// one.
void replace_directory(const fs::path& fresh, const fs::path& target);

}  // namespace lra
