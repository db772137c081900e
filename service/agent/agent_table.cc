#include "service/agent/agent_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "proto/report_interval.h"
#include "proto/report_progress.h"
#include "service/agent/order_proto.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {
namespace {

// A larger message with reports is followed by another one.
constexpr size_t kMostReportsBytes = 1u << 20;

static_assert(AgentTable::kCollectNs < kReportDelayNs);

}  // namespace

AgentTable::Entry* AgentTable::Find(CommId id) {
  const auto known = entries_.find(id);
  if (known != entries_.end()) return &known->second;
  return entries_.size() < kMaxEntries ? &entries_[id] : nullptr;
}

void AgentTable::Announce(const agent::v1::Announce& announce) {
  Entry* entry = Find(CommId(announce.comm_id()));
  if (entry == nullptr) return;
  *entry = Entry();
  entry->announce = announce;
  entry->announce_unsent = urgent_ = true;
}

void AgentTable::Report(const agent::v1::Report& report) {
  const CommId id(report.comm_id());
  Entry* entry = Find(id);
  if (entry == nullptr) return;
  if (!entry->report.has_value()) {
    const auto early = std::ranges::find(early_rate_updates_, id, &RateUpdate::id);
    if (early != early_rate_updates_.end()) {
      Replace(&rate_updates_, std::move(*early));
      early_rate_updates_.erase(early);
    }
  }
  entry->report = report;
  entry->difference =
      entry->sent.has_value() ? ProgressBetween(*entry->sent, report) : std::nullopt;
  MarkReport(entry, entry->difference.has_value() ? ReportState::kWaiting : ReportState::kUrgent);
  // The controller must get the announcement of a strategy before reports about it.
  const auto adopted = std::ranges::find(entry->accepted, Epoch(report.epoch()), &Strategy::epoch);
  if (entry->announce && adopted != entry->accepted.end()) {
    if (entry->announce->strategy().epoch() != report.epoch()) {
      ToProto(*adopted, entry->announce->mutable_strategy());
      entry->announce_unsent = urgent_ = true;
    }
    entry->accepted.erase(entry->accepted.begin(), adopted);
  }
}

void AgentTable::Ended(CommId id, const std::string& why) {
  const auto known = entries_.find(id);
  if (known == entries_.end()) return;
  known->second.ended = why;
  urgent_ = true;
}

void AgentTable::DropEnded() {
  std::erase_if(entries_, [](const auto& entry) {
    return entry.second.ended.has_value() && !entry.second.registered;
  });
}

void AgentTable::DropRegistration() {
  for (auto& [id, entry] : entries_) entry.registered = false;
  DropEnded();
}

std::vector<agent::v1::Announce> AgentTable::Registration() {
  std::vector<agent::v1::Announce> led;
  DropRegistration();
  urgent_ = true;
  heartbeats_ = 0;
  named_rendezvous_unsent_ =
      named_rendezvous_.open_size() > 0 || named_rendezvous_.sought_size() > 0;
  unreachable_hosts_unsent_ =
      unreachable_hosts_.suspected_size() > 0 || unreachable_hosts_.unreachable_size() > 0;
  if (std::exchange(has_peer_hosts_, false))
    peer_hosts_.emplace();  // Not known for this stream yet.
  for (auto& [id, entry] : entries_) {
    entry.sent.reset();
    entry.difference.reset();
    if (entry.report.has_value()) MarkReport(&entry, ReportState::kUrgent);
    // A communicator without a strategy is announced in a message of its own, so that the
    // controller answers it.
    if (!entry.announce || !entry.report) {
      entry.announce_unsent = entry.announce.has_value();
      continue;
    }
    entry.announce_unsent = false;
    entry.registered = true;
    entry.announce->set_running(true);
    entry.announce->set_newest_epoch(entry.newest.value());
    led.push_back(*entry.announce);
  }
  return led;
}

void AgentTable::MarkReport(Entry* entry, ReportState state) {
  entry->report_state = std::max(entry->report_state, state);
  urgent_ |= entry->report_state == ReportState::kUrgent;
  waiting_ |= entry->report_state == ReportState::kWaiting;
}

void AgentTable::AddReport(Entry* entry, agent::v1::Reports* reports) {
  if (entry->difference.has_value() && !entry->repeats) {
    *reports->add_progress() = *std::move(entry->difference);
  } else {
    *reports->add_complete() = *entry->report;
  }
  entry->sent = entry->report;
  entry->difference.reset();
  entry->repeats = false;
  entry->report_state = ReportState::kSent;
}

MonotonicNs AgentTable::NextUnsent() const {
  if (urgent_ || !replies_.empty() || gpu_survey_.has_value() || named_rendezvous_unsent_ ||
      unreachable_hosts_unsent_) {
    return kAtOnce;
  }
  return waiting_ ? progress_due_ : kNever;
}

std::vector<agent::v1::FromAgent> AgentTable::TakeUnsent(MonotonicNs now) {
  std::vector<agent::v1::FromAgent> messages(std::make_move_iterator(replies_.begin()),
                                             std::make_move_iterator(replies_.end()));
  replies_.clear();
  if (gpu_survey_.has_value()) {
    *messages.emplace_back().mutable_gpu_survey() = *std::move(gpu_survey_);
    gpu_survey_.reset();
  }
  if (std::exchange(named_rendezvous_unsent_, false))
    *messages.emplace_back().mutable_named_rendezvous() = named_rendezvous_;
  if (std::exchange(unreachable_hosts_unsent_, false))
    *messages.emplace_back().mutable_unreachable_hosts() = unreachable_hosts_;
  if (waiting_ && progress_due_ == kAtOnce) progress_due_ = now + kCollectNs;
  const bool progress = waiting_ && now >= progress_due_;
  if (!urgent_ && !progress) return messages;
  const ReportState least = progress ? ReportState::kWaiting : ReportState::kUrgent;
  std::vector<agent::v1::FromAgent> reports;
  std::vector<agent::v1::FromAgent> ends;
  size_t taken = messages.size();
  size_t reports_bytes = 0;  // of the last message, at most
  auto it = entries_.begin();
  while (it != entries_.end() && taken < kMaxUnsent) {
    Entry& entry = it->second;
    if (std::exchange(entry.announce_unsent, false)) {
      entry.announce->set_running(entry.report.has_value());
      entry.announce->set_newest_epoch(entry.newest.value());
      *messages.emplace_back().mutable_announce() = *entry.announce;
      ++taken;
    }
    const bool last = entry.ended.has_value() && entry.report_state != ReportState::kSent;
    if (last || entry.report_state >= least) {
      if (reports.empty() || reports_bytes >= kMostReportsBytes) {
        reports.emplace_back();
        reports_bytes = 0;
      }
      reports_bytes += entry.report->ByteSizeLong();
      AddReport(&entry, reports.back().mutable_reports());
      ++taken;
    }
    if (entry.ended) {
      agent::v1::Ended* ended = ends.emplace_back().mutable_ended();
      ended->set_comm_id(it->first.value());
      ended->set_reason(*entry.ended);
      ++taken;
      it = entries_.erase(it);
    } else {
      ++it;
    }
  }
  if (it == entries_.end()) {
    urgent_ = false;
    if (progress) {
      waiting_ = false;
      progress_due_ = kAtOnce;
    }
  }
  std::ranges::move(reports, std::back_inserter(messages));
  std::ranges::move(ends, std::back_inserter(messages));
  return messages;
}

void AgentTable::ResendReports() {
  for (auto& [id, entry] : entries_) {
    if (!entry.report.has_value()) continue;
    entry.repeats = true;
    MarkReport(&entry, ReportState::kWaiting);
  }
}

void AgentTable::OnHeartbeat(int64_t report_every_ns) {
  const int64_t longer = std::max(report_every_ns, kDefaultReportIntervalNs);
  if (++heartbeats_ < kHeartbeatsPerRepeat * longer / kDefaultReportIntervalNs) return;
  heartbeats_ = 0;
  ResendReports();
}

absl::Status AgentTable::Propose(const agent::v1::Propose& proposal) {
  const CommId id(proposal.comm_id());
  const auto known = entries_.find(id);
  if (known == entries_.end() || !known->second.announce || known->second.ended) {
    return absl::NotFoundError(
        absl::StrCat("communicator ", FormatCommId(id), ": this host is not its leader"));
  }
  MCCS_ASSIGN_OR_RETURN(Strategy strategy, StrategyFromProto(proposal.strategy(),
                                                             known->second.announce->hosts_size()));
  known->second.newest = std::max(known->second.newest, strategy.epoch);
  if (!known->second.proposal) proposed_.push_back(id);
  known->second.proposal = std::move(strategy);
  return absl::OkStatus();
}

std::optional<Proposal> AgentTable::TakeProposal() {
  while (!proposed_.empty()) {
    const CommId id = proposed_.front();
    proposed_.pop_front();
    const auto known = entries_.find(id);
    if (known == entries_.end() || !known->second.proposal) continue;  // It has ended.
    std::vector<Strategy>& accepted = known->second.accepted;
    // Older proposals cannot be committed any more: the last one follows the one in progress.
    if (accepted.size() == kMaxAccepted) accepted.erase(accepted.begin() + 1);
    accepted.push_back(*std::exchange(known->second.proposal, std::nullopt));
    return Proposal{id, accepted.back()};
  }
  return std::nullopt;
}

absl::Status AgentTable::SetRateLimits(const agent::v1::RateLimits& order) {
  const CommId id(order.comm_id());
  MCCS_ASSIGN_OR_RETURN(RateLimits limits, RateLimitsFromProto(order));
  const auto known = entries_.find(id);
  if (known != entries_.end() && known->second.ended) return absl::OkStatus();
  const bool runs = known != entries_.end() && (known->second.announce || known->second.report);
  Replace(runs ? &rate_updates_ : &early_rate_updates_, {id, std::move(limits)});
  if (early_rate_updates_.size() > kMaxEarlyRateUpdates) early_rate_updates_.pop_front();
  return absl::OkStatus();
}

void AgentTable::Replace(std::deque<RateUpdate>* orders, RateUpdate order) {
  const auto older = std::ranges::find(*orders, order.id, &RateUpdate::id);
  if (older != orders->end()) {
    // After a broken stream, orders may arrive out of order of their revisions.
    if (older->limits.revision > order.limits.revision) return;
    orders->erase(older);
  }
  orders->push_back(std::move(order));
}

std::optional<RateUpdate> AgentTable::TakeRateUpdate() {
  if (rate_updates_.empty()) return std::nullopt;
  RateUpdate order = std::move(rate_updates_.front());
  rate_updates_.pop_front();
  return order;
}

void AgentTable::SetTenants(const agent::v1::Tenants& tenants) {
  tenants_ = TenantsFromProto(tenants);
  if (!tenants.id_key().empty()) id_key_ = tenants.id_key();
}

void AgentTable::SetNamedRendezvous(const agent::v1::NamedRendezvous& all) {
  named_rendezvous_ = all;
  named_rendezvous_unsent_ = true;
}

absl::Status AgentTable::AddFoundRendezvous(const agent::v1::FoundRendezvous& found) {
  const auto& sought = named_rendezvous_.sought();
  if (std::ranges::find(sought, found.id()) == sought.end()) return absl::OkStatus();  // It was.
  const absl::StatusOr<Endpoint> at = ParseEndpoint(found.peer_endpoint());
  if (!at.ok() || !IsNumericAddress(at->host)) {
    return absl::InvalidArgumentError(absl::StrCat("invalid endpoint '", found.peer_endpoint(),
                                                   "' of the rendezvous on host ", found.host()));
  }
  const CommId id(found.id());
  found_rendezvous_[id] = {.id = id, .host = found.host(), .at = *at};
  return absl::OkStatus();
}

std::optional<FoundRendezvous> AgentTable::TakeFoundRendezvous() {
  if (found_rendezvous_.empty()) return std::nullopt;
  return std::move(found_rendezvous_.extract(found_rendezvous_.begin()).mapped());
}

void AgentTable::SetUnreachableHosts(const agent::v1::UnreachableHosts& all) {
  unreachable_hosts_ = all;
  unreachable_hosts_unsent_ = true;
}

absl::Status AgentTable::SetPeerHosts(const agent::v1::PeerHosts& list) {
  absl::Status skipped;
  PeerHosts peers{.revision = list.revision(), .hosts = {}};
  for (const agent::v1::PeerHost& peer : list.hosts()) {
    const absl::StatusOr<Endpoint> at = ParseEndpoint(peer.peer_endpoint());
    if (!at.ok() || !IsNumericAddress(at->host)) {
      skipped.Update(absl::InvalidArgumentError(
          absl::StrCat("invalid endpoint '", peer.peer_endpoint(), "' of the daemon on host ",
                       peer.host(), "; the other hosts of the list are used")));
      continue;
    }
    peers.hosts.push_back({.host = peer.host(),
                           .at = *at,
                           .check = peer.check(),
                           .unreachable = peer.unreachable(),
                           .unreachable_for_ns = peer.unreachable_for_ns()});
  }
  has_peer_hosts_ = !peers.hosts.empty();
  peer_hosts_ = std::move(peers);
  return skipped;
}

void AgentTable::AddStateRequest(uint64_t request_id) {
  if (state_requests_.size() < kMaxStateRequests) state_requests_.push_back(request_id);
}

std::optional<uint64_t> AgentTable::TakeStateRequest() {
  if (state_requests_.empty()) return std::nullopt;
  const uint64_t request_id = state_requests_.front();
  state_requests_.pop_front();
  return request_id;
}

void AgentTable::AddState(uint64_t request_id, const state::Daemon& state) {
  if (replies_.size() >= kMaxStateRequests) return;
  agent::v1::Dumped* dumped = replies_.emplace_back().mutable_dumped();
  dumped->set_request_id(request_id);
  *dumped->mutable_state() = state;
}

// An order to stop has no answer if the request was not taken: the controller has ended it.
void AgentTable::AddTraceOrder(const TraceOrder& order) {
  if (order.stop && std::erase_if(trace_orders_, [&](const TraceOrder& waiting) {
                      return waiting.request_id == order.request_id;
                    }) > 0) {
    return;
  }
  if (trace_orders_.size() < kMaxStateRequests) trace_orders_.push_back(order);
}

std::optional<TraceOrder> AgentTable::TakeTraceOrder() {
  if (trace_orders_.empty()) return std::nullopt;
  const TraceOrder order = trace_orders_.front();
  trace_orders_.pop_front();
  return order;
}

void AgentTable::AddTrace(uint64_t request_id, const trace::Host& trace) {
  if (replies_.size() >= kMaxStateRequests) return;
  agent::v1::Traced* traced = replies_.emplace_back().mutable_traced();
  traced->set_request_id(request_id);
  *traced->mutable_trace() = trace;
}

void AgentTable::AddProbeResult(agent::v1::Probed probed) {
  if (replies_.size() >= 2 * kMaxStateRequests)
    return;  // The rest is reserved for operators' requests.
  *replies_.emplace_back().mutable_probed() = std::move(probed);
}

void AgentTable::DropStateRequests() {
  state_requests_.clear();
  trace_orders_.clear();
  replies_.clear();
}

void ClockEcho::OnHeartbeat(const agent::v1::Heartbeat& beat, MonotonicNs now) {
  received_sent_ = beat.sent_ns();
  received_ = now;
}

agent::v1::Heartbeat ClockEcho::MakeHeartbeat(MonotonicNs now) const {
  agent::v1::Heartbeat beat;
  beat.set_sent_ns(now);
  if (received_sent_ == 0) return beat;
  beat.set_echoed_sent_ns(received_sent_);
  beat.set_received_ns(received_);
  return beat;
}

}  // namespace mccs
