// Checksums that publishers give for their files, as lower-case hex.
#pragma once
#include <functional>
#include <string>

#include "base/file.h"

namespace lra {

enum class ChecksumKind { kSha256, kMd5 };

// `progress` is told how many bytes were read so far, now and then; it may throw.
std::string file_checksum(const fs::path& path, ChecksumKind kind,
                          const std::function<void(int64_t)>& progress = {});

}  // namespace lra
