#include "service/metrics.h"

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/metrics_server.h"
#include "service/communicator/turns/turn_cost.h"

namespace mccs {
namespace {

using Tenants = std::map<std::string, std::shared_ptr<const TenantCounters>>;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / kNsPerSec; }

// Omits kinds that a tenant never called: fourteen zero series for each tenant have no use.
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
      out->Add({{"tenant", name}, {"reason", FailureName(reason)}},
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

// In the order of LaneWait.
constexpr const char* kWaits[kLaneWaits] = {"nothing", "credit", "rate", "connection"};

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
    out->Add({{"tenant", name}, {"result", "rejected"}},
             static_cast<double>(tenant->changes_rejected.value()));
  }
}

void AddTenants(const Tenants& tenants, MetricFamilies* out) {
  out->BeginCounter("mccs_operations_total",
                    "Operations that communicators completed on this host.");
  AddWork(tenants, &TenantCounters::Work::operations, out);
  out->BeginCounter("mccs_operation_bytes_total",
                    "Bytes of completed operations: count times size of type.");
  AddWork(tenants, &TenantCounters::Work::bytes, out);
  out->BeginGauge("mccs_communicators", "Communicators with ranks on this host, by state.");
  AddCommunicators(tenants, out);
  out->BeginCounter(
      "mccs_communicator_failures_total",
      "Communicators that failed on this host, by the error class reported to their ranks.");
  AddFailures(tenants, out);
  out->BeginGauge("mccs_sessions", "Connected tenant processes.");
  AddGauge(tenants, &TenantCounters::sessions, out);
  out->BeginGauge("mccs_buffers", "Buffers that tenant processes have registered.");
  AddGauge(tenants, &TenantCounters::buffers, out);
  out->BeginGauge("mccs_buffer_bytes", "Bytes of registered buffers.");
  AddGauge(tenants, &TenantCounters::buffer_bytes, out);
  out->BeginCounter(
      "mccs_lane_bytes_total",
      "Payload bytes that lanes sent (acknowledged) to, or received from, other hosts.");
  AddLanes(tenants, &TenantCounters::Lanes::bytes, out);
  out->BeginCounter("mccs_lane_reconnects_total",
                    "Connections that replaced a broken or moved connection of a lane.");
  AddLanes(tenants, &TenantCounters::Lanes::reconnects, out);
  out->BeginCounter("mccs_lane_copied_bytes_total",
                    "Payload bytes of lanes that a processor has copied on this host, beside the "
                    "kernel's own copies for TCP.");
  AddLanes(tenants, &TenantCounters::Lanes::copied_bytes, out);
  out->BeginCounter("mccs_lane_wait_seconds_total",
                    "Time that lanes with data to send were blocked, by reason; "
                    "a wait is counted when it ends.");
  AddLaneWaits(tenants, out);
  out->BeginCounter("mccs_strategy_changes_total",
                    "Strategy changes of running communicators, by result.");
  AddChanges(tenants, out);
  out->BeginGauge("mccs_strategy_epoch_highest",
                  "Highest strategy epoch among active communicators; 0 if there are none.");
  AddGauge(tenants, &TenantCounters::highest_epoch, out);
}

void AddBudgets(const DaemonCounters& counters, const Tenants& tenants, MetricFamilies* out) {
  out->BeginGauge("mccs_resource_limit",
                  "Limit of a resource for all tenants of this host together; memory in bytes. A "
                  "tenant may hold as much as it leaves free.");
  for (size_t r = 0; r < kResources; ++r)
    out->Add({{"resource", kResourceFacts[r].label}},
             static_cast<double>(counters.limits[r].value()));
  out->BeginGauge("mccs_resource_held",
                  "Amount of a resource that a tenant holds; memory in bytes.");
  for (const auto& [name, tenant] : tenants) {
    for (size_t r = 0; r < kResources; ++r)
      out->Add({{"tenant", name}, {"resource", kResourceFacts[r].label}},
               static_cast<double>(tenant->held[r].value()));
  }
  out->BeginCounter("mccs_resource_refusals_total",
                    "Requests that a tenant's share of a resource did not allow.");
  for (const auto& [name, tenant] : tenants) {
    for (size_t r = 0; r < kResources; ++r)
      out->Add({{"tenant", name}, {"resource", kResourceFacts[r].label}},
               static_cast<double>(tenant->refused[r].value()));
  }
  out->BeginCounter("mccs_engine_work_seconds_total",
                    "Engine time of a tenant's communicators, as the engine counts it for fair "
                    "turns: from their operations and bytes, not measured.");
  for (const auto& [name, tenant] : tenants)
    out->Add({{"tenant", name}}, static_cast<double>(tenant->turn_cost.value()) / kCostPerSecond);
}

void AddEngine(const DaemonCounters& counters, MetricFamilies* out) {
  out->BeginCounter("mccs_engine_turns_total", "Iterations of the engine's loop.");
  out->Add(static_cast<double>(counters.turns.value()));
  out->BeginCounter("mccs_engine_busy_turns_total",
                    "Iterations of the engine's loop that made progress.");
  out->Add(static_cast<double>(counters.busy_turns.value()));
  out->BeginCounter("mccs_engine_sleeps_total", "Number of times that the engine went to sleep.");
  out->Add(static_cast<double>(counters.sleeps.value()));
  out->BeginCounter("mccs_engine_awake_seconds_total",
                    "Time that the engine was awake, including busy waiting.");
  out->Add(Seconds(counters.awake_ns.value()));
  out->BeginGauge("mccs_engine_asleep", "1 while the engine sleeps, else 0.");
  out->Add(static_cast<double>(counters.asleep.value()));
  out->BeginCounter("mccs_relay_dropped_total",
                    "Rosters and strategies that this host did not relay because a tenant exceeded "
                    "a limit; their receivers requested them from the source.");
  out->Add(static_cast<double>(counters.relay_dropped.value()));
}

void AddSockets(const DaemonCounters& counters, MetricFamilies* out) {
  out->BeginGauge("mccs_tenant_sockets",
                  "Sockets that Tenants declare, by state; for failed ones, mccsd's log has the "
                  "reason and the remedy.");
  out->Add({{"state", "open"}}, static_cast<double>(counters.open_sockets.value()));
  out->Add({{"state", "failed"}}, static_cast<double>(counters.failed_sockets.value()));
  out->BeginCounter("mccs_denied_processes_total",
                    "Processes that were denied because no Tenant selects them.");
  out->Add(static_cast<double>(counters.denied_processes.value()));
}

void AddPeers(const PeerListenerCounters& peers, MetricFamilies* out) {
  out->BeginCounter("mccs_peer_handshakes_total",
                    "Handshakes of connections from other daemons, by result: accepted; "
                    "not_authenticated: a wrong or no certificate, or another secret; incomplete: "
                    "the client was silent, sent something else, or closed; displaced: the oldest "
                    "of too many at a time. mccsd's log names the addresses.");
  const auto add = [&](const char* result, const Counter& counter) {
    out->Add({{"result", result}}, static_cast<double>(counter.value()));
  };
  add("accepted", peers.accepted);
  add("not_authenticated", peers.not_authenticated);
  add("incomplete", peers.incomplete);
  add("displaced", peers.displaced);
}

// The number of communicators by tenant and what they wait for.
template <typename Awaited>
std::map<std::pair<std::string, Awaited>, int> CountAwaited(
    const std::map<CommId, Stalls::OfCommunicator>& all,
    std::vector<Awaited> Stalls::OfCommunicator::*awaited) {
  std::map<std::pair<std::string, Awaited>, int> communicators;
  for (const auto& [id, of] : all) {
    for (const Awaited& each : of.*awaited) ++communicators[{of.tenant, each}];
  }
  return communicators;
}

// Without the communicators, of which a daemon has thousands in its life.
void AddStalls(const Stalls& stalls, MetricFamilies* out) {
  const std::map<CommId, Stalls::OfCommunicator> all = stalls.All();
  out->BeginGauge("mccs_awaited_ranks",
                  "Communicators in which an operation has waited for this rank for over 10 s, as "
                  "long as it waits. Collectives count at the host of rank 0, point-to-point calls "
                  "at the host that waits; of a communicator at most 16 ranks count.");
  for (const auto& [key, count] : CountAwaited(all, &Stalls::OfCommunicator::ranks)) {
    const auto& [tenant, awaited_rank] = key;
    out->Add({{"tenant", tenant},
              {"rank", std::to_string(awaited_rank.rank)},
              {"host", awaited_rank.host}},
             count);
  }
  out->BeginGauge("mccs_awaited_hosts",
                  "Communicators in which an operation that all ranks have entered has made no "
                  "progress on this host for over 10 s, as long as it makes none, by the host for "
                  "which it waits, and for what: data, acknowledgement, credit, connection, rate, "
                  "device, registration or daemon. Of a communicator at most 16 hosts count.");
  for (const auto& [key, count] : CountAwaited(all, &Stalls::OfCommunicator::hosts)) {
    const auto& [tenant, awaited] = key;
    out->Add({{"tenant", tenant},
              {"host", awaited.host},
              {"waits_for", kStallCauseNames[static_cast<size_t>(awaited.cause)]}},
             count);
  }
}

void AddRdma(const DaemonCounters::Rdma& rdma, MetricFamilies* out) {
  out->BeginGauge(
      "mccs_rdma_devices",
      "Ports of RDMA devices that lanes use and that have not failed; 0: lanes use TCP.");
  out->Add(static_cast<double>(rdma.devices.value()));
  out->BeginGauge("mccs_rdma_queue_pairs", "Queue pairs to other hosts.");
  out->Add(static_cast<double>(rdma.queue_pairs.value()));
  out->BeginGauge("mccs_rdma_registered_regions",
                  "Regions of memory registered with RDMA devices.");
  out->Add(static_cast<double>(rdma.registered_regions.value()));
  out->BeginGauge("mccs_rdma_registered_bytes",
                  "Bytes of memory registered with RDMA devices, and so locked.");
  out->Add(static_cast<double>(rdma.registered_bytes.value()));
  out->BeginCounter("mccs_rdma_requests_total", "Work requests posted.");
  out->Add(static_cast<double>(rdma.requests.value()));
  out->BeginCounter("mccs_rdma_completions_total", "Completions polled.");
  out->Add(static_cast<double>(rdma.completions.value()));
  out->BeginCounter("mccs_rdma_receives_total", "Receive entries posted after the first ones.");
  out->Add(static_cast<double>(rdma.receives.value()));
  out->BeginCounter("mccs_rdma_refills_total", "Calls that posted receive entries.");
  out->Add(static_cast<double>(rdma.refills.value()));
}

}  // namespace

std::vector<prometheus::MetricFamily> DaemonMetrics(const DaemonCounters& counters,
                                                    const DaemonFacts& facts) {
  MetricFamilies out;
  out.BeginGauge("mccs_build_info", "Always 1; the labels name the component and its version.");
  out.Add({{"component", "mccsd"}, {"host", facts.host}, {"version", facts.version}}, 1);
  out.BeginGauge("mccs_agent_connected", "1 if registered with mccs-controller, else 0.");
  out.Add(facts.controller_connected ? 1 : 0);
  out.BeginCounter("mccs_log_lines_dropped_total",
                   "Lines of the log that were lost because stderr did not accept them.");
  out.Add(static_cast<double>(facts.log_lines_dropped));
  if (facts.certificate_end_s) {
    out.BeginGauge("mccs_certificate_end_timestamp_seconds",
                   "End of this program's certificate, Unix time; 0: it cannot be read.");
    out.Add(static_cast<double>(*facts.certificate_end_s));
  }
  AddEngine(counters, &out);
  AddSockets(counters, &out);
  AddPeers(counters.peers, &out);
  AddStalls(counters.stalls, &out);
  AddRdma(counters.rdma, &out);
  const Tenants tenants = counters.Tenants();
  AddTenants(tenants, &out);
  AddBudgets(counters, tenants, &out);
  return out.Take();
}

}  // namespace mccs
