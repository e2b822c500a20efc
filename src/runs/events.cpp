#include "runs/events.h"

#include <array>
#include <chrono>
#include <cstring>
#include <unistd.h>

#include <fmt/format.h>

namespace lra {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

// Little-endian on every machine.
template <class T>
std::string fixed(T value) {
  std::string bytes;
  for (size_t i = 0; i < sizeof(T); ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

// Protobuf's wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string key(uint32_t field, uint32_t wire_type) { return varint(uint64_t{field} << 3 | wire_type); }

std::string bytes_field(uint32_t field, std::string_view bytes) {
  return key(field, 2) + varint(bytes.size()) + std::string(bytes);
}
std::string double_field(uint32_t field, double value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return key(field, 1) + fixed(bits);
}
std::string float_field(uint32_t field, float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  return key(field, 5) + fixed(bits);
}
std::string int_field(uint32_t field, int64_t value) {
  return key(field, 0) + varint(static_cast<uint64_t>(value));
}

// Event: 1 wall_time, 2 step, 3 file_version, 5 summary, 7 session_log.
std::string event_head(double wall_time, int64_t step) {
  return double_field(1, wall_time) + int_field(2, step);
}

std::string host_name() {
  char name[256] = {};
  if (::gethostname(name, sizeof(name) - 1) != 0 || name[0] == '\0') return "host";
  return name;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = ~0u;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  return ~crc;
}

uint32_t masked_crc32c(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

EventWriter::EventWriter(const fs::path& folder, int64_t resumed_at) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  // Two writers within a second still get a file each: a file begins with its version.
  for (int n = 0; n == 0 || fs::exists(path_); ++n) {
    path_ = folder / fmt::format("events.out.tfevents.{:010d}.{}.{}.{}", static_cast<int64_t>(now.count()),
                                 host_name(), ::getpid(), n);
  }
  file_ = std::make_unique<AppendFile>(path_);
  record(event_head(now.count(), 0) + bytes_field(3, "brain.Event:2"));
  if (resumed_at > 0) {
    const std::string session_start = int_field(1, 1);
    record(event_head(now.count(), resumed_at) + bytes_field(7, session_start));
  }
}

void EventWriter::scalar(std::string_view tag, int64_t step, double value, double wall_time) {
  const std::string scalar_value = bytes_field(1, tag) + float_field(2, static_cast<float>(value));
  record(event_head(wall_time, step) + bytes_field(5, bytes_field(1, scalar_value)));
}

void EventWriter::record(std::string_view event) {
  const std::string length = fixed(uint64_t{event.size()});
  // One write, so that a kill cuts at most the last record.
  file_->append(length + fixed(masked_crc32c(length)) + std::string(event) + fixed(masked_crc32c(event)));
}

}  // namespace lra
