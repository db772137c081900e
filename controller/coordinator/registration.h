// The answer to an agent's registration: an error, or the Tenants that its daemon enforces.
// Pure.
#ifndef MCCS_CONTROLLER_COORDINATOR_REGISTRATION_H_
#define MCCS_CONTROLLER_COORDINATOR_REGISTRATION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "controller/objects/object.h"
#include "proto/agent.pb.h"

namespace mccs {

// Version of agent.proto; agents with another version are rejected.
inline constexpr uint32_t kAgentProtocol = 1;

// Maximal difference between a host's time of day and the controller's. Longer than a registration
// can take: an agent closes a stream without messages after 5 seconds.
inline constexpr int64_t kClockToleranceNs = 10 * kNsPerSec;

// Limits of what the controller stores of a rejected or registered host, in bytes: of each name and
// address, and of agent.v1.Host without its communicators. A real host has some KiB.
inline constexpr size_t kLongestHostField = 256;
inline constexpr size_t kLargestHost = 1 << 20;

// kInvalidArgument: a field is longer than the limits above. The message has none of its text.
absl::Status CheckHostSize(const agent::v1::Register& registration);
// Likewise for a survey that replaces that of agent.v1.Host; it may be as large as the host.
absl::Status CheckSurveySize(const agent::v1::GpuSurvey& survey);

// kFailedPrecondition: another protocol version; a time of day that differs from `now` by more than
// kClockToleranceNs (`now` absent: not checked); or a Topology name as in CheckTopologyName. The
// message is for the host's administrator.
absl::Status CheckRegistration(const agent::v1::Register& registration, const ObjectSet& objects,
                               std::optional<UnixNs> now, const std::string& version);

// Whether `host` may name the Topology `name`; empty: it names none. kFailedPrecondition: no such
// Topology, or it does not have the host.
absl::Status CheckTopologyName(const std::string& host, const std::string& name,
                               const ObjectSet& objects);

// How processes map to Tenants, and the Tenants' quotas. Sorted by name; equal for objects with
// equal meaning.
agent::v1::Tenants TenantsOf(const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_REGISTRATION_H_
