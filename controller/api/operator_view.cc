#include "controller/api/operator_view.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "controller/state/drains.h"
#include "controller/state/topology_mismatch.h"
#include "controller/view/flow.h"
#include "topology/position.h"
#include "trust/certificate_watch.h"

namespace mccs {
namespace {

constexpr char kReconnecting[] =
    "reconnecting: none of its daemons has registered since the controller started";
constexpr size_t kIdDigits = 16;
constexpr size_t kMaxNamedCandidates = 5;

std::string StateOf(const HostRecord& host, MonotonicNs now) {
  switch (host.state) {
    case HostState::kReady:
      if (host.stuck) {
        return absl::StrCat("STUCK: no turn of its engine for ", FormatAge(now - host.turned_at));
      }
      return "ready";
    case HostState::kLost:
      return absl::StrCat("lost: ", host.why);
    case HostState::kRejected:
      return absl::StrCat("rejected: ", host.why);
  }
  return "";
}

Position PositionOf(const agent::v1::Host& host) {
  return {host.position().pod(), host.position().rack(), host.name()};
}

std::string HostName(const CommunicatorRecord& record, int index) {
  const bool known = index >= 0 && index < record.announced.hosts_size();
  return known ? record.announced.hosts(index) : absl::StrCat("host ", index);
}

// The source port that `strategy` gives a lane; 0: none, as for lanes outside rings.
uint32_t ChosenPort(const strategy::Strategy& strategy, const agent::v1::Lane& lane) {
  if (lane.channel() < 0 || lane.channel() >= strategy.channels_size()) return 0;
  return PortOfLane(strategy.channels(lane.channel()), lane.from(), lane.to());
}

void AddLanes(const CommunicatorRecord& record, control::v1::CommunicatorDetail* detail) {
  std::vector<std::pair<int, agent::v1::Lane>> lanes;  // with the start's index in the ring
  const strategy::Strategy& strategy = record.Applied();
  for (const auto& [host, report] : record.reports) {
    for (const agent::v1::Lane& lane : report.lanes()) {
      int place = 0;
      if (lane.channel() >= 0 && lane.channel() < strategy.channels_size()) {
        const auto& ring = strategy.channels(lane.channel()).ring();
        place = static_cast<int>(std::find(ring.begin(), ring.end(), lane.from()) - ring.begin());
      }
      lanes.emplace_back(place, lane);
    }
  }
  std::stable_sort(lanes.begin(), lanes.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.channel(), a.first) < std::pair(b.second.channel(), b.first);
  });
  for (const auto& [place, lane] : lanes) {
    control::v1::LaneStatus* out = detail->add_lanes();
    out->set_channel(lane.channel());
    out->set_from(HostName(record, lane.from()));
    out->set_to(HostName(record, lane.to()));
    out->set_local(lane.local());
    out->set_remote(lane.remote());
    out->set_bytes(lane.payload_bytes());
    out->set_reconnects(lane.reconnects());
    out->set_state(lane.state());
    out->set_chosen_source_port(ChosenPort(strategy, lane));
    if (lane.has_rdma()) *out->mutable_rdma() = lane.rdma();
    out->set_copied_bytes(lane.copied_bytes());
  }
}

void AddCaptured(const CommunicatorRecord& record, control::v1::CommunicatorDetail* detail) {
  for (const auto& [host, report] : record.reports) {
    detail->set_captured_groups(std::max(detail->captured_groups(), report.captured_groups()));
  }
}

// All hosts report the same operations; each is added once.
void AddHoldUps(const CommunicatorRecord& record, control::v1::CommunicatorDetail* detail) {
  std::set<std::string> texts;
  for (const auto& [host, report] : record.reports) {
    if (!report.stalled_on().empty() && texts.insert(report.stalled_on()).second) {
      detail->add_stalled_on(report.stalled_on());
    }
  }
}

// Each host decides for itself.
void AddStaged(const CommunicatorRecord& record, control::v1::CommunicatorDetail* detail) {
  for (const auto& [host, report] : record.reports) {
    if (!report.staged().empty()) detail->add_staged(absl::StrCat(host, ": ", report.staged()));
  }
}

// Adds which strategies run where, and pending proposals.
void AddProgress(const CommunicatorRecord& record, MonotonicNs now,
                 control::v1::CommunicatorDetail* detail) {
  for (const std::string& host : record.announced.hosts()) {
    const auto report = record.reports.find(host);
    if (report == record.reports.end()) continue;
    control::v1::HostProgress* out = detail->add_progress();
    out->set_host(host);
    out->set_epoch(report->second.epoch());
    out->set_operations(report->second.operations());
    out->set_state(report->second.state());
    if (host == record.leader) detail->set_change_error(report->second.change_error());
  }
  if (record.awaited.empty()) return;
  control::v1::PendingChange* change = detail->mutable_change();
  change->set_epoch(record.proposed_epoch);
  change->set_age_ns(now - record.proposed_at);
  for (const std::string& host : record.awaited) change->add_pending_hosts(host);
}

// By host, those with which it is in a pair.
std::map<std::string, std::vector<control::v1::UnreachableHostStatus>> UnreachableHosts(
    const UnreachablePairs& pairs, MonotonicNs now) {
  std::map<std::string, std::vector<control::v1::UnreachableHostStatus>> by_host;
  for (const auto& [pair, state] : pairs.pairs()) {
    control::v1::UnreachableHostStatus status;
    status.set_age_ns(now - state.since);
    for (const auto& [host, evidence] : state.seen_by) {
      control::v1::UnreachableEvidence* seen = status.add_seen_by();
      seen->set_host(host);
      seen->set_cause(evidence.cause);
      seen->set_age_ns(now - evidence.at);
    }
    status.set_host(pair.second);
    by_host[pair.first].push_back(status);
    status.set_host(pair.first);
    by_host[pair.second].push_back(status);
  }
  return by_host;
}

}  // namespace

std::string StateOfCommunicator(const Registry& registry, const CommunicatorRecord& record) {
  if (registry.hosts().at(record.leader).state != HostState::kReady) {
    return absl::StrCat("unknown: its leader ", record.leader, " is not connected");
  }
  std::string state = "forming";
  for (const auto& [host, report] : record.reports) {
    if (report.state() != "active") return absl::StrCat(report.state(), " (", host, ")");
    state = report.state();
  }
  return state;
}

absl::StatusOr<CommId> FindCommunicator(const ClusterState& state, const std::string& prefix) {
  if (prefix.empty() || prefix.size() > kIdDigits ||
      prefix.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid communicator id '", prefix,
                     "': expected up to 16 hexadecimal digits, as shown by 'mccsctl get "
                     "communicators'"));
  }
  std::vector<CommId> fits;
  for (const auto& [id, record] : state.registry.communicators()) {
    if (FormatCommId(id).starts_with(prefix)) fits.push_back(id);
  }
  if (fits.size() == 1) return fits[0];
  if (fits.empty()) {
    for (const auto& [id, communicator] : state.strategies.recovered()) {
      if (!FormatCommId(id).starts_with(prefix)) continue;
      return absl::FailedPreconditionError(absl::StrCat("communicator ", FormatCommId(id), " is ",
                                                        kReconnecting, "; try again later"));
    }
    return absl::NotFoundError(absl::StrCat("no communicator id starts with '", prefix,
                                            "'; 'mccsctl get communicators' lists them"));
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < fits.size() && i < kMaxNamedCandidates; ++i)
    names.push_back(FormatCommId(fits[i]));
  return absl::InvalidArgumentError(absl::StrCat(
      "'", prefix, "' matches ", fits.size(), " communicators: ", absl::StrJoin(names, ", "),
      fits.size() > names.size() ? ", …" : "", "; give more digits"));
}

control::v1::CommunicatorSummary Summarize(const ClusterState& state, CommId id,
                                           const CommunicatorRecord& record, MonotonicNs now) {
  const strategy::Strategy& strategy = record.Applied();
  control::v1::CommunicatorSummary summary;
  summary.set_id(FormatCommId(id));
  summary.set_name(record.announced.name());
  summary.set_tenant(TenantNameOf(*state.objects, record.origin()));
  summary.set_state(StateOfCommunicator(state.registry, record));
  summary.set_ranks(record.announced.members_size());
  summary.set_hosts(record.announced.hosts_size());
  summary.set_channels(strategy.channels_size());
  summary.set_epoch(strategy.epoch());
  summary.set_strategy(strategy.origin());
  for (const auto& [host, report] : record.reports) {
    summary.set_operations(std::max(summary.operations(), report.operations()));
    summary.set_bytes(std::max(summary.bytes(), report.bytes()));
  }
  summary.set_age_ns(now - record.since);
  return summary;
}

control::v1::ListHostsReply ListHosts(const ClusterState& state, MonotonicNs now, int64_t unix_s) {
  const Registry& registry = state.registry;
  std::map<std::string, int> communicators;
  for (const auto& [id, record] : registry.communicators()) {
    for (const std::string& host : record.announced.hosts()) ++communicators[host];
  }
  for (const auto& [id, communicator] : state.strategies.recovered()) {
    for (const std::string& host : communicator.hosts) ++communicators[host];
  }
  std::vector<const HostRecord*> hosts;
  for (const auto& [name, record] : registry.hosts()) hosts.push_back(&record);
  std::sort(hosts.begin(), hosts.end(), [](const HostRecord* a, const HostRecord* b) {
    return PositionOf(a->host) < PositionOf(b->host);
  });
  std::map<std::string, std::vector<std::string>> mismatches;
  for (const TopologyMismatch& each : FindTopologyMismatches(*state.objects, registry.View()))
    mismatches[each.host].push_back(absl::StrCat(ToText(each.topology), ": ", each.text));
  auto unreachable = UnreachableHosts(state.unreachable, now);
  const auto problem = [unix_s](int64_t end_s) {
    return unix_s == 0 ? std::string() : CertificateProblem(end_s, unix_s);
  };
  control::v1::ListHostsReply reply;
  reply.set_certificate_end_s(state.certificate_end_s.value_or(0));
  reply.set_certificate_problem(problem(state.certificate_end_s.value_or(0)));
  for (const HostRecord* host : hosts) {
    control::v1::HostStatus* out = reply.add_hosts();
    *out->mutable_host() = host->host;
    out->set_state(StateOf(*host, now));
    out->set_age_ns(now - host->since);
    out->set_communicators(communicators[host->host.name()]);
    out->set_certificate_end_s(host->certificate_end_s);
    out->set_certificate_problem(problem(host->certificate_end_s));
    for (control::v1::UnreachableHostStatus& peer : unreachable[host->host.name()])
      *out->add_unreachable() = std::move(peer);
    if (host->state != HostState::kRejected) {
      for (std::string& text : mismatches[host->host.name()])
        out->add_topology_mismatches(std::move(text));
    }
    if (const Object* drain = FindHostDrain(*state.objects, host->host.name())) {
      out->set_drain(out->communicators() > 0 ? "draining" : "drained");
      out->set_drain_reason(DrainOf(*drain).reason);
    }
  }
  return reply;
}

control::v1::ListCommunicatorsReply ListCommunicators(const ClusterState& state, MonotonicNs now) {
  std::vector<std::pair<CommId, const CommunicatorRecord*>> records;
  for (const auto& [id, record] : state.registry.communicators()) records.emplace_back(id, &record);
  std::stable_sort(records.begin(), records.end(),
                   [](const auto& a, const auto& b) { return a.second->since < b.second->since; });
  control::v1::ListCommunicatorsReply reply;
  for (const auto& [id, record] : records)
    *reply.add_communicators() = Summarize(state, id, *record, now);
  for (const auto& [id, communicator] : state.strategies.recovered()) {
    control::v1::CommunicatorSummary* summary = reply.add_communicators();
    summary->set_id(FormatCommId(id));
    summary->set_tenant(TenantNameOf(*state.objects, communicator.origin()));
    summary->set_state(kReconnecting);
    summary->set_hosts(static_cast<int>(communicator.hosts.size()));
    summary->set_channels(communicator.strategy.channels_size());
    summary->set_epoch(communicator.strategy.epoch());
    summary->set_strategy(communicator.strategy.origin());
  }
  return reply;
}

absl::StatusOr<control::v1::CommunicatorDetail> DescribeCommunicator(const ClusterState& state,
                                                                     const std::string& prefix,
                                                                     MonotonicNs now) {
  MCCS_ASSIGN_OR_RETURN(const CommId id, FindCommunicator(state, prefix));
  const CommunicatorRecord& record = state.registry.communicators().at(id);
  control::v1::CommunicatorDetail detail;
  *detail.mutable_summary() = Summarize(state, id, record, now);
  *detail.mutable_members() = record.announced.members();
  for (cluster::Member& member : *detail.mutable_members()) member.clear_hints();
  *detail.mutable_hints() = record.announced.hints();
  const strategy::Strategy& strategy = record.Applied();
  for (int c = 0; c < strategy.channels_size(); ++c) {
    control::v1::Ring* ring = detail.add_rings();
    ring->set_channel(c);
    for (int host : strategy.channels(c).ring()) ring->add_hosts(HostName(record, host));
  }
  AddLanes(record, &detail);
  for (const auto& [host, report] : record.reports) {
    if (report.with_options().last_number() > detail.with_options().last_number()) {
      *detail.mutable_with_options() = report.with_options();
    }
  }
  AddCaptured(record, &detail);
  AddHoldUps(record, &detail);
  AddStaged(record, &detail);
  AddProgress(record, now, &detail);
  return detail;
}

}  // namespace mccs
