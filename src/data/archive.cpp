#include "data/archive.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <unordered_set>

#include "base/error.h"
#include "data/content_hash.h"
#include "data/gunzip.h"

#ifdef LRA_HAVE_ARCHIVE
// Only tar and these filters are named here, so that only they are linked from the static library.
#include <archive.h>
#include <archive_entry.h>
#endif

namespace lra {
namespace {

// The header's checksum: the sum of its bytes with the checksum's own field taken as blanks, in octal.
bool is_tar_header(std::string_view block) {
  if (block.size() < 512) return false;
  int64_t sum = 0, sum_signed = 0, stored = 0;
  for (size_t i = 0; i < 512; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block[i];
    sum += static_cast<unsigned char>(c);
    sum_signed += static_cast<signed char>(c);
  }
  size_t i = 148;
  while (i < 156 && block[i] == ' ') ++i;
  if (i == 156 || block[i] < '0' || block[i] > '7') return false;
  for (; i < 156 && block[i] >= '0' && block[i] <= '7'; ++i) stored = stored * 8 + (block[i] - '0');
  return stored == sum || stored == sum_signed;
}

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b\x08"); }

}  // namespace

bool looks_like_archive(std::string_view head) {
  using std::string_view_literals::operator""sv;
  return is_gzip(head) || head.starts_with("\xfd\x37zXZ\0"sv) || head.starts_with("\x28\xb5\x2f\xfd"sv) ||
         (head.starts_with("BZh"sv) && head.size() >= 10 &&
          head.substr(4, 6) == "\x31\x41\x59\x26\x53\x59"sv) ||
         is_tar_header(head);
}

#ifndef LRA_HAVE_ARCHIVE
struct ArchiveReader::State {};
ArchiveReader::ArchiveReader(ByteStream& packed, std::string_view, const SourceLimits&,
                             std::atomic<int64_t>&) {
  fail("archive",
       "{}: this build has no archive support. Install libarchive-dev (with zlib1g-dev liblzma-dev "
       "libzstd-dev "
       "libbz2-dev) and build again, or unpack the archive and import the folder.",
       packed.place());
}
ArchiveReader::~ArchiveReader() = default;
bool ArchiveReader::next(SourceFile&) { return false; }
size_t ArchiveReader::read(char*, size_t) { return 0; }
#else

namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

std::string printable(std::string_view name) {
  std::string text;
  for (const char c : name.substr(0, 200)) {
    text += is_control(c) ? fmt::format("\\x{:02x}", static_cast<unsigned char>(c)) : std::string(1, c);
  }
  return name.size() > 200 ? text + "…" : text;
}

constexpr const char* kAdvice =
    "An archive as its owners publish it holds none: download it again, or unpack it by hand and import the "
    "folder.";

// "./a//b/" -> "a/b"; throws for what could lead elsewhere.
std::string clean_path(const std::string_view name, const std::string& archive, size_t longest) {
  const auto refuse = [&](std::string_view what) {
    fail("archive", "{}: the entry '{}' {}. {}", archive, printable(name), what, kAdvice);
  };
  if (name.size() > longest) refuse(fmt::format("has a name of {} bytes, over {}", name.size(), longest));
  if (name.starts_with('/')) refuse("has an absolute path");
  std::string path;
  for (size_t at = 0; at < name.size();) {
    const std::string_view part = name.substr(at, name.find('/', at) - at);
    at += part.size() + 1;
    if (part == "..") refuse("points outside with '..'");
    if (part.empty() || part == ".") continue;
    if (!path.empty()) path += '/';
    path += part;
  }
  if (std::any_of(path.begin(), path.end(), is_control)) refuse("has control characters in its name");
  return path;
}

// Counts what goes through it.
class CountedStream : public ByteStream {
 public:
  CountedStream(ByteStream& from, std::atomic<int64_t>& position) : from_(from), position_(position) {
    position_ = 0;
  }
  size_t read(char* into, size_t most) override {
    const size_t n = from_.read(into, most);
    position_ += static_cast<int64_t>(n);
    return n;
  }
  std::string_view place() const override { return from_.place(); }
  int64_t position() const { return position_; }

 private:
  ByteStream& from_;
  std::atomic<int64_t>& position_;
};

}  // namespace

struct ArchiveReader::State {
  State(ByteStream& packed_, const SourceLimits& limits_, std::atomic<int64_t>& bytes_read_)
      : limits(limits_), packed(packed_, bytes_read_), name(packed_.place()), buffer(size_t{1} << 18) {}
  ~State() { archive_read_free(reader); }

  SourceLimits limits;
  CountedStream packed;
  std::unique_ptr<GunzipStream> gunzip;
  std::string name;
  std::vector<char> buffer;
  archive* reader = archive_read_new();
  std::exception_ptr failure;  // of the stream below; libarchive is C and must not be thrown through
  bool hit_end = false, last_block_is_zero = false;

  int64_t files = 0, unpacked = 0;
  std::string current;  // the entry being read
  int64_t left = 0;     // of it
  std::unordered_set<uint64_t> seen;

  static la_ssize_t pull(archive* a, void* self, const void** bytes);
  [[noreturn]] void fail_damaged();
  void check_ratio() const;
  bool take(archive_entry* entry, SourceFile& file);
};

la_ssize_t ArchiveReader::State::pull(archive* a, void* self, const void** bytes) {
  auto& s = *static_cast<State*>(self);
  try {
    ByteStream& from = s.gunzip ? static_cast<ByteStream&>(*s.gunzip) : s.packed;
    const size_t n = from.read(s.buffer.data(), s.buffer.size());
    s.hit_end = n == 0;
    if (n >= 512) {
      const auto tail = s.buffer.begin() + static_cast<std::ptrdiff_t>(n);
      s.last_block_is_zero = std::all_of(tail - 512, tail, [](char c) { return c == 0; });
    } else if (n > 0) {
      s.last_block_is_zero = false;
    }
    if (s.gunzip) s.unpacked += static_cast<int64_t>(n);
    *bytes = s.buffer.data();
    return static_cast<la_ssize_t>(n);
  } catch (...) {
    s.failure = std::current_exception();
    archive_set_error(a, EIO, "cannot read on");
    return ARCHIVE_FATAL;
  }
}

void ArchiveReader::State::fail_damaged() {
  if (failure) std::rethrow_exception(failure);
  const char* text = archive_error_string(reader);
  const std::string inside = current.empty() ? "" : fmt::format(", after '{}'", current);
  if (text && text == std::string_view("Unrecognized archive format")) {
    fail("archive",
         "{}: there is no tar archive in it, or it was cut off at byte {}. Download or copy it again.", name,
         packed.position());
  }
  if (hit_end) {
    fail("archive", "{}: ends in the middle, at byte {}{}. It was cut: download or copy it again.", name,
         packed.position(), inside);
  }
  // Without gzip the last filter counts the bytes of the file; the buffer of gzip is too coarse to say more.
  const int64_t at = gunzip ? packed.position() : archive_filter_bytes(reader, -1);
  fail("archive", "{}: damaged near byte {}{}: {}. Download or copy it again.", name, at, inside,
       text ? text : "unreadable");
}

void ArchiveReader::State::check_ratio() const {
  const int64_t out = gunzip ? unpacked : archive_filter_bytes(reader, 0);
  if (out > limits.ratio_from && out / limits.ratio > packed.position()) {
    fail("archive",
         "{}: {} bytes unpacked from {} so far, more than {} times as many. No data set packs so well.", name,
         out, packed.position(), limits.ratio);
  }
}

// False for what is silently passed over: folders.
bool ArchiveReader::State::take(archive_entry* entry, SourceFile& file) {
  const char* stored = archive_entry_pathname(entry);
  if (!stored) stored = archive_entry_pathname_utf8(entry);
  if (!stored) fail("archive", "{}: an entry after '{}' has an unreadable name. {}", name, current, kAdvice);
  std::string path = clean_path(stored, name, limits.path_length);
  const auto refuse = [&](std::string_view what) {
    fail("archive", "{}: the entry '{}' {}. {}", name, path, what, kAdvice);
  };
  if (++files > limits.files) refuse(fmt::format("is one of more than {}", limits.files));
  if (archive_entry_hardlink(entry) || archive_entry_symlink(entry)) refuse("is a link");
  const auto type = archive_entry_filetype(entry);
  if (type == AE_IFDIR) return false;
  if (type != AE_IFREG) refuse("is neither a file nor a folder");
  if (archive_entry_sparse_count(entry) > 0) refuse("is a sparse file");
  const int64_t size = archive_entry_size(entry);
  if (size < 0 || size > limits.file_size) {
    refuse(fmt::format("claims {} bytes, at most {} are taken", size, limits.file_size));
  }
  if (path.empty()) refuse("has no name");
  if (!seen.insert(content_hash(path)).second) refuse("is there twice");
  current = path;
  left = size;
  file = {std::move(path), size, fmt::format("{}: {}", name, current)};
  return true;
}

ArchiveReader::ArchiveReader(ByteStream& packed, std::string_view head, const SourceLimits& limits,
                             std::atomic<int64_t>& bytes_read)
    : state_(std::make_unique<State>(packed, limits, bytes_read)) {
  State& s = *state_;
  if (is_gzip(head)) s.gunzip = std::make_unique<GunzipStream>(s.packed);
  archive_read_support_format_tar(s.reader);
  archive_read_support_format_gnutar(s.reader);
  // To the very end, beyond tar's own end mark: only then are the last checksums checked.
  archive_read_set_format_option(s.reader, "tar", "read_concatenated_archives", "1");
  archive_read_support_filter_xz(s.reader);
  archive_read_support_filter_zstd(s.reader);
  archive_read_support_filter_bzip2(s.reader);
  if (archive_read_open(s.reader, &s, nullptr, &State::pull, nullptr) != ARCHIVE_OK) {
    s.fail_damaged();
  }
}
ArchiveReader::~ArchiveReader() = default;

bool ArchiveReader::next(SourceFile& file) {
  State& s = *state_;
  for (;;) {
    archive_entry* entry = nullptr;
    const int code = archive_read_next_header(s.reader, &entry);
    if (code == ARCHIVE_EOF) {
      // A plain tar that was cut between two entries shows it only by its missing end mark.
      if (s.hit_end && !s.last_block_is_zero && !s.gunzip && archive_filter_count(s.reader) == 1)
        s.fail_damaged();
      return false;
    }
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) s.fail_damaged();
    s.check_ratio();
    if (s.take(entry, file)) return true;
  }
}

size_t ArchiveReader::read(char* into, size_t most) {
  State& s = *state_;
  const size_t wanted = static_cast<size_t>(std::min(static_cast<int64_t>(most), s.left));
  if (wanted == 0) return 0;
  const la_ssize_t n = archive_read_data(s.reader, into, wanted);
  if (n <= 0) s.fail_damaged();
  s.check_ratio();
  s.left -= n;
  return static_cast<size_t>(n);
}
#endif

}  // namespace lra
