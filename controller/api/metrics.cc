#include "controller/api/metrics.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "base/metrics_server.h"

namespace mccs {
namespace {

void AddHostsAndCommunicators(const ClusterState& state, MetricFamilies* out) {
  std::map<HostState, int> hosts;
  int stuck = 0;
  for (const auto& [name, record] : state.registry.hosts()) {
    ++hosts[record.state];
    stuck += record.stuck;
  }
  out->BeginGauge("mccs_controller_hosts", "Registered hosts, by state.");
  out->Add({{"state", "ready"}}, hosts[HostState::kReady] - stuck);
  out->Add({{"state", "stuck"}}, stuck);
  out->Add({{"state", "lost"}}, hosts[HostState::kLost]);
  out->Add({{"state", "rejected"}}, hosts[HostState::kRejected]);

  out->BeginGauge("mccs_controller_unreachable_pairs",
                  "Pairs of ready hosts of which one cannot open connections to the other.");
  out->Add(static_cast<double>(state.unreachable.pairs().size()));

  out->BeginGauge("mccs_controller_report_interval_seconds",
                  "Interval of the periodic reports of daemons; longer with more hosts.");
  out->Add(static_cast<double>(state.report_every_ns) / kNsPerSec);

  std::map<std::string, int> communicators;
  for (const auto& [id, record] : state.registry.communicators()) {
    ++communicators[TenantNameOf(*state.objects, record.origin())];
  }
  out->BeginGauge("mccs_controller_communicators",
                  "Communicators announced by daemons, by tenant.");
  for (const auto& [tenant, count] : communicators) out->Add({{"tenant", tenant}}, count);
}

prometheus::ClientMetric::Histogram ToHistogram(const ConvergenceTimes& times) {
  prometheus::ClientMetric::Histogram histogram;
  histogram.sample_count = times.count();
  histogram.sample_sum = times.sum_seconds;
  uint64_t below = 0;
  for (size_t i = 0; i < times.counts.size(); ++i) {
    below += times.counts[i];
    const bool last = i == ConvergenceTimes::kBounds.size();
    histogram.bucket.push_back({.cumulative_count = below,
                                .upper_bound = last ? std::numeric_limits<double>::infinity()
                                                    : ConvergenceTimes::kBounds[i]});
  }
  return histogram;
}

void AddDecisions(const ClusterState& state, MetricFamilies* out) {
  const ProposalCounts& counts = state.registry.proposal_counts();
  const auto& communicators = state.registry.communicators();
  const auto pending =
      std::count_if(communicators.begin(), communicators.end(),
                    [](const auto& entry) { return !entry.second.awaited.empty(); });
  out->BeginCounter("mccs_controller_decisions_total",
                    "Strategies proposed to communicators, by deciding policy.");
  for (const auto& [policy, count] : counts.by_policy) {
    out->Add({{"policy", policy}}, static_cast<double>(count));
  }
  out->BeginCounter("mccs_controller_decision_failures_total",
                    "Communicators for which no policy found a strategy.");
  out->Add(static_cast<double>(state.policy_failures));
  out->BeginGauge("mccs_controller_proposals_pending",
                  "Proposals that some host has not applied yet.");
  out->Add(static_cast<double>(pending));
  out->BeginCounter("mccs_controller_proposals_total", "Finished proposals, by result.");
  out->Add({{"result", "applied"}}, static_cast<double>(counts.applied.count()));
  out->Add({{"result", "superseded"}}, static_cast<double>(counts.superseded));
  out->Add({{"result", "rejected"}}, static_cast<double>(counts.rejected));
  out->BeginHistogram("mccs_controller_convergence_seconds",
                      "Time from a proposal until the last host has reported it as applied.");
  out->AddHistogram({}, ToHistogram(counts.applied));
}

void AddStore(const StoreCounts& store, MetricFamilies* out) {
  out->BeginCounter("mccs_controller_store_commits_total", "Commits to the store.");
  out->Add({{"result", "done"}}, static_cast<double>(store.commits));
  out->Add({{"result", "failed"}}, static_cast<double>(store.failed_commits));
  out->BeginCounter("mccs_controller_store_commit_seconds_total",
                    "Time spent in commits to the store.");
  out->Add(static_cast<double>(store.commit_ns) / kNsPerSec);
  out->BeginCounter("mccs_controller_audit_entries_total",
                    "Audit log entries since the start, by action and outcome.");
  for (const auto& [which, count] : store.audit) {
    out->Add({{"action", which.first}, {"outcome", which.second}}, static_cast<double>(count));
  }
}

void AddRefusedClients(const RefusedCounts& refused, MetricFamilies* out) {
  out->BeginCounter(
      "mccs_controller_clients_refused_total",
      "Refused TLS handshakes and calls of daemons and operators, by reason: expired: the "
      "certificate is not valid at this time; foreign: it is not one of the "
      "cluster's authority; missing: there is none, or no TLS; unauthorized: "
      "certificate or token give no right to the call, such as an operator without a "
      "role; other. mccs-controller's log names the clients.");
  for (size_t reason = 0; reason < refused.size(); ++reason) {
    out->Add({{"reason", RefusalName(static_cast<RefusalReason>(reason))}},
             static_cast<double>(refused[reason]));
  }
}

}  // namespace

std::vector<prometheus::MetricFamily> ControllerMetrics(const Coordinator& coordinator,
                                                        const StoreCounts& store,
                                                        const RefusedCounts& refused) {
  MetricFamilies out;
  out.BeginGauge("mccs_build_info", "Always 1; the labels name the component and its version.");
  out.Add({{"component", "mccs-controller"}, {"version", coordinator.version()}}, 1);
  if (const std::optional<int64_t> end_s = coordinator.state().certificate_end_s; end_s) {
    out.BeginGauge("mccs_certificate_end_timestamp_seconds",
                   "End of this program's certificate, Unix time; 0: it cannot be read.");
    out.Add(static_cast<double>(*end_s));
  }
  AddHostsAndCommunicators(coordinator.state(), &out);
  AddDecisions(coordinator.state(), &out);
  AddStore(store, &out);
  AddRefusedClients(refused, &out);
  return out.Take();
}

}  // namespace mccs
