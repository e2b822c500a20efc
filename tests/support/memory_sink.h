// A DataSink that keeps what it is given, for tests of generators and importers.
#pragma once
#include <memory>

#include "support/temp_dir.h"
#include "tasks/task.h"

namespace lra {

class MemorySink : public DataSink {
 public:
  void add(size_t split, const Tokens& tokens, int64_t label) override {
    splits[split].add(ids(tokens), label);
  }
  void add(size_t split, const Tokens& first, const Tokens& second, int64_t label) override {
    splits[split].add(ids(first), ids(second), label);
  }
  fs::path scratch() override { return folder_->path(); }
  fs::path lasting_scratch() override { return folder_->path(); }

  Examples splits[3];
  Json notes;

 private:
  static std::vector<uint16_t> ids(const Tokens& tokens) {
    std::vector<uint16_t> all(static_cast<size_t>(tokens.size()));
    for (int64_t t = 0; t < tokens.size(); ++t)
      all[static_cast<size_t>(t)] = static_cast<uint16_t>(tokens[t]);
    return all;
  }
  std::shared_ptr<TempDir> folder_ = std::make_shared<TempDir>();
};

}  // namespace lra
