// Converts flows to probe, and the results, from and to protobuf messages (proto/agent.proto).
#ifndef MCCS_SERVICE_AGENT_PROBE_PROTO_H_
#define MCCS_SERVICE_AGENT_PROBE_PROTO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/agent.pb.h"
#include "service/probe/path_prober.h"

namespace mccs {

// kInvalidArgument: an invalid flow, or too many flows.
absl::StatusOr<std::vector<ProbeTask>> ProbeTasksFromProto(const agent::v1::Probe& message);
agent::v1::Probed ToMessage(uint64_t request_id, const std::vector<ProbeOutcome>& outcomes);
// A result that has error `why` for each flow.
agent::v1::Probed ProbeError(const agent::v1::Probe& message, const std::string& why);

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_PROBE_PROTO_H_
