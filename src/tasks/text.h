// Text (IMDb, byte level): is a film review positive or negative, read one byte at a time? This header is
// what the files of the task share:
//
//   text_import    the Large Movie Review Dataset as its owners publish it
//   text_generate  short made-up reviews, for tests and the demo
//   text           the task itself
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace lra::text {

inline constexpr int64_t kNegative = 0, kPositive = 1;
inline constexpr const char* kClassNames[] = {"neg", "pos"};  // the published folders, by label

struct Options : TaskOptions {
  int64_t max_length = 4000;
  std::string val = "fixed";

  void visit(Fields& f) override {
    f.integer("max_length", max_length, 1, 1'000'000,
              "bytes kept from the beginning of a review; the released configuration has 1000");
    f.choice("val", val, {"fixed", "faithful"},
             "validation split: fixed holds out a tenth of train, at most 2500; faithful is test itself, as "
             "in the released code");
  }
};

struct Review {
  std::string bytes;
  int64_t label = 0;
};

// The first max_length bytes of the reviews as examples of a split; gives their lengths before that as notes.
Json add_reviews(const std::vector<Review>& reviews, const Options& options, size_t split, DataSink& out);

// aclImdb_v1.tar.gz, the folder aclImdb, or the one that holds it.
Json import_published(const Options& options, const fs::path& from, DataSink& out);

// Distinct made-up reviews: candidate i is a pure function of (seed, i).
Json generate(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& out);

}  // namespace lra::text
