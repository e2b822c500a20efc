#include "data/file_source.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/signals.h"
#include "data/archive.h"
#include "data/read_ahead.h"

namespace lra {
namespace {

void check_interrupted() {
  if (interrupted()) throw Interrupted("reading the files was interrupted; nothing was written");
}

FileSource::Kind kind_of(const fs::path& from) {
  std::error_code code;
  const fs::file_status status = fs::status(from, code);
  if (!fs::exists(status)) {
    fail("import", "{}: there is no such file or folder. Name the folder or the archive as it was published.",
         from.string());
  }
  if (fs::is_directory(status)) return FileSource::Kind::kFolder;
  return looks_like_archive(read_head(from, 512)) ? FileSource::Kind::kArchive : FileSource::Kind::kFile;
}

// One file of an archive, for its visitor.
class ArchivedStream : public ByteStream {
 public:
  ArchivedStream(ReadAhead& files, std::string_view place) : files_(files), place_(place) {}
  size_t read(char* into, size_t most) override {
    check_interrupted();
    return files_.read(into, most);
  }
  std::string_view place() const override { return place_; }

 private:
  ReadAhead& files_;
  std::string place_;
};

// One file of a folder: opened when it is first read.
class FolderStream : public ByteStream {
 public:
  FolderStream(const fs::path& path, const SourceFile& file, std::atomic<int64_t>& total)
      : path_(path), file_(file), total_(total) {}
  size_t read(char* into, size_t most) override {
    check_interrupted();
    if (!stream_) {
      stream_.emplace(path_);
      if (stream_->size() != file_.size) {
        fail("import",
             "{}: has {} bytes now and had {} a moment ago: something is writing it. Try again when it is "
             "done.",
             file_.place, stream_->size(), file_.size);
      }
    }
    const size_t n = stream_->read(into, most);
    total_ += static_cast<int64_t>(n);
    return n;
  }
  std::string_view place() const override { return file_.place; }

 private:
  const fs::path& path_;
  const SourceFile& file_;
  std::atomic<int64_t>& total_;
  std::optional<FileStream> stream_;
};

bool is_inside(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

std::vector<fs::directory_entry> sorted_entries(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator at(folder, code);
  while (!code && at != fs::directory_iterator()) {
    entries.push_back(*at);
    at.increment(code);
  }
  if (code) fail("import", "{}: cannot list the folder: {}.", folder.string(), code.message());
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.path().native() < b.path().native(); });
  return entries;
}

}  // namespace

std::string_view SourceFile::name() const { return std::string_view(path).substr(path.rfind('/') + 1); }

FileSource::FileSource(fs::path from, const SourceLimits& limits)
    : from_(std::move(from)), limits_(limits), kind_(kind_of(from_)) {
  if (kind_ != Kind::kFolder) total_ = static_cast<int64_t>(fs::file_size(from_));
}

void FileSource::visit(const Visitor& visitor) const {
  read_ = 0;
  stopped_ = false;
  switch (kind_) {
    case Kind::kFolder:
      return visit_folder(visitor);
    case Kind::kArchive:
      return visit_archive(visitor);
    case Kind::kFile:
      return visit_file(visitor);
  }
}

void FileSource::visit_archive(const Visitor& visitor) const {
  ReadAhead files(from_, limits_, read_);
  for (const SourceFile* file = nullptr; !stopped_ && (file = files.next());) {
    check_interrupted();
    // The block that holds it may be gone when the visitor has read on.
    const SourceFile copy = *file;
    ArchivedStream stream(files, copy.place);
    visitor(copy, stream);
  }
}

void FileSource::visit_file(const Visitor& visitor) const {
  const SourceFile file{from_.filename().string(), total_, from_.string()};
  FolderStream stream(from_, file, read_);
  visitor(file, stream);
}

void FileSource::visit_folder(const Visitor& visitor) const {
  const fs::path root = fs::canonical(from_);
  struct Level {
    std::vector<fs::directory_entry> entries;
    size_t next = 0;
  };
  std::vector<Level> levels;
  levels.push_back({sorted_entries(from_)});
  int64_t left_out = 0, files = 0;
  while (!levels.empty() && !stopped_) {
    check_interrupted();
    Level& level = levels.back();
    if (level.next == level.entries.size()) {
      levels.pop_back();
      continue;
    }
    const fs::directory_entry entry = level.entries[level.next++];
    std::error_code code;
    if (entry.is_symlink(code)) {
      const fs::path target = fs::canonical(entry.path(), code);
      if (code || !is_inside(target, root) || !fs::is_regular_file(target)) {
        if (left_out++ == 0) {
          warn("{}: a symbolic link that does not lead to a file inside {} is passed over.",
               entry.path().string(), from_.string());
        }
        continue;
      }
    } else if (entry.is_directory(code)) {
      if (levels.size() > limits_.path_length / 2)
        fail("import", "{}: nested too deeply.", entry.path().string());
      levels.push_back({sorted_entries(entry.path())});
      continue;
    }
    if (!entry.is_regular_file(code)) continue;
    const auto size = static_cast<int64_t>(entry.file_size(code));
    if (code) fail("import", "{}: cannot look at it: {}.", entry.path().string(), code.message());
    if (++files > limits_.files) fail("import", "{}: more than {} files.", from_.string(), limits_.files);
    const SourceFile file{entry.path().lexically_relative(from_).generic_string(), size,
                          entry.path().string()};
    FolderStream stream(entry.path(), file, read_);
    visitor(file, stream);
  }
}

}  // namespace lra
