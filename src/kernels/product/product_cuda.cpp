// cuBLASLt's side of product.h: which of its algorithms serves which sizes.
#include <algorithm>
#include <bit>
#include <cublasLt.h>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/cuda/CUDAContextLight.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <cuda_runtime_api.h>

#include "kernels/product/product.h"

namespace lra {
namespace {

constexpr int kCandidates = 8, kRounds = 3, kMostRepeats = 4;
constexpr size_t kWorkspaceBytes = size_t{32} << 20;
constexpr float kWorthwhile = 0.98F;  // of the first one's time; what is closer is noise

void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string("[product] cuBLASLt: ") + cublasLtGetStatusString(status));
}

int64_t boundary(const void* pointer) {
  return int64_t{1} << std::min(8, std::countr_zero(reinterpret_cast<uintptr_t>(pointer)));
}

// Packed batches have many sizes in positions: what is the fastest for one serves its neighbours, too.
int64_t about(int64_t size) {
  constexpr int64_t kExact = 8192;
  return size <= kExact ? size : -static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(size)));
}

int device() {
  int found = 0;
  cudaGetDevice(&found);
  return found;
}

using Key = std::tuple<int, int64_t, int64_t, int64_t, bool, bool, bool, int64_t, int64_t, int64_t>;
Key key_of(const ProductArguments& p) {
  return {device(),       about(p.M), about(p.N),    about(p.K),    p.a_transposed,
          p.b_transposed, p.adds,     boundary(p.a), boundary(p.b), boundary(p.y)};
}

// Where sums over many positions are split among multiprocessors, their parts. (LibTorch's own workspace is
// too small for that: the library then falls back on kernels that take twice as long.) One a stream, for
// good.
void* workspace_of(cudaStream_t stream) {
  static std::mutex mutex;
  static std::map<std::pair<int, cudaStream_t>, void*> workspaces;
  const std::lock_guard lock(mutex);
  void*& workspace = workspaces[{device(), stream}];
  if (!workspace) workspace = c10::cuda::CUDACachingAllocator::raw_alloc(kWorkspaceBytes);
  return workspace;
}

// A product as the library sees it. It counts by columns: of yᵀ = bᵀ aᵀ, the same memory.
class Product {
 public:
  explicit Product(const ProductArguments& p) : p_(p) {
    check(cublasLtMatmulDescInit(&what_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    const cublasOperation_t of_b = p.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                            of_a = p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check(cublasLtMatmulDescSetAttribute(&what_, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof(of_b)));
    check(cublasLtMatmulDescSetAttribute(&what_, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof(of_a)));
    lay_out(b_, CUDA_R_16BF, p.b_transposed ? p.K : p.N, p.b_transposed ? p.N : p.K, p.b_stride);
    lay_out(a_, CUDA_R_16BF, p.a_transposed ? p.M : p.K, p.a_transposed ? p.K : p.M, p.a_stride);
    lay_out(y_, p.adds ? CUDA_R_32F : CUDA_R_16BF, p.N, p.M, p.y_stride);
  }

  // The most promising first; none where the library has no algorithm for such sizes.
  std::vector<cublasLtMatmulAlgo_t> candidates(int most) const {
    cublasLtMatmulPreferenceOpaque_t wish;
    check(cublasLtMatmulPreferenceInit(&wish));
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check(cublasLtMatmulPreferenceSetAttribute(&wish, attribute, &value, sizeof(value)));
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(boundary(p_.b)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<uint32_t>(boundary(p_.a)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<uint32_t>(boundary(p_.y)));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<uint32_t>(boundary(p_.y)));
    std::vector<cublasLtMatmulHeuristicResult_t> found(static_cast<size_t>(most));
    int count = 0;
    std::vector<cublasLtMatmulAlgo_t> all;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle(), &what_, &b_, &a_, &y_, &y_, &wish,
                                                                 most, found.data(), &count);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return all;
    check(status);
    for (int i = 0; i < count; ++i) {
      if (found[static_cast<size_t>(i)].state == CUBLAS_STATUS_SUCCESS)
        all.push_back(found[static_cast<size_t>(i)].algo);
    }
    return all;
  }

  bool takes(const cublasLtMatmulAlgo_t& algorithm) const {
    cublasLtMatmulHeuristicResult_t result;
    return cublasLtMatmulAlgoCheck(handle(), &what_, &b_, &a_, &y_, &y_, &algorithm, &result) ==
               CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= kWorkspaceBytes;
  }

  cublasStatus_t run(const cublasLtMatmulAlgo_t& algorithm, void* y, cudaStream_t stream) const {
    const float one = 1, before = p_.adds ? 1 : 0;
    return cublasLtMatmul(handle(), &what_, &one, p_.b, &b_, p_.a, &a_, &before, y, &y_, y, &y_, &algorithm,
                          workspace_of(stream), kWorkspaceBytes, stream);
  }

 private:
  static cublasLtHandle_t handle() { return at::cuda::getCurrentCUDABlasLtHandle(); }
  static void lay_out(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, int64_t rows,
                      int64_t columns, int64_t stride) {
    check(cublasLtMatrixLayoutInit(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                                   stride));
  }

  const ProductArguments& p_;
  mutable cublasLtMatmulDescOpaque_t what_{};  // read only, but the library's functions know no const
  mutable cublasLtMatrixLayoutOpaque_t a_{}, b_{}, y_{};
};

class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    cudaEventCreate(&begin_);
    cudaEventCreate(&end_);
  }
  ~Stopwatch() {
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  template <class Work>
  float milliseconds(const Work& work) {
    cudaEventRecord(begin_, stream_);
    work();
    cudaEventRecord(end_, stream_);
    cudaEventSynchronize(end_);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin_, end_);
    return ms;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_{}, end_{};
};

using Algorithm = std::optional<cublasLtMatmulAlgo_t>;

Algorithm first(const Product& product) {
  const auto candidates = product.candidates(1);
  return candidates.empty() ? Algorithm() : candidates.front();
}

Algorithm fastest(const Product& product, const ProductArguments& p, cudaStream_t stream) {
  const auto candidates = product.candidates(kCandidates);
  if (candidates.size() <= 1) return candidates.empty() ? Algorithm() : candidates.front();
  // What is added to must stay as it is.
  const size_t bytes = static_cast<size_t>(p.M * p.y_stride) * 4;
  const c10::DataPtr scratch =
      p.adds ? c10::cuda::CUDACachingAllocator::get()->allocate(bytes) : c10::DataPtr();
  if (p.adds) cudaMemsetAsync(scratch.get(), 0, bytes, stream);
  void* y = p.adds ? scratch.get() : p.y;
  Stopwatch watch(stream);
  std::vector<float> ms(candidates.size(), std::numeric_limits<float>::max());
  const auto time = [&](size_t i, int repeats) {
    bool works = true;
    const float all = watch.milliseconds([&] {
      for (int r = 0; r < repeats; ++r)
        works = works && product.run(candidates[i], y, stream) == CUBLAS_STATUS_SUCCESS;
    });
    return works ? all / static_cast<float>(repeats) : std::numeric_limits<float>::max();
  };
  time(0, 1);
  const float once = std::max(1e-3F, time(0, 1));
  const int repeats = static_cast<int>(std::clamp(0.5F / once, 1.0F, float{kMostRepeats}));
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < candidates.size(); ++i) ms[i] = std::min(ms[i], time(i, repeats));
  }
  const size_t best = static_cast<size_t>(std::min_element(ms.begin(), ms.end()) - ms.begin());
  return candidates[ms[best] < kWorthwhile * ms[0] ? best : 0];
}

class Choices {
 public:
  Algorithm find(const Product& product, const ProductArguments& p, cudaStream_t stream) {
    if (p.deterministic) return first(product);
    const std::lock_guard lock(mutex_);
    const auto known = algorithms_.find(key_of(p));
    if (known != algorithms_.end()) {
      return known->second && product.takes(*known->second) ? known->second : first(product);
    }
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    cudaStreamIsCapturing(stream, &capture);
    if (capture != cudaStreamCaptureStatusNone) return first(product);  // a recording cannot wait
    return algorithms_.emplace(key_of(p), fastest(product, p, stream)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Algorithm> algorithms_;
};

int product_launch(const ProductArguments& p, CudaStream s) {
  static Choices choices;
  const auto stream = static_cast<cudaStream_t>(s);
  const Product product(p);
  const Algorithm algorithm = choices.find(product, p, stream);
  if (!algorithm) return kProductRefused;
  check(product.run(*algorithm, p.y, stream));
  return cudaGetLastError();
}

const bool registered = (product_cuda = product_launch, true);

}  // namespace
}  // namespace lra
