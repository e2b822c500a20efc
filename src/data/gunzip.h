// gzip, one member or several one after another. The checksums are checked; zero bytes after the last member,
// as tapes and some tools leave them, are let be.
#pragma once
#include <memory>
#include <vector>

#include "data/byte_stream.h"

namespace lra {

// `packed` must outlive the stream. Errors name its place and the byte in it.
class GunzipStream : public ByteStream {
 public:
  explicit GunzipStream(ByteStream& packed);
  ~GunzipStream() override;
  size_t read(char* into, size_t most) override;
  std::string_view place() const override { return packed_.place(); }

 private:
  struct State;
  bool refill();
  bool next_member();
  [[noreturn]] void fail_cut() const;

  ByteStream& packed_;
  std::vector<char> buffer_;
  int64_t consumed_ = 0;  // bytes of `packed` before the buffer
  std::unique_ptr<State> state_;
};

}  // namespace lra
