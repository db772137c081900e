#include "service/communicator/communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {
// ---- Local ranks --------------------------------------------------------------------------------

Communicator::Communicator(const CommunicatorEnvironment& environment, const JoinRequest& first,
                           Waker& waker)
    : env_(environment),
      waker_(waker),
      unique_id_(first.id),
      tenant_(first.tenant),
      account_(first.account),
      secret_(SecretOf(first.id)),
      counters_(CountersOf(environment.counters, account_.get(), first.tenant)),
      counted_(counters_->forming),
      tally_(counters_),
      formation_{.id = CommId(first.id.comm_id),
                 .members = {},
                 .star = {},
                 .tenant = first.tenant,
                 .cgroup = first.account != nullptr ? first.account->origin().cgroup : "",
                 .limits = {},
                 .proposal = {},
                 .strategy = {},
                 .lanes = {},
                 .counters = counters_},
      forming_(std::make_unique<Forming>(environment, first, formation_, waker)),
      warn_after_ns_(first.warn_after_ns == 0 ? kDefaultWarnAfterNs
                                              : std::max(first.warn_after_ns, kMinWarnAfterNs)),
      splits_(formation_, secret_),
      reporter_(environment, formation_, tally_, activity_) {}

void Communicator::AddRank(const JoinRequest& request, RankPort* port) {
  MCCS_CHECK(joinable());
  locals_.push_back({Rank(request.rank.rank()), port});
  forming_->Join(request);
  Wake();
}

void Communicator::FailForDepartedRank(Rank rank, const std::string& why) {
  Fail(absl::UnavailableError(
      absl::StrCat("rank ", rank.value(), " ", why, " while the communicator was forming")));
}

void Communicator::Leave(RankPort* port, const std::string& why, Leaving how, bool asked) {
  Wake();  // The remaining ranks may need to be notified.
  auto local = std::find_if(locals_.begin(), locals_.end(),
                            [&](const LocalRank& l) { return l.port == port; });
  if (local == locals_.end()) {
    // It is already leaving: an abort overrides a destroy.
    MCCS_CHECK(std::any_of(leaving_.begin(), leaving_.end(),
                           [&](const LocalRank& l) { return l.port == port; }));
    return;
  }
  splits_.Abandon(port, 0, why);
  if (how == Leaving::kAfterPostedWork && state_ == State::kActive) {
    draining_.push_back({port, why});
    RemoveDrainedRanks();
    return;
  }
  std::erase_if(draining_, [&](const Draining& d) { return d.port == port; });
  LeaveNow(*local, why, /*by_call=*/asked);
}

// Between operations, a rank with an empty work ring can leave.
bool Communicator::RemoveDrainedRanks() {
  if (draining_.empty() || loop_->running()) return false;
  bool moved = false;
  for (const Draining& draining : std::exchange(draining_, {})) {
    const auto front = draining.port->Front();
    moved |= !front.ok();  // The loop will find the error and fail.
    if (!front.ok() || *front != nullptr || draining.port->HasMessages() ||
        draining.port->HasCaptured()) {
      draining_.push_back(draining);
      continue;
    }
    auto local = std::find_if(locals_.begin(), locals_.end(),
                              [&](const LocalRank& l) { return l.port == draining.port; });
    LeaveNow(*local, draining.why, /*by_call=*/true);
    moved = true;
  }
  return moved;
}

void Communicator::LeaveNow(LocalRank& local, const std::string& why, bool by_call) {
  leaving_.push_back(local);
  const bool between = state_ == State::kActive && !loop_->running() && !local.port->HasMessages();
  if (state_ == State::kFailed) {
    if (!by_call) Fail(absl::UnavailableError(absl::StrCat("rank ", local.rank.value(), " ", why)));
  } else if (!between) {
    std::string amid = " while the communicator was forming";
    if (state_ == State::kActive) {
      amid = loop_->running()
                 ? absl::StrCat(" in the middle of operation #", loop_->completed() + 1)
                 : std::string(" with incomplete sends, receives or one-sided calls");
    }
    by_call_ = by_call && state_ == State::kActive;
    Fail(absl::UnavailableError(absl::StrCat("rank ", local.rank.value(), " ", why, amid)));
  }
  // Hosts not yet notified of a failure must not mistake this host's closed links for one.
  if (between || revoked_ || by_call_) Depart(local, why, by_call);
  Suspend(std::exchange(local.port, nullptr), false);
  ReleaseDepartedRanks();
}

absl::Status Communicator::Split(Splits::Call call) {
  if (state_ == State::kFailed && !revoked_) return failure_;
  if (state_ == State::kForming) {
    return absl::FailedPreconditionError("the communicator is still forming");
  }
  Wake();
  return splits_.Add(std::move(call));
}

void Communicator::Revoke(RankPort* port, const std::string& why) {
  Wake();
  if (state_ == State::kActive) {
    revoked_ = true;
    Fail(absl::UnavailableError(why));
  }
  if (state_ == State::kFailed) port->Fail(WithCommunicatorId(failure_));
}

void Communicator::RevokeForShrink(RankPort* port, const std::string& why) {
  if (state_ == State::kActive) by_call_ = true;
  Revoke(port, why);
}

void Communicator::Depart(LocalRank& local, const std::string& why, bool by_call) {
  Departure departure{
      .rank = local.rank, .after = 0, .why = why, .messages = {}, .by_call = by_call};
  if (loop_ != nullptr) {  // otherwise the work was revoked and its progress no longer matters
    departure.after = loop_->completed();
    departure.messages = messages_->CountsOf(local.rank);
  }
  formation_.star->Broadcast(ToMessage(departure));
  departures_.Add(departure);
  FailSplitsOf(local.rank, why);
}

void Communicator::FailSplitsOf(Rank rank, const std::string& why) {
  splits_.RankLeft(absl::UnavailableError(
      absl::StrCat("ncclCommSplit cannot complete: rank ", rank.value(), " ", why)));
}

bool Communicator::ReleaseDepartedRanks() {
  // A running operation may use their buffers, and a put in progress their windows. After a failure
  // the device and the lanes may, until they are destroyed.
  if (leaving_.empty()) return false;
  if (loop_ != nullptr && (loop_->running() || !quiescent() || state_ == State::kFailed))
    return false;
  const auto free_from =
      std::stable_partition(leaving_.begin(), leaving_.end(),
                            [&](const LocalRank& l) { return WritesInto(l.rank, /*window=*/0); });
  const std::vector<LocalRank> free(free_from, leaving_.end());
  leaving_.erase(free_from, leaving_.end());
  for (const LocalRank& local : free) local.port->OnReleased();
  return !free.empty();
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool Communicator::Poll() {
  bool moved = false;
  switch (state_) {
    case State::kForming:
      moved = PollForming();
      break;
    case State::kActive:
      moved = PollActive();
      break;
    case State::kFailed:
    case State::kClosed:
      break;
  }
  if (formation_.star != nullptr) moved |= PollStar();
  if (env_.access.clock->Now() >= notify_ports_at_) {
    notify_ports_at_ = kNever;
    FailPorts(WithCommunicatorId(failure_));
    moved = true;
  }
  moved |= PollClosing();
  return moved;
}

bool Communicator::PollForming() {
  const absl::StatusOr<bool> moved = forming_->Poll();
  if (!moved.ok()) {
    Fail(moved.status());
    return true;
  }
  if (forming_->state() == Forming::State::kFormed) Activate();
  return *moved;
}

void Communicator::Activate() {
  forming_.reset();
  std::sort(locals_.begin(), locals_.end(),
            [](const LocalRank& a, const LocalRank& b) { return a.rank < b.rank; });
  const Layout& layout = formation_.members->layout;
  const LeftAfter left_after = [this](HostIndex host) {
    return departures_.LastOf(formation_.members->layout.hosts[host.value()]);
  };
  order_.emplace(formation_.star.get(), layout.host_count(), left_after);
  change_.emplace(
      StrategyChange::Options{.star = formation_.star.get(),
                              .hosts = layout.host_count(),
                              .self = formation_.members->self,
                              .lanes = formation_.lanes.get(),
                              .log = env_.log,
                              .name = FormatCommId(id()),
                              .name_of = [members = &*formation_.members](
                                             HostIndex host) { return members->HostName(host); },
                              .left_after = left_after},
      *formation_.strategy);
  if (formation_.proposal.has_value()) {  // It arrived too late for the first strategy.
    change_->Propose(*std::exchange(formation_.proposal, std::nullopt));
  }
  loop_ = std::make_unique<OperationLoop>(
      OperationLoop::Parts{env_.device, &formation_.lanes->current(), &*order_, &*change_, &tally_,
                           env_.access.clock, account_.get()},
      layout, formation_.members->self, *formation_.strategy, locals_);
  watcher_.emplace(HangWatcher::Options{.members = &*formation_.members,
                                        .star = formation_.star.get(),
                                        .log = env_.log,
                                        .name = FormatCommId(id()),
                                        .warn_after_ns = warn_after_ns_,
                                        .local_entered = [this] { return LocalEntered(); }});
  StartMessages();
  message_watcher_.emplace(
      MessageWatcher::Options{.log = env_.log,
                              .name = FormatCommId(id()),
                              .warn_after_ns = warn_after_ns_,
                              .host_of = [members = &*formation_.members](Rank rank) {
                                return members->HostName(members->layout.HostOf(rank));
                              }});
  Enter(State::kActive);
  env_.log->Info("communicator ", FormatCommId(id()), ": ", layout.rank_count(), " ranks on ",
                 layout.host_count(), " hosts, ", formation_.strategy->channels.size(),
                 " channels, strategy ", formation_.strategy->origin);
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) local.port->InitDone(absl::OkStatus(), id(), layout.rank_count());
  }
  reporter_.Report(work(), failure_);
}

void Communicator::StartMessages() {
  const MessageLoop::Options options{
      .layout = formation_.members->layout,
      .self = formation_.members->self,
      .slice_bytes = formation_.strategy->lanes.slot_bytes,
      .open_lane = [lanes = &formation_.lanes->messages()](
                       HostIndex host) { return lanes->SendTo(kMessageChannel, host); },
      .tally = &tally_};
  messages_ = std::make_unique<MessageLoop>(*env_.device, options, locals_);
  formation_.lanes->messages().SetMessageListener(
      [this](HostIndex from, RecvLane& lane) { messages_->AddLane(from, lane); });
}

bool Communicator::PollActive() {
  auto loop_moved = loop_->Poll();
  auto messages_moved = loop_moved.ok() ? messages_->Poll() : loop_moved;
  if (!messages_moved.ok()) {
    Fail(messages_moved.status());
    return true;
  }
  bool moved = *loop_moved || *messages_moved;
  moved |= order_->Poll();
  moved |= RemoveDrainedRanks();
  if (state_ != State::kActive) return true;
  auto lanes_moved = formation_.lanes->Poll();
  // When members have left and no local rank waits, a broken lane is not a failure.
  const bool parting =
      !departures_.empty() && !loop_->has_pending_calls() && !messages_->has_pending_calls();
  if (!lanes_moved.ok() && !parting) {
    Fail(lanes_moved.status());
    return true;
  }
  moved |= lanes_moved.ok() && *lanes_moved;
  // Must follow the lanes' Poll: everything has arrived only when they have nothing more to move.
  const MonotonicNs now = env_.access.clock->Now();
  const auto changed = PollChange(now);
  if (!changed.ok()) {
    Fail(changed.status());
    return true;
  }
  moved |= *changed;
  if (absl::Status status = departures_.Check(*loop_, *messages_, now); !status.ok()) {
    Fail(status);
    return true;
  }
  ReportDeaths(now);
  if (release_memory_) ReleaseLaneMemory();
  CheckForHangs(now);
  RecordActivity(now);
  reporter_.Poll(work(), stalled_on_);
  return moved;
}

absl::StatusOr<bool> Communicator::PollChange(MonotonicNs now) {
  auto moved = change_->Poll(loop_->started(), now);
  if (!moved.ok()) return moved;
  if (change_->ReadyToSwitch(loop_->completed()) && !loop_->running() && loop_->quiescent()) {
    MCCS_RETURN_IF_ERROR(change_->SwitchTo());
    loop_->SwitchTo(change_->strategy(), formation_.lanes->current());
  }
  if (change_->strategy().epoch == formation_.strategy->epoch &&
      change_->rejection_reason() == reporter_.change_error() &&
      change_->rejected_epoch() == reporter_.rejected_epoch()) {
    return moved;
  }
  const Epoch before = formation_.strategy->epoch;
  formation_.strategy = change_->strategy();
  const Epoch refused_before = reporter_.rejected_epoch();
  reporter_.SetRejection(change_->rejection_reason(), change_->rejected_epoch());
  CountChange(before, refused_before);
  reporter_.Report(work(), failure_, stalled_on_);
  return true;
}

void Communicator::CheckForHangs(MonotonicNs now) {
  bool news = watcher_->Poll(now, loop_->completed() + 1, loop_->has_pending_calls());
  news |= message_watcher_->Poll(now, *messages_);
  if (!news) return;
  const bool both = !watcher_->stalled_on().empty() && !message_watcher_->stalled_on().empty();
  stalled_on_ =
      absl::StrCat(watcher_->stalled_on(), both ? "; " : "", message_watcher_->stalled_on());
  reporter_.Report(work(), failure_, stalled_on_);
}

// ---- Reports ------------------------------------------------------------------------------------

Urgency Communicator::urgency() const {
  if (state_ == State::kFailed) return loop_ != nullptr ? Urgency::kSpin : Urgency::kSleep;
  if (state_ != State::kActive) return Urgency::kSleep;
  if (change_->ReadyToSwitch(loop_->completed())) return Urgency::kSpin;
  const auto at_rest = [this] {
    const bool awaits_words = messages_->awaits_streams() || ReplayableGroups() > 0;
    return awaits_words ? Urgency::kBackOff : Urgency::kSleep;
  };
  if (WaitsForGate()) return at_rest();
  switch (loop_->state()) {
    case LoopState::kRunning:
      return Urgency::kSpin;
    case LoopState::kWaitingReady:
    case LoopState::kWaitingQuota:
      return messages_->busy() ? Urgency::kSpin : Urgency::kBackOff;
    case LoopState::kIdle:
    case LoopState::kWaitingRanks:
      break;
  }
  return messages_->busy() ? Urgency::kSpin : at_rest();
}

// Sending continues when a byte arrives or the gate opens, so polling is not needed.
bool Communicator::WaitsForGate() const {
  return formation_.lanes->held() && quiescent() && !NeedsPolling(loop_->state());
}

MonotonicNs Communicator::NextDeadline() const {
  switch (state_) {
    case State::kForming:
      return forming_->NextDeadline();
    case State::kActive:
      return std::min({reporter_.NextDeadline(work().operations), formation_.lanes->NextDeadline(),
                       watcher_->NextDeadline(), message_watcher_->NextDeadline(),
                       departures_.NextDeadline(), change_->NextDeadline(), loop_->NextDeadline()});
    case State::kFailed:
      if (forming_ != nullptr) return forming_->WithdrawalDeadline();
      return closing_deadline_ != 0 ? closing_deadline_ : notify_ports_at_;
    case State::kClosed:
      break;
  }
  return kNever;
}

absl::StatusOr<double> Communicator::Estimate(const EstimatedCall& call) {
  if (state_ == State::kActive) return loop_->EstimateUs(call);
  return absl::FailedPreconditionError("cannot estimate the call: the communicator is not active");
}

WorkDone Communicator::work() const {
  if (loop_ == nullptr) return work_at_end_;
  return {.operations = loop_->completed() + messages_->completed(),
          .bytes = loop_->bytes() + messages_->bytes(),
          .with_options = loop_->with_options(),
          .captured_groups = ReplayableGroups()};
}

}  // namespace mccs
