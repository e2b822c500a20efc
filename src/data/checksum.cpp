#include "data/checksum.h"

#include <memory>
#include <vector>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "data/byte_stream.h"

namespace lra {

std::string file_checksum(const fs::path& path, ChecksumKind kind,
                          const std::function<void(int64_t)>& progress) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), kind == ChecksumKind::kMd5 ? EVP_md5() : EVP_sha256(), nullptr);
  FileStream file(path);
  std::vector<char> buffer(size_t{1} << 20);
  while (const size_t n = file.read(buffer.data(), buffer.size())) {
    EVP_DigestUpdate(context.get(), buffer.data(), n);
    if (progress) progress(file.position());
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context.get(), digest, &size);
  std::string text;
  for (unsigned int i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

}  // namespace lra
