// CUDA side of add_partial_sums (partial_sums.h).
#include "kernels/rows/partial_sums.cuh"

namespace lra {
namespace {

// A block has 8 columns of one of the sums: into[c] += Σ_p partial[p][c]
template <class A>
__global__ void __launch_bounds__(kSumColumns* kSumRows) partial_sums_kernel(PartialSumsArguments a) {
  const auto block = static_cast<int32_t>(blockIdx.x);
  int which = 0;
  while (a.sums[which].blocks_end <= block) ++which;
  const PartialSum& s = a.sums[which];
  const int32_t first = which > 0 ? a.sums[which - 1].blocks_end : 0,
                column = (block - first) * kSumColumns + static_cast<int32_t>(threadIdx.x);
  auto* into = static_cast<A*>(s.into);
  const bool adds = threadIdx.y == 0 && column < s.width;
  const A before = adds ? into[column] : A(0);
  const A* from = static_cast<const A*>(s.partial) + column;
  const int64_t stride = s.stride;
  const A sum = block_sum<kSumColumns, kSumRows, A>(column < s.width ? s.parts : 0,
                                                    [&](int64_t p) { return from[p * stride]; });
  if (adds) into[column] = before + sum;
}

int partial_sums_launch(const PartialSumsArguments& a, CudaStream stream) {
  if (a.count == 0) return 0;
  const Launch on{static_cast<unsigned>(a.sums[a.count - 1].blocks_end), dim3(kSumColumns, kSumRows),
                  static_cast<cudaStream_t>(stream)};
  a.element == 8 ? start_kernel(partial_sums_kernel<double>, on, a)
                 : start_kernel(partial_sums_kernel<float>, on, a);
  return cudaGetLastError();
}

const bool registered = (partial_sums_cuda = partial_sums_launch, true);

}  // namespace
}  // namespace lra
