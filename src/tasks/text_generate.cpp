// Made-up reviews for tests and the demo: one or three opinions among neutral sentences.
//
//   label uniform on the two classes; of three opinions one may go against it, the others share it
//   opinion: "SUBJECT was [very] WORD." with a word of its class, or "SUBJECT was not WORD." with one of the
//   other class
//
// The opposite words and the negations keep any count of bytes or words from giving the whole answer: it
// takes reading. Candidate i is a pure function of (seed, i), candidates are taken in order into train, then
// val, then test, and repeats are left out. Only integers are used: the same bits everywhere.
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/philox.h"
#include "base/signals.h"
#include "tasks/text.h"

namespace lra::text {
namespace {

constexpr uint64_t kReviewStream = stream_id("text.review");
constexpr int64_t kMostRepeats = 100'000;  // in a row: there are hardly any new reviews left

constexpr std::string_view kSubjects[] = {"the plot",        "the acting", "the script",    "the music",
                                          "the camera work", "the ending", "the dialogue",  "the lead role",
                                          "the pace",        "the humour", "the opening",   "the story",
                                          "the cast",        "the sequel", "the direction", "the film"};
constexpr std::string_view kWords[2][12] = {
    {"bad", "awful", "boring", "dull", "weak", "terrible", "clumsy", "tedious", "lazy", "hopeless", "poor",
     "annoying"},
    {"good", "great", "lovely", "clever", "moving", "superb", "gripping", "charming", "funny", "brilliant",
     "fresh", "touching"}};
constexpr std::string_view kPlain[] = {"", "", "very ", "really ", "quite ", "truly "};
constexpr std::string_view kNegations[] = {"not ", "never ", "not really ", "hardly "};
constexpr std::string_view kFillers[] = {
    "i saw it on a friday.",         "we rented it last week.",     "it runs for two hours.",
    "my brother came along.",        "it was shot in the north.",   "the hall was half full.",
    "a friend told me about it.",    "it is based on a novel.",     "there is a dog in it.",
    "the first part is from 1987.",  "most of it plays at night.",  "it opened in march.",
    "i watched it on a long train.", "the credits name a village.", "two of the songs are old.",
    "they speak french at times."};

template <size_t N>
std::string_view pick(Rng& rng, const std::string_view (&from)[N]) {
  return from[rng.below(N)];
}

std::string opinion(Rng& rng, int64_t polarity) {
  const bool negated = rng.below(4) == 0;
  std::string text(pick(rng, kSubjects));
  text += " was ";
  text += negated ? pick(rng, kNegations) : pick(rng, kPlain);
  text += pick(rng, kWords[negated ? 1 - polarity : polarity]);
  return text + ".";
}

Review draw(uint64_t seed, uint64_t candidate) {
  Rng rng(seed, kReviewStream, candidate);
  Review review;
  review.label = rng.below(2);
  const uint32_t opinions = rng.below(2) == 0 ? 1 : 3;
  const uint32_t against =
      opinions == 3 ? rng.below(9) : 9;  // which opinion is of the other class; 3 up: none
  const uint32_t sentences = opinions + 1 + rng.below(4);
  for (uint32_t left = sentences, opinion_index = 0; left > 0; --left) {
    if (!review.bytes.empty()) review.bytes += ' ';
    if (rng.below(left) < opinions - opinion_index) {
      review.bytes += opinion(rng, opinion_index == against ? 1 - review.label : review.label);
      ++opinion_index;
    } else {
      review.bytes += pick(rng, kFillers);
    }
  }
  return review;
}

}  // namespace

Json generate(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& out) {
  if (options.val != "fixed") {
    fail("text", "made-up reviews have a validation split of their own; val={} is for imported ones.",
         options.val);
  }
  const int64_t wanted[] = {counts.train, counts.val, counts.test};
  Json notes = Json::object();
  std::set<std::string> seen;
  uint64_t candidate = 0;
  for (size_t s = 0; s < std::size(wanted); ++s) {
    std::vector<Review> reviews;
    for (int64_t repeats = 0; static_cast<int64_t>(reviews.size()) < wanted[s];) {
      Review review = draw(seed, candidate++);
      if (seen.insert(review.bytes.substr(0, static_cast<size_t>(options.max_length))).second) {
        reviews.push_back(std::move(review));
        repeats = 0;
      } else if (++repeats == kMostRepeats) {
        fail("text",
             "{} draws gave only {} different made-up reviews of up to {} bytes. Raise max_length or ask for "
             "fewer (--count).",
             candidate, seen.size(), options.max_length);
      }
      if (interrupted()) throw Interrupted("making the reviews was interrupted; nothing was written");
    }
    notes["reviews"][kSplits[s]] = add_reviews(reviews, options, s, out);
  }
  notes["candidates"] = candidate;
  return notes;
}

}  // namespace lra::text
