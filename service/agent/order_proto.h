// Converts the controller's orders, and the results of probes, from and to protobuf messages
// (proto/agent.proto).
#ifndef MCCS_SERVICE_AGENT_ORDER_PROTO_H_
#define MCCS_SERVICE_AGENT_ORDER_PROTO_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/agent.pb.h"
#include "service/communicator/links/controller_link.h"
#include "service/pacing/rate_limits.h"
#include "service/probe/path_prober.h"
#include "service/tenant_ledger.h"

namespace mccs {

std::vector<TenantEntry> TenantsFromProto(const agent::v1::Tenants& message);

// Maximum number of lanes in one message.
inline constexpr int kMaxRateLimitedLanes = 65536;

// kInvalidArgument: invalid or duplicate lanes, an unknown class, or send windows that never open.
absl::StatusOr<RateLimits> RateLimitsFromProto(const agent::v1::RateLimits& message);

TraceOrder TraceOrderFromProto(const agent::v1::Trace& message);

// The interval of periodic reports that `message` sets; nothing: it sets none.
std::optional<int64_t> ReportIntervalFromProto(const agent::v1::ToAgent& message);

// kInvalidArgument: an invalid flow, or too many flows.
absl::StatusOr<std::vector<ProbeTask>> ProbeTasksFromProto(const agent::v1::Probe& message);
agent::v1::Probed ToMessage(uint64_t request_id, const std::vector<ProbeOutcome>& outcomes);
// A result that has error `why` for each flow.
agent::v1::Probed ProbeError(const agent::v1::Probe& message, const std::string& why);

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_ORDER_PROTO_H_
