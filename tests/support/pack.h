// Packs bytes for tests of archives.
#pragma once
#include <string>
#include <string_view>

namespace lra {

enum class Packing { kPlain, kGzip, kXz, kZstd, kBzip2 };
inline constexpr Packing kPackings[] = {Packing::kPlain, Packing::kGzip, Packing::kXz, Packing::kZstd,
                                        Packing::kBzip2};

bool archives_supported();  // by this build
std::string pack(std::string_view bytes, Packing how);
const char* name_of(Packing how);

}  // namespace lra
