// Retrieval (ACL Anthology Network): does one paper cite the other, given the beginnings of their texts as
// bytes? This header is what the files of the task share:
//
//   retrieval_import    the pairs as the Long Range Arena publishes them
//   retrieval_generate  short made-up pairs, for tests and a first look
//   retrieval           the task itself
#pragma once
#include "tasks/task.h"

namespace lra::retrieval {

struct Options : TaskOptions {
  int64_t max_length = 4000;
  bool drop_remainder = false;

  void visit(Fields& f) override {
    f.integer("max_length", max_length, 1, 10'000, "bytes kept from the beginning of each document");
    f.flag("drop_remainder", drop_remainder,
           "cut val and test to whole batches of 32 pairs, as the released code evaluates them");
  }
};
inline constexpr int64_t kBatch = 32;  // of the released code

// The release, unpacked or not, or a folder with new_aan_pairs.{train,eval,test}.tsv.
Json import_published(const Options& options, const fs::path& from, DataSink& out);

// Distinct made-up pairs: candidate i is a pure function of (seed, i).
Json generate(const Options& options, const SplitCounts& counts, uint64_t seed, DataSink& out);

}  // namespace lra::retrieval
