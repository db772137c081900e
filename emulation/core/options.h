// What the environment says about the emulated machine. Read once, at the process's first CUDA
// call.
#ifndef MCCS_EMULATION_CORE_OPTIONS_H_
#define MCCS_EMULATION_CORE_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace mccs::emulation {

inline constexpr int kMaxGpus = 64;
inline constexpr int kMaxConnections = 1024;

struct Options {
  std::string host;  // MCCS_EMULATED_HOST, else the host's name
  int gpus = 8;      // MCCS_EMULATED_GPUS
  // MCCS_EMULATED_MEMORY, such as 80G or 512M: what each GPU has for this process; an allocation
  // beyond it is out of memory (memory_account.h says what counts).
  uint64_t memory_bytes = 80ull << 30;
  // Hardware queues per GPU: MCCS_EMULATED_CONNECTIONS, else CUDA_DEVICE_MAX_CONNECTIONS from 1 to
  // 32 as on a GPU, else a GPU's default.
  int connections = 8;
  std::string kernels;                         // MCCS_EMULATION_KERNELS
  std::optional<std::string> visible_devices;  // CUDA_VISIBLE_DEVICES; unset means all
};

// Reads the environment. A variable that cannot be understood is named on stderr and leaves the
// result empty: a machine other than the one that was asked for would hide the mistake.
std::optional<Options> ReadOptions();

// "80G", "512M", "4096": bytes, with K, M, G or T for powers of 1024. Empty where malformed.
std::optional<uint64_t> ParseBytes(const std::string& text);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_OPTIONS_H_
