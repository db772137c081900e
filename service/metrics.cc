#include "service/metrics.h"

#include <map>
#include <memory>

#include "base/clock.h"
#include "base/metric_family.h"

namespace mccs {
namespace {

using Tenants = std::map<std::string, std::shared_ptr<const TenantCounters>>;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / kNsPerSec; }

// Kinds that a tenant never called are left out: fourteen series for each would say nothing.
void AddWork(const Tenants& tenants, Counter TenantCounters::Work::*number, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    for (size_t kind = 1; kind < tenant->work.size(); ++kind) {
      if (tenant->work[kind].operations.value() == 0) continue;
      out->Add({{"tenant", name}, {"kind", std::string(Name(static_cast<OpKind>(kind)))}},
               static_cast<double>((tenant->work[kind].*number).value()));
    }
  }
}

void AddFailures(const Tenants& tenants, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    for (size_t reason = 1; reason < kFailureClasses; ++reason) {
      out->Add({{"tenant", name}, {"reason", NameOfFailure(reason)}},
               static_cast<double>(tenant->failures[reason].value()));
    }
  }
}

void AddLanes(const Tenants& tenants, Counter TenantCounters::Lanes::*number, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    out->Add({{"tenant", name}, {"direction", "sent"}},
             static_cast<double>((tenant->sent.*number).value()));
    out->Add({{"tenant", name}, {"direction", "received"}},
             static_cast<double>((tenant->received.*number).value()));
  }
}

// As in LaneWait.
constexpr const char* kWaits[kLaneWaits] = {"nothing", "credit", "gate", "connection"};

void AddLaneWaits(const Tenants& tenants, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    for (size_t wait = 1; wait < kLaneWaits; ++wait) {
      out->Add({{"tenant", name}, {"reason", kWaits[wait]}},
               Seconds(tenant->sent.wait_ns[wait].value()));
    }
  }
}

void AddCommunicators(const Tenants& tenants, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    out->Add({{"tenant", name}, {"state", "forming"}},
             static_cast<double>(tenant->forming.value()));
    out->Add({{"tenant", name}, {"state", "active"}}, static_cast<double>(tenant->active.value()));
    out->Add({{"tenant", name}, {"state", "failed"}}, static_cast<double>(tenant->failed.value()));
  }
}

void AddGauge(const Tenants& tenants, Gauge TenantCounters::*gauge, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    out->Add({{"tenant", name}}, static_cast<double>(((*tenant).*gauge).value()));
  }
}

void AddChanges(const Tenants& tenants, MetricFamilies* out) {
  for (const auto& [name, tenant] : tenants) {
    out->Add({{"tenant", name}, {"result", "done"}},
             static_cast<double>(tenant->changes_done.value()));
    out->Add({{"tenant", name}, {"result", "dropped"}},
             static_cast<double>(tenant->changes_dropped.value()));
  }
}

void AddTenants(const Tenants& tenants, MetricFamilies* out) {
  out->BeginCounter("mccs_operations_total",
                    "Operations that this host's part of communicators has completed.");
  AddWork(tenants, &TenantCounters::Work::operations, out);
  out->BeginCounter("mccs_operation_bytes_total",
                    "Bytes of these operations' calls: count times size of type.");
  AddWork(tenants, &TenantCounters::Work::bytes, out);
  out->BeginGauge("mccs_communicators", "Communicators with ranks on this host, by state.");
  AddCommunicators(tenants, out);
  out->BeginCounter("mccs_communicator_failures_total",
                    "Communicators that failed on this host, by what their ranks were told.");
  AddFailures(tenants, out);
  out->BeginGauge("mccs_sessions", "Tenants' processes that are connected.");
  AddGauge(tenants, &TenantCounters::sessions, out);
  out->BeginGauge("mccs_buffers", "Buffers that tenants' processes have registered.");
  AddGauge(tenants, &TenantCounters::buffers, out);
  out->BeginGauge("mccs_buffer_bytes", "Bytes of the buffers that are registered.");
  AddGauge(tenants, &TenantCounters::buffer_bytes, out);
  out->BeginCounter("mccs_lane_bytes_total",
                    "Payload between this host and others: sent and acknowledged, or received.");
  AddLanes(tenants, &TenantCounters::Lanes::bytes, out);
  out->BeginCounter("mccs_lane_reconnects_total",
                    "Connections that took the place of another one of their lane.");
  AddLanes(tenants, &TenantCounters::Lanes::reconnects, out);
  out->BeginCounter("mccs_lane_wait_seconds_total",
                    "Time that lanes had something to send and could not, by what they waited for; "
                    "a wait counts when it is over.");
  AddLaneWaits(tenants, out);
  out->BeginCounter("mccs_strategy_changes_total",
                    "Changes of running communicators' strategies that came into force, or not.");
  AddChanges(tenants, out);
  out->BeginGauge("mccs_strategy_epoch_highest",
                  "The highest epoch in force among active communicators; 0: there are none.");
  AddGauge(tenants, &TenantCounters::highest_epoch, out);
}

void AddEngine(const DaemonCounters& counters, MetricFamilies* out) {
  out->BeginCounter("mccs_engine_turns_total", "Turns of the engine.");
  out->Add(static_cast<double>(counters.turns.value()));
  out->BeginCounter("mccs_engine_busy_turns_total", "Turns in which anything moved.");
  out->Add(static_cast<double>(counters.busy_turns.value()));
  out->BeginCounter("mccs_engine_sleeps_total", "Waits of the engine until something happens.");
  out->Add(static_cast<double>(counters.sleeps.value()));
  out->BeginCounter("mccs_engine_awake_seconds_total",
                    "Time that the engine has not slept, its waits by spinning included.");
  out->Add(Seconds(counters.awake_ns.value()));
}

}  // namespace

std::vector<prometheus::MetricFamily> DaemonMetrics(const DaemonCounters& counters,
                                                    const DaemonFacts& facts) {
  MetricFamilies out;
  out.BeginGauge("mccs_build_info", "Always 1; the labels say what runs here.");
  out.Add({{"component", "mccsd"}, {"host", facts.host}, {"version", facts.version}}, 1);
  out.BeginGauge("mccs_agent_connected", "1: registered with mccs-controller.");
  out.Add(facts.controller_connected ? 1 : 0);
  AddEngine(counters, &out);
  AddTenants(counters.Tenants(), &out);
  return out.Take();
}

}  // namespace mccs
