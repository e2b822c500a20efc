// How the program reaches CUDA kernels. Sources *.cu see raw pointers and sizes, never a torch header; they
// are linked into the plugin liblra_cuda.so (base/torch_compat.h), which puts their launchers into pointers
// that the program declares:
//
//   norm.h:   extern CudaLauncher<NormArguments> norm_forward_cuda;
//   norm.cpp: CudaLauncher<NormArguments> norm_forward_cuda = nullptr;   …   launch(norm_forward_cuda,
//   arguments); norm.cu:  const bool registered = (norm_forward_cuda = norm_forward_launch, true);
#pragma once

namespace lra {

using CudaStream = void*;  // a cudaStream_t

// Starts the work on the stream; returns the runtime's error code, 0 for none.
template <class Arguments>
using CudaLauncher = int (*)(const Arguments&, CudaStream);

// The stream that LibTorch works on; null while the plugin is not loaded.
extern CudaStream (*current_cuda_stream)();

// Throws if the plugin is not loaded or the launch failed.
void check_launch(bool loaded, const char* kernel);
void check_launch_result(int error, const char* kernel);

template <class Arguments>
void launch(CudaLauncher<Arguments> launcher, const Arguments& arguments, const char* kernel) {
  check_launch(launcher && current_cuda_stream, kernel);
  check_launch_result(launcher(arguments, current_cuda_stream()), kernel);
}

}  // namespace lra
