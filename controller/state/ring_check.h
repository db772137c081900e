// Validates strategies from a daemon or from the store. Policies rely on rings that visit each host
// exactly once. Pure.
#ifndef MCCS_CONTROLLER_STATE_RING_CHECK_H_
#define MCCS_CONTROLLER_STATE_RING_CHECK_H_

#include <google/protobuf/repeated_ptr_field.h>

#include <string>

#include "absl/status/status.h"
#include "proto/strategy.pb.h"

namespace mccs {

// kInvalidArgument: no hosts, a duplicate host, no channel, or a ring that is not a permutation of
// the hosts' positions.
absl::Status CheckRings(const google::protobuf::RepeatedPtrField<std::string>& hosts,
                        const strategy::Strategy& strategy);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_RING_CHECK_H_
