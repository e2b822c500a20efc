#include "kernels/bias_gelu/bias_gelu.h"

#include <numbers>

#include <torch/csrc/autograd/custom_function.h>

#include "base/torch_compat.h"
#include "kernels/bias_gelu/bias_gelu_cpu.h"

namespace lra {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Rows summed into one partial bias gradient: fixed, so that the sum does not depend on the number of
// threads.
constexpr int64_t kRowsPerPart = 256;

struct Problem {
  int64_t rows, length, width;
  double p;
  uint64_t site;
  DropoutKey key;

  Problem(const Tensor& x, double probability, uint64_t place, const DropoutKey& k)
      : rows(x.size(0) * x.size(1)),
        length(x.size(1)),
        width(x.size(2)),
        p(probability),
        site(place),
        key(k) {}

  // f(row, bits or null)
  template <class F>
  void for_rows(int64_t begin, int64_t end, const F& f) const {
    std::vector<uint16_t> bits(p > 0 ? static_cast<size_t>((width + 7) / 8 * 8) : 0);
    const uint64_t stream = p > 0 ? dropout_stream(site, *key.step.const_data_ptr<int64_t>()) : 0;
    for (int64_t r = begin; r < end; ++r) {
      if (p > 0) {
        dropout_bits_cpu(key.seed, stream, dropout_position(key.first_row + r / length, r % length, width),
                         width, bits.data());
      }
      f(r, p > 0 ? bits.data() : nullptr);
    }
  }
};

template <class T>
void forward_cpu(const Problem& q, const Tensor& x, const Tensor& bias, Tensor& y) {
  const T *in = x.const_data_ptr<T>(), *b = bias.const_data_ptr<T>();
  T* out = y.mutable_data_ptr<T>();
  parallel_for(0, q.rows, std::max<int64_t>(1, 4096 / q.width), [&](int64_t begin, int64_t end) {
    q.for_rows(begin, end, [&](int64_t r, const uint16_t* bits) {
      bias_gelu_forward_cpu(in + r * q.width, b, out + r * q.width, q.width, bits, dropout_rate(q.p));
    });
  });
}

template <class T>
void backward_cpu(const Problem& q, const Tensor& x, const Tensor& bias, const Tensor& dy, Tensor& dx,
                  Tensor& d_bias) {
  const T *in = x.const_data_ptr<T>(), *b = bias.const_data_ptr<T>(), *up = dy.const_data_ptr<T>();
  T* down = dx.mutable_data_ptr<T>();
  const int64_t parts = (q.rows + kRowsPerPart - 1) / kRowsPerPart;
  Tensor partial = torch::zeros({parts, q.width}, x.options());
  T* sums = partial.mutable_data_ptr<T>();
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      q.for_rows(part * kRowsPerPart, std::min(q.rows, (part + 1) * kRowsPerPart),
                 [&](int64_t r, const uint16_t* bits) {
                   const int64_t at = r * q.width;
                   bias_gelu_backward_cpu(in + at, b, up + at, down + at, sums + part * q.width, q.width,
                                          bits, dropout_rate(q.p));
                 });
    }
  });
  d_bias = partial.sum(0);
}

class BiasGelu : public torch::autograd::Function<BiasGelu> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& bias, double p, int64_t site,
                        int64_t seed, const Tensor& step, int64_t first_row) {
    const Tensor in = x.contiguous();
    Tensor y = torch::empty_like(in);
    const Problem q(in, p, static_cast<uint64_t>(site), {static_cast<uint64_t>(seed), step, first_row});
    in.scalar_type() == torch::kDouble ? forward_cpu<double>(q, in, bias, y)
                                       : forward_cpu<float>(q, in, bias, y);
    context->save_for_backward({in, bias, step});
    context->saved_data["p"] = p;
    context->saved_data["site"] = site;
    context->saved_data["seed"] = seed;
    context->saved_data["first_row"] = first_row;
    return y;
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Problem q(saved[0], context->saved_data["p"].toDouble(),
                    static_cast<uint64_t>(context->saved_data["site"].toInt()),
                    {static_cast<uint64_t>(context->saved_data["seed"].toInt()), saved[2],
                     context->saved_data["first_row"].toInt()});
    const Tensor dy = gradients[0].contiguous();
    Tensor dx = torch::empty_like(dy), d_bias;
    dy.scalar_type() == torch::kDouble ? backward_cpu<double>(q, saved[0], saved[1], dy, dx, d_bias)
                                       : backward_cpu<float>(q, saved[0], saved[1], dy, dx, d_bias);
    return {dx, d_bias, {}, {}, {}, {}, {}};
  }
};

}  // namespace

Tensor bias_gelu_dropout(const Tensor& x, const Tensor& bias, double p, uint64_t site,
                         const DropoutKey& key) {
  if (!x.is_cpu()) return dropout(torch::gelu(x + bias.to(x.scalar_type()), "tanh"), p, site, key);
  return BiasGelu::apply(x, bias, p, static_cast<int64_t>(site), static_cast<int64_t>(key.seed),
                         p > 0 ? key.step : no_tensor(torch::kLong), key.first_row);
}

Tensor bias_gelu_dropout_reference(const Tensor& x, const Tensor& bias, double p, uint64_t site,
                                   const DropoutKey& key) {
  const Tensor u = x + bias;
  const Tensor gelu =
      0.5 * u * (1 + torch::tanh(std::sqrt(2 / std::numbers::pi) * (u + 0.044715 * u.pow(3))));
  return p > 0 ? dropout_reference(gelu, p, site, key) : gelu;
}

}  // namespace lra
