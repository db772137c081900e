// Unique ids: recognising our own, and making one from NCCL_COMM_ID without talking to anybody.
#ifndef MCCS_SHIM_UNIQUE_ID_ENV_H_
#define MCCS_SHIM_UNIQUE_ID_ENV_H_

#include <nccl.h>

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/unique_id.h"

namespace mccs::shim {

// The id that every process with NCCL_COMM_ID=`text` gets. `text` is "host:port" or
// "[IPv6 address]:port". The secret follows from the text, so it can be guessed, and the id says
// so; a host name stays one, because every host looks it up for itself. Errors: kInvalidArgument.
absl::StatusOr<wire::UniqueId> UniqueIdFromText(std::string_view text);

// Replaces the name of the meeting place, if it is one, by its address: the daemon looks no names
// up. All else stays, so that ranks meet although their hosts may know the name by different
// addresses. Blocks for as long as the resolver likes. Errors: kInvalidArgument with the name.
absl::Status LookUpMeetingPlace(wire::UniqueId& id);

// Opens an id that a framework carried to this rank. Errors: kInvalidArgument for one that this
// library did not make (the real NCCL's above all), kFailedPrecondition for a version we lack.
absl::StatusOr<wire::UniqueId> OpenUniqueId(const ncclUniqueId& id);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_UNIQUE_ID_ENV_H_
