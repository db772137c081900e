#include "service/agent/probe_proto.h"

#include <limits>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

absl::StatusOr<ProbeTask> TaskFromProto(const agent::v1::ProbeFlow& flow) {
  const std::optional<uint32_t> source = ParseIpv4(flow.source());
  const std::optional<uint32_t> destination = ParseIpv4(flow.destination());
  if (!source || !destination) {
    return absl::InvalidArgumentError(absl::StrCat("invalid flow: from '", flow.source(), "' to '",
                                                   flow.destination(),
                                                   "': expected two IPv4 addresses"));
  }
  if (flow.protocol() != kProtocolTcp && flow.protocol() != kProtocolUdp) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid flow: protocol ", flow.protocol(), ": expected TCP or UDP"));
  }
  constexpr uint32_t kMaxPort = std::numeric_limits<uint16_t>::max();
  for (const uint32_t port : {flow.source_port(), flow.destination_port()}) {
    if (port == 0 || port > kMaxPort)
      return absl::InvalidArgumentError(absl::StrCat("invalid flow: port ", port));
  }
  if (flow.switches() == 0 || flow.switches() > static_cast<uint32_t>(kMaxSwitches)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid flow: ", flow.switches(), " switches: expected 1 to ", kMaxSwitches, " of them"));
  }
  return ProbeTask{.flow = {.source_address = *source,
                            .destination_address = *destination,
                            .protocol = static_cast<uint8_t>(flow.protocol()),
                            .source_port = static_cast<uint16_t>(flow.source_port()),
                            .destination_port = static_cast<uint16_t>(flow.destination_port())},
                   .switches = static_cast<int>(flow.switches())};
}

}  // namespace

absl::StatusOr<std::vector<ProbeTask>> ProbeTasksFromProto(const agent::v1::Probe& message) {
  if (message.flows().empty() || static_cast<size_t>(message.flows_size()) > kMaxProbeTasks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot probe ", message.flows_size(), " flows: expected 1 to ", kMaxProbeTasks, " flows"));
  }
  std::vector<ProbeTask> tasks;
  for (const agent::v1::ProbeFlow& flow : message.flows()) {
    MCCS_ASSIGN_OR_RETURN(tasks.emplace_back(), TaskFromProto(flow));
  }
  return tasks;
}

agent::v1::Probed ToMessage(uint64_t request_id, const std::vector<ProbeOutcome>& outcomes) {
  agent::v1::Probed message;
  message.set_request_id(request_id);
  for (const ProbeOutcome& outcome : outcomes) {
    agent::v1::ProbedFlow* flow = message.add_flows();
    for (const uint32_t hop : outcome.hops) flow->add_hops(hop != 0 ? FormatIpv4(hop) : "");
    flow->set_error(outcome.why_not);
  }
  return message;
}

agent::v1::Probed ProbeError(const agent::v1::Probe& message, const std::string& why) {
  return ToMessage(message.request_id(),
                   std::vector<ProbeOutcome>(static_cast<size_t>(message.flows_size()),
                                             {.hops = {}, .why_not = why}));
}

}  // namespace mccs
