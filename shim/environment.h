// The environment variables that this library honours. Read when they matter, not at load: a child
// of the job that never calls NCCL never looks.
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

// MCCS_INIT_TIMEOUT, in seconds ("30", "0.5"): how long init waits for ranks that do not join. 0
// and unset: for ever, as NCCL does. Errors: kInvalidArgument.
absl::StatusOr<uint32_t> InitTimeoutMs();

// NCCL_COMM_ID ("host:port", "[address]:port"), where set and not empty.
std::optional<std::string> CommIdText();

}  // namespace mccs::shim

#endif  // MCCS_SHIM_ENVIRONMENT_H_
