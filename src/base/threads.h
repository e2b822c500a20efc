// Threads for the rooms that know no tensors. (Rooms with tensors use parallel_for of torch_compat.h.)
#pragma once
#include <cstdint>
#include <functional>

namespace lra {

int hardware_threads();        // cores this process may use
void set_thread_count(int n);  // --threads; 0 = all
int thread_count();

// Calls work(i) for i = 0 … n-1 from thread_count() threads; the first exception is thrown again here.
void parallel_items(int64_t n, const std::function<void(int64_t)>& work);

}  // namespace lra
