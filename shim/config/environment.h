// The values of the variables that this library honours; variables.h lists all known variables.
// Read when needed, not at load: a child process that never calls NCCL never reads them.
#ifndef MCCS_SHIM_CONFIG_ENVIRONMENT_H_
#define MCCS_SHIM_CONFIG_ENVIRONMENT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace mccs::shim {

inline constexpr char kDefaultSocket[] = "/run/mccs/mccsd.sock";

// MCCS_SOCKET, else kDefaultSocket.
std::string SocketPath();

// NCCL_COMM_BLOCKING: overrides config.blocking where it is 0 or 1.
std::optional<bool> BlockingOverride();

// NCCL_MULTI_RANK_GPU_ENABLE=1: several ranks may share one GPU.
bool MultiRankGpuAllowed();

// MCCS_FALLBACK: nccl (true) or error (false; the default). kInvalidArgument: any other value, or a
// combination that is not supported.
absl::StatusOr<bool> FallbackAllowed();

// MCCS_INIT_TIMEOUT, in seconds ("30", "0.5"): how long init waits for missing ranks. 0: without
// limit, as NCCL does. Unset: also without limit, but kFallbackInitTimeoutMs if MCCS_FALLBACK is
// nccl, because a rank that uses the real library never joins. Errors: kInvalidArgument.
inline constexpr uint32_t kFallbackInitTimeoutMs = 60'000;
absl::StatusOr<uint32_t> InitTimeoutMs();

// MCCS_WARN_AFTER, in seconds: how long an operation may wait for ranks before the daemon logs
// them. Unset or 0: the daemon's own setting. Errors: kInvalidArgument.
absl::StatusOr<uint32_t> WarnAfterMs();

// MCCS_EXPORT_LEASE, in seconds: how long the daemon keeps unused memory mapped. 0: until a free
// that the library sees. Unset: kExportLeaseMs. Errors: kInvalidArgument.
inline constexpr uint32_t kExportLeaseMs = 30'000;
absl::StatusOr<uint32_t> ExportLeaseMs();

// NCCL_CHECK_POINTERS=1: buffers must be on the communicator's device.
bool CheckPointers();

// CUDA_LAUNCH_BLOCKING=1: a call returns when its streams have completed its work.
bool LaunchBlocking();

// MCCS_STREAM_WAIT: how a stream waits for the daemon. `kernel` (the default): one GPU thread polls
// the word, and the hardware queue serves other streams. `memop`: cuStreamWaitValue64, which uses
// no GPU thread but blocks the streams that share the hardware queue. Errors: kInvalidArgument.
enum class WaitMethod { kMemoryOperation, kKernel };
absl::StatusOr<WaitMethod> StreamWaitMethod();

// NCCL_COMM_ID ("host:port", "[address]:port"), where set and not empty.
std::optional<std::string> CommIdText();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_ENVIRONMENT_H_
