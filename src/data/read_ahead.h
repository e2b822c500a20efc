// The files of an archive, unpacked by a thread of its own a few megabytes ahead of their reader.
//
// Blocks of bytes go through a short queue. A block holds pieces of files: one starts a file, or continues
// the one that the block before ended with. A file that its reader passes over is dropped at the source, not
// carried through the queue.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "data/archive.h"

namespace lra {

class ReadAhead {
 public:
  // The archive is opened on the thread; what goes wrong there is thrown by the call that meets it.
  ReadAhead(const fs::path& path, const SourceLimits& limits, std::atomic<int64_t>& bytes_read);
  ~ReadAhead();  // stops the thread, wherever it is
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // The next file, what is left of the current one skipped; nullptr at the end. Lives until the next call.
  const SourceFile* next();
  size_t read(char* into, size_t most);  // of the current file; 0 at its end

 private:
  struct Piece {
    std::optional<SourceFile> starts;
    size_t size = 0;
  };
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
    std::vector<Piece> pieces;
    std::exception_ptr failure;  // after the pieces
    bool last = false;
  };

  void unpack(const fs::path& path, const SourceLimits& limits, std::atomic<int64_t>& bytes_read);
  bool push(Block& block);  // and gives an empty one in exchange; false when nobody reads on
  bool advance();           // to the next piece; false at the end

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Block> full_;
  std::vector<Block> empty_;
  bool stopped_ = false;
  std::atomic<int64_t> passed_over_{0};  // files up to this one, counted from 1, are not wanted any more

  // The reader's side.
  Block block_;
  size_t piece_ = 0, at_ = 0;  // the piece, and the byte of the block
  size_t piece_left_ = 0;
  int64_t file_left_ = 0, file_number_ = 0;
  std::thread thread_;
};

}  // namespace lra
