// Whom the controller lets register. Pure.
#ifndef MCCS_CONTROLLER_REGISTRATION_H_
#define MCCS_CONTROLLER_REGISTRATION_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/wall_clock.h"
#include "controller/objects/object_set.h"
#include "proto/agent.pb.h"

namespace mccs {

// The version of agent.proto that this controller speaks; agents of another one are refused.
inline constexpr uint32_t kAgentProtocol = 1;

// How far a host's time of day may be off from the controller's. More than a registration can be
// on its way: an agent gives a stream up on which it has heard nothing for 5 seconds.
inline constexpr int64_t kClockToleranceNs = 10 * kNsPerSec;

// kFailedPrecondition: another protocol; a time of day that is further off than kClockToleranceNs
// from `now` (absent: clocks are not compared); a Topology's name as CheckTopologyName. The text is
// for whoever looks after the host.
absl::Status CheckRegistration(const agent::Register& registration, const ObjectSet& objects,
                               std::optional<UnixNs> now, const std::string& version);

// Whether `host` may say that it stands in the Topology `name`; empty: it says nothing.
// kFailedPrecondition: there is no such Topology, or it has no such host.
absl::Status CheckTopologyName(const std::string& host, const std::string& name,
                               const ObjectSet& objects);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_REGISTRATION_H_
