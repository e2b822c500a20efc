// CIFAR-10 in its two published forms:
//
//   binary   data_batch_{1..5}.bin, test_batch.bin: 10,000 records of 1 label byte and 3 · 1024 colour bytes
//   Python   data_batch_{1..5}, test_batch: a pickled dict with `data` uint8 [10000, 3072] and `labels`
//
// Colours are planes, R before G before B, rows from top to bottom. Images are numbered by batch and place in
// it. A tenth of each class, chosen with the seed 0, becomes the validation split (500 of each class of the
// published set); then every split is permuted with the same seed. (The arena's own split follows the order
// of a library's download and cannot be derived from the published files.)
#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/threads.h"
#include "data/file_source.h"
#include "data/pickle.h"
#include "tasks/image.h"
#include "tasks/remainder.h"

namespace lra::image {
namespace {

constexpr uint64_t kSeed = 0;
constexpr uint64_t kHoldOutStream = stream_id("image.val");
constexpr uint64_t kOrderStreams[] = {stream_id("image.order.train"), stream_id("image.order.val"),
                                      stream_id("image.order.test")};
constexpr size_t kPlane = kPublishedSide * kPublishedSide, kRecord = 1 + 3 * kPlane;
constexpr int kBatches = 5;                                           // of train
constexpr size_t kPublishedImages = 10'000, kMostImages = 1'000'000;  // in a batch

constexpr const char* kLayout =
    "Expected CIFAR-10's binary or Python version (cifar-10-binary.tar.gz, cifar-10-python.tar.gz, or the "
    "unpacked folder): data_batch_1 to data_batch_5 and test_batch.";

struct ImageSet {
  std::vector<uint8_t> pixels;  // gray, side² of each image
  std::vector<int64_t> labels;
};

// Which batch a file name stands for: 1 … 5, 0 for the test batch.
std::optional<int> batch_of(std::string_view name) {
  if (name.ends_with(".bin")) name.remove_suffix(4);
  if (name == "test_batch") return 0;
  constexpr std::string_view kStart = "data_batch_";
  if (name.size() != kStart.size() + 1 || !name.starts_with(kStart)) return std::nullopt;
  const int number = name.back() - '0';
  return number >= 1 && number <= kBatches ? std::optional(number) : std::nullopt;
}

// One image to gray, then averaged down to the wanted side.
void convert(const uint8_t* planes, const Options& options, uint8_t* out) {
  uint8_t gray[kPlane] = {};
  const auto to_gray = options.gray == "tf" ? gray_tf : gray_pil;
  for (size_t i = 0; i < kPlane; ++i)
    gray[i] = to_gray(planes[i], planes[kPlane + i], planes[2 * kPlane + i]);
  const auto side = static_cast<size_t>(options.side), step = kPublishedSide / side;
  for (size_t y = 0; y < side; ++y) {
    for (size_t x = 0; x < side; ++x) {
      size_t sum = 0;
      for (size_t dy = 0; dy < step; ++dy) {
        for (size_t dx = 0; dx < step; ++dx) sum += gray[(y * step + dy) * kPublishedSide + x * step + dx];
      }
      out[y * side + x] = static_cast<uint8_t>((sum + step * step / 2) / (step * step));
    }
  }
}

// `planes(i)`: the colour bytes of image i.
template <class Planes>
void convert_all(const Options& options, size_t count, const Planes& planes, ImageSet& set) {
  const auto length = static_cast<size_t>(options.side * options.side);
  set.pixels.resize(count * length);
  parallel_items(static_cast<int64_t>(count), [&](int64_t i) {
    convert(planes(static_cast<size_t>(i)), options, set.pixels.data() + static_cast<size_t>(i) * length);
  });
}

void check_label(int64_t label, size_t image, std::string_view place) {
  if (label < 0 || label >= kClasses) {
    fail("image", "{}: image {} has the label {}, expected 0 to 9. The file is damaged, or not CIFAR-10.",
         place, image, label);
  }
}

const uint8_t* bytes_at(std::string_view bytes, size_t at) {
  return reinterpret_cast<const uint8_t*>(bytes.data()) + at;
}

ImageSet read_binary(const std::string& bytes, const Options& options, std::string_view place) {
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    fail("image",
         "{}: {} bytes are no whole number of records of {} bytes. The file is truncated: byte {} "
         "begins one that does not end.",
         place, bytes.size(), kRecord, bytes.size() / kRecord * kRecord);
  }
  ImageSet set;
  const size_t count = bytes.size() / kRecord;
  for (size_t i = 0; i < count; ++i) {
    set.labels.push_back(*bytes_at(bytes, i * kRecord));
    check_label(set.labels.back(), i, place);
  }
  convert_all(
      options, count, [&](size_t i) { return bytes_at(bytes, i * kRecord + 1); }, set);
  return set;
}

ImageSet read_python(std::string bytes, const Options& options, const std::string& place) {
  const Pickle batch(std::move(bytes), place);
  const PickleValue& data = batch.at(batch.root(), "data");
  const PickleValue& labels = batch.at(batch.root(), "labels");
  if (data.kind != PickleValue::Kind::kArray || data.shape.size() != 2 || data.shape[0] < 1 ||
      data.shape[1] != static_cast<int64_t>(3 * kPlane)) {
    fail("image", "{}: 'data' is {}, expected an array of bytes with {} columns.", place, name_of(data.kind),
         3 * kPlane);
  }
  const auto count = static_cast<size_t>(data.shape[0]);
  if (labels.kind != PickleValue::Kind::kList || labels.items.size() != count) {
    fail("image", "{}: 'labels' is {} of {}, expected a list of {}.", place, name_of(labels.kind),
         labels.items.size(), count);
  }
  ImageSet set;
  for (size_t i = 0; i < count; ++i) {
    const bool number = labels.items[i]->kind == PickleValue::Kind::kInt;
    set.labels.push_back(number ? labels.items[i]->number : -1);
    check_label(set.labels.back(), i, place);
  }
  convert_all(
      options, count, [&](size_t i) { return bytes_at(data.bytes, i * 3 * kPlane); }, set);
  return set;
}

struct Published {
  std::optional<ImageSet> batches[kBatches + 1];  // 0: test
};

Published read_published(const Options& options, const fs::path& from) {
  Published found;
  std::string folder;
  const FileSource source(from);
  source.visit([&](const SourceFile& file, ByteStream& stream) {
    const auto batch = batch_of(file.name());
    if (!batch) return;
    const std::string here = file.path.substr(0, file.path.size() - file.name().size());
    const bool first = std::none_of(std::begin(found.batches), std::end(found.batches),
                                    [](const auto& b) { return b.has_value(); });
    if (first) folder = here;
    if (here != folder || found.batches[*batch]) {
      fail("image", "{} holds the data set twice, in '{}' and in '{}'. Name the one to import.",
           from.string(), folder, here);
    }
    std::string bytes = stream.read_all(kMostImages * kRecord);
    found.batches[*batch] = file.name().ends_with(".bin")
                                ? read_binary(bytes, options, file.place)
                                : read_python(std::move(bytes), options, file.place);
  });
  return found;
}

// Train and val as numbers of images: a tenth of each class for val.
void hold_out(const std::vector<int64_t>& labels, std::vector<size_t>& train, std::vector<size_t>& val) {
  std::vector<size_t> of_class[kClasses];
  for (size_t i = 0; i < labels.size(); ++i) of_class[labels[i]].push_back(i);
  std::vector<bool> held(labels.size());
  for (size_t c = 0; c < kClasses; ++c) {
    const size_t n = of_class[c].size();
    for (size_t i = 0; i < n / 10; ++i) held[of_class[c][permuted(i, n, kSeed, kHoldOutStream + c)]] = true;
  }
  for (size_t i = 0; i < labels.size(); ++i) (held[i] ? val : train).push_back(i);
}

void add_permuted(const ImageSet& set, const std::vector<size_t>& images, size_t split, size_t length,
                  DataSink& out) {
  for (size_t i = 0; i < images.size(); ++i) {
    const size_t at = images[permuted(i, images.size(), kSeed, kOrderStreams[split])];
    out.add(split, Tokens{std::span<const uint8_t>(set.pixels.data() + at * length, length)}, set.labels[at]);
  }
}

}  // namespace

uint8_t gray_tf(uint8_t r, uint8_t g, uint8_t b) {
  constexpr float kScale = 1.0f / 255.0f;
  const float fr = static_cast<float>(r) * kScale, fg = static_cast<float>(g) * kScale,
              fb = static_cast<float>(b) * kScale;
  return static_cast<uint8_t>((fr * 0.2989f + fg * 0.587f + fb * 0.114f) * 255.5f);
}

uint8_t gray_pil(uint8_t r, uint8_t g, uint8_t b) {
  return static_cast<uint8_t>((19595u * r + 38470u * g + 7471u * b + 32768u) >> 16);
}

Json import_published(const Options& options, const fs::path& from, DataSink& sink) {
  if (kPublishedSide % options.side != 0) {
    fail("image", "side={}: images of {} pixels a side can be averaged down to 16, 8 or 4.", options.side,
         kPublishedSide);
  }
  Published found = read_published(options, from);
  ImageSet train;
  std::string unusual;
  for (int b = 0; b <= kBatches; ++b) {
    const std::string name = b == 0 ? "test_batch" : fmt::format("data_batch_{}", b);
    if (!found.batches[b]) fail("image", "{}: {} is missing. {}", from.string(), name, kLayout);
    ImageSet& set = *found.batches[b];
    if (set.labels.size() != kPublishedImages) {
      unusual += fmt::format("{}{} has {}", unusual.empty() ? "" : ", ", name, set.labels.size());
    }
    if (b == 0) continue;
    train.pixels.insert(train.pixels.end(), set.pixels.begin(), set.pixels.end());
    train.labels.insert(train.labels.end(), set.labels.begin(), set.labels.end());
    found.batches[b] = ImageSet();
  }
  const ImageSet& test = *found.batches[0];
  std::vector<size_t> splits[3];
  hold_out(train.labels, splits[0], splits[1]);
  for (size_t i = 0; i < test.labels.size(); ++i) splits[2].push_back(i);
  const auto length = static_cast<size_t>(options.side * options.side);
  WholeBatches out(sink, options.drop_remainder ? kBatch : 1);
  for (size_t s = 0; s < std::size(splits); ++s)
    add_permuted(s == 2 ? test : train, splits[s], s, length, out);
  if (!unusual.empty()) {
    warn("{}: {} images; the published set has {} in each.", from.string(), unusual, kPublishedImages);
  }
  return {{"source", from.string()}};
}

}  // namespace lra::image
