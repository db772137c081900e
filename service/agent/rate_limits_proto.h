// Converts RateLimits from its protobuf message (proto/agent.proto).
#ifndef MCCS_SERVICE_AGENT_RATE_LIMITS_PROTO_H_
#define MCCS_SERVICE_AGENT_RATE_LIMITS_PROTO_H_

#include "absl/status/statusor.h"
#include "proto/agent.pb.h"
#include "service/pacing/rate_limits.h"

namespace mccs {

// Maximum number of lanes in one message.
inline constexpr int kMaxRateLimitedLanes = 65536;

// kInvalidArgument: invalid or duplicate lanes, an unknown class, or send windows that never open.
absl::StatusOr<RateLimits> RateLimitsFromProto(const agent::v1::RateLimits& message);

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_RATE_LIMITS_PROTO_H_
