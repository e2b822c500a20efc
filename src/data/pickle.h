// The part of Python's pickle format that CIFAR-10's Python version needs: none, bools, whole numbers, bytes,
// strings, lists, tuples, dicts, and NumPy arrays of bytes. Nothing is ever called: the four functions and
// types by which NumPy pickles an array are known by name and understood, every other name is refused.
//
//   const Pickle batch(stream.read_all(64 << 20), file.place);
//   const PickleValue& data = batch.at(batch.root(), "data");     // kArray, shape {10000, 3072}, bytes
//   const PickleValue& labels = batch.at(batch.root(), "labels"); // kList of kInt
//
// Python 2's strings (and data that went through Python 3) differ only in their kind: kBytes or kString; both
// are found by the same key.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lra {

struct PickleValue {
  enum class Kind { kNone, kBool, kInt, kBytes, kString, kList, kTuple, kDict, kArray, kOther };

  Kind kind = Kind::kNone;
  int64_t number = 0;                     // kBool, kInt
  std::string_view bytes;                 // kBytes, kString (UTF-8), kArray (row-major)
  std::vector<const PickleValue*> items;  // kList, kTuple; kDict: key, value, key, value, …
  std::vector<int64_t> shape;             // kArray of uint8
};

std::string_view name_of(PickleValue::Kind kind);  // "a list"

class Pickle {
 public:
  // Parses at once; errors name `place` and the byte.
  Pickle(std::string bytes, std::string place);
  Pickle(Pickle&&) = default;
  Pickle& operator=(Pickle&&) = default;

  const PickleValue& root() const { return *root_; }
  // The value of a key of a dict; an error names what is missing. `find` gives nullptr instead.
  const PickleValue& at(const PickleValue& dict, std::string_view key) const;
  const PickleValue* find(const PickleValue& dict, std::string_view key) const;

 private:
  friend class PickleMachine;
  std::string place_;
  std::unique_ptr<std::string> bytes_;  // the values' views point into it
  std::deque<std::string> made_;        // bytes that had to be decoded
  std::deque<PickleValue> values_;      // all of them: flat, so that no nesting is ever walked to free them
  const PickleValue* root_ = nullptr;
};

}  // namespace lra
