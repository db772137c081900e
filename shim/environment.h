// The variables that this library honours, as values; variables.h lists all that it knows. Read
// when they matter, not at load: a child of the job that never calls NCCL never looks.
#ifndef MCCS_SHIM_ENVIRONMENT_H_
#define MCCS_SHIM_ENVIRONMENT_H_

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

// MCCS_FALLBACK: nccl (true) or error (false, and where it is unset). kInvalidArgument: another
// text, or one that asks for what cannot be.
absl::StatusOr<bool> FallbackAllowed();

// MCCS_INIT_TIMEOUT, in seconds ("30", "0.5"): how long init waits for ranks that do not join. 0:
// for ever, as NCCL does. Unset: likewise, but kFallbackInitTimeoutMs where MCCS_FALLBACK is nccl,
// because a rank that went the other way will never join. Errors: kInvalidArgument.
inline constexpr uint32_t kFallbackInitTimeoutMs = 60'000;
absl::StatusOr<uint32_t> InitTimeoutMs();

// MCCS_WARN_AFTER, in seconds: how long an operation may wait for ranks before the daemon names
// them. Unset and 0: the daemon's own time. Errors: kInvalidArgument.
absl::StatusOr<uint32_t> WarnAfterMs();

// MCCS_EXPORT_LEASE, in seconds: how long the daemon keeps memory mapped that nobody uses. 0: until
// it is freed where the library sees it. Unset: kExportLeaseMs. Errors: kInvalidArgument.
inline constexpr uint32_t kExportLeaseMs = 30'000;
absl::StatusOr<uint32_t> ExportLeaseMs();

// NCCL_CHECK_POINTERS=1: buffers must be on the communicator's device.
bool ChecksPointers();

// CUDA_LAUNCH_BLOCKING=1: a call returns when its streams have finished its work.
bool LaunchesBlock();

// MCCS_STREAM_WAIT: how a stream waits for the daemon. `kernel`, also where it is unset: one thread
// that watches the word, and leaves its hardware queue to others; `memop`: cuStreamWaitValue64,
// which takes nothing of the GPU but holds up what shares the stream's queue. Errors:
// kInvalidArgument.
enum class WaitsBy { kMemoryOperation, kKernel };
absl::StatusOr<WaitsBy> StreamsWaitBy();

// NCCL_COMM_ID ("host:port", "[address]:port"), where set and not empty.
std::optional<std::string> CommIdText();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_ENVIRONMENT_H_
