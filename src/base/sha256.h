// SHA-256 by OpenSSL, as lower-case hex.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace lra {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(const void* bytes, size_t size);
  std::string hex();  // ends the computation

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

std::string sha256_hex(std::string_view bytes);

}  // namespace lra
