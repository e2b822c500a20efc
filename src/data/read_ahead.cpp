#include "data/read_ahead.h"

#include <algorithm>
#include <cstring>

namespace lra {
namespace {
constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr size_t kBlockPieces = 4096;
constexpr size_t kBlocksAhead = 8;
}  // namespace

ReadAhead::ReadAhead(const fs::path& path, const SourceLimits& limits, std::atomic<int64_t>& bytes_read)
    : thread_([this, path, limits, &bytes_read] { unpack(path, limits, bytes_read); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool ReadAhead::push(Block& block) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopped_ || full_.size() < kBlocksAhead; });
  if (stopped_) return false;
  full_.push_back(std::move(block));
  block = Block();
  if (!empty_.empty()) {
    block.bytes = std::move(empty_.back().bytes);
    empty_.pop_back();
  }
  changed_.notify_all();
  return true;
}

void ReadAhead::unpack(const fs::path& path, const SourceLimits& limits, std::atomic<int64_t>& bytes_read) {
  Block block;
  try {
    FileStream packed(path);
    ArchiveReader archive(packed, read_head(path, 512), limits, bytes_read);
    int64_t number = 0;
    for (SourceFile file; archive.next(file);) {
      ++number;
      int64_t left = file.size;
      block.pieces.push_back({std::move(file), 0});
      while (left > 0 && passed_over_ < number) {
        if (!block.bytes) block.bytes = std::make_unique_for_overwrite<char[]>(kBlockBytes);
        const size_t n = archive.read(block.bytes.get() + block.size, kBlockBytes - block.size);
        block.size += n;
        block.pieces.back().size += n;
        left -= static_cast<int64_t>(n);
        if (block.size < kBlockBytes) continue;
        if (!push(block)) return;
        if (left > 0) block.pieces.push_back({});
      }
      if (block.pieces.size() >= kBlockPieces && !push(block)) return;
    }
  } catch (...) {
    block.failure = std::current_exception();
  }
  block.last = true;
  push(block);
}

bool ReadAhead::advance() {
  for (;;) {
    if (piece_ < block_.pieces.size()) {
      piece_left_ = block_.pieces[piece_++].size;
      return true;
    }
    if (block_.failure) std::rethrow_exception(block_.failure);
    if (block_.last) return false;
    std::unique_lock lock(mutex_);
    if (block_.bytes) empty_.push_back(std::move(block_));
    changed_.wait(lock, [&] { return !full_.empty(); });
    block_ = std::move(full_.front());
    full_.pop_front();
    changed_.notify_all();
    piece_ = at_ = 0;
  }
}

const SourceFile* ReadAhead::next() {
  passed_over_ = file_number_;
  do {
    at_ += piece_left_;
    piece_left_ = 0;
    if (!advance()) return nullptr;
  } while (!block_.pieces[piece_ - 1].starts);
  ++file_number_;
  const SourceFile& file = *block_.pieces[piece_ - 1].starts;
  file_left_ = file.size;
  return &file;
}

size_t ReadAhead::read(char* into, size_t most) {
  if (file_left_ == 0) return 0;
  while (piece_left_ == 0) {
    if (!advance()) return 0;
  }
  const size_t n = std::min(most, piece_left_);
  std::memcpy(into, block_.bytes.get() + at_, n);
  at_ += n;
  piece_left_ -= n;
  file_left_ -= static_cast<int64_t>(n);
  return n;
}

}  // namespace lra
