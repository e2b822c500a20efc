#include "tasks/bytes.h"

#include <algorithm>

#include "base/error.h"

namespace lra {
namespace {

// Length of the well-formed UTF-8 character at the front; 0 where there is none.
size_t utf8_character(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF5 ? 0 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 0;
  if (length == 0 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = at(1);  // no overlong forms, no surrogates, nothing above U+10FFFF
  const bool wrong = (first == 0xE0 && second < 0xA0) || (first == 0xED && second >= 0xA0) ||
                     (first == 0xF0 && second < 0x90) || (first == 0xF4 && second >= 0x90);
  return wrong ? 0 : length;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;
}

}  // namespace

void encode_bytes(std::string_view bytes, int64_t most, std::vector<uint16_t>& ids) {
  bytes = bytes.substr(0, static_cast<size_t>(most));
  ids.resize(bytes.size());
  std::transform(bytes.begin(), bytes.end(), ids.begin(),
                 [](char c) { return static_cast<uint16_t>(static_cast<uint8_t>(c) + 1); });
}

std::string decode_bytes(const Tokens& ids, std::string_view place) {
  std::string bytes(static_cast<size_t>(ids.size()), '\0');
  for (int64_t t = 0; t < ids.size(); ++t) {
    if (ids[t] < 1 || ids[t] >= kByteVocabulary) {
      fail("data", "{}: the id {} is no byte, expected 1 to {}.", place, ids[t], kByteVocabulary - 1);
    }
    bytes[static_cast<size_t>(t)] = static_cast<char>(ids[t] - 1);
  }
  return bytes;
}

std::string escaped(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t length = utf8_character(bytes);
    const std::string_view character = bytes.substr(0, std::max<size_t>(length, 1));
    if (character == "\\") {
      text += "\\\\";
    } else if (character == "\n") {
      text += "\\n";
    } else if (character == "\t") {
      text += "\\t";
    } else if (length == 0 || is_control(character)) {
      for (const char c : character) text += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      text += character;
    }
    bytes.remove_prefix(character.size());
  }
  return text;
}

}  // namespace lra
