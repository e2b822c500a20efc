#include "kernels/linear_attention/linear_attention_gpu.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/attention/attention_library.h"
#include "kernels/linear_attention/linear_attention_arguments.h"
#include "kernels/portable.h"

namespace lra {

CudaLauncher<LinearAttentionArguments> linear_attention_key_sums_cuda = nullptr,
                                       linear_attention_queries_cuda = nullptr,
                                       linear_attention_query_gradient_cuda = nullptr,
                                       linear_attention_query_sums_cuda = nullptr,
                                       linear_attention_key_gradient_cuda = nullptr;

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMostRows = 65535;  // of a grid

struct Features {
  FeatureMap map = FeatureMap::kElu;
  Tensor projection;  // bfloat16 [Mp, Pp + 8], zeros beyond [M, P]; empty where the map has none
  int64_t count = 0;  // M
};

Features make_features(FeatureMap map, const Tensor& projection, const Tensor& kv) {
  const int64_t P = kv.size(3);
  if (map != FeatureMap::kSoftmax) return {map, torch::empty({0}, kv.options().requires_grad(false)), P};
  const int64_t M = projection.size(0), wide = linear_padded_width(P) + kLinearPadding;
  return {map,
          torch::constant_pad_nd(projection.detach().to(torch::kBFloat16),
                                 {0, wide - P, 0, linear_padded_features(true, M, P) - M}),
          M};
}

// What the forward pass leaves for the backward pass besides its input: nothing of the size of the features.
struct State {
  Tensor sums, z, largest, mean, normaliser;
};

// One call: q [Q, ·, H, P] and k, v in kv [T, ·, H, P], last in dimension 1; q has three dimensions where
// there is one query a row.
struct Call {
  Tensor q, kv;
  Rows rows;
  Features features;

  bool first() const { return q.dim() == 3; }
  int64_t heads() const { return kv.size(2); }
  int64_t width() const { return kv.size(3); }
  int64_t padded_width() const { return linear_padded_width(width()); }
  int64_t padded_features() const {
    return linear_padded_features(features.map == FeatureMap::kSoftmax, features.count, width());
  }
  torch::TensorOptions floats() const { return kv.options().dtype(torch::kFloat).requires_grad(false); }
  Tensor head_floats(int64_t n) const { return torch::empty({rows.count, heads(), n}, floats()); }
  Tensor head_matrix() const {
    return torch::empty({rows.count, heads(), padded_features(), padded_width() + kLinearPadding},
                        kv.options().requires_grad(false));
  }
  Tensor query_floats() const { return torch::empty({heads(), q.size(0)}, floats()); }

  // Positions a block works on. A constant of the sizes, not of the device: sums are the same bits
  // everywhere. An H200 has 132 multiprocessors; each shall get some blocks, but the sums of a chunk must be
  // little beside what is summed.
  int64_t chunk() const {
    const int64_t blocks = features.map == FeatureMap::kSoftmax ? 4 * 132 : 8 * 132;
    int64_t chunk = 128;
    while (chunk < 1024 && chunk * blocks < rows.positions * heads()) chunk *= 2;
    return chunk;
  }

  LinearAttentionArguments arguments(const State& state) const {
    LinearAttentionArguments a{};
    const auto* keys =
        static_cast<const char*>(kv.const_data_ptr()) + (kv.size(1) - 2) * kv.stride(1) * kv.element_size();
    a.q = q.const_data_ptr(), a.k = keys, a.v = keys + kv.stride(1) * kv.element_size();
    a.q_stride = q.stride(0), a.stride = kv.stride(0);
    a.offsets = rows.offsets.const_data_ptr<int32_t>(), a.lengths = rows.lengths.const_data_ptr<int32_t>();
    a.rows = rows.count, a.positions = rows.positions, a.longest = rows.longest;
    a.queries = q.size(0), a.first = first();
    a.heads = heads(), a.width = width(), a.features = features.count;
    a.map = static_cast<int>(features.map);
    a.projection = features.projection.numel() > 0 ? features.projection.const_data_ptr() : nullptr;
    a.chunk = chunk();
    a.sums = state.sums.mutable_data_ptr();
    a.z = state.z.mutable_data_ptr<float>(), a.largest = state.largest.mutable_data_ptr<float>();
    a.mean = state.mean.mutable_data_ptr<float>();
    a.normaliser = state.normaliser.mutable_data_ptr<float>();
    return a;
  }
};

// Sums of the chunks, as long as a launch needs them.
struct Partial {
  Tensor sums, z, largest;

  Partial(const Call& call, LinearAttentionArguments& a) {
    const int64_t slots = linear_slots(a.positions, a.rows, a.chunk), M = call.padded_features();
    sums = torch::empty({slots, a.heads, M, call.padded_width()}, call.floats());
    z = torch::empty({slots, a.heads, M}, call.floats());
    largest = torch::empty_like(z);
    a.partial = sums.mutable_data_ptr<float>();
    a.partial_z = z.mutable_data_ptr<float>();
    a.partial_largest = largest.mutable_data_ptr<float>();
  }
};

Tensor run_forward(AutogradContext* context, const Call& call) {
  const int64_t M = call.padded_features();
  const State state{call.head_matrix(), call.head_floats(M), call.head_floats(M),
                    call.head_floats(call.padded_width()), call.query_floats()};
  const Tensor out =
      torch::empty({call.q.size(0), call.heads(), call.width()}, call.kv.options().requires_grad(false));
  LinearAttentionArguments a = call.arguments(state);
  const Partial partial(call, a);
  a.out = out.mutable_data_ptr();
  launch(linear_attention_key_sums_cuda, a, "linear_attention: sums over keys");
  launch(linear_attention_queries_cuda, a, "linear_attention: queries");
  context->save_for_backward({call.q, call.kv, call.features.projection, state.sums, state.z, state.largest,
                              state.mean, state.normaliser, out});
  save_rows(*context, call.rows);
  context->saved_data["map"] = static_cast<int64_t>(call.features.map);
  context->saved_data["features"] = call.features.count;
  return out;
}

// Gradients of q and kv; the same tensor where q is part of kv.
void run_backward(AutogradContext* context, const Tensor& gradient, Tensor& d_q, Tensor& d_kv) {
  const auto t = context->get_saved_variables();
  const Call call{t[0],
                  t[1],
                  saved_rows(*context),
                  {static_cast<FeatureMap>(context->saved_data["map"].toInt()), t[2],
                   context->saved_data["features"].toInt()}};
  const Tensor d_out = aligned(gradient), d_sums = call.head_matrix(),
               d_z = call.head_floats(call.padded_features()), delta = call.query_floats();
  d_kv = torch::empty_like(call.kv);
  d_q = call.first() ? torch::empty_like(call.q) : d_kv;
  LinearAttentionArguments a = call.arguments({t[3], t[4], t[5], t[6], t[7]});
  const Partial partial(call, a);
  auto* d_keys = static_cast<char*>(d_kv.mutable_data_ptr()) +
                 (static_cast<const char*>(a.k) - static_cast<const char*>(call.kv.const_data_ptr()));
  a.out = t[8].mutable_data_ptr(), a.d_out = d_out.const_data_ptr();
  a.d_q = d_q.mutable_data_ptr(), a.d_k = d_keys;
  a.d_v = d_keys + d_kv.stride(1) * d_kv.element_size();
  a.d_sums = d_sums.mutable_data_ptr(), a.d_z = d_z.mutable_data_ptr<float>();
  a.delta = delta.mutable_data_ptr<float>();
  launch(linear_attention_query_gradient_cuda, a, "linear_attention: gradient of queries");
  launch(linear_attention_query_sums_cuda, a, "linear_attention: sums over queries");
  launch(linear_attention_key_gradient_cuda, a, "linear_attention: gradient of keys");
}

class GpuLinearAttention : public torch::autograd::Function<GpuLinearAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& input, const Rows& rows,
                        const Features& features) {
    const Tensor qkv = aligned(input);
    return run_forward(context, {qkv, qkv, rows, features});
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    Tensor d_q, d_qkv;
    run_backward(context, gradients[0], d_q, d_qkv);
    return {d_qkv, {}, {}};
  }
};

class GpuLinearAttentionFirst : public torch::autograd::Function<GpuLinearAttentionFirst> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& q, const Tensor& kv, const Rows& rows,
                        const Features& features) {
    return run_forward(context, {aligned(q), aligned(kv), rows, features});
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    Tensor d_q, d_kv;
    run_backward(context, gradients[0], d_q, d_kv);
    return {d_q, d_kv, {}, {}};
  }
};

bool sizes_fit(const Tensor& kv, const Rows& rows, FeatureMap map, const Tensor& projection) {
  const int64_t P = kv.size(3);
  return kv.scalar_type() == torch::kBFloat16 && P % 8 == 0 && P <= kLinearMaxWidth &&
         (map != FeatureMap::kSoftmax || projection.size(0) <= linear_max_features(P)) &&
         rows.count <= kMostRows;
}

}  // namespace

bool linear_attention_gpu_can(const LinearAttentionInput& in) {
  return !in.causal && sizes_fit(in.qkv, in.rows, in.map, in.projection);
}
bool linear_attention_gpu_can(const FirstLinearAttentionInput& in) {
  return sizes_fit(in.kv, in.rows, in.map, in.projection);
}

Tensor linear_attention_gpu(const LinearAttentionInput& in) {
  return GpuLinearAttention::apply(in.qkv, in.rows, make_features(in.map, in.projection, in.qkv));
}
Tensor linear_attention_first_gpu(const FirstLinearAttentionInput& in) {
  return GpuLinearAttentionFirst::apply(in.q, in.kv, in.rows, make_features(in.map, in.projection, in.kv));
}

}  // namespace lra
