// The kernel wire::kAwaitFenceKernel: one thread that watches a word until the daemon has advanced it.
//
// It takes one warp's place on one multiprocessor. While it runs its stream waits, and nobody else:
// the hardware queue that it came through goes on with what other streams have enqueued.

#include <cstdint>

namespace {

// Each look crosses the bus to host memory, about a microsecond; a look more often would only take
// the bus from others.
constexpr unsigned kBetweenLooksNs = 200;

// Acquire, for the whole system: what the daemon wrote before the word is visible to what the stream
// does next.
__device__ uint64_t Load(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

}  // namespace

extern "C" __global__ void mccs_await_fence(const uint64_t* word, uint64_t target) {
  while (static_cast<int64_t>(Load(word) - target) < 0) __nanosleep(kBetweenLooksNs);
}
