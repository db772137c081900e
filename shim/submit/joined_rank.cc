#include "shim/submit/joined_rank.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "base/shared_region.h"
#include "base/status_macros.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

JoinedRank::JoinedRank(const wire::CommInitReply& joined)
    : id(joined.comm_id),
      handle(joined.comm_handle),
      role(joined.role),
      stages_collectives(joined.stages_collectives != 0),
      on_host(joined.on_host,
              joined.on_host + std::min<size_t>(joined.local_ranks, std::size(joined.on_host))) {}

bool JoinedRank::CopiesMessagesWith(int peer) const {
  return role == wire::KernelRole::kRunsPlans && !stages_collectives &&
         std::binary_search(on_host.begin(), on_host.end(), peer);
}

absl::StatusOr<std::unique_ptr<FencePage>> OpenRegions(Session& session,
                                                       const DeviceBinding& device,
                                                       const JoinedRank& joined, Reply reply) {
  if (joined.handle >= wire::kMaxCommsPerSession || !reply.fds[0].valid())
    return absl::InternalError("invalid reply of the daemon to CommInit: no handle or no region");
  MCCS_ASSIGN_OR_RETURN(SharedRegion region, SharedRegion::Map(std::move(reply.fds[0])));
  const ScopedContext context(session.driver, device.context);
  const RelaxedCapture relaxed(session.driver);
  MCCS_RETURN_IF_ERROR(session.WaitFor(joined.role).Prepare());
  SharedRegion kernels;
  BlockWordsLease block_words;
  if (joined.role == wire::KernelRole::kRunsPlans) {
    MCCS_RETURN_IF_ERROR(session.PrepareKernels());
    if (!reply.fds[1].valid())
      return absl::InternalError("invalid reply of the daemon to CommInit: no region of kernels");
    MCCS_ASSIGN_OR_RETURN(kernels, SharedRegion::Map(std::move(reply.fds[1])));
    MCCS_ASSIGN_OR_RETURN(block_words, BlockWordsLease::Of(session.block_words, device.context));
  }
  return FencePage::Open(session.driver, std::move(region), std::move(kernels),
                         std::move(block_words));
}

}  // namespace mccs::shim
