// Runs CUDA kernels on a CPU, so that the sources of the kernels themselves are tested where there is no GPU.
// The .cu files are compiled as C++ with this folder before src/ in the search path: cuda_runtime.h and
// cuda_bf16.h are its own, and so are the few headers of src/ that hold what C++ has no words for
// (base/cuda_start.cuh and instructions.cuh, mma.cuh and wgmma.cuh of kernels/rows/).
//
// A thread of a block is a fiber that runs until it must wait. Who runs next is drawn from a seed that is
// another for every launch (LRA_EMULATED_SEED moves all of them): a forgotten barrier shows, and a kernel
// that is said to give the same bits twice is held to it under two orders. Shared memory begins as
// not-a-number. Blocks run on all cores, in any order; a block must not wait for another. A launch that waits
// for ever, that calls a barrier or a warp's function on two ways at once, or that traps, is an exception
// that says where.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "fiber.h"
#include "vector_types.h"

namespace lra::emulated {

struct Site {
  const char* file;
  int line;
};

// What starts a kernel: base/cuda_start.cuh.
struct Start {
  dim3 grid, block;
  size_t shared_bytes;
  Site site;
  const std::function<void()>& thread;  // what every thread runs
};
// Returns when the kernel is done. Limits of the hardware that are passed leave an error for
// cudaGetLastError.
void run(const Start& start);

class Block;

// A copy that has begun (copy_async).
struct Copy {
  void* to;
  const void* from;  // null: zeros
  int bytes, group;
};

// A product of a warpgroup that has begun (kernels/rows/wgmma.cuh).
struct GroupProduct {
  void (*multiply)(const GroupProduct&);
  float (*sums)[4];
  uint32_t left[4];
  const char* left_tile;  // null: `left` is it
  const char* tile;
  Site site;
  int group;
};

struct Thread {
  uint3 index;  // threadIdx
  int number;   // of the block's threads, x fastest
  Block* block;
  Fiber fiber;
  bool ended;
  const char* waits_in;  // null: it does not wait
  Site site;
  int result;     // of a barrier that counts
  uint32_t mask;  // of a warp's function, and what it is given and gives
  const void* in;
  void* out;
  std::vector<Copy> copies;
  int copy_group;
  bool copies_begun, wrote_tile, hides_tile;  // see show_tiles
  std::vector<GroupProduct> products;
  int product_group;
  uint32_t products_begun;
};

// The thread that runs; null outside of kernels.
extern __thread Thread* current;
const uint3& block_index();
const dim3& block_size();
const dim3& grid_size();

unsigned char* dynamic_shared_memory();

// Waits for the threads of a barrier: id 0 with 0 threads is all of the block that have not ended. Returns
// for how many of them `predicate` holds.
int barrier(const char* what, Site site, int id, int threads, bool predicate);

// A function of the lanes in `mask`: the last to come calls complete(mask, in, out) with the pointers of all,
// by lane; then all go on.
using Complete = void (*)(uint32_t mask, const void* const* in, void* const* out);
void collective(const char* what, Site site, uint32_t mask, const void* in, void* out, Complete complete);

// Copies are done as they begin or as they are waited for, as it is drawn.
void begin_copy(void* to, const void* from, int bytes, Site site);
void commit_copies();
void wait_for_copies(int groups_left);

// The same for products, which all lanes of a warp begin together: a warp's are all done as they begin or all
// as they are waited for, until none is left.
void begin_product(const GroupProduct& product);
// Products see a thread's copies and tiles (store_tiles) if it calls show_tiles between these, waited for,
// and a barrier. A product after a barrier that a thread came to without is an error.
void wrote_tile();
void show_tiles();
void commit_products();
void wait_for_products(int groups_left);

// Ends the launch with an error about the current thread.
void stop(const char* why, Site site);

// Of the host, what cudaGetLastError returns.
void set_error(int error);
int take_error();

}  // namespace lra::emulated

#define LRA_SITE_PARAMETERS const char *file = __builtin_FILE(), int line = __builtin_LINE()
#define LRA_SITE \
  ::lra::emulated::Site { file, line }
