#include "train/flat_state.h"

#include <fmt/ranges.h>

#include "base/error.h"

namespace lra {
namespace {

constexpr int64_t kAlignment = 16;  // elements: 64 bytes of fp32

DType file_type(torch::Dtype type) { return type == torch::kDouble ? DType::kF64 : DType::kF32; }

}  // namespace

FlatState::FlatState(torch::nn::Module& module, const torch::Device& device, torch::Dtype type,
                     const std::function<bool(const std::string&)>& decayed) {
  const auto named = module.named_parameters();
  int64_t end = 0;
  for (const bool with_decay : {true, false}) {
    for (const auto& entry : named) {
      if (decayed(entry.key()) != with_decay) continue;
      slots_.push_back({entry.key(), entry.value().sizes().vec(), end, entry.value().numel()});
      end += (entry.value().numel() + kAlignment - 1) / kAlignment * kAlignment;
    }
    if (with_decay) decayed_end = end;
  }
  const auto options = torch::TensorOptions().device(device).dtype(type);
  parameters = torch::zeros({end}, options);
  gradients = torch::zeros({end}, options);
  first = torch::zeros({end}, options);
  second = torch::zeros({end}, options);
  const torch::NoGradGuard no_grad;
  for (const auto& slot : slots_) {
    Tensor parameter = named[slot.name];
    Tensor view = parameters.narrow(0, slot.offset, slot.size).view(slot.shape);
    view.copy_(parameter);
    parameter.set_data(view);
    parameter.mutable_grad() = gradients.narrow(0, slot.offset, slot.size).view(slot.shape);
  }
}

void FlatState::describe(const Tensor& host, const std::string& prefix, std::vector<NamedTensor>& out) const {
  const auto* bytes = static_cast<const char*>(host.const_data_ptr());
  const auto width = static_cast<int64_t>(host.element_size());
  for (const auto& slot : slots_) {
    out.push_back({prefix + slot.name,
                   {file_type(host.scalar_type()),
                    slot.shape,
                    {bytes + slot.offset * width, static_cast<size_t>(slot.size * width)}}});
  }
}

void FlatState::load(Tensor& flat, const std::string& prefix, const SafetensorsFile& file) {
  const torch::NoGradGuard no_grad;
  if (const size_t parts = prefix.empty() ? 1 : 2; file.tensors().size() != parts * slots_.size()) {
    fail("checkpoint",
         "{}: holds {} tensors, the model has {} parameters. It belongs to another configuration.",
         file.path().string(), file.tensors().size(), slots_.size());
  }
  for (const auto& slot : slots_) {
    const TensorView& tensor = file.at(prefix + slot.name);
    if (tensor.shape != slot.shape || tensor.dtype != file_type(flat.scalar_type())) {
      fail("checkpoint", "{}: '{}{}' is {} [{}], the model needs {} [{}].", file.path().string(), prefix,
           slot.name, name_of(tensor.dtype), fmt::join(tensor.shape, ", "),
           name_of(file_type(flat.scalar_type())), fmt::join(slot.shape, ", "));
    }
    const Tensor values = torch::from_blob(const_cast<char*>(tensor.bytes.data()), slot.shape,
                                           torch::TensorOptions().dtype(flat.scalar_type()));
    flat.narrow(0, slot.offset, slot.size).view(slot.shape).copy_(values);
  }
}

void FlatState::load_model(const SafetensorsFile& file) { load(parameters, "", file); }
void FlatState::load_optimizer(const SafetensorsFile& file) {
  load(first, "first.", file);
  load(second, "second.", file);
}

}  // namespace lra
