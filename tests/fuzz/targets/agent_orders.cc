// Messages of the controller to a daemon's agent (proto/agent.proto ToAgent): orders are converted,
// or rejected with an error message. What the daemon gets of them is within its limits.
//
// FUZZES: service/agent/order_proto.cc service/agent/agent_table.cc
#include "base/check.h"
#include "proto/report_interval.h"
#include "service/agent/agent_table.h"
#include "service/agent/order_proto.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace mccs {
namespace agent_orders_fuzz {

constexpr uint64_t kCommId = 1;

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
  return table;
}

void Handle(AgentTable& table, const agent::v1::ToAgent& message) {
  if (const auto interval = ReportIntervalFromProto(message); interval.has_value()) {
    MCCS_CHECK(*interval > 0);
  }
  if (message.has_registered()) TenantsFromProto(message.registered().tenants());
  if (message.has_tenants()) TenantsFromProto(message.tenants());
  if (message.has_trace()) TraceOrderFromProto(message.trace());
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

void Run(FuzzInput input) {
  AgentTable table = Table();
  MonotonicNs now = kNsPerSec;
  while (!input.empty()) {
    const std::span<const uint8_t> bytes = input.Bytes(input.Take<uint16_t>() % 1024);
    agent::v1::ToAgent message;
    if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      Handle(table, message);
    }
    while (table.TakeProposal().has_value()) {
    }
    while (table.TakeRateUpdate().has_value()) {
    }
    table.TakeUnsent(now += kNsPerMs);
  }
}

const FuzzTarget kTarget("agent_orders", Run);

}  // namespace agent_orders_fuzz
}  // namespace mccs
