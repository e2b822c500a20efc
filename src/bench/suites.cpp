#include "base/error.h"
#include "base/suggest.h"
#include "bench/bench.h"

namespace lra {
namespace {

struct Sizes {
  int64_t layers, width, heads, ff_width, length, batch, vocabulary, classes;
};

BenchCase make_case(const std::string& name, const Sizes& s, double dropout) {
  BenchCase c;
  c.name = name;
  c.batch = s.batch;
  EncoderConfig& e = c.sizes;
  e.layers = s.layers, e.width = s.width, e.heads = s.heads, e.qkv_width = s.width, e.ff_width = s.ff_width;
  e.max_length = s.length, e.vocab_size = s.vocabulary, e.num_classes = s.classes;
  e.dropout = e.attention_dropout = dropout;
  return c;
}

// Small batches, so that a CPU finishes; what `make bench` runs there.
std::vector<BenchCase> foundation() {
  std::vector<BenchCase> cases;
  for (const double dropout : {0.0, 0.1}) {  // the released configurations train with 0.1
    cases.push_back(make_case("tiny", {2, 64, 4, 128, 128, 32, 17, 10}, dropout));
    cases.push_back(make_case("text", {4, 256, 4, 1024, 1024, 4, 257, 2}, dropout));
    cases.push_back(make_case("listops", {4, 512, 8, 1024, 2000, 2, 17, 10}, dropout));
  }
  return cases;
}

// The step engine's, for a GPU (docs/performance.md): pooled over all positions, so that every block is
// computed for every position, and with CLS as the released configurations have it (one token less, so that
// the rows are as long); without dropout and with.
std::vector<BenchCase> engine() {
  std::vector<BenchCase> cases;
  for (const char* pooling : {"mean", "cls"}) {
    for (const double dropout : {0.0, 0.1}) {
      const bool cls = pooling == std::string("cls");
      const std::string suffix = std::string(cls ? "-cls" : "") + (dropout > 0 ? "-dropout" : "");
      const auto add = [&](const char* name, Sizes sizes) {
        sizes.length -= cls ? 1 : 0;
        cases.push_back(make_case(name + suffix, sizes, dropout));
        cases.back().sizes.pooling = pooling;
      };
      add("text-1k", {4, 256, 4, 1024, 1024, 32, 257, 2});
      add("text-4k", {4, 256, 4, 1024, 4096, 32, 257, 2});
      add("text-paper-4k", {6, 512, 8, 2048, 4096, 32, 257, 2});
      add("cifar-scratch", {10, 160, 4, 320, 1024, 48, 256, 10});
    }
  }
  return cases;
}

}  // namespace

std::vector<std::string> bench_suites() { return {"foundation", "engine"}; }

std::vector<BenchCase> bench_suite(const std::string& name) {
  if (name == "foundation") return foundation();
  if (name == "engine") return engine();
  fail("bench", "there is no suite '{}'. {}", name, suggestion(name, bench_suites()));
}

}  // namespace lra
