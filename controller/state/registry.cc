#include "controller/state/registry.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "proto/report_progress.h"
#include "proto/same_message.h"

namespace mccs {
namespace {

uint64_t ReconnectsIn(const agent::v1::Report& report) {
  uint64_t reconnects = 0;
  for (const agent::v1::Lane& lane : report.lanes()) reconnects += lane.reconnects();
  return reconnects;
}

// Compares everything but the strategy.
bool HasSameMembers(agent::v1::Announce a, agent::v1::Announce b) {
  for (agent::v1::Announce* each : {&a, &b}) {
    each->clear_strategy();
    each->clear_newest_epoch();
    each->clear_running();
  }
  return IsSameMessage(a, b);
}

// Takes over the applied strategy from the leader's message.
void ApplyAnnounce(const agent::v1::Announce& announce, CommunicatorRecord* record) {
  // Rings are positions in the hosts for which they were proposed.
  const auto& hosts = announce.hosts();
  const auto& before = record->announced.hosts();
  if (!std::equal(hosts.begin(), hosts.end(), before.begin(), before.end())) {
    record->proposed.clear();
    record->reports.clear();
    record->position_of.clear();
    for (int i = 0; i < hosts.size(); ++i) record->position_of[hosts[i]] = i;
  }
  record->announced = announce;
  const uint64_t applied = announce.strategy().epoch();
  std::erase_if(record->proposed, [&](const auto& s) { return s.epoch() <= applied; });
  record->newest_epoch = std::max({record->newest_epoch, applied, announce.newest_epoch()});
}

HostView ViewOf(const HostRecord& record) {
  const agent::v1::Host& host = record.host;
  HostView view = {.position = {host.position().pod(), host.position().rack(), host.name()},
                   .gpus = host.gpus_size(),
                   .ready = record.state == HostState::kReady};
  for (const agent::v1::Nic& nic : host.nics()) {
    view.nics.push_back({.name = nic.name(),
                         .addresses = {nic.addresses().begin(), nic.addresses().end()},
                         .speed_bps = nic.speed_bps(),
                         .mtu_bytes = nic.mtu_bytes()});
  }
  if (absl::StatusOr<Endpoint> peer = ParseEndpoint(host.peer_endpoint()); peer.ok()) {
    view.peer_address = std::move(peer->host);
    view.peer_port = peer->port;
  }
  return view;
}

// The names and addresses by which operators find a host that has never registered.
agent::v1::Host NamesOf(const agent::v1::Host& host) {
  agent::v1::Host names;
  names.set_name(host.name());
  names.mutable_position()->set_pod(host.position().pod());
  names.mutable_position()->set_rack(host.position().rack());
  names.set_peer_endpoint(host.peer_endpoint());
  names.set_version(host.version());
  return names;
}

// Only the host of rank 0 leads. REQUIRES: CheckAnnounce.
absl::Status CheckHasRankZero(const std::string& host, const agent::v1::Announce& announce) {
  const std::string& leader = announce.members(0).host();
  if (leader == host) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("communicator ", FormatCommId(CommId(announce.comm_id())),
                   " as announced: rank 0 is on host ", leader, ", not on ", host));
}

// The ranks of a communicator, by host.
struct RanksByHost {
  std::vector<std::vector<int>> gpus;         // indices of the ranks' GPUs, ascending
  std::vector<int> first_ranks;               // the lowest rank
  std::vector<std::vector<int>> gpu_of_rank;  // by ascending rank; -1: not known
};

RanksByHost SortRanks(const CommunicatorRecord& record,
                      const std::map<std::string, HostRecord>& hosts) {
  const agent::v1::Announce& announced = record.announced;
  const auto size = static_cast<size_t>(announced.hosts_size());
  RanksByHost ranks{.gpus = std::vector<std::vector<int>>(size),
                    .first_ranks = std::vector<int>(size, std::numeric_limits<int>::max()),
                    .gpu_of_rank = std::vector<std::vector<int>>(size)};
  std::vector<std::vector<std::pair<int, int>>> sorted(size);  // rank, GPU
  for (const cluster::Member& member : announced.members()) {
    const auto position = record.position_of.find(member.host());
    if (position == record.position_of.end()) continue;
    const auto place = static_cast<size_t>(position->second);
    ranks.first_ranks[place] = std::min(ranks.first_ranks[place], member.rank());
    sorted[place].emplace_back(member.rank(), -1);
    const auto host = hosts.find(member.host());
    if (host == hosts.end()) continue;
    for (const agent::v1::Gpu& gpu : host->second.host.gpus()) {
      if (gpu.bus_id() != member.gpu()) continue;
      ranks.gpus[place].push_back(gpu.index());
      sorted[place].back().second = gpu.index();
    }
  }
  for (size_t place = 0; place < size; ++place) {
    std::vector<int>& gpus = ranks.gpus[place];
    std::sort(gpus.begin(), gpus.end());
    gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
    std::sort(sorted[place].begin(), sorted[place].end());
    for (const auto& [rank, gpu] : sorted[place]) ranks.gpu_of_rank[place].push_back(gpu);
  }
  return ranks;
}

}  // namespace

absl::Status CheckRings(const google::protobuf::RepeatedPtrField<std::string>& hosts,
                        const strategy::Strategy& strategy) {
  const auto reject = [](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat(why...));
  };
  if (hosts.empty()) return reject("no hosts");
  std::set<std::string> names;
  for (const std::string& host : hosts) {
    if (!names.insert(host).second) return reject("host ", host, " is a duplicate");
  }
  if (strategy.channels_size() == 0) return reject("the strategy has no channel");
  for (const strategy::ChannelStrategy& channel : strategy.channels()) {
    std::vector<bool> seen(static_cast<size_t>(hosts.size()));
    for (const int host : channel.ring()) {
      if (host < 0 || host >= hosts.size()) {
        return reject("a ring contains host index ", host, ": expected 0 to ", hosts.size() - 1);
      }
      if (seen[static_cast<size_t>(host)]) return reject("a ring contains host ", host, " twice");
      seen[static_cast<size_t>(host)] = true;
    }
    if (channel.ring_size() != hosts.size()) {
      return reject("a ring contains ", channel.ring_size(), " of ", hosts.size(), " hosts");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAnnounce(const agent::v1::Announce& announce) {
  const auto reject = [&](const auto&... why) {
    return absl::InvalidArgumentError(absl::StrCat(
        "communicator ", FormatCommId(CommId(announce.comm_id())), " as announced: ", why...));
  };
  if (announce.comm_id() == 0) return reject("0 is not a valid id");
  if (announce.members_size() < announce.hosts_size()) {
    return reject(announce.members_size(), " ranks on ", announce.hosts_size(), " hosts");
  }
  if (announce.members_size() == 0 || announce.members(0).rank() != 0)
    return reject("the first rank is not rank 0");
  if (std::ranges::find(announce.hosts(), announce.members(0).host()) == announce.hosts().end())
    return reject("rank 0 is on none of the hosts");
  if (const absl::Status rings = CheckRings(announce.hosts(), announce.strategy()); !rings.ok())
    return reject(std::string(rings.message()));
  return absl::OkStatus();
}

void ConvergenceTimes::Add(double seconds) {
  const auto bucket = std::lower_bound(kBounds.begin(), kBounds.end(), seconds) - kBounds.begin();
  ++counts[static_cast<size_t>(bucket)];
  sum_seconds += seconds;
}

uint64_t ConvergenceTimes::count() const {
  return std::accumulate(counts.begin(), counts.end(), uint64_t{0});
}

absl::StatusOr<Unlisted> Registry::Register(AgentKey agent, const agent::v1::Register& registration,
                                            MonotonicNs now) {
  const agent::v1::Host& host = registration.host();
  if (host.name().empty()) {
    return absl::InvalidArgumentError(
        "cannot register the host: its name is empty; set `host` in mccsd's configuration");
  }
  const auto& all = registration.communicators();
  const std::span led(all.data(), std::min<size_t>(all.size(), HostStorage::kMaxLed));
  for (const agent::v1::Announce* announce : led)
    MCCS_RETURN_IF_ERROR(CheckHasRankZero(host.name(), *announce));
  const auto known = hosts_.find(host.name());
  const bool is_new = known == hosts_.end() || !known->second.registered;
  if (is_new && hosts_.size() - unregistered_ >= kMaxHosts) {
    return absl::ResourceExhaustedError(
        absl::StrCat("too many hosts: the limit is ", kMaxHosts, "; stop unused daemons"));
  }
  // A daemon that reconnects before its old connection times out has the same endpoint.
  if (known != hosts_.end() && known->second.state == HostState::kReady &&
      known->second.host.peer_endpoint() != host.peer_endpoint()) {
    return absl::AlreadyExistsError(absl::StrCat(
        "a daemon at ", known->second.host.peer_endpoint(), " is connected as host '", host.name(),
        "'; give the one at ", host.peer_endpoint(), " another host name"));
  }
  if (known != hosts_.end() && is_new) --unregistered_;
  hosts_[host.name()] = {.host = host,
                         .topology = registration.topology(),
                         .why = "",
                         .agent = agent,
                         .since = now,
                         .received_at = now,
                         .registered = true};
  ++hosts_revision_;

  std::map<CommId, CommunicatorRecord> before;
  for (auto it = communicators_.begin(); it != communicators_.end();) {
    auto next = std::next(it);
    if (it->second.leader == host.name()) {
      storage_.RemoveAnnounce(it->first);
      before.insert(communicators_.extract(it));
    }
    it = next;
  }
  Unlisted unlisted{.count = static_cast<size_t>(all.size()) - led.size()};
  for (const agent::v1::Announce* announce : led) {
    const CommId id(announce->comm_id());
    if (absl::Status why = Admit(host.name(), *announce); !why.ok()) {
      ++unlisted.count;
      unlisted.first.Update(std::move(why));
      continue;
    }
    if (const auto old = before.find(id); old != before.end()) {
      // Proposals to the old daemon are lost.
      std::erase_if(old->second.proposed,
                    [&](const auto& s) { return s.epoch() > announce->newest_epoch(); });
      communicators_.insert(before.extract(old));
    }
    CommunicatorRecord& record = communicators_[id];
    if (record.leader.empty()) record.since = now;
    record.leader = host.name();
    ApplyAnnounce(*announce, &record);
    if (record.reports.empty()) storage_.RemoveReports(id);
  }
  if (unlisted.count > 0 && unlisted.first.ok()) {
    unlisted.first = absl::ResourceExhaustedError(absl::StrCat(
        "host ", host.name(), " leads more than ", HostStorage::kMaxLed, " communicators"));
  }
  for (const auto& [id, record] : before) storage_.Remove(id);
  // The host may have other GPUs now.
  for (auto& [id, record] : communicators_) BumpRevision(&record);
  return unlisted;
}

absl::Status Registry::Admit(const std::string& host, const agent::v1::Announce& announce) {
  MCCS_RETURN_IF_ERROR(CheckHasRankZero(host, announce));
  const CommId id(announce.comm_id());
  const auto known = communicators_.find(id);
  if (known == communicators_.end() && communicators_.size() >= kMaxCommunicators) {
    return absl::ResourceExhaustedError(absl::StrCat("too many communicators: the limit is ",
                                                     kMaxCommunicators, "; destroy unused ones"));
  }
  if (known != communicators_.end() && known->second.leader != host) {
    return absl::AlreadyExistsError(absl::StrCat("communicator ", FormatCommId(id), " is led by ",
                                                 known->second.leader, ", not by ", host));
  }
  return storage_.SetAnnounce(host, id, announce.SpaceUsedLong());
}

void Registry::RecordRejected(const agent::v1::Host& host, const std::string& why,
                              MonotonicNs now) {
  if (host.name().empty()) return;
  const auto known = hosts_.find(host.name());
  if (known == hosts_.end()) {
    if (unregistered_ >= kMaxRejectedHosts) return;
    ++unregistered_;
  } else if (known->second.state == HostState::kReady) {
    return;
  }
  HostRecord& record = hosts_[host.name()];
  // A daemon that retries stays rejected since its first attempt.
  const bool again = known != hosts_.end() && record.state == HostState::kRejected;
  agent::v1::Host recorded = record.registered ? std::move(record.host) : NamesOf(host);
  const bool same = again && (record.registered || IsSameMessage(record.host, recorded));
  record = {.host = std::move(recorded),
            .state = HostState::kRejected,
            .why = why,
            .agent = AgentKey(),
            .since = again ? record.since : now,
            .received_at = now,
            .registered = record.registered};
  if (!same) ++hosts_revision_;
}

std::vector<std::string> Registry::RemoveRejected(MonotonicNs tried_before) {
  std::vector<std::string> removed;
  if (unregistered_ == 0) return removed;
  std::erase_if(hosts_, [&](const auto& entry) {
    if (entry.second.registered || entry.second.received_at >= tried_before) return false;
    removed.push_back(entry.first);
    return true;
  });
  unregistered_ -= removed.size();
  if (!removed.empty()) ++hosts_revision_;
  return removed;
}

void Registry::RecordMessage(const std::string& host, MonotonicNs now) {
  hosts_.at(host).received_at = now;
}

bool Registry::RecordEngineTurns(const std::string& host, uint64_t turns, MonotonicNs now,
                                 int64_t stuck_after_ns) {
  HostRecord& record = hosts_.at(host);
  if (record.engine_turns != turns) {
    record.engine_turns = turns;
    record.turned_at = now;
  }
  const bool stuck = now - record.turned_at >= stuck_after_ns;
  return std::exchange(record.stuck, stuck) != stuck;
}

void Registry::SetGpuSurvey(const std::string& host, agent::v1::GpuSurvey survey) {
  *hosts_.at(host).host.mutable_gpu_survey() = std::move(survey);
}

absl::Status Registry::Announce(const std::string& host, const agent::v1::Announce& announce,
                                MonotonicNs now) {
  MCCS_RETURN_IF_ERROR(Admit(host, announce));
  const CommId id(announce.comm_id());
  CommunicatorRecord& record = communicators_[id];
  if (record.leader.empty()) record.since = now;
  record.leader = host;
  // Usually it has applied the newest proposal.
  const std::string newest = record.Newest().SerializeAsString();
  const bool same = record.revision > 0 && HasSameMembers(record.announced, announce);
  ApplyAnnounce(announce, &record);
  if (record.reports.empty()) storage_.RemoveReports(id);
  if (!same || record.Newest().SerializeAsString() != newest) BumpRevision(&record);
  return absl::OkStatus();
}

const strategy::Strategy& Registry::Propose(CommId id, strategy::Strategy strategy,
                                            MonotonicNs now) {
  CommunicatorRecord& record = communicators_.at(id);
  strategy.set_epoch(++record.newest_epoch);
  ++proposal_counts_.by_policy[strategy.origin().substr(0, strategy.origin().find(' '))];
  proposal_counts_.superseded += record.awaited.empty() ? 0 : 1;
  record.proposed_at = now;
  record.proposed_epoch = strategy.epoch();
  record.awaited = {record.announced.hosts().begin(), record.announced.hosts().end()};
  BumpRevision(&record);
  // Drops the oldest: the leader applies the newest next.
  if (record.proposed.size() == kMaxProposed) record.proposed.erase(record.proposed.begin());
  return record.proposed.emplace_back(std::move(strategy));
}

void Registry::DropProposals(CommId id) {
  CommunicatorRecord& record = communicators_.at(id);
  record.proposed.clear();
  BumpRevision(&record);
}

void Registry::SetCosts(CommId id, const CostParameters& costs) {
  CommunicatorRecord& record = communicators_.at(id);
  record.costs = costs;
  BumpRevision(&record);
}

Registry::ReportOutcome Registry::Report(const std::string& host, agent::v1::Report report) {
  const auto known = communicators_.find(CommId(report.comm_id()));
  if (known == communicators_.end()) return {};
  CommunicatorRecord& record = known->second;
  if (!record.position_of.contains(host)) return {};
  if (absl::Status fits = storage_.SetReport(host, known->first, report.SpaceUsedLong());
      !fits.ok()) {
    return {.refused = std::move(fits)};
  }
  const auto [stored, is_first] = record.reports.try_emplace(host);
  ReportOutcome outcome = {.report = &stored->second};
  outcome.lanes_broken = !is_first && ReconnectsIn(report) > ReconnectsIn(stored->second);
  stored->second = std::move(report);
  UpdateAwaited(host, *outcome.report, &record);
  if (host != record.leader) return outcome;
  const uint64_t rejected_epoch = outcome.report->rejected_epoch();
  record.newest_epoch = std::max({record.newest_epoch, outcome.report->epoch(), rejected_epoch});
  const size_t gone = std::erase_if(record.proposed, [&](const strategy::Strategy& proposed) {
    return proposed.epoch() <= rejected_epoch;
  });
  if (gone > 0) BumpRevision(&record);
  outcome.rejected = gone > 0 && record.proposed.empty();
  return outcome;
}

// Progress has no epochs, so that no proposal depends on it.
Registry::ReportOutcome Registry::ReportProgress(const std::string& host,
                                                 const agent::v1::Progress& progress) {
  const auto known = communicators_.find(CommId(progress.comm_id()));
  if (known == communicators_.end()) return {};
  // The other numbers replace those of the report.
  if (progress.activity().span_ns_size() > kMaxActivitySpans) return {};
  const auto stored = known->second.reports.find(host);
  if (stored == known->second.reports.end()) return {};
  return {.report = ApplyProgress(progress, &stored->second) ? &stored->second : nullptr};
}

void Registry::UpdateAwaited(const std::string& host, const agent::v1::Report& report,
                             CommunicatorRecord* record) {
  if (record->awaited.empty()) return;
  if (report.epoch() >= record->proposed_epoch) {
    record->awaited.erase(host);
    if (!record->awaited.empty()) return;
    const int64_t took_ns = hosts_.at(host).received_at - record->proposed_at;
    proposal_counts_.applied.Add(static_cast<double>(took_ns) / kNsPerSec);
  } else if (host == record->leader && report.rejected_epoch() >= record->proposed_epoch) {
    record->awaited.clear();
    ++proposal_counts_.rejected;
  }
}

bool Registry::OnCommunicatorEnded(const std::string& host, CommId id) {
  const auto known = communicators_.find(id);
  if (known == communicators_.end()) return false;
  if (known->second.leader != host) {
    known->second.reports.erase(host);
    storage_.RemoveReport(host, id);
    return false;
  }
  storage_.Remove(id);
  communicators_.erase(known);
  return true;
}

void Registry::MarkLost(const std::string& host, const std::string& why, MonotonicNs now) {
  HostRecord& record = hosts_.at(host);
  ++hosts_revision_;
  record.state = HostState::kLost;
  record.stuck = false;
  record.why = why;
  record.since = now;
  record.agent = AgentKey();
}

std::vector<CommId> Registry::RemoveOrphans(MonotonicNs lost_before) {
  std::vector<CommId> gone;
  std::erase_if(communicators_, [&](const auto& entry) {
    const HostRecord& leader = hosts_.at(entry.second.leader);
    if (leader.state == HostState::kReady || leader.since >= lost_before) return false;
    gone.push_back(entry.first);
    storage_.Remove(entry.first);
    return true;
  });
  return gone;
}

std::vector<HostView> Registry::HostViews() const {
  std::vector<HostView> hosts;
  for (const auto& [name, record] : hosts_) hosts.push_back(ViewOf(record));
  std::sort(hosts.begin(), hosts.end(),
            [](const HostView& a, const HostView& b) { return a.position < b.position; });
  return hosts;
}

ClusterView Registry::View() const {
  ClusterView view;
  view.hosts = HostViews();
  for (const auto& [id, record] : communicators_) view.communicators.push_back(View(id));
  return view;
}

CommunicatorView Registry::View(CommId id) const {
  const CommunicatorRecord& record = communicators_.at(id);
  RanksByHost ranks = SortRanks(record, hosts_);
  return {.id = id,
          .tenant = record.announced.tenant(),
          .hosts = {record.announced.hosts().begin(), record.announced.hosts().end()},
          .strategy = record.Newest(),
          .gpus = std::move(ranks.gpus),
          .first_ranks = std::move(ranks.first_ranks),
          .gpu_of_rank = std::move(ranks.gpu_of_rank),
          .cgroup = record.announced.cgroup(),
          .costs = record.costs,
          .revision = record.revision};
}

}  // namespace mccs
