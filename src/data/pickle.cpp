#include "data/pickle.h"

#include "base/error.h"
#include "data/pickle_machine.h"

namespace lra {

std::string_view name_of(PickleValue::Kind kind) {
  constexpr std::string_view kNames[] = {"None",   "a bool",  "a number", "bytes",    "a string",
                                         "a list", "a tuple", "a dict",   "an array", "a type or function"};
  return kNames[static_cast<size_t>(kind)];
}

void PickleMachine::refuse(std::string_view what) const {
  fail("pickle", "{}: byte {}: {}. A batch of CIFAR-10's Python version was expected; get the file again.",
       pickle_.place_, begin_, what);
}

const PickleValue* PickleMachine::run() {
  if (bytes_.empty()) refuse("the file is empty");
  for (;;) {
    begin_ = at_;
    const auto code = static_cast<unsigned char>(take(1)[0]);
    if (code == '.') {
      if (stack_.size() != 1 || !marks_.empty()) refuse("the end comes with values left over");
      return stack_[0];
    }
    if (!constant(code) && !text(code) && !container(code) && !memo(code) && !call(code)) {
      refuse(fmt::format("the instruction 0x{:02x} is not one that plain data needs", code));
    }
  }
}

std::string_view PickleMachine::take(uint64_t size) {
  if (size > bytes_.size() - at_) {
    fail("pickle", "{}: byte {}: {} more bytes were expected, {} are there. The file was cut: get it again.",
         pickle_.place_, at_, size, bytes_.size() - at_);
  }
  const std::string_view part = bytes_.substr(at_, size);
  at_ += size;
  return part;
}

uint64_t PickleMachine::number(size_t width) {
  const std::string_view part = take(width);
  uint64_t value = 0;
  for (size_t i = width; i-- > 0;) value = value << 8 | static_cast<unsigned char>(part[i]);
  return value;
}

std::string_view PickleMachine::line() {
  const size_t end = bytes_.find('\n', at_);
  if (end == bytes_.npos) refuse("a name without end");
  const std::string_view part = bytes_.substr(at_, end - at_);
  at_ = end + 1;
  return part;
}

PickleValue* PickleMachine::make(Kind kind) {
  if (pickle_.values_.size() >= kMostValues) refuse("more values than such a file should have");
  PickleValue& value = pickle_.values_.emplace_back();
  value.kind = kind;
  return &value;
}

PickleValue* PickleMachine::push(PickleValue* value) {
  if (stack_.size() >= kMostValues) refuse("more values than such a file should have");
  stack_.push_back(value);
  return value;
}

PickleValue* PickleMachine::pop() {
  if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) refuse("a value is missing");
  PickleValue* value = stack_.back();
  stack_.pop_back();
  return value;
}

PickleValue* PickleMachine::top() {
  PickleValue* value = pop();
  stack_.push_back(value);
  return value;
}

std::vector<const PickleValue*> PickleMachine::pop_to_mark() {
  if (marks_.empty()) refuse("a mark is missing");
  const auto from = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  std::vector<const PickleValue*> values(from, stack_.end());
  stack_.erase(from, stack_.end());
  marks_.pop_back();
  return values;
}

bool PickleMachine::constant(unsigned char code) {
  switch (code) {
    case 0x80:  // PROTO
      if (const uint64_t protocol = number(1); protocol > 5) refuse(fmt::format("protocol {}", protocol));
      return true;
    case 0x95: {  // FRAME: only a length, of what must follow
      take(number(8));
      at_ = begin_ + 9;
      return true;
    }
    case 'N':
      push(make(Kind::kNone));
      return true;
    case 0x88:
      push_number(Kind::kBool, 1);
      return true;
    case 0x89:
      push_number(Kind::kBool, 0);
      return true;
    case 'K':
      push_number(Kind::kInt, static_cast<int64_t>(number(1)));
      return true;
    case 'M':
      push_number(Kind::kInt, static_cast<int64_t>(number(2)));
      return true;
    case 'J':
      push_number(Kind::kInt, static_cast<int32_t>(number(4)));
      return true;
    case 0x8a: {  // LONG1: little endian, signed
      const uint64_t width = number(1);
      if (width > 8) refuse("a number beyond 64 bits");
      uint64_t value = number(width);
      const bool negative = width > 0 && (value >> (8 * width - 1) & 1);
      if (negative && width < 8) value |= ~uint64_t{0} << (8 * width);
      push_number(Kind::kInt, static_cast<int64_t>(value));
      return true;
    }
    default:
      return false;
  }
}

bool PickleMachine::text(unsigned char code) {
  switch (code) {
    case 'U':
    case 'C':
      push_text(Kind::kBytes, take(number(1)));
      return true;
    case 'T':
      push_text(Kind::kBytes, take(number(4)));
      return true;
    case 'B':
      push_text(Kind::kBytes, take(number(4)));
      return true;
    case 0x8e:
      push_text(Kind::kBytes, take(number(8)));
      return true;
    case 0x8c:
      push_text(Kind::kString, take(number(1)));
      return true;
    case 'X':
      push_text(Kind::kString, take(number(4)));
      return true;
    default:
      return false;
  }
}

bool PickleMachine::container(unsigned char code) {
  switch (code) {
    case '(':
      if (marks_.size() >= kMostValues) refuse("more marks than such a file should have");
      marks_.push_back(stack_.size());
      return true;
    case ']':
      push(make(Kind::kList));
      return true;
    case '}':
      push(make(Kind::kDict));
      return true;
    case ')':
      push(make(Kind::kTuple));
      return true;
    case 't': {
      std::vector<const PickleValue*> items = pop_to_mark();
      push(make(Kind::kTuple))->items = std::move(items);
      return true;
    }
    case 0x85:  // TUPLE1, 2, 3
    case 0x86:
    case 0x87: {
      std::vector<const PickleValue*> items(code - 0x84u);
      for (size_t i = items.size(); i-- > 0;) items[i] = pop();
      push(make(Kind::kTuple))->items = std::move(items);
      return true;
    }
    case 'a':
      append(Kind::kList, {pop()});
      return true;
    case 'e':
      append(Kind::kList, pop_to_mark());
      return true;
    case 's': {
      const PickleValue* value = pop();
      append(Kind::kDict, {pop(), value});
      return true;
    }
    case 'u':
      append(Kind::kDict, pop_to_mark());
      return true;
    default:
      return false;
  }
}

void PickleMachine::append(Kind kind, const std::vector<const PickleValue*>& values) {
  PickleValue* into = top();
  if (into->kind != kind) refuse(fmt::format("{} where {} was expected", name_of(into->kind), name_of(kind)));
  if (kind == Kind::kDict && values.size() % 2 != 0) refuse("a key without a value");
  into->items.insert(into->items.end(), values.begin(), values.end());
}

bool PickleMachine::memo(unsigned char code) {
  switch (code) {
    case 'q':
      memo_[number(1)] = top();
      return true;
    case 'r':
      memo_[number(4)] = top();
      return true;
    case 0x94:
      memo_[memo_.size()] = top();
      return true;
    case 'h':
      recall(number(1));
      return true;
    case 'j':
      recall(number(4));
      return true;
    case '0':
      pop();
      return true;
    default:
      return false;
  }
}

void PickleMachine::recall(uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end()) refuse(fmt::format("the value {} that it remembers was never stored", index));
  push(found->second);
}

bool PickleMachine::call(unsigned char code) {
  switch (code) {
    case 'c': {
      const std::string_view module = line();
      push_global(module, line());
      return true;
    }
    case 0x93: {
      const PickleValue* name = pop();
      const PickleValue* module = pop();
      if (name->kind != Kind::kString || module->kind != Kind::kString) refuse("a name that is no string");
      push_global(module->bytes, name->bytes);
      return true;
    }
    case 'R': {
      const PickleValue* arguments = pop();
      const PickleValue* function = pop();
      push(reduce(*function, *arguments));
      return true;
    }
    case 'b': {
      const PickleValue* state = pop();
      build(*top(), *state);
      return true;
    }
    default:
      return false;
  }
}

Pickle::Pickle(std::string bytes, std::string place)
    : place_(std::move(place)), bytes_(std::make_unique<std::string>(std::move(bytes))) {
  root_ = PickleMachine(*this).run();
}

const PickleValue* Pickle::find(const PickleValue& dict, std::string_view key) const {
  if (dict.kind != PickleValue::Kind::kDict)
    fail("pickle", "{}: {} where a dict was expected.", place_, name_of(dict.kind));
  for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
    const PickleValue& k = *dict.items[i];
    if ((k.kind == PickleValue::Kind::kBytes || k.kind == PickleValue::Kind::kString) && k.bytes == key)
      return dict.items[i + 1];
  }
  return nullptr;
}

const PickleValue& Pickle::at(const PickleValue& dict, std::string_view key) const {
  const PickleValue* value = find(dict, key);
  if (!value) fail("pickle", "{}: there is no '{}' in it. Another file of the data set?", place_, key);
  return *value;
}

}  // namespace lra
