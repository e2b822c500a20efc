// Random ListOps trees. node(level), the root at level 1:
//
//   operator with probability 1/4 (never on the last level): k uniform on 2 … max_args, operator uniform on
//   the four, then k arguments node(level + 1); otherwise a digit uniform on 0 … 9.
//
// A tree is accepted if min_length < tokens < max_length and it is not there already. Candidate i is a pure
// function of (seed, i), and candidates are taken in order: the same data for any number of threads. Only
// integers are used; one 32-bit word decides a node: its low two bits whether it is an operator, the other
// 30, multiplied up and shifted down, which one (no value is off its probability by more than 36/2^30).
#include <array>
#include <unordered_map>

#include "base/error.h"
#include "base/philox.h"
#include "base/progress.h"
#include "base/signals.h"
#include "base/threads.h"
#include "data/content_hash.h"
#include "tasks/listops.h"

namespace lra::listops {
namespace {

constexpr uint64_t kTreeStream = stream_id("listops.tree");
constexpr int64_t kBlockCandidates = 512;
constexpr int64_t kRoundBlocks = 64;
constexpr uint64_t kMostCandidates = uint64_t{1} << 32;  // independent sequences of a stream
// Fewer new trees than this share of the candidates over a whole window: the space of trees is as good as
// used up.
constexpr uint64_t kWindowCandidates = uint64_t{1} << 20;
constexpr int64_t kFewestPerWindow = 16;

struct Limits {
  uint32_t max_depth, choices;  // choices: arities times operators
  size_t min_length, max_length;
};

// Draws candidate `index`; false if its length does not fit. `out` has room for max_length tokens.
bool draw_candidate(const Limits& limits, uint64_t seed, uint64_t index, uint16_t* out, size_t& length) {
  Rng rng(seed, kTreeStream, index);
  std::array<uint32_t, 65> missing;  // arguments still to come, for each open operator
  uint32_t level = 1;
  size_t least = 1;  // the final length if every node still to come were a digit; exact at the end
  uint16_t* at = out;
  do {
    const uint32_t word = rng.next();
    const uint64_t fraction = word >> 2;
    if ((word & 3) == 0 && level < limits.max_depth) {
      const auto choice = static_cast<uint32_t>((fraction * limits.choices) >> 30);
      const uint32_t arity = 2 + choice / kOperators;
      least += arity + 1;
      if (least >= limits.max_length) return false;
      *at++ = static_cast<uint16_t>(kMin + choice % kOperators);
      missing[level++] = arity;
      continue;
    }
    *at++ = static_cast<uint16_t>(kDigit0 + ((fraction * 10) >> 30));
    while (level > 1 && --missing[level - 1] == 0) {
      *at++ = kClose;
      --level;
    }
  } while (level > 1);
  length = least;
  return least > limits.min_length;
}

struct Accepted {
  uint64_t candidate, hash;
  size_t begin, length;
  int label;
};

// A run of candidates, drawn by one thread.
struct Block {
  std::vector<uint16_t> tokens;
  std::vector<Accepted> accepted;

  void draw(const Options& options, uint64_t seed, uint64_t first) {
    const Limits limits{static_cast<uint32_t>(options.max_depth),
                        static_cast<uint32_t>(kOperators * (options.max_args - 1)),
                        static_cast<size_t>(options.min_length), static_cast<size_t>(options.max_length)};
    tokens.clear();
    accepted.clear();
    std::vector<uint16_t> tree(limits.max_length);
    Evaluator evaluator;
    for (uint64_t i = first; i < first + kBlockCandidates; ++i) {
      size_t length = 0;
      if (!draw_candidate(limits, seed, i, tree.data(), length)) continue;
      const std::span<const uint16_t> drawn(tree.data(), length);
      const int label = evaluator.evaluate(drawn, {"generated", "tree", static_cast<int64_t>(i)}).value;
      const size_t begin = tokens.size();
      if (options.kept()) {
        tokens.insert(tokens.end(), drawn.begin(), drawn.end());
      } else {
        std::copy_if(drawn.begin(), drawn.end(), std::back_inserter(tokens),
                     [](uint16_t t) { return t != kClose; });
      }
      const size_t stored = tokens.size() - begin;
      const std::string_view bytes(reinterpret_cast<const char*>(tokens.data() + begin),
                                   stored * sizeof(uint16_t));
      accepted.push_back({i, content_hash(bytes), begin, stored, label});
    }
  }
};

// Takes accepted trees in candidate order into train, then val, then test, leaving out those already there.
class Collector {
 public:
  Collector(const SplitCounts& counts, int64_t longest, MadeData& made)
      : made_(made),
        longest_(longest),
        wanted_{counts.train, counts.val, counts.test},
        total_(counts.train + counts.val + counts.test) {}

  bool full() const { return taken_ == total_; }
  int64_t taken() const { return taken_; }
  int64_t total() const { return total_; }

  void take(const Block& block) {
    for (const Accepted& tree : block.accepted) {
      if (full()) return;
      ++accepted_;
      candidates_ = tree.candidate + 1;
      const auto tokens = std::span(block.tokens).subspan(tree.begin, tree.length);
      if (seen(tree.hash, tokens)) continue;
      while (made_.splits[split_].size() == wanted_[split_]) ++split_;
      Examples& examples = made_.splits[split_];
      if (examples.size() == 0) reserve(examples, wanted_[split_]);
      where_.emplace(tree.hash, std::pair(split_, examples.size()));
      examples.add(tokens, tree.label);
      ++taken_;
    }
  }

  Json notes() const {
    const auto rate =
        static_cast<double>(accepted_) / static_cast<double>(std::max<uint64_t>(candidates_, 1));
    return {{"candidates", candidates_},
            {"accepted", accepted_},
            {"duplicates", accepted_ - taken_},
            {"acceptance_rate", rate}};
  }

 private:
  bool seen(uint64_t hash, std::span<const uint16_t> tokens) const {
    const auto [begin, end] = where_.equal_range(hash);
    for (auto at = begin; at != end; ++at) {
      const auto [split, i] = at->second;
      const Examples& examples = made_.splits[split];
      const int64_t* offset = examples.offsets.data() + i;
      if (std::equal(tokens.begin(), tokens.end(), examples.tokens.begin() + offset[0],
                     examples.tokens.begin() + offset[1])) {
        return true;
      }
    }
    return false;
  }

  // Growth by doubling would copy the data several times; reserved memory that is never touched costs
  // nothing.
  void reserve(Examples& examples, int64_t wanted) const {
    constexpr int64_t kMeanLength = 1050, kMost = int64_t{1} << 30;
    examples.tokens.reserve(static_cast<size_t>(std::min(wanted * std::min(kMeanLength, longest_), kMost)));
  }

  MadeData& made_;
  int64_t longest_, wanted_[3], total_, taken_ = 0, accepted_ = 0;
  uint64_t candidates_ = 0;
  size_t split_ = 0;
  std::unordered_multimap<uint64_t, std::pair<size_t, int64_t>> where_;  // hash -> split, example
};

}  // namespace

void generate(const Options& options, const SplitCounts& counts, uint64_t seed, MadeData& made) {
  if (options.min_length + 1 >= options.max_length) {
    fail("listops", "min_length {} and max_length {} leave no length between them (both are exclusive).",
         options.min_length, options.max_length);
  }
  Collector collector(counts, options.max_length, made);
  Progress progress("listops: making trees", collector.total(), "trees");
  std::vector<Block> blocks(kRoundBlocks);
  int64_t taken_before = 0;
  for (uint64_t next = 0; !collector.full();) {
    parallel_items(kRoundBlocks, [&](int64_t b) {
      if (interrupted()) return;
      blocks[static_cast<size_t>(b)].draw(options, seed, next + static_cast<uint64_t>(b * kBlockCandidates));
    });
    if (interrupted()) throw Interrupted("making the ListOps data was interrupted; nothing was written");
    for (const Block& block : blocks) collector.take(block);
    next += kRoundBlocks * kBlockCandidates;
    progress.update(collector.taken());
    if (next % kWindowCandidates != 0 || collector.full()) continue;
    if (collector.taken() - taken_before < kFewestPerWindow || next + kWindowCandidates > kMostCandidates) {
      fail("listops",
           "{} draws gave only {} of {} distinct trees, and hardly any new ones come: max_depth {} and "
           "max_args {} make "
           "too few trees of {} to {} tokens. Widen these options or ask for fewer trees (--count).",
           next, collector.taken(), collector.total(), options.max_depth, options.max_args,
           options.min_length + 1, options.max_length - 1);
    }
    taken_before = collector.taken();
  }
  progress.finish();
  made.notes = collector.notes();
}

}  // namespace lra::listops
