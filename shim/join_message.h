// What a rank tells its daemon when it asks for a communicator.
#ifndef MCCS_SHIM_JOIN_MESSAGE_H_
#define MCCS_SHIM_JOIN_MESSAGE_H_

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "proto/shim_control.h"
#include "proto/unique_id.h"
#include "shim/comm_config.h"
#include "shim/driver_api.h"

namespace mccs::shim {

// Errors: kInvalidArgument for an MCCS_INIT_TIMEOUT that is no time.
absl::StatusOr<wire::CommOptions> MakeCommOptions(const CommConfig& config);

struct Membership {
  wire::UniqueId id;
  int32_t ranks;
  Rank rank;
};
// Reads NCCL_MULTI_RANK_GPU_ENABLE besides. Errors: as above, and CUDA's.
absl::StatusOr<wire::CommInit> MakeCommInit(const DriverApi& driver, const Membership& member,
                                            const DeviceBinding& device, const CommConfig& config);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_JOIN_MESSAGE_H_
