// Fence words: the tenant's streams and the daemon synchronize by them.
//
// A fence is one cache line in memory that both processes map. A stream writes or waits for its
// `value` (cuStreamWriteValue64, cuStreamWaitValue64 with GEQ); the daemon reads or writes it from
// the CPU. On a GPU a stream's wait does not sleep. On the emulation it may sleep on a futex;
// a nonzero `sleepers` then requires the writer to wake it.
//
// A region with such lines begins with a FencePageHeader. The emulation checks for its magic when
// the region is registered (cuMemHostRegister). It may access `sleepers` only inside such regions,
// because elsewhere the eight bytes after a word belong to the program.
#ifndef MCCS_PROTO_FENCE_PAGE_H_
#define MCCS_PROTO_FENCE_PAGE_H_

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace mccs::wire {

inline constexpr uint64_t kFencePageMagic = 0x314e4546'5343434dull;  // "MCCSFEN1"

// At offset 0 of a region with fence lines. Each line is at a multiple of 64 bytes from the start.
struct alignas(64) FencePageHeader {
  uint64_t magic;  // kFencePageMagic
  uint64_t bytes;  // length of the region
};
static_assert(sizeof(FencePageHeader) == 64);

//   0        8          12                               64
//   | value  | sleepers | unused                          |
struct alignas(64) FenceLine {
  std::atomic<uint64_t> value;
  std::atomic<uint32_t> sleepers;
};
static_assert(sizeof(FenceLine) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

// This value satisfies every wait "value >= target". It releases a stream whose work will never
// complete, when the program ends its communicator (abort, destroy, revoke).
// cuStreamWaitValue64's GEQ compares the signed difference, so the largest usable value is 2^63 - 1
// above any target; half of it is far from both. The low half, which is all that a futex compares,
// differs from every counter value: a stream that is about to sleep on counter 0 must not mistake
// the poison for it.
inline constexpr uint64_t kFencePoison = (uint64_t{1} << 62) + 0xffffffff;

// Call it after a change of the value. The change and this load of `sleepers` are sequentially
// consistent; they pair with the sleeper's increment of `sleepers` and its second read of `value`
// (emulation). Either the sleeper sees the value or this function sees the sleeper.
inline void WakeSleepers(FenceLine& line) {
  if (line.sleepers.load(std::memory_order_seq_cst) != 0) {
    // The futex is the low half of the value; shared with another process, so not PRIVATE.
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&line.value), FUTEX_WAKE, INT_MAX, nullptr,
            nullptr, 0);
  }
}

// The kernel by which a stream may wait if cuStreamWaitValue64 would block a hardware queue that
// other streams need. One thread, parameters (const uint64_t* value, uint64_t target); it ends when
// the value has reached the target by GEQ. The emulation recognizes this name: it uses no thread,
// and sleeps on the fence as for the stream's own wait.
inline constexpr char kAwaitFenceKernel[] = "mccs_await_fence";

// The kernel that runs commands of the daemon (kernels/commands.h), in the image that HelloReply
// brings. Parameters: CommandQueue* queue, BlockWords* words, const uint64_t* done, uint64_t target.
// It ends when `done` has reached the target by GEQ. It runs in any number of blocks of up to 512
// threads. All of this belongs to the wire version: a shim launches the kernel of any daemon of that
// version. The emulation recognizes this name, too.
inline constexpr char kRunCommandsKernel[] = "mccs_run_commands";

// Publishes `value` and wakes the streams that sleep on it. ENSURES: everything written before is
// visible to a reader of the value.
inline void SignalFence(FenceLine& line, uint64_t value) {
  line.value.store(value, std::memory_order_seq_cst);
  WakeSleepers(line);
}

// The same for a counter that has only one writer; does not overwrite the poison.
inline void AdvanceFence(FenceLine& line, uint64_t value) {
  uint64_t before = line.value.load(std::memory_order_relaxed);
  if (before != kFencePoison) {
    line.value.compare_exchange_strong(before, value, std::memory_order_seq_cst);
  }
  WakeSleepers(line);
}

// The same, setting bits of the value; does not clear the poison.
inline void RaiseFence(FenceLine& line, uint64_t bits) {
  line.value.fetch_or(bits, std::memory_order_seq_cst);
  WakeSleepers(line);
}

}  // namespace mccs::wire

#endif  // MCCS_PROTO_FENCE_PAGE_H_
