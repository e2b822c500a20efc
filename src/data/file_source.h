// What a data set is imported from: a folder, a tar archive (plain or packed by gzip, xz, zstd or bzip2), or
// one plain file. Archives are recognised by their content, not by their name, and are streamed: nothing is
// unpacked to disk, and decompression runs on a thread of its own beside the visitor.
//
//   const FileSource source("lra_release.gz");
//   source.visit([&](const SourceFile& file, ByteStream& bytes) {
//     if (file.path.ends_with("basic_train.tsv")) read(LineBatches(bytes));
//   });
//
// Nothing in an archive is trusted. Links, devices and sparse files, absolute paths, "..", control characters
// in names, the same path twice, and sizes beyond `SourceLimits` are refused with a message that names the
// entry; an archive that is cut or damaged is refused with the byte at which that shows.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/file.h"
#include "data/byte_stream.h"

namespace lra {

struct SourceFile {
  std::string path;   // relative to the source, '/' between parts, no "." or ".." among them
  int64_t size = 0;   // as declared; the stream gives exactly as many bytes or throws
  std::string place;  // for errors: "a.tar.gz: aclImdb/train/pos/0_9.txt", or the file's path

  std::string_view name() const;  // the last part of the path
};

struct SourceLimits {
  size_t path_length = 1024;
  int64_t files = 20'000'000;
  int64_t file_size = int64_t{1} << 38;  // 256 GiB
  // An archive that unpacks to more than `ratio` times its size is a bomb; small ones are let be.
  int64_t ratio = 300;
  int64_t ratio_from = int64_t{1} << 30;
};

class FileSource {
 public:
  explicit FileSource(fs::path from, const SourceLimits& limits = {});

  using Visitor = std::function<void(const SourceFile&, ByteStream&)>;
  // Every regular file once: of an archive as stored, of a folder sorted by the parts of the path. What the
  // visitor does not read is skipped without being kept. The stream lives until the visitor returns, and is
  // read by one thread. Symbolic links in a folder are followed to files inside it only. Throws Interrupted
  // after SIGINT.
  void visit(const Visitor& visitor) const;
  // Called by a visitor: no file is visited after this one. (The rest of the archive is then not checked.)
  void stop() const { stopped_ = true; }

  enum class Kind { kFolder, kArchive, kFile };
  Kind kind() const { return kind_; }
  const fs::path& path() const { return from_; }
  // For a progress line, from any thread: bytes of `from` read so far and in all. For a folder: bytes of the
  // files visited so far, and 0 for "not known".
  int64_t bytes_read() const { return read_; }
  int64_t bytes_total() const { return total_; }

 private:
  void visit_folder(const Visitor& visitor) const;
  void visit_file(const Visitor& visitor) const;
  void visit_archive(const Visitor& visitor) const;

  fs::path from_;
  SourceLimits limits_;
  Kind kind_;
  int64_t total_ = 0;
  mutable std::atomic<int64_t> read_{0};
  mutable std::atomic<bool> stopped_{false};
};

}  // namespace lra
