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
#include <tuple>

#include "base/error.h"
#include "base/log.h"
#include "base/philox.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/threads.h"
#include "tasks/text.h"

namespace lra::text {
namespace {

constexpr uint64_t kSeed = 42;
constexpr uint64_t kHoldOutStreams[] = {stream_id("text.val.neg"), stream_id("text.val.pos")};
constexpr uint64_t kOrderStreams[] = {stream_id("text.order.train"), stream_id("text.order.val"),
                                      stream_id("text.order.test")};
constexpr size_t kPublishedReviews = 12'500;  // in each folder
constexpr size_t kMostHeldOut = 1'250;        // of each class
constexpr size_t kBatchFiles = 4'096;

constexpr const char* kLayout =
    "Expected the folder aclImdb of the Large Movie Review Dataset, or the folder that holds it, with "
    "train/neg, train/pos, test/neg and test/pos.";

fs::path find_folder(const fs::path& from) {
  std::error_code code;
  if (!fs::exists(from, code)) fail("text", "{}: there is no such folder. {}", from.string(), kLayout);
  if (!fs::is_directory(from, code)) {
    fail("text",
         "{} is a file. An archive has to be unpacked first ('tar -xzf {}'); then import the folder aclImdb.",
         from.string(), from.filename().string());
  }
  for (const fs::path& folder : {from, from / "aclImdb"}) {
    if (!fs::is_directory(folder / "train", code)) continue;
    for (const char* part : {"train/neg", "train/pos", "test/neg", "test/pos"}) {
      if (!fs::is_directory(folder / part, code)) {
        fail("text", "{}: the folder {} is missing. {}", folder.string(), part, kLayout);
      }
    }
    return folder;
  }
  fail("text", "{}: there is no folder train in it, nor in aclImdb below it. {}", from.string(), kLayout);
}

struct ReviewFile {
  uint64_t id = 0, rating = 0;
  std::string name;
};

// "127_9.txt" is review 127 with rating 9; false for any other name.
bool parse_name(std::string name, ReviewFile& file) {
  constexpr std::string_view kEnd = ".txt";
  if (!name.ends_with(kEnd)) return false;
  const char *at = name.data(), *end = name.data() + name.size() - kEnd.size();
  const auto id = std::from_chars(at, end, file.id);
  if (id.ec != std::errc() || id.ptr == end || *id.ptr != '_') return false;
  const auto rating = std::from_chars(id.ptr + 1, end, file.rating);
  if (rating.ec != std::errc() || rating.ptr != end) return false;
  file.name = std::move(name);
  return true;
}

// What the importer met besides reviews, for the person who asked for it.
struct Oddities {
  int64_t empty = 0, other_files = 0;
  std::string unusual_counts;
};

std::vector<ReviewFile> list_reviews(const fs::path& folder, Oddities& odd) {
  std::vector<ReviewFile> files;
  std::error_code code;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) {
    ReviewFile file;
    if (parse_name(at->path().filename().string(), file)) {
      files.push_back(std::move(file));
    } else {
      ++odd.other_files;
    }
  }
  if (code) fail("text", "{}: cannot be read: {}.", folder.string(), code.message());
  std::sort(files.begin(), files.end(), [](const ReviewFile& a, const ReviewFile& b) {
    return std::tie(a.id, a.rating, a.name) < std::tie(b.id, b.rating, b.name);
  });
  return files;
}

// The reviews of one folder in the order of their names, without empty ones.
std::vector<Review> read_folder(const fs::path& root, const std::string& part, int64_t label, Oddities& odd) {
  const std::vector<ReviewFile> files = list_reviews(root / part, odd);
  if (files.size() != kPublishedReviews) {
    odd.unusual_counts +=
        fmt::format("{}{} has {}", odd.unusual_counts.empty() ? "" : ", ", part, files.size());
  }
  std::vector<Review> reviews(files.size());
  Progress progress(fmt::format("text: reading {}", part), static_cast<int64_t>(files.size()), "reviews");
  for (size_t first = 0; first < files.size(); first += kBatchFiles) {
    const size_t count = std::min(kBatchFiles, files.size() - first);
    parallel_items(static_cast<int64_t>(count), [&](int64_t i) {
      const size_t at = first + static_cast<size_t>(i);
      reviews[at] = {read_text(root / part / files[at].name), label};
    });
    if (interrupted()) throw Interrupted("reading the reviews was interrupted; nothing was written");
    progress.update(static_cast<int64_t>(first + count));
  }
  odd.empty += static_cast<int64_t>(std::erase_if(reviews, [](const Review& r) { return r.bytes.empty(); }));
  if (reviews.empty())
    fail("text", "{}: there are no reviews (ID_RATING.txt) in it.", (root / part).string());
  return reviews;
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

void import_published(const Options& options, const fs::path& from, MadeData& made) {
  const fs::path folder = find_folder(from);
  info("text: reading {}", folder.string());
  Oddities odd;
  std::vector<Review> splits[3];
  for (const int64_t label : {kNegative, kPositive}) {
    const std::string name = kClassNames[label];
    std::vector<Review> train = read_folder(folder, "train/" + name, label, odd);
    if (options.val == "fixed") hold_out(train, kHoldOutStreams[label], splits[1]);
    std::move(train.begin(), train.end(), std::back_inserter(splits[0]));
    std::vector<Review> test = read_folder(folder, "test/" + name, label, odd);
    std::move(test.begin(), test.end(), std::back_inserter(splits[2]));
  }
  splits[0] = shuffled(std::move(splits[0]), kOrderStreams[0]);
  splits[2] = shuffled(std::move(splits[2]), kOrderStreams[2]);
  splits[1] = options.val == "fixed" ? shuffled(std::move(splits[1]), kOrderStreams[1]) : splits[2];
  made.notes["folder"] = folder.string();
  made.notes["empty_reviews"] = odd.empty;
  made.notes["other_files"] = odd.other_files;
  for (size_t s = 0; s < std::size(splits); ++s) add_reviews(splits[s], options, s, made);

  if (!odd.unusual_counts.empty()) {
    warn("{}: {} reviews; the published set has {} in each folder.", folder.string(), odd.unusual_counts,
         kPublishedReviews);
  }
  if (odd.empty > 0) warn("{}: {} empty reviews were left out.", folder.string(), odd.empty);
  if (odd.other_files > 0) {
    warn("{}: {} files that are not named ID_RATING.txt were left out.", folder.string(), odd.other_files);
  }
}

}  // namespace lra::text
