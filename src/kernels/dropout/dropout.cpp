#include "kernels/dropout/dropout.h"

#include <algorithm>
#include <bit>

#include "base/torch_compat.h"
#include "kernels/dropout/dropout_cpu.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<DropoutArguments> dropout_cuda = nullptr;

DropoutDraw Dropout::draw() const {
  if (!active()) return {{0, 1}, 0, 0, nullptr, nullptr};
  return {dropout_rate(p), seed, site, step.const_data_ptr<int64_t>(), slots.const_data_ptr<int64_t>()};
}

void save_dropout(torch::autograd::AutogradContext& context, const Dropout& d) {
  if (!d.active()) return;
  auto& data = context.saved_data;
  data["p"] = d.p;
  data["site"] = static_cast<int64_t>(d.site);
  data["seed"] = static_cast<int64_t>(d.seed);
  data["step"] = d.step;
  data["slots"] = d.slots;
}

Dropout saved_dropout(torch::autograd::AutogradContext& context) {
  auto& data = context.saved_data;
  const auto p = data.find("p");
  if (p == data.end()) return {};
  return {p->second.toDouble(), static_cast<uint64_t>(data["site"].toInt()),
          static_cast<uint64_t>(data["seed"].toInt()), data["step"].toTensor(), data["slots"].toTensor()};
}

namespace {

template <class T>
void run_cpu(const Tensor& in, Tensor& out, const DropoutArguments& a) {
  const uint64_t stream = dropout_stream(a.draw.site, *a.draw.step);
  parallel_for(0, a.positions, std::max<int64_t>(1, 8192 / a.width), [&](int64_t begin, int64_t end) {
    std::vector<uint16_t> bits(static_cast<size_t>((a.width + 7) / 8 * 8));
    for (int64_t r = begin; r < end; ++r) {
      dropout_bits_cpu(a.draw.seed, stream, dropout_position(a.draw.slots[r], a.width), a.width, bits.data());
      dropout_apply_cpu(bits.data(), a.draw.rate, in.const_data_ptr<T>() + r * a.width,
                        out.mutable_data_ptr<T>() + r * a.width, a.width);
    }
  });
}

Tensor run(const Tensor& x, const Dropout& d) {
  const Tensor in = x.contiguous();
  Tensor out = torch::empty_like(in);
  const DropoutArguments arguments{in.const_data_ptr(),
                                   out.mutable_data_ptr(),
                                   in.size(0),
                                   in.size(1),
                                   d.draw(),
                                   static_cast<int>(in.element_size())};
  if (on_device(in)) {
    launch(dropout_cuda, arguments, "dropout");
  } else if (in.scalar_type() == torch::kDouble) {
    run_cpu<double>(in, out, arguments);
  } else {
    run_cpu<float>(in, out, arguments);
  }
  return out;
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Dropout& d) {
    save_dropout(*context, d);
    return run(x, d);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {run(gradients[0], saved_dropout(*context)), {}};
  }
};

}  // namespace

Tensor dropout(const Tensor& x, const Dropout& d) { return d.active() ? DropoutFunction::apply(x, d) : x; }

Tensor dropout_weights(const Tensor& weights, const Tensor& queries, const Dropout& d) {
  if (!d.active()) return weights;
  const int64_t m = weights.size(-1);
  const auto w = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(m, 8))));
  Dropout by_query = d;
  by_query.slots =
      (queries * ((1 << 20) / w)).expand(weights.sizes().slice(0, weights.dim() - 1)).contiguous().flatten();
  return dropout(torch::constant_pad_nd(weights, {0, w - m}).reshape({-1, w}), by_query)
      .narrow(1, 0, m)
      .view(weights.sizes());
}

Tensor dropout_reference(const Tensor& x, const Dropout& d) {
  if (!d.active()) return x;
  const DropoutRate rate = dropout_rate(d.p);
  const int64_t T = x.size(0), D = x.size(1);
  Tensor mask = torch::zeros({T, D}, torch::kDouble);
  auto m = mask.accessor<double, 2>();
  const Tensor slots = d.slots.cpu();
  const uint64_t stream = dropout_stream(d.site, d.step.item<int64_t>());
  for (int64_t t = 0; t < T; ++t) {
    for (int64_t i = 0; i < D; ++i) {
      const uint64_t position =
          dropout_position(slots.const_data_ptr<int64_t>()[t], D) + static_cast<uint64_t>(i);
      const uint32_t bits =
          dropout_bits(dropout_block(d.seed, stream, position / 8), static_cast<int>(position % 8));
      if (bits >= rate.threshold) m[t][i] = rate.scale;
    }
  }
  return x * mask.to(x.options());
}

}  // namespace lra
