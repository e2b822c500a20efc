// ListOps trees as token sequences: reading, evaluating, printing. Nothing here recurses, so depth is bounded
// by memory.
//
// A tree is its tokens in pre-order: a digit, or an operator, its arguments and a closing bracket. Ids are
// fixed:
//
//   PAD 0 · digits 0…9 are 1…10 · [MIN 11 · [MAX 12 · [MED 13 · [SM 14 · ] 15 · unknown 16     (17 ids)
//
// With brackets dropped (the input of the paper's Table 1) the closing bracket and with it the tree are gone;
// the other ids stay and the unknown id moves down to 15 (16 ids).
//
//   MIN, MAX   the smallest, the largest argument
//   MED        the median; of an even count floor((a + b) / 2) of the two middle ones
//   SM         the sum modulo 10
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tsv.h"

namespace lra::listops {

inline constexpr uint16_t kPad = 0, kDigit0 = 1, kMin = 11, kMax = 12, kMed = 13, kSm = 14, kClose = 15;
inline constexpr int64_t kVocabularyKept = 17, kVocabularyDropped = 16;
inline constexpr int kOperators = 4;
inline constexpr std::string_view kOperatorNames[kOperators] = {"MIN", "MAX", "MED", "SM"};
// What each operator most often gives in the benchmark's trees: the best guess for a node one does not
// evaluate.
inline constexpr int kOperatorModes[kOperators] = {0, 9, 4, 0};

constexpr bool is_digit(uint16_t token) { return token >= kDigit0 && token < kMin; }
constexpr bool is_operator(uint16_t token) { return token >= kMin && token <= kSm; }

struct Evaluation {
  int value = 0;
  int64_t deepest = 0;     // level of the deepest node; the root is level 1
  int64_t root_arity = 0;  // 0 for a bare digit
  int64_t operators = 0;
};

// One operator of a tree, in the order of the tokens.
struct Operator {
  int value = 0;
  int64_t arity = 0;
};

// Evaluates trees one after the other; keeps its stack between calls. One per thread.
class Evaluator {
 public:
  static constexpr int64_t kAllLevels = std::numeric_limits<int64_t>::max();

  // Operators at level `levels` give their mode instead of their value. Tokens that form no tree are an error
  // with the place. `operators`, where wanted, receives every operator.
  Evaluation evaluate(std::span<const uint16_t> tokens, const Place& place, int64_t levels = kAllLevels,
                      std::vector<Operator>* operators = nullptr);

 private:
  struct Frame {
    uint32_t counts[10];  // how many arguments of each value: all that the four operators need
    uint16_t operation;
    size_t slot;  // of this operator in the order of the tokens
  };
  static int apply(const Frame& frame, int64_t arity);

  std::vector<Frame> stack_;
};

// The published text, `( ( ( [MAX 4 ) 7 ) ] )`, or the same without parentheses, as tokens. The parentheses
// must be those that `print_tree` writes.
Evaluation parse_tree(std::string_view text, const Place& place, std::vector<uint16_t>& tokens);

// Published form: an operator with arguments v1 … vk is ( ( … ( ( op v1 ) v2 ) … vk ) ] ). A tree of n tokens
// prints as 3n - 2 words.
std::string print_tree(std::span<const uint16_t> tokens, const Place& place);

// For people: one operator a line, indented, each with its value.
std::string draw_tree(std::span<const uint16_t> tokens, const Place& place);

std::string token_text(int32_t token, bool brackets_kept);

}  // namespace lra::listops
