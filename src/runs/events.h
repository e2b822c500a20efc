// The scalars of a run for TensorBoard: an event file beside metrics.jsonl.
//
//   EventWriter events(folder);
//   events.scalar("train/loss", step, loss, now);
//
// An event file is a sequence of TFRecords, each
//   u64 length | u32 masked_crc(length) | length bytes of an Event protobuf | u32 masked_crc(bytes)
// with crc32c (Castagnoli), masked as rotate_right(crc, 15) + 0xa282ead8. A resumed run writes a file of its
// own; TensorBoard reads all files of a folder as one series.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"

namespace lra {

uint32_t crc32c(std::string_view bytes);
uint32_t masked_crc32c(std::string_view bytes);

class EventWriter {
 public:
  // `resumed_at`: the step a resumed run goes on from; TensorBoard drops what earlier files have after it.
  explicit EventWriter(const fs::path& folder, int64_t resumed_at = 0);

  // Handed to the system at once, so a kill loses nothing. `wall_time` in seconds since 1970.
  void scalar(std::string_view tag, int64_t step, double value, double wall_time);
  const fs::path& path() const { return path_; }

 private:
  void record(std::string_view event);

  fs::path path_;
  std::unique_ptr<AppendFile> file_;
};

}  // namespace lra
