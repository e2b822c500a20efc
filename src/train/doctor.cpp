#include "train/doctor.h"

#include <set>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include "base/file.h"
#include "base/threads.h"
#include "base/torch_compat.h"
#include "base/version.h"
#include "kernels/attention/attention_library.h"
#include "kernels/linear_attention/linear_attention_gpu.h"
#include "models/model.h"

namespace lra {
namespace {

// Every OpenMP runtime mapped into this process: more than one is slow and wrong.
std::set<std::string> openmp_runtimes() {
  std::set<std::string> found;
  const std::string maps = read_text("/proc/self/maps");
  for (size_t at = 0; at < maps.size();) {
    const size_t end = std::min(maps.find('\n', at), maps.size());
    const std::string line = maps.substr(at, end - at);
    for (const char* name : {"libgomp", "libiomp", "libomp"}) {
      if (line.find(std::string("/") + name) != line.npos) found.insert(line.substr(line.find('/')));
    }
    at = end + 1;
  }
  return found;
}

// Models whose steps run another way than the others'.
std::string exceptions() {
  std::string text;
  for (const auto& name : Registry<Model>::instance().names()) {
    const ModelInfo& info = find_model(name).info();
    if (!info.capturable)
      text += fmt::format("; {}: operation by operation, its step cannot be recorded", name);
    if (!info.packed)
      text += fmt::format("; {}: rows padded to one of a few lengths, it cannot work packed", name);
  }
  return text + "; with model.padding=kept operation by operation";
}

Json operations(const torch::Device& device) {
  Json list = Json::array();
  const auto add = [&](const char* operation, const std::string& implementation, const std::string& why) {
    list.push_back({{"operation", operation}, {"implementation", implementation}, {"why", why}});
  };
  const bool cuda = device.is_cuda();
  const auto type = cuda ? torch::kBFloat16 : torch::kFloat;
  add("training step", cuda ? "lra: one CUDA graph a step" : "lra: operation by operation",
      cuda ? "nothing for the host to do" + exceptions() : "a CPU has no graphs to replay");
  add("attention, full rows", attention_implementation(device, type, true, 0),
      cuda ? "the fastest of those that were measured" : "the library's CPU kernel takes no dropout");
  add("attention, packed rows", attention_implementation(device, type, false, 0),
      "works on each row's real length only");
  add("attention with dropout", attention_implementation(device, type, false, 0.1),
      cuda ? "drawn inside the library's kernel, from a counter set every step; cuDNN for rates in sixteenths"
           : "drawn from counters inside the kernel, nothing stored");
  add("matrix products",
      cuda           ? "library: cuBLASLt in bf16, cuBLAS else"
      : at::hasMKL() ? "library: MKL"
                     : "library: the BLAS of this torch",
      cuda ? "the fastest of its algorithms, timed when sizes are met first (--deterministic: its own first "
             "choice)"
           : "weight gradients go straight into the flat buffer");
  add("attention over intervals of keys", cuda ? "lra: CUDA kernels" : "lra: CPU kernel",
      cuda ? "bf16 and heads of 8 … 128 by eights; else tensor operations, keys gathered a slice at a time"
           : "one pass over blocks, weights never stored");
  const bool fused = !cuda || kLinearAttentionUsesKernels;
  add("attention by feature sums",
      !cuda   ? "lra: CPU kernel"
      : fused ? "lra: CUDA kernels"
              : "tensor operations on a grid of rows",
      fused ? "features never stored; packed rows" : "switched off in linear_attention_gpu.h");
  add("attention by feature sums, causal", cuda ? "tensor operations on a grid of rows" : "lra: CPU kernel",
      cuda ? "no kernel of ours yet; so are fp32 and head widths that are no multiple of 8"
           : "running sums in chunks, features never stored");
  const char* kernel = cuda ? "lra: CUDA kernel" : "lra: CPU kernel";
  add("classifier's head", cuda ? kernel : "library and the kernels below",
      cuda ? "two launches forward, two back" : "a product and a kernel a layer");
  add("residual + dropout + layer norm", kernel, "one pass each way");
  add("bias + activation + dropout", kernel, "one pass each way, keeps only its input");
  add("embedding + positions + dropout", kernel, "gradient as a segmented sum, no atomics");
  add("norm + pooling; cross-entropy", kernel, "the loss's gradient in the same pass");
  add("optimiser", kernel, "norm, clipping, schedule and update over one flat buffer");
  return list;
}

}  // namespace

Json diagnose(const std::string& requested) {
  const CudaStatus& cuda = load_cuda();
  const torch::Device device = parse_device(requested);
  const auto runtimes = openmp_runtimes();
  Json advice = Json::array();
  if (!cuda.available) advice.push_back("No GPU is used: " + cuda.why + ".");
  if (device.is_cuda() && !attention_has_cudnn())
    advice.push_back(
        "Built without cuDNN's attention, which needs the headers of cudnn_frontend (scripts/setup.sh): "
        "flash "
        "serves, at two thirds of its speed.");
  if (at::get_num_threads() < hardware_threads()) {
    advice.push_back(fmt::format("Only {} of {} cores are used (--threads, OMP_NUM_THREADS).",
                                 at::get_num_threads(), hardware_threads()));
  }
  const std::string capability = at::get_cpu_capability();
  if (capability.find("AVX") == capability.npos)
    advice.push_back("The CPU has no AVX2 or AVX-512 that the library could use: expect slow steps.");
  if (runtimes.size() > 1)
    advice.push_back(
        "More than one OpenMP runtime is loaded: slow, and results may be wrong. Look at LD_PRELOAD and "
        "LD_LIBRARY_PATH.");
  if (std::string(build_type()) != "Release")
    advice.push_back(fmt::format("This is a {} build; `make build` makes a fast one.", build_type()));
  return {
      {"program", {{"version", program_version()}, {"commit", program_commit()}, {"build", build_type()}}},
      {"torch", TORCH_VERSION},
      {"compiler", __VERSION__},
      {"device",
       {{"name", device_name(device)},
        {"used", device.str()},
        {"cuda_plugin", cuda.loaded},
        {"cuda_device", cuda.available}}},
      {"cpu",
       {{"name", device_name(torch::kCPU)}, {"capability", capability}, {"cores", hardware_threads()}}},
      {"threads", at::get_num_threads()},
      {"openmp_runtimes", runtimes},
      {"operations", operations(device)},
      {"advice", advice}};
}

}  // namespace lra
