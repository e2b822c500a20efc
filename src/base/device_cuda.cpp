// The plugin's answers about the device.
#include <cuda_runtime_api.h>

extern "C" const char* lra_cuda_device_name(int index) {
  static cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, index) == cudaSuccess ? properties.name : "CUDA device";
}
