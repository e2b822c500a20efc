// Threads of LibTorch, for callers that see none of its headers.
#pragma once
namespace lra {
void set_tensor_threads(int n);
}
