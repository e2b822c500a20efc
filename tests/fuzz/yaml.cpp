// sources: base/config.cpp base/suggest.cpp
// libraries: libyaml-cpp.a
#include "base/config.h"
#include "fuzz.h"

// A configuration, and the same text as an assignment of --set; both read into a struct as a run's are.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text = lra::text_of(data, size);
  const auto read = [](const lra::ConfigTree& tree) {
    lra::ConfigReader reader(tree);
    reader.section(
        "train",
        [](lra::Fields& f) {
          int64_t steps = 1;
          double rate = 0.5;
          bool clip = false;
          std::string schedule = "rsqrt", name;
          f.integer("steps", steps, 1, 1'000'000, "");
          f.real("rate", rate, 0, 1, "");
          f.flag("clip", clip, "");
          f.choice("schedule", schedule, {"rsqrt", "cosine"}, "");
          f.text("name", name, "");
          lra::require(steps >= 1 && steps <= 1'000'000, "integers stay in their range");
          lra::require(rate >= 0 && rate <= 1, "numbers stay in their range");
        },
        "");
    reader.finish();
  };
  lra::reads_or_refuses([&] {
    lra::ConfigTree tree = lra::parse_yaml(text, "input");
    lra::overlay(tree, lra::parse_yaml(text, "input"));
    read(tree);
    read(lra::parse_yaml(lra::to_yaml(tree), "written"));
  });
  return lra::reads_or_refuses([&] { read(lra::parse_assignment(text)); });
}
