// Text as bytes, one id each: byte b is id b + 1, id 0 is padding.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/dataset.h"

namespace lra {

inline constexpr int64_t kByteVocabulary = 257;
inline constexpr int64_t kBytePad = 0;

// The ids of the first `most` bytes.
void encode_bytes(std::string_view bytes, int64_t most, std::vector<uint16_t>& ids);
// Back; an id that is no byte is an error that names `place`.
std::string decode_bytes(const Tokens& ids, std::string_view place);

// Text that any terminal and JSON can show: control characters, '\' and bytes that are not UTF-8 as \n, \\,
// \x85.
std::string escaped(std::string_view bytes);

}  // namespace lra
