// Messages of the controller to a daemon's agent (proto/agent.proto ToAgent): orders are converted,
// or rejected with an error message. What the daemon gets of them is within its limits.
//
// FUZZES: service/agent/order_proto.cc service/agent/agent_table.cc
#include <algorithm>

#include "base/check.h"
#include "base/endpoint.h"
#include "proto/report_interval.h"
#include "service/agent/agent_table.h"
#include "service/agent/order_proto.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace mccs {
namespace agent_orders_fuzz {

constexpr uint64_t kCommId = 1;
constexpr uint64_t kSought = 7;  // a rendezvous that this host seeks

void CheckRejection(const absl::Status& status) {
  MCCS_CHECK(status.ok() || !status.message().empty());
}

// The table of an agent that leads one communicator of two hosts.
AgentTable Table() {
  AgentTable table;
  agent::v1::Announce announce;
  announce.set_comm_id(kCommId);
  announce.add_hosts("h0");
  announce.add_hosts("h1");
  table.Announce(announce);
  agent::v1::Report report;
  report.set_comm_id(kCommId);
  table.Report(report);
  agent::v1::NamedRendezvous named;
  named.add_sought(kSought);
  table.SetNamedRendezvous(named);
  return table;
}

void AddTenants(agent::v1::Tenants* tenants) {
  tenants->set_id_key("a key of the cluster, 32 bytes..");
  agent::v1::Tenant& tenant = *tenants->add_tenants();
  tenant.set_name("a");
  tenant.add_uids(1000);
  tenant.add_sockets("/run/mccs/a.sock");
  tenant.add_cgroups("/kubepods/*/a");
  tenant.set_max_communicators(4);
  tenant.set_max_memory_bytes(1 << 30);
  tenant.set_max_operations(64);
  tenant.set_cap_bps(1'000'000'000);
  tenant.set_priority(3);
  agent::v1::DeclaredSocket& socket = *tenant.add_declared_sockets();
  socket.set_path("a.sock");
  socket.set_mode(0660);
  socket.set_uid(1000);
  socket.set_gid(1000);
}

// An order that the agent accepts; 0: none.
agent::v1::ToAgent Valid(uint32_t kind) {
  agent::v1::ToAgent message;
  switch (kind) {
    case 1: {
      agent::v1::Registered& registered = *message.mutable_registered();
      registered.set_heartbeat_every_ns(kNsPerSec);
      registered.set_heartbeat_timeout_ns(5 * kNsPerSec);
      registered.set_report_every_ns(kNsPerSec);
      AddTenants(registered.mutable_tenants());
      break;
    }
    case 2:
      AddTenants(message.mutable_tenants());
      break;
    case 3:
      message.mutable_propose()->set_comm_id(kCommId);
      message.mutable_propose()->mutable_strategy()->set_epoch(2);
      break;
    case 4: {
      agent::v1::RateLimits& limits = *message.mutable_rate_limits();
      limits.set_comm_id(kCommId);
      limits.set_revision(1);
      limits.set_priority(2);
      limits.set_tenant("a");
      limits.set_tenant_rate_bps(1'000'000'000);
      agent::v1::LaneRateLimit& lane = *limits.add_lanes();
      lane.set_to(1);
      lane.set_rate_bps(1'000'000'000);
      limits.mutable_send_windows()->set_period_ns(10 * kNsPerMs);
      limits.mutable_send_windows()->set_open_ns(kNsPerMs);
      break;
    }
    case 5: {
      agent::v1::ProbeFlow& flow = *message.mutable_probe()->add_flows();
      flow.set_source("10.0.0.1");
      flow.set_destination("10.0.0.2");
      flow.set_protocol(6);
      flow.set_source_port(40000);
      flow.set_destination_port(7400);
      flow.set_switches(3);
      break;
    }
    case 6:
      message.mutable_trace()->set_comm_id(kCommId);
      message.mutable_trace()->set_operations(10);
      break;
    case 7: {
      agent::v1::FoundRendezvous& found = *message.mutable_found_rendezvous();
      found.set_id(kSought);
      found.set_host("h1");
      found.set_peer_endpoint("10.0.0.2:7400");
      break;
    }
    case 8:
      message.mutable_report_interval()->set_every_ns(kNsPerSec);
      break;
    case 9:
      message.mutable_dump()->set_request_id(1);
      break;
    case 10:
      message.mutable_heartbeat()->set_sent_ns(1);
      break;
    default:
      break;
  }
  return message;
}

void Handle(AgentTable& table, const agent::v1::ToAgent& message) {
  if (const auto interval = ReportIntervalFromProto(message); interval.has_value()) {
    MCCS_CHECK(*interval > 0);
  }
  if (message.has_registered()) table.SetTenants(message.registered().tenants());
  if (message.has_tenants()) table.SetTenants(message.tenants());
  if (message.has_found_rendezvous())
    CheckRejection(table.AddFoundRendezvous(message.found_rendezvous()));
  if (message.has_dump()) table.AddStateRequest(message.dump().request_id());
  if (message.has_trace()) table.AddTraceOrder(TraceOrderFromProto(message.trace()));
  if (message.has_propose()) CheckRejection(table.Propose(message.propose()));
  if (message.has_rate_limits()) {
    const auto limits = RateLimitsFromProto(message.rate_limits());
    CheckRejection(limits.status());
    if (limits.ok()) {
      MCCS_CHECK(limits->priority <= kMaxPriority);
      MCCS_CHECK(limits->windows.open_ns <= limits->windows.period_ns);
    }
    MCCS_CHECK(table.SetRateLimits(message.rate_limits()).ok() == limits.ok());
  }
  if (message.has_probe()) {
    const auto tasks = ProbeTasksFromProto(message.probe());
    CheckRejection(tasks.status());
    if (tasks.ok()) {
      for (const ProbeTask& task : *tasks)
        MCCS_CHECK(task.switches >= 1 && task.switches <= kMaxSwitches);
    } else {
      const agent::v1::Probed error = ProbeError(message.probe(), "why");
      MCCS_CHECK(error.flows_size() == message.probe().flows_size());
    }
  }
}

// As the engine does.
void TakeAll(AgentTable& table) {
  while (table.TakeProposal().has_value()) {
  }
  while (table.TakeRateUpdate().has_value()) {
  }
  while (table.TakeStateRequest().has_value()) {
  }
  while (table.TakeTraceOrder().has_value()) {
  }
  while (const auto found = table.TakeFoundRendezvous()) {
    MCCS_CHECK(found->id == CommId(kSought));
    MCCS_CHECK(IsNumericAddress(found->at.host));
  }
  if (const auto tenants = table.TakeTenants()) {
    for (const TenantEntry& tenant : *tenants) MCCS_CHECK(tenant.priority <= kMaxPriority);
  }
  if (const auto key = table.TakeIdKey()) MCCS_CHECK(!key->empty());
  MCCS_CHECK(!table.has_updates());
}

// Each message: its length, and the number of a valid order with which it is merged.
void Run(FuzzInput input) {
  AgentTable table = Table();
  MonotonicNs now = kNsPerSec;
  while (!input.empty()) {
    const auto head = input.Take<uint16_t>();
    const std::span<const uint8_t> bytes = input.Bytes(head % 1024);
    agent::v1::ToAgent message = Valid(head / 1024 % 16);
    agent::v1::ToAgent changes;
    if (changes.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      message.MergeFrom(changes);
      Handle(table, message);
    }
    TakeAll(table);
    table.TakeUnsent(now += kNsPerMs);
  }
}

const FuzzTarget kTarget("agent_orders", Run);

}  // namespace agent_orders_fuzz
}  // namespace mccs
