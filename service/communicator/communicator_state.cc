// The part of a Communicator that reports its whole state to an operator
// (proto/daemon_state.proto).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/communicator/communicator.h"

namespace mccs {
namespace {

// By LaneWait.
constexpr const char* kLaneWaitNames[] = {"", "credit", "rate", "connection"};
// By Communicator::State; kFailed adds the reason.
constexpr const char* kStateNames[] = {"forming", "active", "failed: ", "closed"};

std::string DescribeState(const LaneEnd& lane) {
  if (lane.state() == LaneState::kReady) return "up";
  return lane.status().ok() ? std::string(Name(lane.state()))
                            : std::string(lane.status().message());
}

void WriteLaneStates(const char* name, const LaneSet& set, const Membership& members,
                     state::Communicator* out) {
  const auto add = [&](const auto& lane, const char* direction) {
    state::Lane* entry = out->add_lanes();
    const LaneCounters counters = lane.lane().counters();
    entry->set_channel(lane.channel().value());
    entry->set_direction(direction);
    entry->set_host(members.HostName(lane.peer()));
    entry->set_lanes(name);
    entry->set_local(ToString(lane.lane().local()));
    entry->set_remote(ToString(lane.lane().remote()));
    entry->set_state(DescribeState(lane.lane()));
    entry->set_credit(counters.credit);
    entry->set_payload_bytes(counters.payload_bytes);
    entry->set_reconnects(counters.reconnects);
    return entry;
  };
  for (const auto& lane : set.outgoing()) {
    state::Lane* entry = add(*lane, "out");
    entry->set_next(lane->lane().next());
    entry->set_acknowledged(lane->lane().acknowledged());
    entry->set_waits_for(kLaneWaitNames[static_cast<size_t>(lane->lane().waits_for())]);
  }
  for (const auto& lane : set.incoming()) {
    add(*lane, "in")->set_next(lane->lane().counters().slices);
  }
}

void WriteStrategyState(const Strategy& strategy, const Membership& members,
                        state::Communicator* out) {
  out->set_epoch(strategy.epoch.value());
  out->set_strategy(strategy.origin);
  for (const ChannelStrategy& channel : strategy.channels) {
    std::vector<std::string> names;
    for (HostIndex host : channel.ring) names.push_back(members.HostName(host));
    out->add_rings(absl::StrJoin(names, " → "));
  }
}

}  // namespace

void Communicator::WriteState(state::Communicator* out) const {
  out->set_id(FormatCommId(id()));
  out->set_tenant(tenant_);
  out->set_state(absl::StrCat(kStateNames[static_cast<size_t>(state_)],
                              state_ == State::kFailed ? failure_->why.message() : ""));
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) out->add_ranks(local.rank.value());
  }
  for (size_t kind = 0; kind < tally_.work().size(); ++kind) {
    const KindWork& work = tally_.work()[kind];
    if (work.operations == 0) continue;
    state::KindWork* entry = out->add_work();
    entry->set_kind(std::string(Name(static_cast<OpKind>(kind))));
    entry->set_operations(work.operations);
    entry->set_bytes(work.bytes);
  }
  out->set_operations(done().operations);
  out->set_stalled_on(reporter_.stalled_on());
  out->set_change_error(reporter_.change_error());
  out->set_staged(reporter_.staged());
  if (!formation_.members.has_value()) return;
  const Membership& members = *formation_.members;
  for (int h = 0; h < members.hosts(); ++h) out->add_hosts(members.HostName(HostIndex(h)));
  out->set_leads(members.leader == members.self);
  if (formation_.strategy.has_value()) WriteStrategyState(*formation_.strategy, members, out);
  if (formation_.lanes != nullptr) {
    formation_.lanes->ForEachSet(
        [&](const char* name, const LaneSet& set) { WriteLaneStates(name, set, members, out); });
  }
  if (state_ == State::kActive) work_->WriteState(out);
}

}  // namespace mccs
