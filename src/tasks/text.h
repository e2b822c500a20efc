// Text (IMDb, byte level): is a film review positive or negative, read one byte at a time? This header is
// what the files of the task share:
//
//   text_import    the Large Movie Review Dataset as its owners publish it
//   text_generate  short made-up reviews, for tests and the demo
//   text_baseline  what counting bytes is worth
//   text           the task itself
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tasks/task.h"

namespace lra::text {

// Byte b is id b + 1; id 0 is padding.
inline constexpr uint16_t kPad = 0;
inline constexpr int64_t kVocabulary = 257;
inline constexpr int64_t kNegative = 0, kPositive = 1;
inline constexpr const char* kClassNames[] = {"neg", "pos"};  // the published folders, by label

struct Options : TaskOptions {
  int64_t max_length = 4000;
  std::string val = "fixed";
  // Of the size tiny: made-up reviews. No option of its own: nobody may take them for the published ones.
  bool made_up = false;

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

// The first max_length bytes of the reviews as examples, and their lengths before that as notes of the split.
void add_reviews(const std::vector<Review>& reviews, const Options& options, size_t split, MadeData& made);

// The folder aclImdb or the one that holds it.
void import_published(const Options& options, const fs::path& from, MadeData& made);

// Distinct made-up reviews: candidate i is a pure function of (seed, i).
void generate(const Options& options, const SplitCounts& counts, uint64_t seed, MadeData& made);

// Test accuracy of a logistic regression on how often each byte occurs, fitted on `train`.
double bag_of_bytes(const Dataset& train, const Dataset& test);

std::string bytes_of_example(const Dataset& data, int64_t i);
// Text that any terminal and JSON can show: control characters, '\' and bytes that are not UTF-8 as \n, \\,
// \x85.
std::string escaped(std::string_view bytes);

}  // namespace lra::text
