// ListOps (Nangia & Bowman 2018, in the long form of the Long Range Arena): evaluate a nested expression of
// MIN, MAX, MED and SM over digits. This header is what the files of the task share:
//
//   listops_tree      a tree as tokens: parse, evaluate, print
//   listops_generate  random trees, the same for any number of threads
//   listops_import    the published TSV files
//   listops_stats     the numbers that tell whether a set of trees is right
//   listops           the task itself
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tasks/listops_tree.h"
#include "tasks/task.h"

namespace lra::listops {

struct Options : TaskOptions {
  std::string brackets = "kept";
  int64_t max_depth = 10, max_args = 10, min_length = 500, max_length = 2000;

  void visit(Fields& f) override {
    f.choice("brackets", brackets, {"kept", "dropped"},
             "closing brackets in the input; dropped is the input of the paper's Table 1, which hides the "
             "nesting");
    f.integer("max_depth", max_depth, 2, 64, "levels of a tree; on the last one all nodes are digits");
    f.integer("max_args", max_args, 2, 1000, "an operator has 2 to this many arguments");
    f.integer("min_length", min_length, 1, 1'000'000, "trees have more tokens than this");
    f.integer("max_length", max_length, 3, 1'000'000, "trees have fewer tokens than this");
  }
  bool kept() const { return brackets == "kept"; }
};

// Fills the three splits with distinct trees and `notes` with the number of candidates drawn.
void generate(const Options& options, const SplitCounts& counts, uint64_t seed, MadeData& made);

// Folder or release, unpacked or not, with basic_{train,val,test}.tsv; labels are checked against the trees.
Json import_published(const Options& options, const fs::path& from, DataSink& out);
// One TSV file in the published form or as `label<TAB>expression`: every row evaluated and compared.
Json check_file(const fs::path& file);

Stats tree_stats(const std::vector<const Dataset*>& splits, const Json& notes);

// The tokens of example i; `buffer` is reused between calls.
std::span<const uint16_t> tree_tokens(const Dataset& data, int64_t i, std::vector<uint16_t>& buffer);
Place place_of(const Dataset& data, int64_t i);
bool brackets_kept(const Dataset& data);
int root_operator(const Dataset& data, int64_t i);  // 0 … 3 as in kOperatorNames

}  // namespace lra::listops
