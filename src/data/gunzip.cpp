#include "data/gunzip.h"

#include "base/error.h"

#ifdef LRA_HAVE_ARCHIVE
#include <zlib.h>

namespace lra {

struct GunzipStream::State {
  z_stream z = {};
  bool ended = false, between_members = false;
};

GunzipStream::GunzipStream(ByteStream& packed)
    : packed_(packed), buffer_(size_t{1} << 18), state_(std::make_unique<State>()) {
  if (inflateInit2(&state_->z, 15 + 16) != Z_OK) fail("archive", "{}: zlib does not start.", place());
}
GunzipStream::~GunzipStream() { inflateEnd(&state_->z); }

bool GunzipStream::refill() {
  const size_t n = packed_.read(buffer_.data(), buffer_.size());
  consumed_ += n;
  state_->z.next_in = reinterpret_cast<Bytef*>(buffer_.data());
  state_->z.avail_in = static_cast<uInt>(n);
  return n > 0;
}

void GunzipStream::fail_cut() const {
  fail("archive", "{}: ends in the middle, at byte {}. It was cut: download or copy it again.", place(),
       consumed_);
}

// After a member: another one, zeros to the end, or the end.
bool GunzipStream::next_member() {
  z_stream& z = state_->z;
  bool zeros = false;
  for (;;) {
    if (z.avail_in == 0 && !refill()) return false;
    if (*z.next_in != 0) break;
    zeros = true;
    ++z.next_in, --z.avail_in;
  }
  if (zeros || *z.next_in != 0x1f) {
    fail("archive", "{}: something that is not gzip follows at byte {}. Download or copy it again.", place(),
         consumed_ - z.avail_in);
  }
  inflateReset(&z);
  state_->between_members = false;
  return true;
}

size_t GunzipStream::read(char* into, size_t most) {
  z_stream& z = state_->z;
  if (state_->ended) return 0;
  z.next_out = reinterpret_cast<Bytef*>(into);
  z.avail_out = static_cast<uInt>(std::min(most, size_t{1} << 30));
  const uInt room = z.avail_out;
  while (z.avail_out == room) {
    if (state_->between_members && !next_member()) {
      state_->ended = true;
      return 0;
    }
    if (z.avail_in == 0 && !refill()) fail_cut();
    const int code = inflate(&z, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      state_->between_members = true;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      fail("archive", "{}: damaged at byte {}: {}. Download or copy it again.", place(),
           consumed_ - z.avail_in, z.msg ? z.msg : "not gzip data");
    }
  }
  return room - z.avail_out;
}

}  // namespace lra
#endif
