#include "kernels/rows/partial_sums.h"

#include "kernels/rows/partial_sums_arguments.h"

namespace lra {

CudaLauncher<PartialSumsArguments> partial_sums_cuda = nullptr;

struct PartialSumsTogether::List {
  PartialSumsArguments sums{};
  std::vector<torch::Tensor> partials;  // kept until the launch

  // Whether one launch can do this sum, too.
  bool takes(const void* into, int32_t element) const {
    if (sums.count == PartialSumsArguments::kMost || (sums.count > 0 && sums.element != element))
      return false;
    for (int32_t i = 0; i < sums.count; ++i) {
      if (sums.sums[i].into == into) return false;
    }
    return true;
  }

  void add(const torch::Tensor& partial, int64_t output, void* into) {
    const auto element = static_cast<int32_t>(partial.element_size());
    if (!takes(into, element)) launch_all();
    const auto width = static_cast<int32_t>(partial.size(2));
    const int32_t before = sums.count > 0 ? sums.sums[sums.count - 1].blocks_end : 0;
    sums.sums[sums.count++] = {static_cast<const char*>(partial.const_data_ptr()) + output * width * element,
                               into,
                               static_cast<int32_t>(partial.size(0)),
                               static_cast<int32_t>(partial.size(1)) * width,
                               width,
                               before + partial_sum_blocks(width)};
    sums.element = element;
    partials.push_back(partial);
  }

  void launch_all() {
    if (sums.count > 0) launch(partial_sums_cuda, sums, "partial_sums");
    sums.count = 0;
    partials.clear();
  }
};

namespace {
PartialSumsTogether::List* open_list = nullptr;
}  // namespace

PartialSumsTogether::PartialSumsTogether() : list_(std::make_unique<List>()) {
  TORCH_CHECK(!open_list, "[partial_sums] sums are put off already; one PartialSumsTogether at a time");
  open_list = list_.get();
}
PartialSumsTogether::~PartialSumsTogether() { open_list = nullptr; }
void PartialSumsTogether::finish() { list_->launch_all(); }

void add_partial_sums(const torch::Tensor& partial, const std::vector<ParameterGradient>& gradients) {
  PartialSumsTogether::List now;
  for (size_t i = 0; i < gradients.size(); ++i) {
    const ParameterGradient& gradient = gradients[i];
    if (!gradient.into.defined()) continue;
    auto& list = open_list && !gradient.result.defined() ? *open_list : now;
    list.add(partial, static_cast<int64_t>(i), gradient.into.mutable_data_ptr());
  }
  now.launch_all();
}

}  // namespace lra
