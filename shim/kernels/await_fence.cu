// The kernel wire::kAwaitFenceKernel: one thread that polls a word until the daemon has advanced it.
//
// It occupies one warp of one multiprocessor. While it runs, only its own stream waits: the hardware
// queue continues with the work of other streams.

#include <cstdint>

namespace {

// Each poll crosses the bus to host memory, in about a microsecond; more frequent polls would only
// use bus bandwidth.
constexpr unsigned kPollIntervalNs = 200;

// Acquire, for the whole system: the daemon's writes before the word are visible to the stream's next
// work.
__device__ uint64_t Load(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

}  // namespace

extern "C" __global__ void mccs_await_fence(const uint64_t* word, uint64_t target) {
  while (static_cast<int64_t>(Load(word) - target) < 0) __nanosleep(kPollIntervalNs);
}
