// Images are appended to one file of fixed-size records in the sink's lasting scratch folder, a fraction of a
// second's work at a time; when all are there, they become the splits. A record:
//
//   u64 hash of what follows · u8 label · u8 distractors placed · u16 0 · u32 pairs tried · W·W pixels
//
// After a kill the file may end anywhere. Whole records whose hash is right are kept, the rest is cut off and
// drawn again, with the same result.
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <iterator>
#include <mutex>
#include <unistd.h>
#include <unordered_set>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/threads.h"
#include "data/content_hash.h"
#include "tasks/pathfinder.h"
#include "tasks/pathfinder_generate.h"
#include "tasks/remainder.h"

namespace lra::pathfinder {
namespace {

constexpr size_t kHash = 8, kHead = 16;
constexpr int64_t kMostRepeats = 100'000;  // in a row: there are hardly any new images left

// The file of records, in the order of image numbers.
class Records {
 public:
  Records(const fs::path& path, size_t pixels) : path_(path), size_(kHead + pixels) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (fd_ < 0) fail("pathfinder", "{}: cannot open: {}.", path.string(), std::strerror(errno));
  }
  ~Records() { ::close(fd_); }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  size_t size() const { return size_; }
  static uint64_t hash_of(std::string_view record) { return content_hash(record.substr(kHash)); }
  static uint64_t stored_hash(std::string_view record) {
    uint64_t hash = 0;
    std::memcpy(&hash, record.data(), kHash);
    return hash;
  }

  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        fail("pathfinder",
             "{}: cannot write: {}. What was made so far is kept: make room and give the same command again.",
             path_.string(), std::strerror(errno));
      }
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }
  // Calls `use` with the whole, right records from the beginning on until one is neither, or `use` says no.
  // How many there were.
  template <class Use>
  int64_t read(const Use& use) const {
    std::string part(size_ * std::max<size_t>(1, (size_t{4} << 20) / size_), '\0');
    int64_t count = 0;
    for (off_t at = 0;;) {
      size_t filled = 0;
      while (filled < part.size()) {
        const ssize_t n = ::pread(fd_, part.data() + filled, part.size() - filled, at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) fail("pathfinder", "{}: cannot read: {}.", path_.string(), std::strerror(errno));
        if (n == 0) break;
        filled += static_cast<size_t>(n), at += n;
      }
      for (size_t r = 0; r + size_ <= filled; r += size_) {
        const std::string_view record = std::string_view(part).substr(r, size_);
        if (stored_hash(record) != hash_of(record) || !use(record)) return count;
        ++count;
      }
      if (filled < part.size()) return count;
    }
  }
  void cut(int64_t records) {
    const auto end = static_cast<off_t>(static_cast<size_t>(records) * size_);
    if (::ftruncate(fd_, end) != 0 || ::lseek(fd_, end, SEEK_SET) != end) {
      fail("pathfinder", "{}: cannot cut: {}.", path_.string(), std::strerror(errno));
    }
  }

 private:
  fs::path path_;
  size_t size_;
  int fd_ = -1;
};

// One generator for each thread that is at work.
class Generators {
 public:
  Generators(const Parameters& parameters, int64_t levels)
      : blueprint_(std::make_shared<const Blueprint>(parameters)) {
    for (int64_t v = 0; v < 256; ++v) {  // 0 and 255 stay what they are
      level_of_[v] = static_cast<uint8_t>((v * levels / 256) * 255 / (levels - 1));
    }
  }

  void draw(uint64_t seed, uint64_t index, char* record, size_t size) {
    std::unique_ptr<Generator> generator = take();
    auto* const pixels = reinterpret_cast<uint8_t*>(record + kHead);
    const Drawn drawn = generator->draw(seed, index, pixels);
    for (size_t i = 0; i < size - kHead; ++i) pixels[i] = level_of_[pixels[i]];
    const auto pairs = static_cast<uint32_t>(std::min<int64_t>(drawn.pairs, UINT32_MAX));
    std::memset(record, 0, kHead);
    record[kHash] = static_cast<char>(drawn.label);
    record[kHash + 1] = static_cast<char>(drawn.distractors);
    std::memcpy(record + kHash + 4, &pairs, sizeof pairs);
    const uint64_t hash = Records::hash_of({record, size});
    std::memcpy(record, &hash, sizeof hash);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(generator));
  }

 private:
  std::unique_ptr<Generator> take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return std::make_unique<Generator>(blueprint_);
    auto generator = std::move(idle_.back());
    idle_.pop_back();
    return generator;
  }
  std::shared_ptr<const Blueprint> blueprint_;
  uint8_t level_of_[256];
  std::mutex mutex_;
  std::vector<std::unique_ptr<Generator>> idle_;
};

// Which records count: those whose pixels were not there before, until there are enough.
class Distinct {
 public:
  explicit Distinct(int64_t wanted) : wanted_(wanted) {}
  bool full() const { return taken_ == wanted_; }
  int64_t taken() const { return taken_; }
  int64_t repeats_in_a_row() const { return repeats_; }
  bool take(std::string_view record) {
    const bool is_new = seen_.insert(content_hash(record.substr(kHead))).second;
    taken_ += is_new ? 1 : 0;
    repeats_ = is_new ? 0 : repeats_ + 1;
    return is_new;
  }

 private:
  int64_t wanted_, taken_ = 0, repeats_ = 0;
  std::unordered_set<uint64_t> seen_;
};

void draw_all(const Parameters& parameters, int64_t levels, uint64_t seed, Records& records,
              Distinct& distinct, int64_t wanted) {
  int64_t next = records.read([&](std::string_view record) {
    if (distinct.full()) return false;
    distinct.take(record);
    return true;
  });
  records.cut(next);
  if (next > 0) info("going on after {} images of an earlier attempt", next);
  Generators generators(parameters, levels);
  const int64_t block = parameters.window <= 32 ? 1024 : 64;
  std::string bytes(static_cast<size_t>(block) * records.size(), '\0');
  Progress progress("making images", wanted, "images", distinct.taken());
  while (!distinct.full()) {
    parallel_items(block, [&](int64_t i) {
      if (interrupted()) return;
      generators.draw(seed, static_cast<uint64_t>(next + i),
                      bytes.data() + static_cast<size_t>(i) * records.size(), records.size());
    });
    if (interrupted()) {
      throw Interrupted("making the images was interrupted; give the same command again to go on");
    }
    records.append(bytes);
    for (int64_t i = 0; i < block && !distinct.full(); ++i) {
      distinct.take(std::string_view(bytes).substr(static_cast<size_t>(i) * records.size(), records.size()));
    }
    if (distinct.repeats_in_a_row() >= kMostRepeats) {
      fail("pathfinder", "{} draws gave only {} different images. Ask for fewer (--count).", next + block,
           distinct.taken());
    }
    next += block;
    progress.update(distinct.taken());
  }
  progress.finish();
}

}  // namespace

Json make_images(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& sink) {
  const Parameters parameters = options.parameters();
  const auto pixels = static_cast<size_t>(parameters.window * parameters.window);
  const int64_t wanted[] = {counts.train, counts.val, counts.test};
  const int64_t total = counts.train + counts.val + counts.test;
  Records records(sink.lasting_scratch() / "images.bin", pixels);
  Distinct drawn(total);
  draw_all(parameters, options.levels, seed, records, drawn, total);

  WholeBatches out(sink, options.drop_remainder ? kBatch : 1);
  Distinct distinct(total);
  size_t split = 0;
  int64_t left = wanted[0], images = 0;
  double pairs = 0, distractors = 0;
  records.read([&](std::string_view record) {
    if (distinct.full()) return false;
    ++images;
    uint32_t tried = 0;
    std::memcpy(&tried, record.data() + kHash + 4, sizeof tried);
    pairs += tried;
    distractors += static_cast<uint8_t>(record[kHash + 1]);
    if (!distinct.take(record)) return true;
    while (left == 0) left = wanted[++split];
    --left;
    const auto* first = reinterpret_cast<const uint8_t*>(record.data() + kHead);
    out.add(split, Tokens{std::span<const uint8_t>(first, pixels)}, record[kHash]);
    return true;
  });
  if (!distinct.full()) {
    fail("pathfinder", "the images that were made could not be read back. Give the same command again.");
  }
  const auto n = static_cast<double>(std::max<int64_t>(images, 1));
  return {{"images", images},
          {"repeats", images - total},
          {"pairs_tried", pairs / n},
          {"distractors_placed", distractors / n}};
}

}  // namespace lra::pathfinder
