#include "support/pack.h"

#include <stdexcept>

#ifdef LRA_HAVE_ARCHIVE
#include <bzlib.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>
#endif

namespace lra {

const char* name_of(Packing how) {
  constexpr const char* kNames[] = {"plain", "gzip", "xz", "zstd", "bzip2"};
  return kNames[static_cast<size_t>(how)];
}

#ifndef LRA_HAVE_ARCHIVE
bool archives_supported() { return false; }
std::string pack(std::string_view bytes, Packing) { return std::string(bytes); }
#else
bool archives_supported() { return true; }

namespace {

void require(bool good, const char* what) {
  if (!good) throw std::runtime_error(what);
}

size_t gzip(std::string_view in, std::string& out) {
  z_stream z = {};
  require(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK, "deflateInit2");
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  z.avail_in = static_cast<uInt>(in.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  require(deflate(&z, Z_FINISH) == Z_STREAM_END, "deflate");
  const size_t size = out.size() - z.avail_out;
  deflateEnd(&z);
  return size;
}

size_t xz(std::string_view in, std::string& out) {
  size_t size = 0;
  require(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(in.data()),
                                  in.size(), reinterpret_cast<uint8_t*>(out.data()), &size,
                                  out.size()) == LZMA_OK,
          "lzma_easy_buffer_encode");
  return size;
}

size_t zstd(std::string_view in, std::string& out) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  const size_t size = ZSTD_compress2(context, out.data(), out.size(), in.data(), in.size());
  ZSTD_freeCCtx(context);
  require(!ZSTD_isError(size), "ZSTD_compress2");
  return size;
}

size_t bzip2(std::string_view in, std::string& out) {
  auto size = static_cast<unsigned>(out.size());
  require(BZ2_bzBuffToBuffCompress(out.data(), &size, const_cast<char*>(in.data()),
                                   static_cast<unsigned>(in.size()), 1, 0, 0) == BZ_OK,
          "BZ2_bzBuffToBuffCompress");
  return size;
}

}  // namespace

std::string pack(std::string_view bytes, Packing how) {
  if (how == Packing::kPlain) return std::string(bytes);
  std::string out(bytes.size() + bytes.size() / 8 + 1024, '\0');
  out.resize(how == Packing::kGzip   ? gzip(bytes, out)
             : how == Packing::kXz   ? xz(bytes, out)
             : how == Packing::kZstd ? zstd(bytes, out)
                                     : bzip2(bytes, out));
  return out;
}
#endif

}  // namespace lra
