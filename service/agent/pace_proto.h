// Pace from its message (proto/agent.proto).
#ifndef MCCS_SERVICE_AGENT_PACE_PROTO_H_
#define MCCS_SERVICE_AGENT_PACE_PROTO_H_

#include "absl/status/statusor.h"
#include "proto/agent.pb.h"
#include "service/pacing/pace.h"

namespace mccs {

// Lanes that one message names at most.
inline constexpr int kMaxPacedLanes = 65536;

// kInvalidArgument: lanes that cannot be or are named twice, a class that there is not, windows that
// never open.
absl::StatusOr<Pace> PaceFromProto(const agent::Pace& message);

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_PACE_PROTO_H_
