// The graphs that cuDNN is asked for (attention_cudnn.h). One is built for each shape and kept: that takes
// tens of milliseconds, and happens before a step is recorded. Packed rows say themselves how long they are,
// so that a graph for longer ones serves them, too: a few graphs are enough for all batches of an evaluation.
#include <algorithm>
#include <bit>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <tuple>

#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#define CUDNN_FRONTEND_SKIP_JSON_LIB
#include <cudnn_frontend.h>

#include "kernels/attention/attention_cudnn.h"

namespace lra {
namespace {

namespace fe = cudnn_frontend;
using fe::graph::Tensor_attributes;
using TensorPointer = std::shared_ptr<Tensor_attributes>;

enum Uid : int64_t {
  kQ = 1,
  kK,
  kV,
  kOut,
  kLse,
  kDOut,
  kDQ,
  kDK,
  kDV,
  kQkvOffsets,
  kOutOffsets,
  kLseOffsets,
  kLengthsQ,
  kLengthsKv,
  kSeed,
  kOffset
};

using Key = std::tuple<int, int64_t, int64_t, int64_t, int64_t, double, double, bool, bool, bool, bool>;

struct Plan {
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t workspace = 0;
  std::string refusal = {};  // why there is no graph
};

void check(fe::error_t error) {
  if (error.is_bad()) throw std::runtime_error("[attention] cuDNN: " + error.get_message());
}
void check(cudnnStatus_t status) {
  if (status != CUDNN_STATUS_SUCCESS)
    throw std::runtime_error(std::string("[attention] cuDNN: ") + cudnnGetErrorString(status));
}

// The longest row that the graph for these arguments has room for, an eighth more than needed at most; a
// block of threads takes 128 positions, and one that finds none is done at once.
int64_t room_for(const CudnnAttentionArguments& a) {
  if (!a.offsets) return a.longest;
  const auto longest = static_cast<uint64_t>(a.longest),
             step = std::max<uint64_t>(128, std::bit_floor(longest) / 8);
  return static_cast<int64_t>((longest + step - 1) / step * step);
}

class Builder {
 public:
  Builder(const CudnnAttentionArguments& a)
      : a_(a), packed_(a.offsets), graph_(std::make_shared<fe::graph::Graph>()) {
    graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    if (!packed_) return;
    qkv_at_ = numbers("qkv_offsets", kQkvOffsets, a.rows + 1);
    out_at_ = numbers("out_offsets", kOutOffsets, a.rows + 1);
    lse_at_ = numbers("lse_offsets", kLseOffsets, a.rows + 1);
    lengths_q_ = numbers("lengths_q", kLengthsQ, a.rows);
    lengths_kv_ = numbers("lengths_kv", kLengthsKv, a.rows);
  }

  std::shared_ptr<fe::graph::Graph> forward() {
    auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
    set(options);
    const auto q = input("q", kQ, 3, qkv_at_), k = input("k", kK, 3, qkv_at_), v = input("v", kV, 3, qkv_at_);
    auto [out, lse] = graph_->sdpa(q, k, v, options);
    output(out, kOut, 1, out_at_);
    lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
    shape_lse(lse);
    return graph_;
  }

  std::shared_ptr<fe::graph::Graph> backward() {
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_backward")
                       .set_deterministic_algorithm(a_.deterministic);
    set(options);
    const auto q = input("q", kQ, 3, qkv_at_), k = input("k", kK, 3, qkv_at_), v = input("v", kV, 3, qkv_at_),
               out = input("out", kOut, 1, out_at_), d_out = input("d_out", kDOut, 1, out_at_);
    const auto lse = graph_->tensor(
        Tensor_attributes().set_name("lse").set_uid(kLse).set_data_type(fe::DataType_t::FLOAT));
    shape_lse(lse);
    auto [d_q, d_k, d_v] = graph_->sdpa_backward(q, k, v, out, d_out, lse, options);
    output(d_q, kDQ, 3, qkv_at_);
    output(d_k, kDK, 3, qkv_at_);
    output(d_v, kDV, 3, qkv_at_);
    return graph_;
  }

 private:
  template <class Options>
  void set(Options& options) {
    options.set_attn_scale(static_cast<float>(a_.scale));
    if (a_.causal) options.set_causal_mask(true);
    if (packed_) options.set_padding_mask(true).set_seq_len_q(lengths_q_).set_seq_len_kv(lengths_kv_);
    if (a_.dropout > 0) {
      const auto one = [&](const char* name, Uid uid) {
        return graph_->tensor(Tensor_attributes()
                                  .set_name(name)
                                  .set_uid(uid)
                                  .set_dim({1, 1, 1, 1})
                                  .set_stride({1, 1, 1, 1})
                                  .set_data_type(fe::DataType_t::INT64));
      };
      options.set_dropout(static_cast<float>(a_.dropout), one("seed", kSeed), one("offset", kOffset));
    }
  }

  TensorPointer numbers(const char* name, Uid uid, int64_t count) {
    return graph_->tensor(Tensor_attributes()
                              .set_name(name)
                              .set_uid(uid)
                              .set_dim({count, 1, 1, 1})
                              .set_stride({1, 1, 1, 1})
                              .set_data_type(fe::DataType_t::INT32));
  }

  // [B, H, L, P] of a tensor with `parts` times H·P elements a position.
  std::vector<int64_t> sizes() const { return {a_.rows, a_.heads, a_.longest, a_.width}; }
  std::vector<int64_t> strides(int64_t parts) const {
    const int64_t position = parts * a_.heads * a_.width;
    return {position * a_.longest, a_.width, position, 1};
  }

  TensorPointer input(const char* name, Uid uid, int64_t parts, const TensorPointer& at) {
    auto attributes =
        Tensor_attributes().set_name(name).set_uid(uid).set_dim(sizes()).set_stride(strides(parts));
    if (packed_) attributes.set_ragged_offset(at);
    return graph_->tensor(attributes);
  }
  void output(const TensorPointer& t, Uid uid, int64_t parts, const TensorPointer& at) {
    t->set_output(true).set_uid(uid).set_dim(sizes()).set_stride(strides(parts));
    if (packed_) t->set_ragged_offset(at);
  }
  void shape_lse(const TensorPointer& t) {
    const int64_t H = a_.heads, L = a_.longest;
    t->set_dim({a_.rows, H, L, 1});
    if (packed_) {
      t->set_stride({H * L, 1, H, 1}).set_ragged_offset(lse_at_);
    } else {
      t->set_stride({H * L, L, 1, 1});
    }
  }

  const CudnnAttentionArguments& a_;
  bool packed_;
  std::shared_ptr<fe::graph::Graph> graph_;
  TensorPointer qkv_at_, out_at_, lse_at_, lengths_q_, lengths_kv_;
};

// Of one device. Calls come from the thread that runs forward passes and from autograd's.
class Cudnn {
 public:
  Cudnn() { check(cudnnCreate(&handle_)); }

  std::string refusal(const CudnnAttentionArguments& a, int device) {
    const std::lock_guard lock(mutex_);
    return plan_for(a, device).refusal;
  }

  void run(const CudnnAttentionArguments& a, int device, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    check(cudnnSetStream(handle_, stream));
    const Plan& plan = plan_for(a, device);
    if (!plan.graph) throw std::runtime_error(plan.refusal);
    const auto part = [&](const void* qkv, int64_t i) {
      return const_cast<char*>(static_cast<const char*>(qkv)) + 2 * i * a.heads * a.width;
    };
    std::unordered_map<int64_t, void*> pack = {{kQ, part(a.qkv, 0)},
                                               {kK, part(a.qkv, 1)},
                                               {kV, part(a.qkv, 2)},
                                               {kOut, const_cast<void*>(a.out)},
                                               {kLse, const_cast<float*>(a.lse)}};
    if (a.d_out) {
      pack[kDOut] = const_cast<void*>(a.d_out);
      pack[kDQ] = part(a.d_qkv, 0), pack[kDK] = part(a.d_qkv, 1), pack[kDV] = part(a.d_qkv, 2);
    }
    if (a.offsets) {
      int32_t* numbers = const_cast<int32_t*>(a.numbers);
      const int64_t pitch = attention_numbers_pitch(a.rows);
      pack[kQkvOffsets] = numbers, pack[kOutOffsets] = numbers + pitch,
      pack[kLseOffsets] = numbers + 2 * pitch;
      pack[kLengthsQ] = pack[kLengthsKv] = numbers + 3 * pitch;
    }
    if (a.dropout > 0) {
      pack[kSeed] = const_cast<int64_t*>(a.draw);
      pack[kOffset] = const_cast<int64_t*>(a.draw) + 2;
    }
    const auto workspace =
        c10::cuda::CUDACachingAllocator::get()->allocate(static_cast<size_t>(plan.workspace));
    check(plan.graph->execute(handle_, pack, workspace.get()));
  }

 private:
  const Plan& plan_for(CudnnAttentionArguments a, int device) {
    a.longest = room_for(a);
    const Key key{device,
                  a.rows,
                  a.longest,
                  a.heads,
                  a.width,
                  a.scale,
                  a.dropout,
                  a.causal,
                  a.offsets != nullptr,
                  a.deterministic,
                  a.d_out != nullptr};
    const auto [found, missing] = plans_.try_emplace(key);
    if (!missing) return found->second;
    try {
      Builder builder(a);
      Plan plan{a.d_out ? builder.backward() : builder.forward()};
      check(plan.graph->validate());
      check(plan.graph->build_operation_graph(handle_));
      check(plan.graph->create_execution_plans({fe::HeurMode_t::A}));
      check(plan.graph->check_support(handle_));
      check(plan.graph->build_plans(handle_));
      check(plan.graph->get_workspace_size(plan.workspace));
      found->second = std::move(plan);
    } catch (const std::exception& e) {
      found->second.refusal = e.what();
    }
    return found->second;
  }

  std::mutex mutex_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, Plan> plans_;
};

// Never taken down: the driver may be gone before static objects are.
Cudnn& cudnn_of(int device) {
  static auto& devices = *new std::map<int, Cudnn>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  return devices[device];
}

int attention_cudnn_launch(const CudnnAttentionArguments& a, CudaStream stream) {
  int device = 0;
  if (const cudaError_t error = cudaGetDevice(&device)) return error;
  cudnn_of(device).run(a, device, static_cast<cudaStream_t>(stream));
  return 0;
}

std::string refusal(const CudnnAttentionArguments& a) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return "there is no device";
  try {
    return cudnn_of(device).refusal(a, device);
  } catch (const std::exception& e) {  // no handle
    return e.what();
  }
}

const bool registered =
    (attention_cudnn_cuda = attention_cudnn_launch, attention_cudnn_refusal = refusal, true);

}  // namespace
}  // namespace lra
