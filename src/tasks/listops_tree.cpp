#include "tasks/listops_tree.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace lra::listops {
namespace {

constexpr std::string_view kOperatorWords[kOperators] = {"[MIN", "[MAX", "[MED", "[SM"};

std::string_view word_of(uint16_t token) {
  constexpr std::string_view kDigits = "0123456789";
  if (is_digit(token)) return kDigits.substr(token - kDigit0, 1);
  return is_operator(token) ? kOperatorWords[token - kMin] : "]";
}

uint16_t token_of(std::string_view word, const Place& place, size_t column) {
  if (word.size() == 1 && word[0] >= '0' && word[0] <= '9')
    return static_cast<uint16_t>(kDigit0 + (word[0] - '0'));
  if (word == "]") return kClose;
  for (int i = 0; i < kOperators; ++i) {
    if (word == kOperatorWords[i]) return static_cast<uint16_t>(kMin + i);
  }
  fail("listops", "{}: '{}' at column {} is no token. Known: 0 to 9, [MIN, [MAX, [MED, [SM, ], ( and ).",
       place.text(), word.substr(0, 40), column + 1);
}

}  // namespace

int Evaluator::apply(const Frame& frame, int64_t arity) {
  const auto ranked = [&](int64_t rank) {  // the argument with `rank` smaller or equal ones before it
    int value = 0;
    for (int64_t seen = frame.counts[0]; seen <= rank; seen += frame.counts[value]) ++value;
    return value;
  };
  switch (frame.operation) {
    case kMin:
      return ranked(0);
    case kMax:
      return ranked(arity - 1);
    case kMed:
      return (ranked((arity - 1) / 2) + ranked(arity / 2)) / 2;
    default: {
      uint64_t sum = 0;
      for (uint64_t value = 1; value < 10; ++value) sum += value * frame.counts[value];
      return static_cast<int>(sum % 10);
    }
  }
}

Evaluation Evaluator::evaluate(std::span<const uint16_t> tokens, const Place& place, int64_t levels,
                               std::vector<Operator>* operators) {
  const auto refuse = [&](size_t at, const char* what) {
    fail("listops", "{}: no tree: {} at token {} of {}.", place.text(), what, at + 1, tokens.size());
  };
  stack_.clear();
  if (operators) operators->clear();
  Evaluation result;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const uint16_t token = tokens[i];
    auto level = static_cast<int64_t>(stack_.size()) + 1;
    int value = 0;
    if (is_operator(token)) {
      stack_.push_back({{}, token, static_cast<size_t>(result.operators++)});
      if (operators) operators->emplace_back();
      continue;
    }
    if (is_digit(token)) {
      value = token - kDigit0;
      result.deepest = std::max(result.deepest, level);
    } else if (token == kClose && !stack_.empty()) {
      const Frame& frame = stack_.back();
      const auto n = std::accumulate(std::begin(frame.counts), std::end(frame.counts), int64_t{0});
      --level;
      if (n == 0) refuse(i, "an operator without arguments closes");
      if (level <= levels) value = level == levels ? kOperatorModes[frame.operation - kMin] : apply(frame, n);
      if (level == 1) result.root_arity = n;
      if (operators) (*operators)[frame.slot] = {value, n};
      stack_.pop_back();
    } else {
      refuse(i, token == kClose ? "a bracket closes nothing" : "an unknown token");
    }
    if (!stack_.empty()) {
      ++stack_.back().counts[value];
    } else {
      if (i + 1 != tokens.size()) refuse(i + 1, "more after the end of the tree");
      result.value = value;
      return result;
    }
  }
  refuse(tokens.size(), tokens.empty() ? "no tokens" : "the brackets do not close");
  return result;
}

Evaluation parse_tree(std::string_view text, const Place& place, std::vector<uint16_t>& tokens) {
  tokens.clear();
  bool parentheses = false;
  for (size_t at = text.find_first_not_of(' '); at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const std::string_view word = text.substr(at, end - at);
    if (word == "(" || word == ")") {
      parentheses = true;
    } else {
      tokens.push_back(token_of(word, place, at));
    }
    at = text.find_first_not_of(' ', end);
  }
  const Evaluation result = Evaluator().evaluate(tokens, place);
  if (!parentheses) return result;
  const std::string expected = print_tree(tokens, place);
  if (expected != text) {
    const auto differs = std::mismatch(expected.begin(), expected.end(), text.begin(), text.end());
    fail("listops",
         "{}: the parentheses do not fit the brackets at column {}; expected the form ( ( ( [MAX 4 ) 7 ) ] ) "
         "with single blanks.",
         place.text(), differs.second - text.begin() + 1);
  }
  return result;
}

std::string print_tree(std::span<const uint16_t> tokens, const Place& place) {
  std::vector<Operator> operators;
  Evaluator().evaluate(tokens, place, Evaluator::kAllLevels, &operators);
  std::string out;
  out.reserve(tokens.size() * 7);
  size_t next = 0, depth = 0;
  for (const uint16_t token : tokens) {
    if (is_operator(token)) {
      for (int64_t i = 0; i <= operators[next].arity; ++i) out += "( ";
      ++next;
      ++depth;
      out.append(word_of(token)) += ' ';
      continue;
    }
    out.append(word_of(token)) += ' ';
    if (token == kClose) {
      out += ") ";
      --depth;
    }
    if (depth > 0) out += ") ";  // the argument just ended completes one pair of its operator's chain
  }
  out.pop_back();
  return out;
}

std::string draw_tree(std::span<const uint16_t> tokens, const Place& place) {
  constexpr size_t kDeepestIndent =
      24;  // beyond it the level is written instead, so that lines stay readable
  std::vector<Operator> operators;
  Evaluator().evaluate(tokens, place, Evaluator::kAllLevels, &operators);
  std::string out;
  size_t depth = 0, next = 0;
  const auto indent = [&] {
    out.append(2 * std::min(depth, kDeepestIndent), ' ');
    if (depth > kDeepestIndent) out += fmt::format("(level {}) ", depth + 1);
  };
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == kClose) {
      --depth;
      indent();
      out += "]\n";
      continue;
    }
    indent();
    out += word_of(tokens[i]);
    if (is_digit(tokens[i])) {
      for (; i + 1 < tokens.size() && is_digit(tokens[i + 1]); ++i) (out += ' ') += word_of(tokens[i + 1]);
      out += '\n';
      continue;
    }
    const Operator& node = operators[next++];
    const auto arguments = tokens.subspan(i + 1, static_cast<size_t>(node.arity));
    if (std::all_of(arguments.begin(), arguments.end(), is_digit)) {  // fits on one line
      for (const uint16_t digit : arguments) (out += ' ') += word_of(digit);
      out += fmt::format(" ] = {}\n", node.value);
      i += arguments.size() + 1;
    } else {
      out += fmt::format(" = {}\n", node.value);
      ++depth;
    }
  }
  return out;
}

std::string token_text(int32_t token, bool brackets_kept) {
  if (token == kPad) return "PAD";
  if (token < kClose || (token == kClose && brackets_kept))
    return std::string(word_of(static_cast<uint16_t>(token)));
  return "UNK";
}

}  // namespace lra::listops
