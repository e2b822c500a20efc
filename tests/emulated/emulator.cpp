#include "emulator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <link.h>
#include <map>
#include <memory>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <utility>

#include "base/cuda_launch.h"
#include "base/philox.h"

namespace lra {

void parallel_tasks(int64_t n, const std::function<void(int64_t)>& f);  // base/torch_compat.h, without torch

namespace emulated {

__thread Thread* current = nullptr;

namespace {

constexpr int kMostThreads = 1024, kWarp = 32, kBarriers = 16;
constexpr size_t kMostShared = 227 * 1024;
#ifdef __SANITIZE_ADDRESS__
constexpr size_t kStack = 512 * 1024;
#else
constexpr size_t kStack = 128 * 1024;
#endif
constexpr int kInvalidConfiguration = 9;  // cudaErrorInvalidConfiguration

std::atomic<int> last_error{0};
std::atomic<uint64_t> launches{0};

uint64_t seed() {
  static const char* text = std::getenv("LRA_EMULATED_SEED");
  static const uint64_t value = text ? std::strtoull(text, nullptr, 10) : 0;
  return value;
}

std::string text_of(Site site) { return std::string(site.file) + ":" + std::to_string(site.line); }
std::string text_of(const uint3& i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}
bool same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }
bool same(const Site& a, const Site& b) { return a.line == b.line && same(a.file, b.file); }

// This library's thread_local memory in the calling thread: static __shared__ variables, and `current`.
struct Local {
  unsigned char* begin = nullptr;
  size_t bytes = 0;
};
Local find_local() {
  current = nullptr;  // the memory is there from the first access on
  Local local;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        const auto here = reinterpret_cast<uintptr_t>(&find_local);
        bool mine = false;
        size_t bytes = 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& part = info->dlpi_phdr[i];
          const uintptr_t first = info->dlpi_addr + part.p_vaddr;
          if (part.p_type == PT_LOAD && here >= first && here < first + part.p_memsz) mine = true;
          if (part.p_type == PT_TLS) bytes = part.p_memsz;
        }
        bytes = bytes / sizeof(uint64_t) * sizeof(uint64_t);
        if (mine) *static_cast<Local*>(out) = {static_cast<unsigned char*>(info->dlpi_tls_data), bytes};
        return mine ? 1 : 0;
      },
      &local);
  return local;
}

// What an operating system thread keeps for the blocks it runs.
struct Worker {
  Local local;
  unsigned char* stacks;
  std::vector<Thread> threads;

  Worker()
      : local(find_local()),
        stacks(static_cast<unsigned char*>(mmap(nullptr, kStack * kMostThreads, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        threads(kMostThreads) {
    if (stacks == MAP_FAILED) throw std::bad_alloc();
  }
  ~Worker() { munmap(stacks, kStack * kMostThreads); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Before a block: shared memory is nobody's. All of it before the first of a launch; then what that one has
  // written to, as there is much more than one kernel's.
  void poison(uint64_t launch) {
    if (launch != poisoned_for_) {
      used_ = local;
      poisoned_for_ = launch;
      first_ = true;
    } else if (first_) {
      std::memset(&current, 0xff, sizeof(current));
      const auto* words = reinterpret_cast<const uint64_t*>(local.begin);
      size_t begin = 0, end = local.bytes / sizeof(uint64_t);
      while (begin < end && words[begin] == ~uint64_t{0}) ++begin;
      while (end > begin && words[end - 1] == ~uint64_t{0}) --end;
      used_ = {local.begin + begin * sizeof(uint64_t), (end - begin) * sizeof(uint64_t)};
      first_ = false;
    }
    if (used_.bytes) std::memset(used_.begin, 0xff, used_.bytes);
    current = nullptr;
  }

  // The calling thread's.
  static Worker& mine() {
    static const pthread_key_t key = [] {
      pthread_key_t made;
      if (pthread_key_create(&made, [](void* w) { delete static_cast<Worker*>(w); })) throw std::bad_alloc();
      return made;
    }();
    auto* worker = static_cast<Worker*>(pthread_getspecific(key));
    if (!worker) pthread_setspecific(key, worker = new Worker);
    return *worker;
  }

 private:
  Local used_;
  uint64_t poisoned_for_ = ~uint64_t{0};
  bool first_ = true;
};

struct Barrier {
  const char* what = nullptr;
  Site site{};
  int threads = 0, sum = 0;
  std::vector<Thread*> waiting;
};

// A warp's function that some of its lanes have come to.
struct Meeting {
  const char* what;
  Site site;
  uint32_t mask, arrived;
};

struct Free {
  void operator()(unsigned char* p) const { std::free(p); }
};

}  // namespace

class Block {
 public:
  Block(const Start& start, uint64_t launch, uint64_t number, Worker& worker)
      : start_(start),
        index_{static_cast<unsigned>(number % start.grid.x),
               static_cast<unsigned>(number / start.grid.x % start.grid.y),
               static_cast<unsigned>(number / start.grid.x / start.grid.y)},
        count_(static_cast<int>(start.block.x * start.block.y * start.block.z)),
        alive_(count_),
        worker_(worker),
        threads_(worker.threads.data()),
        random_{philox(seed(), launch, number)},
        deep_(below(2) == 0),
        warps_(static_cast<size_t>((count_ + kWarp - 1) / kWarp)) {
    worker.poison(launch);
    if (start.shared_bytes > 0) {
      void* memory = nullptr;
      if (posix_memalign(&memory, 1024, start.shared_bytes)) throw std::bad_alloc();
      shared_.reset(static_cast<unsigned char*>(memory));
      std::memset(shared_.get(), 0xff, start.shared_bytes);
    }
    for (int i = 0; i < count_; ++i) {
      Thread& t = threads_[i];
      const auto n = static_cast<unsigned>(i);
      t.index = {n % start.block.x, n / start.block.x % start.block.y, n / start.block.x / start.block.y};
      t.number = i;
      t.block = this;
      t.ended = false;
      t.waits_in = nullptr;
      t.copies.clear();
      t.copy_group = 0;
      t.copies_begun = t.wrote_tile = t.hides_tile = false;
      t.products.clear();
      t.product_group = 0;
      t.products_begun = 0;
      // Tops of stacks differ in their place in a page, else all would want the same lines of the cache.
      const size_t shift = static_cast<size_t>(i) * 832 % 16384;
      prepare(t.fiber, worker.stacks + static_cast<size_t>(i) * kStack, kStack - shift, thread_main);
    }
    order_threads();
  }

  void run() {
    go_to(main_, next());
    current = nullptr;
    if (!failure_.empty()) {
      forget(worker_.stacks, kStack * kMostThreads);
      throw std::runtime_error("the kernel started at " + text_of(start_.site) + ", block " +
                               text_of(index_) + " of " + std::to_string(count_) + " threads: " + failure_);
    }
  }

  int barrier(const char* what, Site site, int id, int threads, bool predicate) {
    Thread& me = *current;
    if (id < 0 || id >= kBarriers) stop(what, site, "there are barriers 0 to 15");
    if (me.wrote_tile && !me.hides_tile) {
      me.hides_tile = true;
      ++hidden_;
    }
    Barrier& b = barriers_[static_cast<size_t>(id)];
    if (b.waiting.empty()) {
      b.what = what;
      b.site = site;
      b.threads = threads;
      b.sum = 0;
    } else if (!same(b.site, site) || b.threads != threads) {
      failure_ = "thread " + text_of(b.waiting[0]->index) + " in " + b.what + " at " + text_of(b.site) + "; ";
      stop(what, site, "other threads wait for the same barrier elsewhere");
    }
    b.waiting.push_back(&me);
    b.sum += predicate;
    me.waits_in = what;
    me.site = site;
    release_if_complete(b);
    wait(me);
    return me.result;
  }

  void collective(const char* what, Site site, uint32_t mask, const void* in, void* out, Complete complete) {
    Thread& me = *current;
    const int warp = me.number / kWarp, first = warp * kWarp, lane = me.number - first;
    if (!(mask >> lane & 1u)) stop(what, site, "the mask does not name the lane that calls");
    const uint32_t exist = count_ - first >= kWarp ? ~0u : (1u << (count_ - first)) - 1;
    me.waits_in = what;
    me.site = site;
    me.mask = mask;
    me.in = in;
    me.out = out;
    auto& meetings = warps_[static_cast<size_t>(warp)];
    auto m = std::find_if(meetings.begin(), meetings.end(), [&](const Meeting& other) {
      return other.mask == mask && same(other.site, site) && same(other.what, what);
    });
    if (m == meetings.end()) m = meetings.insert(m, {what, site, mask, 0});
    m->arrived |= 1u << lane;
    if (m->arrived == (mask & exist)) {
      const uint32_t all = m->arrived;
      meetings.erase(m);
      const void* ins[kWarp] = {};
      void* outs[kWarp] = {};
      Thread* lanes[kWarp];
      size_t n = 0;
      for (int l = 0; l < kWarp; ++l) {
        if (!(all >> l & 1u)) continue;
        ins[l] = threads_[first + l].in;
        outs[l] = threads_[first + l].out;
        lanes[n++] = &threads_[first + l];
      }
      complete(all, ins, outs);
      release(lanes, n);
    }
    wait(me);
  }

  void begin_copy(void* to, const void* from, int bytes, Site site) {
    Thread& me = *current;
    const auto aligned = [&](const void* p) {
      return reinterpret_cast<uintptr_t>(p) % static_cast<uintptr_t>(bytes) == 0;
    };
    if (!aligned(to) || !aligned(from)) stop("copy_async", site, "an address is not aligned");
    me.copies_begun = true;
    const Copy copy{to, from, bytes, me.copy_group};
    if (below(2)) {
      finish(copy);
    } else {
      me.copies.push_back(copy);
    }
  }
  static void finish(const Copy& copy) {
    if (copy.from) {
      std::memcpy(copy.to, copy.from, static_cast<size_t>(copy.bytes));
    } else {
      std::memset(copy.to, 0, static_cast<size_t>(copy.bytes));
    }
  }

  // Drawn from what all lanes of a warp have in common.
  bool is_late(const Thread& t) const {
    const auto warp = static_cast<uint64_t>(t.number / kWarp);
    return philox(random_.word[1], warp, t.products_begun).word[0] % 2 == 0;
  }

  void show_tiles(Thread& me) {
    if (me.hides_tile) --hidden_;
    me.wrote_tile = me.hides_tile = false;
  }
  bool hides_tiles() const { return hidden_ > 0; }

  // Leaves for good. Whoever comes here holds no memory that would have to be given back.
  void stop(const char* what, Site site, const char* why) {
    failure_ += "thread " + text_of(current->index) + " in " + what + " at " + text_of(site) + ": " + why;
    leave();
  }

  const Start& start() const { return start_; }
  const uint3& index() const { return index_; }
  unsigned char* shared() const { return shared_.get(); }

 private:
  static void thread_main() {
    Block& block = *current->block;
    block.start_.thread();
    block.end_thread();
    __builtin_trap();  // nobody comes back to a thread that has ended
  }

  // Warps in any order, and so the lanes of each.
  void order_threads() {
    const auto warps = static_cast<int>(warps_.size());
    std::vector<int> order(static_cast<size_t>(warps));
    for (int w = 0; w < warps; ++w) order[static_cast<size_t>(w)] = w;
    shuffle(order.data(), order.data() + warps);
    ready_.reserve(static_cast<size_t>(count_));
    for (const int w : order) {
      const auto before = ready_.size();
      for (int i = w * kWarp; i < std::min(count_, (w + 1) * kWarp); ++i) ready_.push_back(&threads_[i]);
      shuffle(ready_.data() + before, ready_.data() + ready_.size());
    }
  }
  // Uniform enough on 0 … n − 1: xorshift, quicker than Philox.
  uint32_t below(uint32_t n) {
    uint32_t& x = random_.word[0];
    x |= x == 0;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return static_cast<uint32_t>(uint64_t{x} * n >> 32);
  }
  template <class T>
  void shuffle(T* begin, T* end) {
    for (auto n = static_cast<uint32_t>(end - begin); n > 1; --n) std::swap(begin[n - 1], begin[below(n)]);
  }

  // The thread to run, which is then no longer ready; null if none is. In half of the blocks a warp that can
  // go on runs ahead of all others, in the other half everybody is as likely.
  Thread* next() {
    if (ready_.empty()) return nullptr;
    if (!deep_) std::swap(ready_[below(static_cast<uint32_t>(ready_.size()))], ready_.back());
    Thread* thread = ready_.back();
    ready_.pop_back();
    return thread;
  }
  void release(Thread* const* threads, size_t n) {
    for (size_t i = 0; i < n; ++i) threads[i]->waits_in = nullptr;
    ready_.insert(ready_.end(), threads, threads + n);
    shuffle(ready_.data() + ready_.size() - n, ready_.data() + ready_.size());
  }
  void release_if_complete(Barrier& b) {
    const auto arrived = static_cast<int>(b.waiting.size());
    if (arrived == 0 || arrived < (b.threads ? b.threads : alive_)) return;
    for (Thread* t : b.waiting) t->result = b.sum;
    release(b.waiting.data(), b.waiting.size());
    b.waiting.clear();
  }

  void go_to(Fiber& from, Thread* to) {
    current = to;
    switch_fiber(from, to->fiber);
  }
  void leave() {
    Fiber& from = current->fiber;
    switch_fiber(from, main_);
  }
  void wait(Thread& me) {
    Thread* to = next();
    if (to == &me) return;
    if (!to) stop_waiting();
    go_to(me.fiber, to);
  }
  void end_thread() {
    Thread& me = *current;
    me.ended = true;
    --alive_;
    release_if_complete(barriers_[0]);
    Thread* to = next();
    if (to) go_to(me.fiber, to);
    if (alive_ > 0) stop_waiting();
    leave();
  }

  void stop_waiting() {
    say_who_waits();
    leave();
  }
  void say_who_waits() {
    std::map<std::pair<std::string, std::string>, std::pair<int, uint3>> waits;
    for (int i = 0; i < count_; ++i) {
      const Thread& t = threads_[i];
      if (t.ended) continue;
      auto& [threads, first] = waits[{text_of(t.site), t.waits_in}];
      if (threads++ == 0) first = t.index;
    }
    failure_ = "nobody can go on;";
    for (const auto& [where, who] : waits) {
      failure_ += " " + std::to_string(who.first) + " threads wait in " + where.second + " at " +
                  where.first + ", the first is " + text_of(who.second) + ";";
    }
    failure_ += " " + std::to_string(count_ - alive_) + " threads have ended";
  }

  const Start& start_;
  const uint3 index_;
  const int count_;
  int alive_;
  Worker& worker_;
  Thread* threads_;
  PhiloxBlock random_;
  bool deep_;
  Fiber main_{};
  std::vector<Thread*> ready_;
  Barrier barriers_[kBarriers];
  int hidden_ = 0;  // threads that hide tiles
  std::vector<std::vector<Meeting>> warps_;
  std::unique_ptr<unsigned char, Free> shared_;
  std::string failure_;
};

void run(const Start& start) {
  const auto threads = uint64_t{start.block.x} * start.block.y * start.block.z;
  const uint64_t blocks = uint64_t{start.grid.x} * start.grid.y * start.grid.z;
  if (threads < 1 || threads > kMostThreads || blocks < 1 || start.grid.y > 65535 || start.grid.z > 65535 ||
      start.block.z > 64 || start.shared_bytes > kMostShared) {
    set_error(kInvalidConfiguration);
    return;
  }
  const uint64_t launch = launches++;
  std::atomic<bool> failed{false};
  parallel_tasks(static_cast<int64_t>(blocks), [&](int64_t i) {
    if (failed) return;
    try {
      const uint64_t number = permuted(static_cast<uint64_t>(i), blocks, seed(), launch);
      Block(start, launch, number, Worker::mine()).run();
    } catch (...) {
      failed = true;
      throw;
    }
  });
}

const uint3& block_index() { return current->block->index(); }
const dim3& block_size() { return current->block->start().block; }
const dim3& grid_size() { return current->block->start().grid; }
unsigned char* dynamic_shared_memory() { return current->block->shared(); }

int barrier(const char* what, Site site, int id, int threads, bool predicate) {
  return current->block->barrier(what, site, id, threads, predicate);
}
void collective(const char* what, Site site, uint32_t mask, const void* in, void* out, Complete complete) {
  current->block->collective(what, site, mask, in, out, complete);
}
void begin_copy(void* to, const void* from, int bytes, Site site) {
  current->block->begin_copy(to, from, bytes, site);
}
void commit_copies() { ++current->copy_group; }
void wait_for_copies(int groups_left) {
  current->wrote_tile |= current->copies_begun;
  current->copies_begun = groups_left > 0;
  auto& copies = current->copies;
  size_t done = 0;
  for (; done < copies.size() && copies[done].group < current->copy_group - groups_left; ++done) {
    Block::finish(copies[done]);
  }
  copies.erase(copies.begin(), copies.begin() + static_cast<std::ptrdiff_t>(done));
}
void wrote_tile() { current->wrote_tile = true; }
void show_tiles() { current->block->show_tiles(*current); }
void begin_product(const GroupProduct& product) {
  Thread& me = *current;
  if (me.block->hides_tiles()) stop("a tile was written and not shown to products", product.site);
  ++me.products_begun;
  if (me.products.empty() && !me.block->is_late(me)) return product.multiply(product);
  me.products.push_back(product);
  me.products.back().group = me.product_group;
}
void commit_products() { ++current->product_group; }
void wait_for_products(int groups_left) {
  Thread& me = *current;
  size_t done = 0;
  for (; done < me.products.size() && me.products[done].group < me.product_group - groups_left; ++done) {
    const GroupProduct product = me.products[done];
    product.multiply(product);
  }
  me.products.erase(me.products.begin(), me.products.begin() + static_cast<std::ptrdiff_t>(done));
}

void stop(const char* why, Site site) { current->block->stop("the kernel", site, why); }

void set_error(int error) { last_error = error; }
int take_error() { return last_error.exchange(0); }

namespace {
const bool registered = (
    current_cuda_stream = [] { return CudaStream{nullptr}; }, true);
}  // namespace

}  // namespace emulated
}  // namespace lra
