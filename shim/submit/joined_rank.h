// A rank that has joined a communicator: the daemon's reply, and the memory that it shares with
// the daemon.
#ifndef MCCS_SHIM_SUBMIT_JOINED_RANK_H_
#define MCCS_SHIM_SUBMIT_JOINED_RANK_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/shim_control.h"
#include "shim/buffers/buffer_export.h"
#include "shim/daemon/daemon_client.h"
#include "shim/daemon/fence.h"
#include "shim/submit/session.h"

namespace mccs::shim {

struct JoinedRank {
  explicit JoinedRank(const wire::CommInitReply& joined);

  // Whether kernels of this rank copy messages to or from this rank.
  bool CopiesMessagesWith(int peer) const;

  uint64_t id = 0;      // the daemons' id of the communicator
  uint32_t handle = 0;  // this daemon's
  wire::KernelRole role = wire::KernelRole::kNone;
  // Collectives use staging memory: processes of this host cannot map each other's memory.
  bool stages_collectives = false;
  std::vector<int32_t> on_host;  // ranks, in ascending order
};

// Maps and registers the regions of the reply, and loads the kernels that the rank's role needs.
// kInternal: the reply lacks one. Makes the context current meanwhile. THREAD: any.
absl::StatusOr<std::unique_ptr<FencePage>> OpenRegions(Session& session,
                                                       const DeviceBinding& device,
                                                       const JoinedRank& joined, Reply reply);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_JOINED_RANK_H_
