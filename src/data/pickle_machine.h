// The stack machine that a pickle is a program for. It knows the instructions that make plain values; of the
// two that call something, REDUCE and BUILD, it knows what NumPy uses them for (pickle_numpy.cpp).
#pragma once
#include <unordered_map>

#include "data/pickle.h"

namespace lra {

class PickleMachine {
 public:
  using Kind = PickleValue::Kind;
  static constexpr size_t kMostValues = 1'000'000;  // of the stack, the marks and the values each

  explicit PickleMachine(Pickle& pickle) : pickle_(pickle), bytes_(*pickle.bytes_) {}
  const PickleValue* run();

 private:
  [[noreturn]] void refuse(std::string_view what) const;

  // The input.
  std::string_view take(uint64_t size);
  uint64_t number(size_t width);  // little endian
  std::string_view line();

  // The stack. Values below the last mark are not to be taken one by one.
  PickleValue* make(Kind kind);
  PickleValue* push(PickleValue* value);
  PickleValue* pop();
  PickleValue* top();
  std::vector<const PickleValue*> pop_to_mark();
  void push_number(Kind kind, int64_t value) { push(make(kind))->number = value; }
  void push_text(Kind kind, std::string_view value) { push(make(kind))->bytes = value; }

  // The instructions, by family; false if `code` is none of it.
  bool constant(unsigned char code);
  bool text(unsigned char code);
  bool container(unsigned char code);
  bool memo(unsigned char code);
  bool call(unsigned char code);

  void append(Kind kind, const std::vector<const PickleValue*>& values);
  void recall(uint64_t index);

  // What NumPy needs.
  void push_global(std::string_view module, std::string_view name);
  PickleValue* reduce(const PickleValue& function, const PickleValue& arguments);
  void build(PickleValue& object, const PickleValue& state);
  std::string latin1(std::string_view utf8);

  Pickle& pickle_;
  std::string_view bytes_;
  size_t at_ = 0, begin_ = 0;  // begin_: of the instruction
  size_t made_bytes_ = 0;
  std::vector<PickleValue*> stack_;
  std::vector<size_t> marks_;
  std::unordered_map<uint64_t, PickleValue*> memo_;
};

}  // namespace lra
