#include <torch/csrc/autograd/autograd.h>
#include <torch/types.h>

#include "kernels/embed/embed.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

constexpr int64_t kVocabulary = 257, kLength = 4096;

class EmbedBench : public KernelBench {
 public:
  std::string_view name() const override { return "embed"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    const int64_t activations = positions * width * static_cast<int64_t>(torch::elementSize(type));
    std::vector<KernelCase> all;
    for (const double p : {0.0, 0.1}) {
      const std::string suffix = p > 0 ? ", dropout 0.1" : "";
      const EmbedInput in = input(positions, width, device, type, p);
      const int64_t table = in.table.numel() * in.table.element_size(),
                    places = in.positions.numel() * in.positions.element_size();
      all.push_back({"forward" + suffix, activations + table + places + positions * 4, [in] {
                       const torch::NoGradGuard none;
                       embed(in);
                     }});
      const Tensor x = embed(in), dx = torch::randn_like(x);
      all.push_back({"backward" + suffix, activations + 2 * table + positions * 4,
                     [in, x, dx] { torch::autograd::grad({x}, {in.table}, {dx}, true, false, true); }});
    }
    return all;
  }

 private:
  static EmbedInput input(int64_t positions, int64_t width, const torch::Device& device, torch::Dtype type,
                          double p) {
    const auto parameters = type == torch::kDouble ? torch::kDouble : torch::kFloat;
    const int64_t rows = std::max<int64_t>(1, positions / kLength);
    EmbedInput in;
    std::vector<int32_t> lengths(static_cast<size_t>(rows), static_cast<int32_t>(positions / rows));
    lengths.back() += static_cast<int32_t>(positions % rows);
    in.rows = lay_out(lengths, true);
    in.rows.offsets = in.rows.offsets.to(device);
    in.rows.lengths = in.rows.lengths.to(device);
    in.rows.slots = in.rows.slots.to(device);
    in.tokens = torch::randint(kVocabulary, {positions}, torch::dtype(torch::kInt).device(device));
    in.table =
        torch::randn({kVocabulary, width}, torch::dtype(parameters).device(device)).requires_grad_(true);
    in.table.mutable_grad() = torch::zeros_like(in.table).detach();
    in.positions = torch::randn({in.rows.longest, width}, torch::dtype(parameters).device(device));
    in.type = type;
    if (p > 0)
      in.dropout = {p, 1, 2, torch::zeros({1}, torch::dtype(torch::kLong).device(device)), in.rows.slots};
    return in;
  }
};

const Registered<KernelBench> bench(std::make_unique<EmbedBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
