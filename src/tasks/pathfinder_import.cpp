// The published images:
//
//   pathfinder{32,64,128,256}/{curv_baseline,curv_contour_length_9,curv_contour_length_14}/
//     imgs/BATCH/sample_K.png      gray
//     metadata/BATCH.npy           a row for each image: 0 imgs/BATCH, 1 sample_K.png, 3 label, …
//
// Files come in any order, so images go to a scratch file first. They are numbered by metadata file (by its
// number) and row, permuted with the seed 42, and cut into train, and a tenth each for val and test. Empty
// image files, of which the release has one, are left out and counted.
#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/progress.h"
#include "data/file_source.h"
#include "data/npy.h"
#include "data/png.h"
#include "data/split_writer.h"
#include "data/tsv.h"
#include "tasks/pathfinder.h"
#include "tasks/release.h"
#include "tasks/remainder.h"
#include "tasks/tsv_import.h"

namespace lra::pathfinder {
namespace {

constexpr uint64_t kSeed = 42;
constexpr uint64_t kOrderStream = stream_id("pathfinder.order");
constexpr int64_t kPublishedImages = 200'000;
constexpr size_t kLargestPng = size_t{1} << 20, kLargestTable = size_t{1} << 28;

std::string folder_name(const Options& options) {
  return options.difficulty == "easy"           ? "curv_baseline"
         : options.difficulty == "intermediate" ? "curv_contour_length_9"
                                                : "curv_contour_length_14";
}

// The folder with imgs and metadata that `path` lies in, if it is one of these images' metadata.
std::optional<std::string> folder_of(std::string_view path, const std::string& resolution,
                                     const std::string& difficulty) {
  const size_t at = path.rfind("metadata/");
  if (at == path.npos || !path.ends_with(".npy")) return std::nullopt;
  const std::string folder(path.substr(0, at));
  // People name the release, pathfinder32 or curv_contour_length_14 itself.
  const std::string inner = difficulty + "/", outer = resolution + "/" + inner;
  if (folder.empty() || folder == inner) return folder;
  return folder == outer || folder.ends_with("/" + outer) ? std::optional(folder) : std::nullopt;
}

// What a source holds of one set.
struct Published {
  explicit Published(const fs::path& scratch) : pixels(scratch) {}
  SpillFile pixels;                                 // of the images, in the order they came
  std::unordered_map<std::string, int64_t> images;  // "imgs/0/sample_7.png" -> place; -1 for an empty file
  struct TableFile {
    std::string place;
    StringTable rows;
  };
  std::map<int64_t, TableFile> metadata;  // by number
  int64_t empty = 0;
};

void add_image(const SourceFile& file, ByteStream& bytes, std::string name, int64_t side, Published& found) {
  if (file.size == 0) {
    ++found.empty;
    found.images.emplace(std::move(name), -1);
    return;
  }
  const GrayImage image = read_png(bytes.read_all(kLargestPng), file.place, 4096);
  if (image.width != side || image.height != side) {
    fail("pathfinder", "{}: {} by {} pixels, expected {} by {}.", file.place, image.width, image.height, side,
         side);
  }
  found.images.emplace(std::move(name), found.pixels.size() / (side * side));
  found.pixels.append({reinterpret_cast<const char*>(image.pixels.data()), image.pixels.size()});
}

void add_metadata(const SourceFile& file, ByteStream& bytes, Published& found) {
  const std::string_view name = file.name();
  int64_t number = 0;
  const char* end = name.data() + name.size() - std::string_view(".npy").size();
  const auto [at, code] = std::from_chars(name.data(), end, number);
  if (code != std::errc() || at != end || number < 0) {
    fail("pathfinder", "{}: expected a number before .npy.", file.place);
  }
  found.metadata[number] = {file.place, read_string_table(bytes.read_all(kLargestTable), file.place)};
}

void read_published(const FileSource& source, const std::string& folder, int64_t side, Published& found) {
  Progress progress(fmt::format("pathfinder: reading {}", source.path().filename().string()),
                    kPublishedImages, "images");
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    if (!file.path.starts_with(folder)) return;
    const std::string_view name = std::string_view(file.path).substr(folder.size());
    if (name.starts_with("metadata/") && name.ends_with(".npy")) {
      add_metadata(file, bytes, found);
    } else if (name.starts_with("imgs/") && name.ends_with(".png")) {
      add_image(file, bytes, std::string(name), side, found);
      progress.update(static_cast<int64_t>(found.images.size()));
    }
  });
}

struct Labelled {
  int64_t image = 0, label = 0;
};

// The images with their labels, in the order of the metadata.
std::vector<Labelled> join(const Published& found, int64_t& unlisted) {
  std::vector<Labelled> all;
  int64_t rows = 0;
  for (const auto& [number, table] : found.metadata) {
    for (size_t r = 0; r < table.rows.size(); ++r) {
      const auto& row = table.rows[r];
      const Place place{table.place, "row", static_cast<int64_t>(r) + 1};
      if (row.size() < 4) {
        fail("pathfinder", "{}: {} columns, expected at least 4 (folder, file, index, label).", place.text(),
             row.size());
      }
      const std::string name = row[0] + "/" + row[1];
      const auto image = found.images.find(name);
      if (image == found.images.end()) {
        fail("pathfinder", "{}: the image {} is not there. The source is incomplete.", place.text(), name);
      }
      ++rows;
      if (image->second < 0) continue;
      all.push_back({image->second, parse_binary_label(row[3], "pathfinder", place)});
    }
  }
  unlisted = static_cast<int64_t>(found.images.size()) - rows;
  return all;
}

}  // namespace

Json import_published(const Options& options, const fs::path& from, DataSink& sink) {
  const std::string resolution = fmt::format("pathfinder{}", options.side), difficulty = folder_name(options);
  const FileSource source(from);
  const auto folder =
      find_in_release(source, fmt::format("{}/{}", resolution, difficulty),
                      [&](std::string_view path) { return folder_of(path, resolution, difficulty); });
  if (!folder) {
    fail(
        "pathfinder",
        "{}: no images of this kind were found in it. Expected {}/{}/metadata/NUMBER.npy and imgs beside it, "
        "in lra_release or at the top.",
        from.string(), resolution, difficulty);
  }
  Published found(sink.scratch());
  read_published(source, *folder, options.side, found);
  int64_t unlisted = 0;
  const std::vector<Labelled> all = join(found, unlisted);
  const auto n = static_cast<int64_t>(all.size()), tenth = n / 10;
  if (tenth < 1) fail("pathfinder", "{}: {} images are too few for three splits.", from.string(), n);

  WholeBatches out(sink, options.drop_remainder ? kBatch : 1);
  const auto size = static_cast<size_t>(options.side * options.side);
  std::vector<uint8_t> pixels(size);
  for (int64_t i = 0; i < n; ++i) {
    const Labelled& example =
        all[permuted(static_cast<uint64_t>(i), static_cast<uint64_t>(n), kSeed, kOrderStream)];
    found.pixels.read(example.image * static_cast<int64_t>(size), reinterpret_cast<char*>(pixels.data()),
                      size);
    const size_t split = i < n - 2 * tenth ? 0 : i < n - tenth ? 1 : 2;
    out.add(split, Tokens{std::span<const uint8_t>(pixels)}, example.label);
  }
  if (n + found.empty != kPublishedImages) {
    warn("{}: {} images; the published set has {}.", from.string(), n, kPublishedImages);
  }
  if (found.empty > 0) warn("{}: {} empty image files were left out.", from.string(), found.empty);
  if (unlisted > 0) warn("{}: {} images that no metadata lists were left out.", from.string(), unlisted);
  return {{"source", from.string()},
          {"folder", *folder},
          {"images", n},
          {"empty_files", found.empty},
          {"unlisted", unlisted}};
}

}  // namespace lra::pathfinder
