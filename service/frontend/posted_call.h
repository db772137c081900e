// Checks a tenant's work record and resolves it against the memory that the tenant registered.
// Records come from the work ring and from captured groups.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_POSTED_CALL_H_
#define MCCS_SERVICE_FRONTEND_POSTED_CALL_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "service/communicator/links/rank_port.h"
#include "service/frontend/buffer_registry.h"

namespace mccs {

// Sends and receives of one rank in one group: enough for an all-to-all of 65,536 ranks.
inline constexpr size_t kMaxGroupMessages = size_t{1} << 17;

// The rank that made the call.
struct CallingRank {
  Rank rank;
  int ranks = 0;  // of the communicator; 0: not known yet
};

struct ResolvedCollective : PostedOperation {
  BufferHold input_hold, output_hold, scalar_hold;
};

struct ResolvedMessage : PostedMessage {
  BufferHold hold;
  bool captured = false;  // of a captured group
};

// kInvalidArgument: the record is not a valid call, independent of memory. REQUIRES: a kOperation
// record.
absl::Status CheckCall(const wire::WorkRecord& record, const CallingRank& caller);

// REQUIRES: CheckCall returned OK. Errors: see BufferRegistry::Resolve.
absl::StatusOr<ResolvedCollective> ResolveCollective(const wire::WorkRecord& record,
                                                     const CallingRank& caller,
                                                     const BufferRegistry& buffers);
absl::StatusOr<ResolvedMessage> ResolveMessage(const wire::WorkRecord& record,
                                               const BufferRegistry& buffers);

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_POSTED_CALL_H_
