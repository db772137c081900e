// The part of a Communicator that reports its whole state to an operator
// (proto/daemon_state.proto).
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/communicator/communicator.h"

namespace mccs {
namespace {

// Maximum number of waiting messages reported; a job may have thousands.
constexpr size_t kMaxMessages = 32;

const char* Name(LoopState state) {
  switch (state) {
    case LoopState::kIdle:
      return "idle";
    case LoopState::kWaitingRanks:
      return "waiting for ranks";
    case LoopState::kWaitingReady:
      return "waiting for streams";
    case LoopState::kWaitingQuota:
      return "waiting for the tenant's quota of operations";
    case LoopState::kRunning:
      return "running";
  }
  return "";
}

const char* Name(LaneWait wait) {
  switch (wait) {
    case LaneWait::kNothing:
      return "";
    case LaneWait::kCredit:
      return "credit";
    case LaneWait::kGate:
      return "gate";
    case LaneWait::kConnection:
      return "connection";
  }
  return "";
}

std::string Describe(const absl::Status& lane) {
  return lane.ok() ? "up" : std::string(lane.message());
}

void WriteLaneStates(const char* name, const LaneSet& set, const Membership& members,
                     state::Communicator* out) {
  const auto add = [&](const auto& lane, const char* direction) {
    state::Lane* told = out->add_lanes();
    const LaneCounters counters = lane.lane().counters();
    told->set_channel(lane.channel().value());
    told->set_direction(direction);
    told->set_host(members.HostName(lane.peer()));
    told->set_lanes(name);
    told->set_local(ToString(lane.lane().local()));
    told->set_remote(ToString(lane.lane().remote()));
    told->set_state(Describe(lane.lane().status()));
    told->set_credit(counters.credit);
    told->set_payload_bytes(counters.payload_bytes);
    told->set_reconnects(counters.reconnects);
    return told;
  };
  for (const auto& lane : set.outgoing()) {
    state::Lane* told = add(*lane, "out");
    told->set_next(lane->lane().next());
    told->set_acknowledged(lane->lane().acknowledged());
    told->set_waits_for(Name(lane->lane().waits_for()));
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

void Communicator::WriteOperationState(state::Operation* out) const {
  const OperationLoop::LocalRankStatus local_status = loop_->LocalStatus();
  out->set_number(loop_->completed() + 1);
  out->set_state(Name(loop_->state()));
  out->set_call(local_status.call);
  for (Rank rank : local_status.absent) out->add_not_entered(rank.value());
  for (Rank rank : local_status.late) out->add_not_reached(rank.value());
}

void Communicator::WriteState(state::Communicator* out) const {
  out->set_id(FormatCommId(id()));
  out->set_tenant(tenant_);
  switch (state_) {
    case State::kForming:
      out->set_state("forming");
      break;
    case State::kActive:
      out->set_state("active");
      break;
    case State::kFailed:
      out->set_state(absl::StrCat("failed: ", std::string(failure_.message())));
      break;
    case State::kClosed:
      out->set_state("closed");
      break;
  }
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) out->add_ranks(local.rank.value());
  }
  for (size_t kind = 0; kind < tally_.work().size(); ++kind) {
    const KindWork& work = tally_.work()[kind];
    if (work.operations == 0) continue;
    state::KindWork* told = out->add_work();
    told->set_kind(std::string(mccs::Name(static_cast<OpKind>(kind))));
    told->set_operations(work.operations);
    told->set_bytes(work.bytes);
  }
  out->set_operations(work().operations);
  out->set_stalled_on(stalled_on_);
  out->set_change_error(reporter_.change_error());
  if (!formation_.members.has_value()) return;
  const Membership& members = *formation_.members;
  for (int h = 0; h < members.hosts(); ++h) out->add_hosts(members.HostName(HostIndex(h)));
  out->set_leads(members.leader == members.self);
  if (formation_.strategy.has_value()) WriteStrategyState(*formation_.strategy, members, out);
  if (formation_.lanes != nullptr) {
    formation_.lanes->ForEachSet(
        [&](const char* name, const LaneSet& set) { WriteLaneStates(name, set, members, out); });
  }
  if (state_ != State::kActive) return;
  out->set_change(change_->Describe());
  out->set_captured_groups(ReplayableGroups());
  WriteOperationState(out->mutable_operation());
  const std::vector<OpenMessage> waiting = messages_->Unmatched();
  for (size_t i = 0; i < std::min(waiting.size(), kMaxMessages); ++i) {
    out->add_messages(mccs::Describe(waiting[i]));
  }
  if (waiting.size() > kMaxMessages) {
    out->add_messages(absl::StrCat("and ", waiting.size() - kMaxMessages, " more"));
  }
}

}  // namespace mccs
