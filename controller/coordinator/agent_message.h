// A message of an agent, with the checks that need no state of the controller. They take
// milliseconds for a large communicator, so gRPC's threads make it before they take the
// coordinator's mutex.
#ifndef MCCS_CONTROLLER_COORDINATOR_AGENT_MESSAGE_H_
#define MCCS_CONTROLLER_COORDINATOR_AGENT_MESSAGE_H_

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "controller/coordinator/registration.h"
#include "controller/state/registry.h"
#include "proto/agent.pb.h"

namespace mccs {

struct AgentMessage {
  AgentMessage(agent::v1::FromAgent message)  // implicit: each message is checked
      : body(std::move(message)), refused(CheckHostSize(body.registration())) {
    if (refused.ok()) valid = Check(body);
  }

  agent::v1::FromAgent body;
  // An error: nothing of a registration may be stored or logged, since it is too large, or its
  // sender has not proven that it is this host.
  absl::Status refused;
  // As CheckAnnounce, of the communicators that the agent announces, and CheckSurveySize.
  absl::Status valid;

 private:
  static absl::Status Check(const agent::v1::FromAgent& body) {
    if (body.has_announce()) return CheckAnnounce(body.announce());
    if (body.has_gpu_survey()) return CheckSurveySize(body.gpu_survey());
    const auto& led = body.registration().communicators();
    // Registry::Register takes no more.
    const int checked = std::min(led.size(), static_cast<int>(HostStorage::kMaxLed));
    for (int i = 0; i < checked; ++i) MCCS_RETURN_IF_ERROR(CheckAnnounce(led[i]));
    return absl::OkStatus();
  }
};

}  // namespace mccs

#endif  // MCCS_CONTROLLER_COORDINATOR_AGENT_MESSAGE_H_
