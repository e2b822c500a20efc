#include "kernels/pool/pool.h"

#include <algorithm>
#include <optional>

#include "base/torch_compat.h"
#include "kernels/parameter_gradient.h"
#include "kernels/pool/pool_arguments.h"
#include "kernels/pool/pool_cpu.h"
#include "kernels/portable.h"
#include "kernels/rows/row_bits.h"

namespace lra {

CudaLauncher<PoolForwardArguments> pool_forward_cuda = nullptr;
CudaLauncher<PoolBackwardArguments> pool_backward_cuda = nullptr;

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Work on the chunks [first, last) of rows, in the order b, part.
template <class T>
class ChunksCpu {
 public:
  explicit ChunksCpu(const PoolArguments& a) : a_(a), bits_(a.draw, a.D), u_(static_cast<size_t>(a.D)) {}

  void forward(int64_t chunk) {
    const int64_t b = chunk / a_.parts, part = chunk % a_.parts;
    const PoolRow row = pool_row(a_, b);
    T* total = static_cast<T*>(a_.partial) + chunk * a_.D;
    std::fill_n(total, a_.D, T(0));
    for (int64_t t = part * kPoolChunk; t < std::min(row.length, (part + 1) * kPoolChunk); ++t) {
      const int64_t r = row.start + t;
      T unused[2];
      pool_forward_cpu(position(r), total, a_.statistics ? static_cast<T*>(a_.statistics) + 2 * r : unused);
    }
  }

  void backward(int64_t chunk, const PoolBackwardArguments& g) {
    const int64_t b = chunk / a_.parts, part = chunk % a_.parts;
    const PoolRow row = pool_row(a_, b);
    auto *weight = static_cast<const T*>(a_.weight), *d_pooled = static_cast<const T*>(g.d_pooled) + b * a_.D;
    std::vector<T> a(static_cast<size_t>(a_.D));
    for (int64_t i = 0; i < a_.D; ++i) {
      a[static_cast<size_t>(i)] = weight[i] * d_pooled[i] / static_cast<T>(std::max<int64_t>(1, row.length));
    }
    T* total = a_.partial ? static_cast<T*>(a_.partial) + chunk * a_.D : nullptr;
    if (total) std::fill_n(total, a_.D, T(0));
    auto *d_x = static_cast<T*>(g.d_x), *d_branch = static_cast<T*>(g.d_branch);
    const int64_t end = part + 1 < a_.parts ? std::min(row.span, (part + 1) * kPoolChunk) : row.span;
    for (int64_t t = part * kPoolChunk; t < end; ++t) {
      const int64_t r = row.start + t, at = r * a_.D;
      if (t < row.length) {
        pool_backward_cpu(position(r), {a.data(), static_cast<const T*>(a_.statistics) + 2 * r, d_x + at,
                                        d_branch ? d_branch + at : nullptr, total});
      } else {
        std::fill_n(d_x + at, a_.D, T(0));
        if (d_branch) std::fill_n(d_branch + at, a_.D, T(0));
      }
    }
  }

 private:
  PoolPosition<T> position(int64_t r) {
    auto *x = static_cast<const T*>(a_.x), *branch = static_cast<const T*>(a_.branch);
    return {x + r * a_.D,
            branch ? branch + r * a_.D : nullptr,
            static_cast<const T*>(a_.bias),
            bits_.of(r),
            a_.draw.rate,
            a_.D,
            u_.data()};
  }

  const PoolArguments& a_;
  RowBits bits_;
  std::vector<T> u_;
};

template <class T>
void forward_cpu(const PoolForwardArguments& f) {
  const PoolArguments& a = f.in;
  parallel_for(0, a.B * a.parts, 1, [&](int64_t first, int64_t last) {
    ChunksCpu<T> chunks(a);
    for (int64_t chunk = first; chunk < last; ++chunk) chunks.forward(chunk);
  });
  const auto *partial = static_cast<const T*>(a.partial), *weight = static_cast<const T*>(a.weight),
             *offset = static_cast<const T*>(f.offset);
  for (int64_t b = 0; b < a.B; ++b) {
    T *mean = static_cast<T*>(a.mean) + b * a.D, *pooled = static_cast<T*>(f.pooled) + b * a.D;
    const T length = static_cast<T>(std::max<int64_t>(1, pool_row(a, b).length));
    for (int64_t i = 0; i < a.D; ++i) {
      T sum = 0;
      for (int64_t part = 0; part < a.parts; ++part) sum += partial[(b * a.parts + part) * a.D + i];
      mean[i] = sum / length;
      pooled[i] = weight[i] * mean[i] + offset[i];
    }
  }
}

template <class T>
void backward_cpu(const PoolBackwardArguments& g) {
  const PoolArguments& a = g.in;
  parallel_for(0, a.B * a.parts, 1, [&](int64_t first, int64_t last) {
    ChunksCpu<T> chunks(a);
    for (int64_t chunk = first; chunk < last; ++chunk) chunks.backward(chunk, g);
  });
  const auto *partial = static_cast<const T*>(a.partial), *mean = static_cast<const T*>(a.mean),
             *d_pooled = static_cast<const T*>(g.d_pooled);
  auto *d_bias = static_cast<T*>(g.d_bias), *d_weight = static_cast<T*>(g.d_weight),
       *d_offset = static_cast<T*>(g.d_offset);
  for (int64_t chunk = 0; chunk < (partial ? a.B * a.parts : 0); ++chunk) {
    for (int64_t i = 0; i < a.D; ++i) d_bias[i] += partial[chunk * a.D + i];
  }
  for (int64_t b = 0; b < a.B; ++b) {
    const T *up = d_pooled + b * a.D, *u = mean + b * a.D;
    for (int64_t i = 0; d_weight && i < a.D; ++i) d_weight[i] += up[i] * u[i];
    for (int64_t i = 0; d_offset && i < a.D; ++i) d_offset[i] += up[i];
  }
}

int64_t parts_of(const PoolInput& input, int64_t gpu_blocks) {
  if (on_device(input.x)) return pool_segments(input.x.size(0), gpu_blocks);
  return std::max<int64_t>(1, (input.rows.longest + kPoolChunk - 1) / kPoolChunk);
}

PoolArguments arguments(const PoolInput& input, const Tensor& partial, int64_t parts,
                        const Tensor& statistics, const Tensor& mean) {
  const Rows& rows = input.rows;
  return {input.x.const_data_ptr(),
          data_or_null(input.branch),
          data_or_null(input.bias),
          input.branch.defined() ? input.dropout.draw() : Dropout().draw(),
          rows.offsets.const_data_ptr<int32_t>(),
          input.cls ? nullptr : rows.lengths.const_data_ptr<int32_t>(),
          input.x.size(0),
          input.x.size(1),
          rows.count,
          mutable_data_or_null(partial),
          parts,
          mutable_data_or_null(statistics),
          mean.mutable_data_ptr(),
          input.weight.const_data_ptr(),
          static_cast<int>(input.x.element_size())};
}

class PoolFunction : public torch::autograd::Function<PoolFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const std::optional<Tensor>& branch,
                        const std::optional<Tensor>& bias, const Tensor& weight, const Tensor& offset,
                        const PoolInput& input, bool training) {
    const int64_t T = x.size(0), D = x.size(1);
    const auto wide = weight.options().requires_grad(false);
    const Tensor mean = torch::empty({input.rows.count, D}, wide);
    const Tensor statistics = training ? torch::empty({T, 2}, wide) : Tensor();
    const int64_t parts = parts_of(input, pool_forward_blocks(static_cast<int>(x.element_size()))),
                  rows = input.rows.count;
    const Tensor partial = torch::empty({on_device(x) ? parts + rows : parts * rows, D}, wide);
    Tensor pooled = torch::empty({input.rows.count, D}, wide);
    const PoolForwardArguments f{arguments(input, partial, parts, statistics, mean), offset.const_data_ptr(),
                                 pooled.mutable_data_ptr()};
    if (on_device(x)) {
      launch(pool_forward_cuda, f, "pool");
    } else {
      f.in.element == 8 ? forward_cpu<double>(f) : forward_cpu<float>(f);
    }
    if (!training) return pooled;
    context->save_for_backward({x, branch.value_or(Tensor()), bias.value_or(Tensor()), weight, offset,
                                statistics, mean, input.rows.offsets, input.rows.lengths});
    context->saved_data["rows"] = input.rows.count;
    context->saved_data["longest"] = input.rows.longest;
    context->saved_data["cls"] = input.cls;
    save_dropout(*context, input.dropout);
    return pooled;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const Tensor d_pooled = gradients[0].contiguous();
    PoolInput input{saved[0], saved[1], saved[2], saved_dropout(*context), saved[3], saved[4], {}, false};
    input.rows.offsets = saved[7];
    input.rows.lengths = saved[8];
    input.rows.count = context->saved_data["rows"].toInt();
    input.rows.longest = context->saved_data["longest"].toInt();
    input.cls = context->saved_data["cls"].toBool();
    const ParameterGradient d_bias(input.bias), d_weight(input.weight), d_offset(input.offset);
    const Tensor d_x = torch::empty_like(input.x);
    const bool dropped = input.branch.defined() && input.dropout.active();
    const Tensor d_branch = dropped ? torch::empty_like(input.x) : Tensor();
    const int64_t parts = parts_of(input, kPoolBackwardBlocks);
    const int64_t sums = on_device(d_x) ? parts : parts * input.rows.count;
    const Tensor partial =
        d_bias.into.defined() ? torch::empty({sums, d_x.size(1)}, d_pooled.options()) : Tensor();
    const PoolBackwardArguments g{arguments(input, partial, parts, saved[5], saved[6]),
                                  d_pooled.const_data_ptr(),
                                  d_x.mutable_data_ptr(),
                                  mutable_data_or_null(d_branch),
                                  mutable_data_or_null(d_bias.into),
                                  mutable_data_or_null(d_weight.into),
                                  mutable_data_or_null(d_offset.into)};
    if (on_device(d_x)) {
      launch(pool_backward_cuda, g, "pool backward");
    } else {
      g.in.element == 8 ? backward_cpu<double>(g) : backward_cpu<float>(g);
    }
    const Tensor to_branch = !input.branch.defined() ? Tensor() : dropped ? d_branch : d_x;
    return {d_x, to_branch, d_bias.result, d_weight.result, d_offset.result, {}, {}};
  }
};

std::optional<Tensor> if_defined(const Tensor& t) { return t.defined() ? std::optional(t) : std::nullopt; }

}  // namespace

Tensor pool(const PoolInput& given) {
  PoolInput input = given;
  input.x = given.x.contiguous();
  if (given.branch.defined()) input.branch = given.branch.contiguous();
  TORCH_CHECK(input.branch.defined() || !input.bias.defined(),
              "[pool] a bias needs the branch it is added to");
  TORCH_CHECK(input.x.size(1) <= kPoolWidest, "[pool] width ", input.x.size(1), " is over ", kPoolWidest);
  return PoolFunction::apply(input.x, if_defined(input.branch), if_defined(input.bias), input.weight,
                             input.offset, input,
                             wants_gradient({input.x, input.branch, input.bias, input.weight, input.offset}));
}

Tensor pool_reference(const PoolInput& input) {
  Tensor sum = input.x;
  if (input.branch.defined()) {
    const Tensor branch = input.bias.defined() ? input.branch + input.bias : input.branch;
    sum = sum + dropout_reference(branch, input.dropout);
  }
  const Tensor centred = sum - sum.mean(1, true);
  const Tensor variance = (centred * centred).mean(1, true);
  const Tensor normed = input.weight * (centred / torch::sqrt(variance + kPoolEpsilon)) + input.offset;
  const Tensor offsets = input.rows.offsets.cpu(), lengths = input.rows.lengths.cpu();
  std::vector<Tensor> pooled;
  for (int64_t b = 0; b < input.rows.count; ++b) {
    const int64_t first = offsets[b].item<int32_t>(), length = input.cls ? 1 : lengths[b].item<int32_t>();
    pooled.push_back(normed.narrow(0, first, length).mean(0));
  }
  return torch::stack(pooled);
}

}  // namespace lra
