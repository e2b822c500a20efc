// sources: tasks/listops_tree.cpp data/tsv.cpp data/byte_stream.cpp base/file.cpp
#include "tasks/listops_tree.h"

#include "fuzz.h"

// A tree that reads prints, and what was printed reads as the same tree.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return lra::reads_or_refuses([&] {
    const lra::Place place{"input", "line", 1};
    std::vector<uint16_t> tokens, again;
    const lra::listops::Evaluation found = lra::listops::parse_tree(lra::text_of(data, size), place, tokens);
    lra::require(found.value >= 0 && found.value <= 9, "a tree has a digit for its value");
    const std::string text = lra::listops::print_tree(tokens, place);
    const lra::listops::Evaluation printed = lra::listops::parse_tree(text, place, again);
    lra::require(again == tokens && printed.value == found.value, "a tree that was printed reads back");
    lra::listops::draw_tree(tokens, place);
  });
}
