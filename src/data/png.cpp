#include "data/png.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

#ifdef LRA_HAVE_PNG
#include <csetjmp>
#include <png.h>
#endif

namespace lra {

#ifndef LRA_HAVE_PNG
namespace {
[[noreturn]] void fail_without(std::string_view place) {
  fail("png", "{}: this build cannot read or write PNG. Install libpng-dev and zlib1g-dev and build again.",
       place);
}
}  // namespace
GrayImage read_png(std::string_view, std::string_view place, int64_t) { fail_without(place); }
std::string png_bytes(const GrayImage&) { fail_without("an image"); }
#else

namespace {

// libpng reports errors by longjmp, over which no destructor may be due: everything with one lives outside,
// and what happens between setjmp and its end touches plain data only.
struct Session {
  std::string_view in;
  size_t at = 0;
  std::string out;
  char message[160] = {};
  bool too_large = false, transparent = false;
  png_structp png = nullptr;
  png_infop info = nullptr;

  png_uint_32 width = 0, height = 0;
  int depth = 0, colour = 0, interlace = 0;
  size_t row_bytes = 0;
};

void on_error(png_structp png, png_const_charp message) {
  auto* session = static_cast<Session*>(png_get_error_ptr(png));
  std::strncpy(session->message, message, sizeof(session->message) - 1);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep into, size_t size) {
  auto* session = static_cast<Session*>(png_get_io_ptr(png));
  if (session->in.size() - session->at < size) {
    session->at = session->in.size();
    png_error(png, "it ends in the middle");
  }
  std::memcpy(into, session->in.data() + session->at, size);
  session->at += size;
}

void on_write(png_structp png, png_bytep bytes, size_t size) {
  static_cast<Session*>(png_get_io_ptr(png))->out.append(reinterpret_cast<const char*>(bytes), size);
}
void on_flush(png_structp) {}

// Size and kind; then the transformations to 8-bit gray or RGB. False: see the session.
bool read_header(Session& s, png_uint_32 largest_side) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_read_fn(s.png, &s, on_read);
  png_set_user_limits(s.png, 0x7fffffff, 0x7fffffff);  // ours, below, says more
  png_set_chunk_malloc_max(s.png, 1 << 20);
  png_set_chunk_cache_max(s.png, 64);
  png_set_keep_unknown_chunks(s.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  png_read_info(s.png, s.info);
  png_get_IHDR(s.png, s.info, &s.width, &s.height, &s.depth, &s.colour, &s.interlace, nullptr, nullptr);
  if (s.width > largest_side || s.height > largest_side) {
    s.too_large = true;
    return false;
  }
  if ((s.colour & PNG_COLOR_MASK_ALPHA) || png_get_valid(s.png, s.info, PNG_INFO_tRNS)) {
    s.transparent = true;
    return false;
  }
  if (s.colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(s.png);
  if (s.colour == PNG_COLOR_TYPE_GRAY && s.depth < 8) png_set_expand_gray_1_2_4_to_8(s.png);
  if (s.depth == 16) png_set_strip_16(s.png);
  png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  s.row_bytes = png_get_rowbytes(s.png, s.info);
  return true;
}

bool read_rows(Session& s, png_bytep* rows) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_read_image(s.png, rows);
  png_read_end(s.png, nullptr);
  return true;
}

bool write_image(Session& s, png_bytep* rows) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_set_write_fn(s.png, &s, on_write, on_flush);
  png_set_IHDR(s.png, s.info, s.width, s.height, 8, PNG_COLOR_TYPE_GRAY, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(s.png, s.info);
  png_write_image(s.png, rows);
  png_write_end(s.png, nullptr);
  return true;
}

struct ReadSession : Session {
  explicit ReadSession(std::string_view bytes) {
    in = bytes;
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) fail("png", "libpng does not start: {}.", message);
  }
  ~ReadSession() { png_destroy_read_struct(&png, &info, nullptr); }
};
struct WriteSession : Session {
  WriteSession() {
    png = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) fail("png", "libpng does not start: {}.", message);
  }
  ~WriteSession() { png_destroy_write_struct(&png, &info); }
};

[[noreturn]] void fail_read(const Session& s, std::string_view place, int64_t largest_side) {
  if (s.too_large) {
    fail("png", "{}: {} x {} pixels, at most {} a side are taken.", place, s.width, s.height, largest_side);
  }
  if (s.transparent)
    fail("png", "{}: has transparent pixels; a gray image without them was expected.", place);
  fail("png", "{}: not a readable PNG, at byte {} of {}: {}. Get the file again.", place, s.at, s.in.size(),
       s.message);
}

std::vector<png_bytep> row_pointers(uint8_t* pixels, int64_t height, size_t row_bytes) {
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = pixels + y * row_bytes;
  return rows;
}

}  // namespace

GrayImage read_png(std::string_view bytes, std::string_view place, int64_t largest_side) {
  if (bytes.empty()) fail("png", "{}: empty; a PNG was expected.", place);
  if (bytes.size() < 8 || png_sig_cmp(reinterpret_cast<png_const_bytep>(bytes.data()), 0, 8) != 0) {
    fail("png", "{}: does not begin as a PNG does. It is another kind of file, or damaged.", place);
  }
  ReadSession s(bytes);
  if (!read_header(s, static_cast<png_uint_32>(std::min<int64_t>(largest_side, 0x7fffffff)))) {
    fail_read(s, place, largest_side);
  }
  GrayImage image{s.width, s.height, {}};
  image.pixels.resize(s.row_bytes * s.height);
  std::vector<png_bytep> rows = row_pointers(image.pixels.data(), image.height, s.row_bytes);
  if (!read_rows(s, rows.data())) fail_read(s, place, largest_side);
  const size_t count = static_cast<size_t>(s.width) * s.height;
  if (s.row_bytes == size_t{3} * s.width) {
    for (size_t i = 0; i < count; ++i) {
      const uint8_t* rgb = image.pixels.data() + 3 * i;
      image.pixels[i] =
          static_cast<uint8_t>((19595u * rgb[0] + 38470u * rgb[1] + 7471u * rgb[2] + 32768u) >> 16);
    }
    image.pixels.resize(count);
  }
  return image;
}

std::string png_bytes(const GrayImage& image) {
  if (image.width <= 0 || image.height <= 0 ||
      image.pixels.size() != static_cast<size_t>(image.width * image.height)) {
    fail("png", "{} pixels are no image of {} x {}.", image.pixels.size(), image.width, image.height);
  }
  WriteSession s;
  s.width = static_cast<png_uint_32>(image.width);
  s.height = static_cast<png_uint_32>(image.height);
  std::vector<png_bytep> rows =
      row_pointers(const_cast<uint8_t*>(image.pixels.data()), image.height, static_cast<size_t>(image.width));
  if (!write_image(s, rows.data()))
    fail("png", "cannot write an image of {} x {}: {}.", s.width, s.height, s.message);
  return std::move(s.out);
}
#endif

void write_png(const fs::path& path, const GrayImage& image) { write_text(path, png_bytes(image)); }

}  // namespace lra
