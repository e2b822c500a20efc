// The released code of the arena evaluates whole batches only and never sees what is left over. This sink
// does the same to the data: of val and test it passes on whole batches, of train everything.
#pragma once
#include <vector>

#include "tasks/task.h"

namespace lra {

class WholeBatches : public DataSink {
 public:
  WholeBatches(DataSink& out, int64_t batch) : out_(out), batch_(static_cast<size_t>(batch)) {}

  void add(size_t split, const Tokens& tokens, int64_t label) override {
    if (split == 0 || batch_ == 1) return out_.add(split, tokens, label);
    hold(split, {copy(tokens), {}, label, false});
  }
  void add(size_t split, const Tokens& first, const Tokens& second, int64_t label) override {
    if (split == 0 || batch_ == 1) return out_.add(split, first, second, label);
    hold(split, {copy(first), copy(second), label, true});
  }
  fs::path scratch() override { return out_.scratch(); }
  fs::path lasting_scratch() override { return out_.lasting_scratch(); }

 private:
  struct Held {
    std::vector<uint16_t> first, second;
    int64_t label;
    bool two;
  };
  static std::vector<uint16_t> copy(const Tokens& tokens) {
    std::vector<uint16_t> ids(static_cast<size_t>(tokens.size()));
    for (int64_t t = 0; t < tokens.size(); ++t)
      ids[static_cast<size_t>(t)] = static_cast<uint16_t>(tokens[t]);
    return ids;
  }
  static Tokens view(const std::vector<uint16_t>& ids) { return {std::span<const uint16_t>(ids)}; }
  void hold(size_t split, Held example) {
    auto& held = held_[split];
    held.push_back(std::move(example));
    if (held.size() < batch_) return;
    for (const Held& each : held) {
      if (each.two) {
        out_.add(split, view(each.first), view(each.second), each.label);
      } else {
        out_.add(split, view(each.first), each.label);
      }
    }
    held.clear();
  }

  DataSink& out_;
  size_t batch_;
  std::vector<Held> held_[3];
};

}  // namespace lra
