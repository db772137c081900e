// Unique ids: validates ours, and derives one from NCCL_COMM_ID without communication.
#ifndef MCCS_SHIM_DAEMON_UNIQUE_ID_ENV_H_
#define MCCS_SHIM_DAEMON_UNIQUE_ID_ENV_H_

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/unique_id.h"

namespace mccs::shim {

// The id of every process with NCCL_COMM_ID=`text`. `text` is "host:port" or "[IPv6 address]:port".
// The secret is derived from the text, so it can be guessed, and the id is marked so. A host name
// stays a name, because every host looks it up itself. Errors: kInvalidArgument.
absl::StatusOr<wire::UniqueId> UniqueIdFromCommId(std::string_view text);

// Replaces a host name of the rendezvous by its address, because the daemon does not resolve names.
// All else stays, so that all ranks find the same rendezvous although their hosts may resolve the
// name to different addresses. Blocks as long as the resolver does. Errors: kInvalidArgument with
// the name.
absl::Status ResolveRendezvous(wire::UniqueId& id);

// Opens an id that a framework passed to this rank. Errors: kInvalidArgument if this library did
// not make it (for example the real NCCL's), kFailedPrecondition for an unsupported version.
absl::StatusOr<wire::UniqueId> OpenUniqueId(const ncclUniqueId& id);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_UNIQUE_ID_ENV_H_
