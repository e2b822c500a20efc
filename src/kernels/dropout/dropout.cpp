#include "kernels/dropout/dropout.h"

#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/dropout/dropout_cpu.h"

namespace lra {

void (*dropout_cuda)(const DropoutArguments&) = nullptr;

namespace {

template <class T>
void run_cpu(const Tensor& in, Tensor& out, const DropoutArguments& a) {
  const uint64_t stream = dropout_stream(a.site, *a.step);
  const int64_t rows = a.rows * a.length;
  parallel_for(0, rows, std::max<int64_t>(1, 8192 / a.width), [&](int64_t begin, int64_t end) {
    std::vector<uint16_t> bits(static_cast<size_t>((a.width + 7) / 8 * 8));
    for (int64_t r = begin; r < end; ++r) {
      const uint64_t first = dropout_position(a.first_row + r / a.length, r % a.length, a.width);
      dropout_bits_cpu(a.seed, stream, first, a.width, bits.data());
      dropout_apply_cpu(bits.data(), a.rate, in.const_data_ptr<T>() + r * a.width,
                        out.mutable_data_ptr<T>() + r * a.width, a.width);
    }
  });
}

Tensor run(const Tensor& x, double p, uint64_t site, const DropoutKey& key) {
  const Tensor in = x.contiguous();
  Tensor out = torch::empty_like(in);
  const int64_t width = in.size(-1), length = in.dim() == 3 ? in.size(1) : 1;
  const DropoutArguments arguments{in.const_data_ptr(),
                                   out.mutable_data_ptr(),
                                   in.size(0),
                                   length,
                                   width,
                                   key.first_row,
                                   key.seed,
                                   site,
                                   key.step.const_data_ptr<int64_t>(),
                                   dropout_rate(p),
                                   static_cast<int>(in.element_size())};
  if (in.is_cuda()) {
    TORCH_CHECK(dropout_cuda, "[dropout] the CUDA plugin is not loaded");
    dropout_cuda(arguments);
  } else if (in.scalar_type() == torch::kDouble) {
    run_cpu<double>(in, out, arguments);
  } else {
    run_cpu<float>(in, out, arguments);
  }
  return out;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, double p, int64_t site,
                        int64_t seed, const Tensor& step, int64_t first_row) {
    context->save_for_backward({step});
    context->saved_data["p"] = p;
    context->saved_data["site"] = site;
    context->saved_data["seed"] = seed;
    context->saved_data["first_row"] = first_row;
    return run(x, p, static_cast<uint64_t>(site), {static_cast<uint64_t>(seed), step, first_row});
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const DropoutKey key{static_cast<uint64_t>(context->saved_data["seed"].toInt()),
                         context->get_saved_variables()[0], context->saved_data["first_row"].toInt()};
    const Tensor gradient = run(gradients[0], context->saved_data["p"].toDouble(),
                                static_cast<uint64_t>(context->saved_data["site"].toInt()), key);
    return {gradient, {}, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor dropout(const Tensor& x, double p, uint64_t site, const DropoutKey& key) {
  if (p == 0) return x;
  return DropoutFunction::apply(x, p, static_cast<int64_t>(site), static_cast<int64_t>(key.seed), key.step,
                                key.first_row);
}

Tensor dropout_reference(const Tensor& x, double p, uint64_t site, const DropoutKey& key) {
  const DropoutRate rate = dropout_rate(p);
  const int64_t width = x.size(-1), length = x.dim() == 3 ? x.size(1) : 1;
  Tensor mask = torch::zeros({x.size(0), length, width}, torch::kDouble);
  auto m = mask.accessor<double, 3>();
  const uint64_t stream = dropout_stream(site, key.step.item<int64_t>());
  for (int64_t row = 0; row < x.size(0); ++row) {
    for (int64_t t = 0; t < length; ++t) {
      for (int64_t d = 0; d < width; ++d) {
        const uint64_t position = dropout_position(key.first_row + row, t, width) + static_cast<uint64_t>(d);
        const uint32_t bits =
            dropout_bits(philox(key.seed, stream, position / 8), static_cast<int>(position % 8));
        if (bits >= rate.threshold) m[row][t][d] = rate.scale;
      }
    }
  }
  return x * mask.view(x.sizes()).to(x.options());
}

}  // namespace lra
