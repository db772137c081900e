// The messages by which a rank asks its daemon for a communicator.
#ifndef MCCS_SHIM_DAEMON_JOIN_MESSAGE_H_
#define MCCS_SHIM_DAEMON_JOIN_MESSAGE_H_

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/shim_control.h"
#include "proto/unique_id.h"
#include "shim/config/comm_config.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// Errors: kInvalidArgument for an invalid MCCS_INIT_TIMEOUT.
absl::StatusOr<wire::CommOptions> MakeCommOptions(const CommConfig& config);

struct Membership {
  wire::UniqueId id;
  int32_t ranks;
  Rank rank;
};
// Also reads NCCL_MULTI_RANK_GPU_ENABLE. Errors: as above, and CUDA's.
absl::StatusOr<wire::CommInit> MakeCommInit(const DriverApi& driver, const Membership& member,
                                            const DeviceBinding& device, const CommConfig& config);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_JOIN_MESSAGE_H_
