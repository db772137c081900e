// Whether a strategy that a daemon tells, or that the store kept, may be that of a communicator.
// Policies take it for granted that its rings go once around its hosts. Pure.
#ifndef MCCS_CONTROLLER_RING_CHECK_H_
#define MCCS_CONTROLLER_RING_CHECK_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>

#include "absl/status/status.h"
#include "proto/strategy.pb.h"

namespace mccs {

// kInvalidArgument: there are no hosts, or one is named twice; no channel, or a ring that is no
// permutation of the hosts' positions.
absl::Status CheckRings(const google::protobuf::RepeatedPtrField<std::string>& hosts,
                        const strategy::Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_RING_CHECK_H_
