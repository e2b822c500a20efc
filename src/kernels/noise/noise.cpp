#include "kernels/noise/noise.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "kernels/dropout/bits.h"
#include "kernels/noise/noise_arguments.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<NoiseWords> noise_words_cuda = nullptr;

namespace {

using torch::Tensor;

Tensor words_of(const Tensor& index, const Noise& noise) {
  const Tensor in = index.contiguous();
  Tensor out = torch::empty_like(in);
  if (on_device(in)) {
    launch(noise_words_cuda,
           {in.const_data_ptr<int64_t>(), out.mutable_data_ptr<int64_t>(), in.numel(), noise.site, noise.seed,
            noise.step.const_data_ptr<int64_t>()},
           "noise");
    return out;
  }
  const uint64_t stream = dropout_stream(noise.site, noise.step.item<int64_t>());
  const auto* i = in.const_data_ptr<int64_t>();
  auto* w = out.mutable_data_ptr<int64_t>();
  for (int64_t n = 0; n < in.numel(); ++n)
    w[n] = philox(noise.seed, stream, static_cast<uint64_t>(i[n])).word[0];
  return out;
}

}  // namespace

Tensor uniform_noise(const Tensor& index, const Noise& noise, torch::Dtype type) {
  return (words_of(index, noise).bitwise_right_shift(9).to(type) + 0.5) * (1.0 / 8388608.0);
}

Tensor normal_noise(const Tensor& index, const Noise& noise, torch::Dtype type) {
  const Tensor u = uniform_noise(index * 2, noise, type), v = uniform_noise(index * 2 + 1, noise, type);
  return torch::sqrt(-2 * torch::log(u)) * torch::cos(2 * std::numbers::pi * v);
}

Tensor gumbel_noise(const Tensor& index, const Noise& noise, torch::Dtype type) {
  return -torch::log(-torch::log(uniform_noise(index, noise, type)));
}

}  // namespace lra
