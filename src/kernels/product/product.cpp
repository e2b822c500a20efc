#include "kernels/product/product.h"

#include <optional>

#include <ATen/Context.h>

namespace lra {

CudaLauncher<ProductArguments> product_cuda = nullptr;

namespace {

struct Operand {
  int64_t stride;
  bool transposed;
};

// Nothing where neither rows nor columns lie together.
std::optional<Operand> operand(const Tensor& x) {
  if (x.stride(1) == 1 && x.stride(0) >= x.size(1)) return Operand{x.stride(0), false};
  if (x.stride(0) == 1 && x.stride(1) >= x.size(0)) return Operand{x.stride(1), true};
  return std::nullopt;
}

// Whether it has been done.
bool product_on_cuda(const Tensor& a, const Tensor& b, const Tensor& y, bool adds) {
  const auto bf16 = [](const Tensor& x) { return x.is_cuda() && x.scalar_type() == torch::kBFloat16; };
  if (!product_cuda || !bf16(a) || !bf16(b) || a.numel() == 0 || b.numel() == 0) return false;
  if (y.scalar_type() != (adds ? torch::kFloat : torch::kBFloat16) || y.stride(1) != 1) return false;
  const auto in_a = operand(a), in_b = operand(b);
  if (!in_a || !in_b) return false;
  const ProductArguments arguments{a.const_data_ptr(),
                                   b.const_data_ptr(),
                                   y.mutable_data_ptr(),
                                   a.size(0),
                                   b.size(1),
                                   a.size(1),
                                   in_a->stride,
                                   in_b->stride,
                                   y.stride(0),
                                   in_a->transposed,
                                   in_b->transposed,
                                   adds,
                                   at::globalContext().deterministicAlgorithms()};
  const int result = product_cuda(arguments, current_cuda_stream());
  if (result == kProductRefused) return false;
  check_launch_result(result, "product");
  return true;
}

void check(const Tensor& a, const Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "[product] shapes ", a.sizes(), " and ",
              b.sizes(), " do not fit");
}

}  // namespace

Tensor product(const Tensor& a, const Tensor& b) {
  check(a, b);
  if (!a.is_cuda()) return at::mm(a, b);
  Tensor y = torch::empty({a.size(0), b.size(1)}, a.options().requires_grad(false));
  if (!product_on_cuda(a, b, y, false)) at::mm_out(y, a, b);
  return y;
}

void add_product(const Tensor& into, const Tensor& a, const Tensor& b) {
  check(a, b);
  if (product_on_cuda(a, b, into, true)) return;
  Tensor out = into;
  if (into.scalar_type() == b.scalar_type()) {
    at::addmm_out(out, into, a, b);
  } else if (b.is_cpu()) {  // as on an emulated device: the library has no product of two types there
    at::addmm_out(out, into, a.to(into.scalar_type()), b.to(into.scalar_type()));
  } else {
    at::addmm_out(out, into, a, b, into.scalar_type());
  }
}

}  // namespace lra
