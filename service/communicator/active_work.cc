#include "service/communicator/active_work.h"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/messages/striping.h"

namespace mccs {
namespace {

// Maximum number of waiting messages reported; a job may have thousands.
constexpr size_t kMaxMessages = 32;

const char* ToString(LoopState state) {
  switch (state) {
    case LoopState::kIdle:
      return "idle";
    case LoopState::kWaitingRanks:
      return "waiting for ranks";
    case LoopState::kWaitingReady:
      return "waiting for streams";
    case LoopState::kWaitingQuota:
      return "waiting for the tenant's quota of operations";
    case LoopState::kWaitingPlan:
      return "building its plan";
    case LoopState::kWaitingNics:
      return "waiting for NICs to register its buffers";
    case LoopState::kRunning:
      return "running";
  }
  return "";
}

LeftAfter LeftAfterOf(const ActiveWork::Options& options) {
  return [&departures = *options.departures, &members = *options.formation->members](
             HostIndex host) { return departures.LastOf(members.layout.hosts[host.value()]); };
}

int ChannelsOf(const Strategy& strategy) { return static_cast<int>(strategy.channels.size()); }

int MessageLanesOf(const Formation& formation) {
  return MessageLanes(formation.strategy->lanes, formation.members->hosts());
}

int HomeLanesOf(const Formation& formation) {
  return std::min(ChannelsOf(*formation.strategy), MessageLanesOf(formation));
}

std::function<std::string(HostIndex)> HostNames(const Formation& formation) {
  return [&members = *formation.members](HostIndex host) { return members.HostName(host); };
}

// Appends those that it does not have. Both are short.
template <typename Awaited>
void AddNew(const std::vector<Awaited>& from, std::vector<Awaited>* to) {
  for (const Awaited& each : from) {
    if (std::ranges::find(*to, each) == to->end()) to->push_back(each);
  }
}

}  // namespace

ActiveWork::ActiveWork(const Options& options)
    : formation_(*options.formation),
      departures_(*options.departures),
      clock_(*options.environment->access.clock),
      ranks_(options.ranks),
      order_(formation_.star.get(), formation_.members->hosts(), LeftAfterOf(options)),
      change_({.star = formation_.star.get(),
               .hosts = formation_.members->hosts(),
               .self = formation_.members->self,
               .layout = &formation_.members->layout,
               .lanes = formation_.lanes.get(),
               .log = formation_.log,
               .name = FormatCommId(formation_.id),
               .name_of = HostNames(formation_),
               .left_after = LeftAfterOf(options)},
              *formation_.strategy),
      loop_({options.environment->device, &formation_.lanes->current(), &order_, &change_,
             options.tally, &clock_, options.account, formation_.budget, options.runners},
            formation_.members->layout, formation_.members->self, *formation_.strategy, ranks_),
      messages_(*options.environment->device,
                {.host_of = formation_.members->host_of,
                 .hosts = formation_.members->hosts(),
                 .self = formation_.members->self,
                 .slice_bytes = formation_.strategy->lanes.slot_bytes,
                 .slots = formation_.strategy->lanes.slots,
                 .open_lane = [lanes = &formation_.lanes->messages()](
                                  HostIndex host,
                                  int lane) { return lanes->SendTo(MessageChannel(lane), host); },
                 .allocate = [lanes = &formation_.lanes->messages()](
                                 uint64_t bytes) { return lanes->AllocateMemory(bytes); },
                 .most_lanes = MessageLanesOf(formation_),
                 .home_lanes = HomeLanesOf(formation_),
                 .home_of =
                     [&members = *formation_.members,
                      lanes = HomeLanesOf(formation_)](const RankPair& pair) {
                       return HomeLane(members.layout, members.host_of, pair, lanes);
                     },
                 .channels = ChannelsOf(*formation_.strategy),
                 .tally = options.tally},
                ranks_),
      reached_groups_(ranks_),
      watcher_({.members = &*formation_.members,
                .star = formation_.star.get(),
                .log = formation_.log,
                .name = FormatCommId(formation_.id),
                .warn_after_ns = options.warn_after_ns,
                .local_entered = [this] { return LocalEntered(); }}),
      progress_watcher_({.members = &*formation_.members,
                         .log = formation_.log,
                         .name = FormatCommId(formation_.id)}),
      message_watcher_(
          {.log = formation_.log,
           .name = FormatCommId(formation_.id),
           .warn_after_ns = options.warn_after_ns,
           .host_of = [&members = *formation_.members](Rank rank) { return members.HostOf(rank); },
           .name_of = HostNames(formation_)}),
      tenant_(options.tenant),
      account_(options.account),
      stalls_(options.environment->counters != nullptr ? &options.environment->counters->stalls
                                                       : nullptr,
              formation_.id) {
  formation_.lanes->messages().SetMessageListener(
      [this](HostIndex from, int lane, RecvLane& receive) {
        messages_.AddLane(from, lane, receive);
      });
  if (formation_.proposal.has_value()) {  // It arrived too late for the first strategy.
    change_.Propose(*std::exchange(formation_.proposal, std::nullopt));
  }
}

// ---- Turns of the engine ------------------------------------------------------------------------

absl::StatusOr<bool> ActiveWork::PollCalls() {
  MCCS_ASSIGN_OR_RETURN(bool moved, reached_groups_.Poll());
  MCCS_ASSIGN_OR_RETURN(const bool collectives_moved, loop_.Poll());
  moved |= collectives_moved;
  MCCS_ASSIGN_OR_RETURN(const bool messages_moved, messages_.Poll());
  moved |= messages_moved;
  moved |= order_.Poll();
  return moved;
}

absl::StatusOr<bool> ActiveWork::PollLanes() {
  const absl::StatusOr<bool> lanes_moved = formation_.lanes->Poll();
  // When members have left and no local rank waits, a broken lane is not a failure.
  const bool parting = !departures_.empty() && !has_pending_calls();
  if (!lanes_moved.ok() && !parting) return lanes_moved;
  // Must follow the lanes' Poll: everything has arrived only when they have nothing more to move.
  MCCS_ASSIGN_OR_RETURN(const bool changed, change_.Poll(loop_.started(), clock_.Now()));
  if (change_.ReadyToSwitch(loop_.completed()) && !loop_.running() && loop_.quiescent()) {
    MCCS_RETURN_IF_ERROR(change_.SwitchTo());
    loop_.SwitchTo(change_.strategy(), formation_.lanes->current());
    messages_.SetChannels(ChannelsOf(change_.strategy()));
  }
  return changed || (lanes_moved.ok() && *lanes_moved);
}

bool ActiveWork::CheckForHangs(MonotonicNs now) {
  bool changed = watcher_.Poll(now, loop_.completed() + 1, loop_.has_pending_calls());
  changed |= progress_watcher_.Poll(now, loop_, watcher_.ranks_missing());
  changed |= message_watcher_.Poll(now, messages_);
  if (changed) ShowStalls();
  return changed;
}

void ActiveWork::ShowStalls() {
  Stalls::OfCommunicator stalled{.tenant = account_ != nullptr ? account_->name() : tenant_,
                                 .ranks = watcher_.awaited_ranks(),
                                 .hosts = watcher_.awaited_hosts()};
  AddNew(message_watcher_.awaited_ranks(), &stalled.ranks);
  AddNew(progress_watcher_.awaited(), &stalled.hosts);
  AddNew(message_watcher_.awaited_hosts(), &stalled.hosts);
  stalls_.Set(std::move(stalled));
}

std::string ActiveWork::stalled_on() const {
  std::string all;
  for (const std::string* each :
       {&watcher_.stalled_on(), &progress_watcher_.stalled_on(), &message_watcher_.stalled_on()}) {
    if (!each->empty()) absl::StrAppend(&all, all.empty() ? "" : "; ", *each);
  }
  return all;
}

bool ActiveWork::idle() const {
  return !has_pending_calls() && quiescent() &&
         std::ranges::all_of(ranks_, [](const LocalRank& local) {
           if (local.port == nullptr) return true;
           const auto front = local.port->Front();
           return front.ok() && *front == nullptr && !local.port->HasMessages() &&
                  !local.port->HasCaptured();
         });
}

Urgency ActiveWork::urgency() const {
  if (change_.ReadyToSwitch(loop_.completed())) return Urgency::kSpin;
  const bool running = messages_.busy() || loop_.state() == LoopState::kRunning;
  if (running && !WaitsForGate()) return Urgency::kSpin;
  if (NeedsPolling(loop_.state())) return Urgency::kBackOff;
  const bool awaits_words = messages_.awaits_streams() || ReplayableGroups() > 0;
  return awaits_words ? Urgency::kBackOff : Urgency::kSleep;
}

// Sending continues when a byte arrives or the gate opens, so polling is not needed.
bool ActiveWork::WaitsForGate() const {
  return formation_.lanes->held() && quiescent() && !NeedsPolling(loop_.state());
}

MonotonicNs ActiveWork::NextDeadline() const {
  return std::min({formation_.lanes->NextDeadline(), watcher_.NextDeadline(),
                   progress_watcher_.NextDeadline(), message_watcher_.NextDeadline(),
                   change_.NextDeadline(), loop_.NextDeadline()});
}

// ---- Messages and reports -----------------------------------------------------------------------

absl::Status ActiveWork::OnMessage(const StarMessage& received) {
  const peer::Message& message = received.message;
  MCCS_ASSIGN_OR_RETURN(const bool watched, watcher_.OnMessage(received, clock_.Now()));
  if (watched) return absl::OkStatus();
  // A host that all ranks have left starts nothing more; the leader does not expect its answer.
  const bool orders =
      message.has_order_hold() || message.has_order_begins() || message.has_order_next();
  const Membership& members = *formation_.members;
  if (orders && departures_.LastOf(members.layout.hosts[members.self.value()]).has_value()) {
    return absl::OkStatus();
  }
  MCCS_ASSIGN_OR_RETURN(const bool ordered, order_.OnMessage(received));
  return ordered ? absl::OkStatus() : change_.OnMessage(received).status();
}

peer::Entered ActiveWork::LocalEntered() const {
  const OperationLoop::LocalRankStatus local_status = loop_.LocalStatus();
  peer::Entered entered;
  entered.set_operation(loop_.completed() + 1);
  entered.set_call(local_status.call);
  for (const Rank rank : local_status.absent) entered.add_not_entered(rank.value());
  for (const Rank rank : local_status.late) entered.add_not_reached(rank.value());
  return entered;
}

size_t ActiveWork::ReplayableGroups() const {
  size_t most = 0;
  for (const LocalRank& local : ranks_) {
    if (local.port != nullptr) most = std::max(most, local.port->ReplayableGroups());
  }
  return most;
}

WorkDone ActiveWork::done() const {
  return {.operations = loop_.completed() + messages_.completed(),
          .bytes = loop_.bytes() + messages_.bytes(),
          .with_options = loop_.with_options(),
          .captured_groups = ReplayableGroups()};
}

void ActiveWork::WriteState(state::Communicator* out) const {
  out->set_change(change_.Describe());
  out->set_captured_groups(ReplayableGroups());
  const peer::Entered entered = LocalEntered();
  state::Operation& operation = *out->mutable_operation();
  operation.set_number(entered.operation());
  operation.set_state(ToString(loop_.state()));
  operation.set_call(entered.call());
  *operation.mutable_not_entered() = entered.not_entered();
  *operation.mutable_not_reached() = entered.not_reached();
  WriteMessages(out);
}

void ActiveWork::WriteMessages(state::Communicator* out) const {
  WaitingCalls waiting;
  for (size_t part = 0; part < messages_.waiting_parts(); ++part) {
    messages_.AddWaiting(part, waiting);
  }
  std::vector<OpenMessage> calls = waiting.calls();
  std::ranges::sort(calls, {}, [](const OpenMessage& call) {
    return std::tuple(call.pair.source, call.pair.destination, call.call->kind);
  });
  for (size_t i = 0; i < std::min(calls.size(), kMaxMessages); ++i) {
    out->add_messages(Describe(calls[i]));
  }
  if (calls.size() <= kMaxMessages) return;
  out->add_messages(absl::StrCat("and ", waiting.full() ? "at least " : "",
                                 calls.size() - kMaxMessages, " more"));
}

}  // namespace mccs
