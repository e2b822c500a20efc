#include "kernels/noise/noise.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "kernels/dropout/bits.h"
#include "kernels/portable.h"

namespace lra {
namespace {

using torch::Tensor;

constexpr int64_t kWord = 0xffffffff;

Tensor words_cpu(const Tensor& index, const Noise& noise) {
  const Tensor in = index.contiguous();
  Tensor out = torch::empty_like(in);
  const uint64_t stream = dropout_stream(noise.site, noise.step.item<int64_t>());
  const auto* i = in.const_data_ptr<int64_t>();
  auto* w = out.mutable_data_ptr<int64_t>();
  for (int64_t n = 0; n < in.numel(); ++n)
    w[n] = philox(noise.seed, stream, static_cast<uint64_t>(i[n])).word[0];
  return out;
}

// The same in 64-bit integers, each holding a word of 32: products wrap around, shifts keep the sign, and the
// mask takes it away.
Tensor words_portable(const Tensor& index, const Noise& noise) {
  const auto low = [](const Tensor& x) { return x.bitwise_and(kWord); };
  const auto high = [&](const Tensor& x) { return low(x.bitwise_right_shift(32)); };
  Tensor c0 = low(index), c1 = high(index), c2 = low(noise.step);
  Tensor c3 = high(noise.step).bitwise_or(static_cast<int64_t>(noise.site << 16));
  auto k0 = static_cast<uint32_t>(noise.seed), k1 = static_cast<uint32_t>(noise.seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const Tensor p0 = c0 * int64_t{0xD2511F53}, p1 = c2 * int64_t{0xCD9E8D57};
    c0 = high(p1).bitwise_xor(c1).bitwise_xor(int64_t{k0});
    c1 = low(p1);
    c2 = high(p0).bitwise_xor(c3).bitwise_xor(int64_t{k1});
    c3 = low(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c0.expand_as(index);
}

}  // namespace

Tensor uniform_noise(const Tensor& index, const Noise& noise, torch::Dtype type) {
  const Tensor words = on_cpu_path(index) ? words_cpu(index, noise) : words_portable(index, noise);
  return (words.bitwise_right_shift(9).to(type) + 0.5) * (1.0 / 8388608.0);
}

Tensor normal_noise(const Tensor& index, const Noise& noise, torch::Dtype type) {
  const Tensor u = uniform_noise(index * 2, noise, type), v = uniform_noise(index * 2 + 1, noise, type);
  return torch::sqrt(-2 * torch::log(u)) * torch::cos(2 * std::numbers::pi * v);
}

Tensor gumbel_noise(const Tensor& index, const Noise& noise, torch::Dtype type) {
  return -torch::log(-torch::log(uniform_noise(index, noise, type)));
}

}  // namespace lra
