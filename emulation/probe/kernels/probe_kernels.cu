// The probe's kernels for GPUs (bodies.h).

#include "emulation/probe/kernels/bodies.h"

namespace mccs::probe {
namespace {

struct Gpu {
  __device__ static uint64_t Load(const uint64_t* word) {
    uint64_t value;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
  }
  __device__ static void Store(uint64_t* word, uint64_t value) {
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
  }
  __device__ static void Pause(uint64_t ns) {
    if (ns != 0) __nanosleep(static_cast<unsigned>(ns));
  }
  __device__ static uint64_t NowNs() {
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns)::"memory");
    return ns;
  }
  __device__ static unsigned Thread() { return threadIdx.x; }
  __device__ static unsigned Threads() { return blockDim.x; }
  __device__ static unsigned Block() { return blockIdx.x; }
  __device__ static unsigned Blocks() { return gridDim.x; }
  __device__ static void Barrier() { __syncthreads(); }
  // Of all threads of the block; barriers, too.
  __device__ static bool Any(bool value) { return __syncthreads_or(value) != 0; }
  __device__ static unsigned Count(bool value) {
    return static_cast<unsigned>(__syncthreads_count(value));
  }
};

}  // namespace
}  // namespace mccs::probe

using mccs::probe::Gpu;

extern "C" {

__global__ void probe_spin(const uint64_t* word, uint64_t target, uint64_t* started,
                           uint64_t* heartbeat) {
  mccs::probe::Spin<Gpu>(word, target, started, heartbeat);
}

__global__ void probe_copy(const uint64_t* counter, const uint64_t* from, uint64_t* to,
                           uint64_t words, uint64_t* done, uint64_t rounds, uint64_t* errors) {
  mccs::probe::Copy<Gpu>(counter, from, to, words, done, rounds, errors);
}

__global__ void probe_echo(const uint64_t* command, uint64_t* reply, uint64_t rounds,
                           uint64_t pause_ns) {
  mccs::probe::Echo<Gpu>(command, reply, rounds, pause_ns);
}

__global__ void probe_meet(uint64_t* arrived, uint64_t* reported, const uint64_t* stop,
                           uint64_t first_block, uint64_t blocks) {
  mccs::probe::Meet<Gpu>(arrived, reported, stop, first_block, blocks);
}

__global__ void probe_step(uint64_t* replays, const uint64_t* command, uint64_t* done) {
  mccs::probe::Step<Gpu>(replays, command, done);
}

__global__ void probe_mark(uint64_t* word, uint64_t value) { mccs::probe::Mark<Gpu>(word, value); }

__global__ void probe_work(uint64_t steps, uint64_t* result) {
  mccs::probe::Work<Gpu>(steps, result);
}

__global__ void probe_pauses(uint64_t duration_ns, uint64_t* longest, uint64_t* count,
                             uint64_t* sum) {
  mccs::probe::Pauses<Gpu>(duration_ns, longest, count, sum);
}

__global__ void probe_stream(const mccs::probe::Unit* from, mccs::probe::Unit* to, uint64_t units) {
  mccs::probe::Stream<Gpu>(from, to, units);
}

__global__ void probe_empty() {}
__global__ void probe_empty_64(mccs::probe::ArgumentBytes<64>) {}
__global__ void probe_empty_4000(mccs::probe::ArgumentBytes<4000>) {}

}  // extern "C"
