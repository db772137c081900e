// The configuration of the emulated machine, from the environment. Read once, at the process's
// first CUDA call.
#ifndef MCCS_EMULATION_CORE_OPTIONS_H_
#define MCCS_EMULATION_CORE_OPTIONS_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace mccs::emulation {

inline constexpr int kMaxGpus = 64;
inline constexpr int kMaxConnections = 1024;

// A GPU that fails: from one launch of a kernel on, all calls for it return `error`. Or only this
// launch fails.
struct GpuFault {
  int device = 0;    // CUDA's ordinal in this process
  int launches = 0;  // that succeed before
  int error = 0;     // a CUresult
};

// State that only NVML reports: the emulated CUDA works as without.
struct NvmlState {
  bool all_have_mig = false;
  std::set<int> with_mig;  // ordinals in the host
  int compute_mode = 0;    // an nvmlComputeMode_t, of all GPUs
  bool hangs = false;      // as with a GPU that is lost: nvmlInit never returns

  bool HasMig(int gpu) const { return all_have_mig || with_mig.contains(gpu); }
};

// Which GPUs can use each other's memory.
struct PeerPairs {
  bool all = true;
  std::set<std::pair<int, int>> pairs;  // else: ordinals in the host, the smaller one first

  // A GPU always reaches its own memory.
  bool Reaches(int one, int other) const {
    return all || one == other || pairs.contains(std::minmax(one, other));
  }
};

struct Options {
  std::string host;  // MCCS_EMULATED_HOST, default: the host's name
  int gpus = 8;      // MCCS_EMULATED_GPUS
  // MCCS_EMULATED_MEMORY, such as 80G or 512M: memory of each GPU for this process. Allocations
  // beyond it fail with "out of memory" (memory_account.h defines what counts).
  uint64_t memory_bytes = 80ull << 30;
  // Hardware queues per GPU and priority: MCCS_EMULATED_CONNECTIONS, else
  // CUDA_DEVICE_MAX_CONNECTIONS from 1 to 32 as on a GPU, else a GPU's default.
  int connections = 8;
  std::optional<GpuFault> fault;         // MCCS_EMULATED_FAULT, DEVICE:LAUNCHES:ERROR
  std::optional<GpuFault> launch_fault;  // MCCS_EMULATED_LAUNCH_FAULT: of one launch, likewise
  // MCCS_EMULATED_PEER_ACCESS: "all", "none", or the pairs that have it, such as "0-1,2-3".
  PeerPairs peers;
  // MCCS_EMULATED_MIG: "all", "none" or ordinals such as "0,2". MCCS_EMULATED_COMPUTE_MODE:
  // "default", "exclusive_process" or "prohibited". MCCS_EMULATED_NVML: "works" or "hangs".
  NvmlState nvml;
  int dma_bufs = 1;                            // MCCS_EMULATED_DMA_BUFS, 0: GPUs have none
  std::string kernels;                         // MCCS_EMULATION_KERNELS
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES; unset means all
};

// Reads the environment. If a variable is invalid, reports it on stderr and returns empty, because
// a machine that differs from the requested one would hide the mistake.
std::optional<Options> ReadOptions();

// Parses a value of MCCS_EMULATED_PEER_ACCESS. Empty if malformed.
std::optional<PeerPairs> ParsePeerPairs(const std::string& text);

// Parses "80G", "512M", "4096" as bytes, with K, M, G or T for powers of 1024. Empty if malformed.
std::optional<uint64_t> ParseBytes(const std::string& text);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_OPTIONS_H_
