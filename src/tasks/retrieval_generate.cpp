// Made-up pairs for tests and a first look: two short documents, label 1 if they are about the same subject.
//
//   each document: three words of its subject among five that any may have, in random order
//   label uniform; 1: both of one subject, 0: of two
//
// Candidate i is a pure function of (seed, i), candidates are taken in order into train, then val, then test,
// and repeats are left out. Only integers are used: the same bits everywhere.
#include <iterator>
#include <set>

#include "base/error.h"
#include "base/philox.h"
#include "base/signals.h"
#include "tasks/bytes.h"
#include "tasks/retrieval.h"

namespace lra::retrieval {
namespace {

constexpr uint64_t kPairStream = stream_id("retrieval.pair");
constexpr int64_t kMostRepeats = 100'000;  // in a row: there are hardly any new pairs left
constexpr uint32_t kSubjects = 6, kOwn = 3, kCommon = 5;

constexpr std::string_view kWords[kSubjects][6] = {
    {"parsing", "treebank", "grammar", "constituent", "syntax", "dependency"},
    {"speech", "phoneme", "acoustic", "prosody", "pitch", "vowel"},
    {"translation", "bilingual", "alignment", "decoder", "source", "target"},
    {"summary", "headline", "extract", "salience", "redundancy", "digest"},
    {"dialogue", "turn", "intent", "utterance", "user", "response"},
    {"sense", "lexicon", "synonym", "gloss", "polysemy", "thesaurus"}};
constexpr std::string_view kAnyWords[] = {"we",       "propose", "a",        "model", "results", "corpus",
                                          "improves", "method",  "evaluate", "data",  "novel",   "simple",
                                          "baseline", "shows",   "features", "learn"};

std::string document(Rng& rng, uint32_t subject) {
  std::string text;
  for (uint32_t own = kOwn, left = kOwn + kCommon; left > 0; --left) {
    if (!text.empty()) text += ' ';
    if (rng.below(left) < own) {
      text += kWords[subject][rng.below(std::size(kWords[0]))];
      --own;
    } else {
      text += kAnyWords[rng.below(std::size(kAnyWords))];
    }
  }
  return text;
}

}  // namespace

Json generate(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& out) {
  const int64_t wanted[] = {counts.train, counts.val, counts.test};
  std::set<std::string> seen;
  std::vector<uint16_t> first, second;
  uint64_t candidate = 0;
  for (size_t s = 0; s < std::size(wanted); ++s) {
    for (int64_t taken = 0, repeats = 0; taken < wanted[s];) {
      if (interrupted()) throw Interrupted("making the pairs was interrupted; nothing was written");
      Rng rng(seed, kPairStream, candidate++);
      const int64_t label = rng.below(2);
      const uint32_t subject = rng.below(kSubjects);
      const uint32_t other = label == 1 ? subject : (subject + 1 + rng.below(kSubjects - 1)) % kSubjects;
      encode_bytes(document(rng, subject), options.max_length, first);
      encode_bytes(document(rng, other), options.max_length, second);
      std::string key(first.begin(), first.end());
      key += '\0';
      key.append(second.begin(), second.end());
      if (seen.insert(std::move(key)).second) {
        out.add(s, Tokens{std::span<const uint16_t>(first)}, Tokens{std::span<const uint16_t>(second)},
                label);
        ++taken, repeats = 0;
      } else if (++repeats == kMostRepeats) {
        fail("retrieval",
             "{} draws gave only {} different pairs of up to {} bytes. Raise max_length or ask for fewer "
             "(--count).",
             candidate, seen.size(), options.max_length);
      }
    }
  }
  return {{"candidates", candidate}};
}

}  // namespace lra::retrieval
