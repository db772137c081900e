#include "service/agent/order_proto.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/strategy/strategy.h"
#include "service/pacing/rate_limits.h"

namespace mccs {

std::vector<TenantEntry> TenantsFromProto(const agent::v1::Tenants& message) {
  std::vector<TenantEntry> tenants;
  for (const agent::v1::Tenant& each : message.tenants()) {
    TenantEntry tenant = {.name = each.name(),
                          .selector = {.uids = {each.uids().begin(), each.uids().end()},
                                       .sockets = {each.sockets().begin(), each.sockets().end()},
                                       .cgroups = {each.cgroups().begin(), each.cgroups().end()}},
                          .quotas = {}};
    tenant.selector.unclaimed = each.name() == kDefaultTenant;
    if (!each.declared_sockets().empty()) tenant.selector.declared = each.name();
    for (const agent::v1::DeclaredSocket& socket : each.declared_sockets()) {
      DeclaredSocket& declared = tenant.sockets.emplace_back();
      declared.path = socket.path();
      declared.mode = socket.mode();
      if (socket.has_uid()) declared.uid = socket.uid();
      if (socket.has_gid()) declared.gid = socket.gid();
    }
    tenant.cap_bps = each.cap_bps();
    tenant.priority = std::min(each.priority(), kMaxPriority);
    if (each.has_max_communicators()) tenant.quotas.communicators = each.max_communicators();
    if (each.has_max_memory_bytes()) tenant.quotas.memory_bytes = each.max_memory_bytes();
    if (each.has_max_operations()) tenant.quotas.operations = each.max_operations();
    tenants.push_back(std::move(tenant));
  }
  return tenants;
}

namespace {

absl::Status CheckLanes(const std::vector<LaneRateLimit>& lanes) {
  std::vector<std::tuple<ChannelId, HostIndex, HostIndex>> seen;
  for (const LaneRateLimit& lane : lanes) {
    const bool channel = lane.channel >= ChannelId(0) &&
                         (lane.channel < ChannelId(kMaxChannels) || IsMessageChannel(lane.channel));
    if (!channel || lane.from.value() < 0 || lane.to.value() < 0 || lane.from == lane.to) {
      return absl::InvalidArgumentError(absl::StrCat("limits: invalid lane: channel ",
                                                     lane.channel.value(), " from host ",
                                                     lane.from.value(), " to ", lane.to.value()));
    }
    seen.emplace_back(lane.channel, lane.from, lane.to);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return absl::InvalidArgumentError("limits: a lane is listed twice; expected each lane once");
  }
  return absl::OkStatus();
}

absl::Status CheckWindows(const SendWindows& windows) {
  if (windows.period_ns > 0 && windows.open_ns > 0 && windows.open_ns <= windows.period_ns) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("limits: invalid send windows: open_ns ",
                                                 windows.open_ns, ", period_ns ", windows.period_ns,
                                                 "; expected 0 < open_ns <= period_ns"));
}

}  // namespace

absl::StatusOr<RateLimits> RateLimitsFromProto(const agent::v1::RateLimits& message) {
  if (message.lanes_size() > kMaxRateLimitedLanes) {
    return absl::InvalidArgumentError(absl::StrCat("limits: too many lanes: ", message.lanes_size(),
                                                   "; at most ", kMaxRateLimitedLanes));
  }
  if (message.priority() > kMaxPriority) {
    return absl::InvalidArgumentError(absl::StrCat(
        "limits: invalid priority class ", message.priority(), ": expected 0 to ", kMaxPriority));
  }
  RateLimits limits{.revision = message.revision(),
                    .lanes = {},
                    .priority = message.priority(),
                    .windows = {},
                    .tenant_rate_bps = message.tenant_rate_bps(),
                    .tenant = message.tenant()};
  for (const agent::v1::LaneRateLimit& lane : message.lanes()) {
    limits.lanes.push_back({.channel = ChannelId(lane.channel()),
                            .from = HostIndex(lane.from()),
                            .to = HostIndex(lane.to()),
                            .rate_bps = lane.rate_bps()});
  }
  MCCS_RETURN_IF_ERROR(CheckLanes(limits.lanes));
  if (message.has_send_windows()) {
    limits.windows = {.period_ns = message.send_windows().period_ns(),
                      .origin_ns = message.send_windows().origin_ns(),
                      .open_ns = message.send_windows().open_ns()};
    MCCS_RETURN_IF_ERROR(CheckWindows(limits.windows));
  }
  return limits;
}

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

TraceOrder TraceOrderFromProto(const agent::v1::Trace& message) {
  return {.request_id = message.request_id(),
          .id = CommId(message.comm_id()),
          .operations = message.operations(),
          .stop = message.stop()};
}

std::optional<int64_t> ReportIntervalFromProto(const agent::v1::ToAgent& message) {
  if (message.has_registered()) return ReportIntervalFrom(message.registered().report_every_ns());
  if (message.has_report_interval())
    return ReportIntervalFrom(message.report_interval().every_ns());
  return std::nullopt;
}

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
