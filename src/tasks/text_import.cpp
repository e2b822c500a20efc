// The Large Movie Review Dataset in its published layout:
//
//   aclImdb/{train,test}/{neg,pos}/ID_RATING.txt     12,500 reviews in each of the four folders
//
// Folders give the labels; train/unsup has none and is left alone. Reviews are sorted by id and rating, so
// the order in which a disk lists them never matters. Two permutations with the seed 42 follow: one of each
// class of train, whose front becomes the validation split (val=fixed), and one of each split, because data
// sorted by class has one-sided prefixes.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/progress.h"
#include "data/file_source.h"
#include "tasks/text.h"

namespace lra::text {
namespace {

constexpr uint64_t kSeed = 42;
constexpr uint64_t kHoldOutStreams[] = {stream_id("text.val.neg"), stream_id("text.val.pos")};
constexpr uint64_t kOrderStreams[] = {stream_id("text.order.train"), stream_id("text.order.val"),
                                      stream_id("text.order.test")};
constexpr size_t kPublishedReviews = 12'500;  // in each folder
constexpr size_t kMostHeldOut = 1'250;        // of each class
constexpr size_t kLargestReview = size_t{1} << 24;

constexpr const char* kLayout =
    "Expected the Large Movie Review Dataset, as aclImdb_v1.tar.gz or as the folder aclImdb, with train/neg, "
    "train/pos, test/neg and test/pos.";

constexpr const char* kParts[] = {"train/neg", "train/pos", "test/neg", "test/pos"};  // 2 · test + label

// "127_9.txt" is review 127 with rating 9; false for any other name.
bool parse_name(std::string_view name, uint64_t& id, uint64_t& rating) {
  constexpr std::string_view kEnd = ".txt";
  if (!name.ends_with(kEnd)) return false;
  const char *at = name.data(), *end = name.data() + name.size() - kEnd.size();
  const auto first = std::from_chars(at, end, id);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '_') return false;
  const auto second = std::from_chars(first.ptr + 1, end, rating);
  return second.ec == std::errc() && second.ptr == end;
}

// What a source holds: the reviews of each part by id and rating, and what the importer met besides them.
struct Published {
  struct Named {
    uint64_t id = 0, rating = 0;
    std::string bytes;
  };
  std::vector<Named> parts[4];
  std::optional<std::string> folder;  // before "train/…" in paths
  int64_t empty = 0, other_files = 0;
};

// The part that `path` lies in, or nothing; `folder` gets what stands before it.
std::optional<size_t> part_of(std::string_view path, std::string_view name, std::string& folder) {
  path.remove_suffix(name.size() + (path.size() > name.size() ? 1 : 0));
  for (size_t p = 0; p < std::size(kParts); ++p) {
    const std::string_view part = kParts[p];
    if (!path.ends_with(part)) continue;
    const std::string_view before = path.substr(0, path.size() - part.size());
    if (!before.empty() && before.back() != '/') continue;
    folder = before;
    return p;
  }
  return std::nullopt;
}

Published read_published(const fs::path& from) {
  const FileSource source(from);
  Published found;
  int64_t reviews = 0;
  Progress progress(fmt::format("text: reading {}", from.filename().string()), 4 * kPublishedReviews,
                    "reviews");
  source.visit([&](const SourceFile& file, ByteStream& bytes) {
    std::string folder;
    const auto part = part_of(file.path, file.name(), folder);
    if (!part) return;
    if (found.folder && *found.folder != folder) {
      fail("text", "{} holds the data set twice, in '{}' and in '{}'. Name the one to import.", from.string(),
           *found.folder, folder);
    }
    found.folder = folder;
    Published::Named review;
    if (!parse_name(file.name(), review.id, review.rating)) {
      ++found.other_files;
      return;
    }
    review.bytes = bytes.read_all(kLargestReview);
    found.parts[*part].push_back(std::move(review));
    progress.update(++reviews);
  });
  return found;
}

// The reviews of one part in the order of their names, without empty ones.
std::vector<Review> take_part(Published& from, size_t part, int64_t label) {
  auto& named = from.parts[part];
  std::sort(named.begin(), named.end(), [](const Published::Named& a, const Published::Named& b) {
    return std::tie(a.id, a.rating) < std::tie(b.id, b.rating);
  });
  std::vector<Review> reviews;
  for (Published::Named& review : named) {
    if (review.bytes.empty()) {
      ++from.empty;
    } else {
      reviews.push_back({std::move(review.bytes), label});
    }
  }
  named = {};
  return reviews;
}

std::string unusual_counts(const Published& found, const fs::path& from) {
  std::string unusual;
  for (size_t p = 0; p < std::size(kParts); ++p) {
    const size_t count = found.parts[p].size();
    if (count == 0) {
      fail("text", "{}: there are no reviews (ID_RATING.txt) in {}. {}", from.string(), kParts[p], kLayout);
    }
    if (count != kPublishedReviews) {
      unusual += fmt::format("{}{} has {}", unusual.empty() ? "" : ", ", kParts[p], count);
    }
  }
  return unusual;
}

// Moves a tenth of the reviews, at most kMostHeldOut, from `train` to the end of `held_out`.
void hold_out(std::vector<Review>& train, uint64_t stream, std::vector<Review>& held_out) {
  if (train.size() < 2) fail("text", "one review of a class is too little to hold one out for validation.");
  const size_t count = std::clamp<size_t>(train.size() / 10, 1, kMostHeldOut);
  std::vector<bool> held(train.size());
  for (size_t i = 0; i < count; ++i) held[permuted(i, train.size(), kSeed, stream)] = true;
  std::vector<Review> kept;
  for (size_t i = 0; i < train.size(); ++i) (held[i] ? held_out : kept).push_back(std::move(train[i]));
  train = std::move(kept);
}

std::vector<Review> shuffled(std::vector<Review> reviews, uint64_t stream) {
  std::vector<Review> out(reviews.size());
  for (size_t i = 0; i < reviews.size(); ++i) {
    out[i] = std::move(reviews[permuted(i, reviews.size(), kSeed, stream)]);
  }
  return out;
}

}  // namespace

Json import_published(const Options& options, const fs::path& from, DataSink& out) {
  Published found = read_published(from);
  const std::string unusual = unusual_counts(found, from);
  std::vector<Review> splits[3];
  for (const int64_t label : {kNegative, kPositive}) {
    std::vector<Review> train = take_part(found, static_cast<size_t>(label), label);
    if (options.val == "fixed") hold_out(train, kHoldOutStreams[label], splits[1]);
    std::move(train.begin(), train.end(), std::back_inserter(splits[0]));
    std::vector<Review> test = take_part(found, static_cast<size_t>(2 + label), label);
    std::move(test.begin(), test.end(), std::back_inserter(splits[2]));
  }
  splits[0] = shuffled(std::move(splits[0]), kOrderStreams[0]);
  splits[2] = shuffled(std::move(splits[2]), kOrderStreams[2]);
  splits[1] = options.val == "fixed" ? shuffled(std::move(splits[1]), kOrderStreams[1]) : splits[2];
  Json notes = {{"source", from.string()},
                {"empty_reviews", found.empty},
                {"other_files", found.other_files},
                {"reviews", Json::object()}};
  for (size_t s = 0; s < std::size(splits); ++s) {
    notes["reviews"][kSplits[s]] = add_reviews(splits[s], options, s, out);
  }

  if (!unusual.empty()) {
    warn("{}: {} reviews; the published set has {} in each folder.", from.string(), unusual,
         kPublishedReviews);
  }
  if (found.empty > 0) warn("{}: {} empty reviews were left out.", from.string(), found.empty);
  if (found.other_files > 0) {
    warn("{}: {} files that are not named ID_RATING.txt were left out.", from.string(), found.other_files);
  }
  return notes;
}

}  // namespace lra::text
