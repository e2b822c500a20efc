# LibTorch out of the `torch` wheel, found by its files and wrapped in an imported target of our own. The wheel's own
# TorchConfig.cmake stops where there is no CUDA toolkit, and a lean installation cannot be imported by Python.
#
#   lra_torch        libtorch_cpu + libc10: all that the program and its library link
#   lra_torch_cuda   adds libtorch_cuda + libc10_cuda: for the plugin liblra_cuda.so only
set(LRA_TORCH_DIR "" CACHE PATH "folder of the torch package (…/site-packages/torch)")
if(NOT EXISTS "${LRA_TORCH_DIR}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "LRA_TORCH_DIR='${LRA_TORCH_DIR}' holds no lib/libtorch_cpu.so. Run `make build`, which finds or "
                      "installs LibTorch, or pass -DLRA_TORCH_DIR=…/site-packages/torch.")
endif()
file(STRINGS "${LRA_TORCH_DIR}/version.py" torch_version_line REGEX "^__version__")
string(REGEX MATCH "[0-9]+\\.[0-9]+" torch_minor "${torch_version_line}")
if(NOT torch_minor STREQUAL "2.11")
  message(FATAL_ERROR "${LRA_TORCH_DIR} is torch ${torch_minor}; this code is written for 2.11 (src/base/torch_compat.h).")
endif()

add_library(lra_torch INTERFACE)
target_include_directories(lra_torch SYSTEM INTERFACE
  "${LRA_TORCH_DIR}/include" "${LRA_TORCH_DIR}/include/torch/csrc/api/include")
# libgomp.so.1 is the OpenMP runtime that libtorch_cpu.so loads anyway (src/base/torch_compat.h enters it directly).
target_link_libraries(lra_torch INTERFACE "${LRA_TORCH_DIR}/lib/libtorch_cpu.so" "${LRA_TORCH_DIR}/lib/libc10.so"
  "${LRA_TORCH_DIR}/lib/libgomp.so.1")
# libtorch_cpu.so finds its own needs by its RPATH at run time; the linker needs not follow them.
target_link_options(lra_torch INTERFACE -Wl,--no-as-needed -Wl,--allow-shlib-undefined)
set(CMAKE_BUILD_RPATH "$ORIGIN;${LRA_TORCH_DIR}/lib")

add_library(lra_torch_cuda INTERFACE)
target_link_libraries(lra_torch_cuda INTERFACE lra_torch
  "${LRA_TORCH_DIR}/lib/libtorch_cuda.so" "${LRA_TORCH_DIR}/lib/libc10_cuda.so")
