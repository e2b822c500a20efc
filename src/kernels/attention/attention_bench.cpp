#include <torch/csrc/autograd/autograd.h>

#include "base/philox.h"
#include "kernels/attention/attention_kernels.h"
#include "kernels/attention/attention_library.h"
#include "kernels/kernel_bench.h"

namespace lra {
namespace {

constexpr int64_t kHeadWidth = 64, kNarrow[] = {40, 16};

class AttentionBench : public KernelBench {
 public:
  std::string_view name() const override { return "attention"; }

  std::vector<KernelCase> cases(int64_t positions, int64_t width, const torch::Device& device,
                                torch::Dtype type) const override {
    std::vector<KernelCase> all;
    for (const int64_t length : {1024, 4096}) {
      const auto full = std::vector<int32_t>(static_cast<size_t>(std::max<int64_t>(1, positions / length)),
                                             static_cast<int32_t>(std::min(length, positions)));
      add(all, fmt::format("rows of {}", length), full, width, kHeadWidth, device, type);
      if (length > 1024 || device.is_cpu()) continue;
      for (const int64_t narrow : kNarrow) {
        add(all, fmt::format("rows of {}, heads of {}", length, narrow), full, width, narrow, device, type);
      }
    }
    add(all, "packed rows, 300 to 4000", mixed_lengths(positions), width, kHeadWidth, device, type);
    return all;
  }

 private:
  // Many short, few long, as texts are.
  static std::vector<int32_t> mixed_lengths(int64_t positions) {
    Rng rng(1, stream_id("bench.attention"));
    std::vector<int32_t> lengths;
    for (int64_t left = positions; left > 0; left -= lengths.back()) {
      const double u = rng.uniform();
      lengths.push_back(
          static_cast<int32_t>(std::min<double>(static_cast<double>(left), 300 + 3700 * u * u * u)));
    }
    return lengths;
  }

  static void add(std::vector<KernelCase>& all, const std::string& what, const std::vector<int32_t>& lengths,
                  int64_t width, int64_t head_width, const torch::Device& device, torch::Dtype type) {
    int64_t pairs = 0;
    for (const int64_t n : lengths) pairs += n * n;
    for (const double p : {0.0, 0.1}) {
      const AttentionInput in = input(lengths, width, head_width, device, type, p);
      const int64_t whole = in.qkv.size(2) * in.qkv.size(3),
                    part = in.qkv.numel() / 3 * static_cast<int64_t>(c10::elementSize(type));
      for (const auto& [library, run] : implementations(in)) {
        const std::string name = fmt::format("{}{}{}", what, library, p > 0 ? ", dropout 0.1," : "");
        all.push_back({name + " forward", 4 * part,
                       [in, run = run] {
                         const torch::NoGradGuard none;
                         run(in);
                       },
                       2 * pairs * whole});
        const Tensor out = run(in), d_out = torch::randn_like(out);
        all.push_back(
            {name + " backward", 8 * part,
             [in, out, d_out] { torch::autograd::grad({out}, {in.qkv}, {d_out}, /*retain_graph=*/true); },
             5 * pairs * whole});
      }
    }
  }

  using Run = std::function<Tensor(const AttentionInput&)>;
  static std::vector<std::pair<std::string, Run>> implementations(const AttentionInput& any) {
    const torch::Dtype type = any.qkv.scalar_type();
    if (!any.qkv.is_cuda() || type != torch::kBFloat16) return {{"", attention}};
    std::vector<std::pair<std::string, Run>> all = {
        {", flash", [](const AttentionInput& in) { return attention_by(AttentionLibrary::kFlash, in); }}};
    if (attention_library_for(type, any.dropout.p) == AttentionLibrary::kCudnn) {
      all.emplace_back(", cuDNN",
                       [](const AttentionInput& in) { return attention_by(AttentionLibrary::kCudnn, in); });
    }
    if (attention_kernels_refusal(any).empty()) all.emplace_back(", ours", attention_by_kernels);
    return all;
  }

  static AttentionInput input(const std::vector<int32_t>& lengths, int64_t width, int64_t head_width,
                              const torch::Device& device, torch::Dtype type, double p) {
    const int64_t heads = std::max<int64_t>(1, width / head_width);
    AttentionInput in;
    in.rows = lay_out(lengths, true);
    for (Tensor* t : {&in.rows.offsets, &in.rows.lengths, &in.rows.slots}) *t = t->to(device);
    in.qkv = torch::randn({in.rows.positions, 3, heads, std::min(head_width, width)},
                          torch::TensorOptions(device).dtype(type))
                 .requires_grad_(true);
    in.dropout = {p, 1, 1, torch::zeros({1}, torch::TensorOptions(device).dtype(torch::kLong)),
                  in.rows.slots};
    return in;
  }
};

const Registered<KernelBench> bench(std::make_unique<AttentionBench>(), LRA_HERE);

}  // namespace
}  // namespace lra
