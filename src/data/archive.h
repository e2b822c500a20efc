// Reads a tar archive once from front to end, in the calling thread. (FileSource is what importers use.)
#pragma once
#include <atomic>
#include <memory>
#include <string_view>

#include "data/file_source.h"

namespace lra {

// Whether a file that begins with `head` (512 bytes, fewer only if it is shorter) is a tar archive or packed
// by gzip, xz, zstd or bzip2.
bool looks_like_archive(std::string_view head);

class ArchiveReader {
 public:
  // `packed` begins with `head`, stays alive, and names the archive; `bytes_read` follows the position in it.
  ArchiveReader(ByteStream& packed, std::string_view head, const SourceLimits& limits,
                std::atomic<int64_t>& bytes_read);
  ~ArchiveReader();

  // The next regular file; what was left of the one before is skipped. False at the end.
  bool next(SourceFile& file);
  // Of the current file; 0 at its end.
  size_t read(char* into, size_t most);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lra
