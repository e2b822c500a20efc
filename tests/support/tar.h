// Tar archives made by hand, honest and hostile ones.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace lra {

class TarBuilder {
 public:
  TarBuilder& file(std::string_view path, std::string_view bytes) { return entry(path, '0', bytes); }
  TarBuilder& folder(std::string_view path) { return entry(path, '5', ""); }
  // `type`: '0' file, '1' hard link, '2' symbolic link, '3' device, '5' folder. `claimed`: another size than
  // the bytes'.
  TarBuilder& entry(std::string_view path, char type, std::string_view bytes, std::string_view link = "",
                    int64_t claimed = -1) {
    char header[512] = {};
    std::memcpy(header, path.data(), path.size() < 100 ? path.size() : 100);
    std::memcpy(header + 100, "0000644", 8);
    std::memcpy(header + 108, "0000000", 8);
    std::memcpy(header + 116, "0000000", 8);
    char octal[32];
    std::snprintf(
        octal, sizeof octal, "%011llo",
        static_cast<unsigned long long>(claimed < 0 ? static_cast<int64_t>(bytes.size()) : claimed));
    std::memcpy(header + 124, octal, 12);
    std::memcpy(header + 136, "00000000000", 12);
    header[156] = type;
    std::memcpy(header + 157, link.data(), link.size());
    std::memcpy(header + 257, "ustar\00000", 8);
    std::memset(header + 148, ' ', 8);
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(header + 148, 8, "%06o", sum);
    bytes_.append(header, 512).append(bytes);
    bytes_.resize((bytes_.size() + 511) / 512 * 512);
    return *this;
  }
  // A name of any length, as GNU tar stores it.
  TarBuilder& long_file(const std::string& path, std::string_view bytes) {
    return entry("././@LongLink", 'L', path + '\0').file(path.substr(0, 99), bytes);
  }
  const std::string& without_end() const { return bytes_; }
  std::string bytes() const { return bytes_ + std::string(1024, '\0'); }

 private:
  std::string bytes_;
};

}  // namespace lra
