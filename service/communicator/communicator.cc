#include "service/communicator/communicator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/communicator/turns/turn_cost.h"

namespace mccs {
namespace {

const std::string& CountedAs(const JoinRequest& first) {
  return first.budget != nullptr ? first.budget->name() : first.tenant;
}

}  // namespace

Communicator::Communicator(const CommunicatorEnvironment& environment, const JoinRequest& first,
                           Waker& waker)
    : env_(environment),
      waker_(waker),
      unique_id_(first.id),
      tenant_(first.tenant),
      log_(*environment.lines, CountedAs(first), *environment.access.clock),
      account_(first.account),
      warn_after_ns_(first.warn_after_ns == 0 ? kDefaultWarnAfterNs
                                              : std::max(first.warn_after_ns, kMinWarnAfterNs)),
      counters_(CountersOf(environment.counters, account_.get(), first.tenant)),
      counted_(counters_->forming),
      tally_(counters_),
      formation_{.log = &log_,
                 .id = CommId(first.id.comm_id),
                 .key = {},
                 .members = {},
                 .star = {},
                 .counted_as = CountedAs(first),
                 .cgroup = first.account != nullptr ? first.account->origin().cgroup : "",
                 .limits = LimitsOfTenant(first.account.get()),
                 .proposal = {},
                 .strategy = {},
                 .lanes = {},
                 .counters = counters_,
                 .budget = first.budget,
                 .cost = 0},
      splits_(formation_),
      reporter_(environment, formation_, tally_),
      forming_(std::make_unique<Forming>(environment, first, formation_, waker)) {}

Communicator::~Communicator() { Enter(State::kClosed); }

// ---- Local ranks --------------------------------------------------------------------------------

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

void Communicator::FailForRank(RankPort* port, const std::string& why) {
  Wake();
  const LocalRank* const local = Find(port);
  if (local != nullptr)
    Fail(absl::UnavailableError(absl::StrCat("rank ", local->rank.value(), ": ", why)));
}

LocalRank* Communicator::Find(const RankPort* port) {
  const auto local = std::ranges::find(locals_, port, &LocalRank::port);
  return local == locals_.end() ? nullptr : &*local;
}

void Communicator::Leave(RankPort* port, const std::string& why, Leaving how, bool asked) {
  Wake();  // The remaining ranks may need to be notified.
  LocalRank* const local = Find(port);
  if (local == nullptr) {
    // It is already leaving: an abort overrides a destroy.
    MCCS_CHECK(
        std::ranges::any_of(left_, [&](const Left& left) { return left.local.port == port; }));
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

bool Communicator::RemoveDrainedRanks() {
  if (draining_.empty() || work_->loop().running()) return false;
  bool moved = false;
  for (const Draining& draining : std::exchange(draining_, {})) {
    const auto front = draining.port->Front();
    moved |= !front.ok();  // The loop will find the error and fail.
    if (!front.ok() || *front != nullptr || draining.port->HasMessages() ||
        draining.port->HasCaptured()) {
      draining_.push_back(draining);
      continue;
    }
    LeaveNow(*Find(draining.port), draining.why, /*by_call=*/true);
    moved = true;
  }
  return moved;
}

void Communicator::LeaveNow(LocalRank& local, const std::string& why, bool by_call) {
  RetainUntilReleased(local);
  const bool active = state_ == State::kActive;
  const bool between = active && !work_->loop().running() && !local.port->HasMessages();
  const std::string left = absl::StrCat("rank ", local.rank.value(), " ", why);
  if (state_ == State::kFailed) {
    if (!by_call) Fail(absl::UnavailableError(left));
  } else if (!between) {
    std::string amid = " while the communicator was forming";
    if (active) {
      amid = work_->loop().running()
                 ? absl::StrCat(" in the middle of operation #", work_->loop().completed() + 1)
                 : std::string(" with incomplete sends, receives or one-sided calls");
    }
    Fail(absl::UnavailableError(left + amid), {.by_call = by_call && active});
  }
  // Hosts not yet notified of a failure must not mistake this host's closed links for one.
  if (between || (failure_.has_value() && (failure_->revoked || failure_->by_call))) {
    Depart(local, why, by_call);
  }
  Suspend(std::exchange(local.port, nullptr), false);
  ReleaseDepartedRanks();
}

void Communicator::Depart(LocalRank& local, const std::string& why, bool by_call) {
  Departure departure{
      .rank = local.rank, .after = 0, .why = why, .messages = {}, .by_call = by_call};
  if (work_ != nullptr) {  // otherwise the work was revoked and its progress no
                           // longer matters
    departure.after = work_->loop().completed();
    departure.messages = work_->messages().CountsOf(local.rank);
  }
  formation_.star->Broadcast(ToMessage(departure));
  departures_.Add(departure);
  FailSplitsOf(local.rank, why);
}

void Communicator::FailSplitsOf(Rank rank, const std::string& why) {
  splits_.RankLeft(absl::UnavailableError(
      absl::StrCat("ncclCommSplit cannot complete: rank ", rank.value(), " ", why)));
}

absl::Status Communicator::Split(Splits::Call call) {
  if (state_ == State::kFailed && !revoked()) return failure_->why;
  if (state_ == State::kForming) {
    return absl::FailedPreconditionError(
        "the communicator is still forming; wait until its init has completed");
  }
  Wake();
  return splits_.Add(std::move(call));
}

void Communicator::Revoke(RankPort* port, const std::string& why, bool by_call) {
  Wake();
  if (state_ == State::kActive) {
    Fail(absl::UnavailableError(why), {.revoked = true, .by_call = by_call});
  }
  if (state_ == State::kFailed) port->Fail(WithCommunicatorId(failure_->why));
}

void Communicator::Suspend(RankPort* port, bool suspended) {
  Wake();
  std::erase(suspended_, port);
  if (suspended) suspended_.push_back(port);
  // Computed each time: a rank that left, and is no longer counted, may have been the last one.
  const bool all = std::ranges::all_of(locals_, [&](const LocalRank& local) {
    return local.port == nullptr || std::ranges::find(suspended_, local.port) != suspended_.end();
  });
  release_.reset();
  if (suspended_.empty() || !all) return;
  release_.emplace();
  if (state_ == State::kActive) ReleaseLaneMemory();
}

void Communicator::ReleaseLaneMemory() {
  if (!work_->idle()) return;
  const LaneSet::MemoryRelease released = formation_.lanes->ReleaseLaneMemory(&*release_);
  if (released == LaneSet::MemoryRelease::kAll) release_.reset();
  if (released == LaneSet::MemoryRelease::kSome) Wake();
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool Communicator::Poll() {
  absl::StatusOr<bool> polled = false;
  if (state_ == State::kForming) {
    polled = PollForming();
  } else if (state_ == State::kActive) {
    polled = PollActive();
  }
  if (!polled.ok()) Fail(polled.status());
  bool moved = !polled.ok() || *polled;
  if (formation_.star != nullptr) moved |= PollStar();
  if (failure_.has_value() && env_.access.clock->Now() >= failure_->notify_ports_at) {
    failure_->notify_ports_at = kNever;
    FailPorts(WithCommunicatorId(failure_->why));
    moved = true;
  }
  moved |= PollClosing();
  return moved;
}

int64_t Communicator::cost() const {
  const int64_t of_lanes = formation_.lanes != nullptr ? formation_.lanes->cost() : 0;
  const int64_t of_loop = work_ != nullptr ? work_->cost() : 0;
  const int64_t of_star = formation_.star != nullptr ? formation_.star->cost() : 0;
  return lane_cost_ + of_lanes + loop_cost_ + of_loop + of_star + departures_.cost() +
         formation_.cost + static_cast<int64_t>(tally_.calls()) * kCallCost +
         static_cast<int64_t>(state_changes_) * kStateChangeCost;
}

bool Communicator::PollKernelRanks() {
  if (!formation_.members.has_value()) return false;
  if (!kernel_ranks_.has_value()) {
    std::ranges::sort(locals_, {}, &LocalRank::rank);
    kernel_ranks_.emplace(locals_);
  }
  const bool moved = kernel_ranks_->Poll();
  forming_->SetMissingLocals(kernel_ranks_->done() ? "" : kernel_ranks_->DescribeMissing());
  return moved;
}

absl::StatusOr<bool> Communicator::PollForming() {
  bool moved = PollKernelRanks();
  MCCS_ASSIGN_OR_RETURN(const bool formed, forming_->Poll());
  moved |= formed;
  if (forming_->state() == Forming::State::kFormed) Activate();
  return moved;
}

absl::StatusOr<bool> Communicator::PollActive() {
  MCCS_ASSIGN_OR_RETURN(bool moved, work_->PollCalls());
  moved |= RemoveDrainedRanks();
  if (state_ != State::kActive) return true;
  MCCS_ASSIGN_OR_RETURN(const bool lanes_moved, work_->PollLanes());
  moved |= lanes_moved;
  moved |= PublishChange();
  const MonotonicNs now = env_.access.clock->Now();
  MCCS_RETURN_IF_ERROR(departures_.Check(work_->loop(), work_->messages(), now));
  ReportDeaths(now);
  if (release_.has_value()) ReleaseLaneMemory();
  ReportStaged();
  const WorkDone work_done = done();
  if (work_->CheckForHangs(now)) {
    reporter_.SetStalledOn(work_->stalled_on());
    reporter_.Report(work_done, absl::OkStatus());
  }
  if (formation_.members->hosts() > 1) {  // A single host does not use the network.
    reporter_.RecordActivity(work_->busy(), work_done.operations, now);
  }
  reporter_.Poll(work_done);
  return moved;
}

// Buffers may have different reasons: the first one is reported.
void Communicator::ReportStaged() {
  const std::string& why = work_->loop().staged();
  if (why.empty() || !reporter_.staged().empty()) return;
  const std::string staged = absl::StrCat(
      "kernels copy what collectives send and receive through host memory, because "
      "NICs do not reach a buffer: ",
      why);
  log_.Warning(std::string(WithCommunicatorId(absl::InternalError(staged)).message()));
  reporter_.SetStaged(staged);
  reporter_.Report(done(), absl::OkStatus());
}

bool Communicator::PublishChange() {
  const StrategyChange& change = work_->change();
  const bool switched = change.strategy().epoch != formation_.strategy->epoch;
  const bool rejected = change.rejected_epoch() != reporter_.rejected_epoch();
  if (!switched && !rejected && change.rejection_reason() == reporter_.change_error()) return false;
  formation_.strategy = change.strategy();
  reporter_.SetRejection(change.rejection_reason(), change.rejected_epoch());
  CountEpoch();
  if (switched) counters_->changes_done.Add(1);
  if (rejected) counters_->changes_rejected.Add(1);
  reporter_.Report(done(), absl::OkStatus());
  return true;
}

// Departures::Check fails a call that needs a dead rank. Ranks that have posted nothing are
// notified here, before their next call.
void Communicator::ReportDeaths(MonotonicNs now) {
  const absl::Status death = departures_.TakeDeath(/*idle=*/!work_->has_pending_calls(), now);
  if (death.ok()) return;
  const absl::Status named = WithCommunicatorId(death);
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) local.port->ReportDeath(named);
  }
}

Urgency Communicator::urgency() const {
  if (state_ == State::kActive) return work_->urgency();
  return state_ == State::kFailed && work_ != nullptr ? Urgency::kSpin : Urgency::kSleep;
}

MonotonicNs Communicator::NextDeadline() const {
  switch (state_) {
    case State::kForming:
      return forming_->NextDeadline();
    case State::kActive: {
      MonotonicNs deadline = std::min({reporter_.NextDeadline(done().operations),
                                       departures_.NextDeadline(), work_->NextDeadline()});
      for (const Left& left : left_) deadline = std::min(deadline, left.abandons_copies_at);
      return deadline;
    }
    case State::kFailed:
      if (forming_ != nullptr) return forming_->WithdrawalDeadline();
      if (failure_->closing_deadline != 0) return failure_->closing_deadline;
      return work_ == nullptr ? failure_->notify_ports_at
                              : std::min(failure_->notify_ports_at, failure_->abandons_copies_at);
    case State::kClosed:
      break;
  }
  return kNever;
}

absl::StatusOr<std::optional<double>> Communicator::Estimate(const EstimatedCall& call) {
  if (state_ == State::kActive) {
    MCCS_ASSIGN_OR_RETURN(const std::optional<double> estimate, work_->EstimateUs(call));
    if (!estimate.has_value()) Wake();
    return estimate;
  }
  return absl::FailedPreconditionError("cannot estimate the call: the communicator is not active");
}

absl::Status Communicator::SetTrace(OperationTrace* trace) {
  if (trace != nullptr && state_ != State::kActive)
    return absl::FailedPreconditionError("cannot trace: the communicator is not active");
  if (work_ != nullptr) work_->SetTrace(trace);
  return absl::OkStatus();
}

WorkDone Communicator::done() const {
  if (work_ != nullptr) return work_->done();
  return failure_.has_value() ? failure_->done : WorkDone();
}

// ---- Transitions --------------------------------------------------------------------------------

void Communicator::Enter(State state) {
  state_ = state;
  ++state_changes_;
  Gauge* const gauges[] = {&counters_->forming, &counters_->active, &counters_->failed, nullptr};
  Gauge* const gauge = gauges[static_cast<size_t>(state)];
  counted_ = gauge != nullptr ? GaugeShare(*gauge) : GaugeShare();
  CountEpoch();
}

void Communicator::CountEpoch() {
  const Epoch now = state_ == State::kActive ? formation_.strategy->epoch : Epoch(0);
  const Epoch before = std::exchange(counted_epoch_, now);
  if (before == now) return;
  if (before != Epoch(0)) counters_->LeaveEpoch(before.value());
  if (now != Epoch(0)) counters_->EnterEpoch(now.value());
}

void Communicator::Activate() {
  forming_.reset();
  work_ = std::make_unique<ActiveWork>(ActiveWork::Options{.environment = &env_,
                                                           .formation = &formation_,
                                                           .departures = &departures_,
                                                           .ranks = locals_,
                                                           .runners = kernel_ranks_->runners(),
                                                           .tally = &tally_,
                                                           .tenant = tenant_,
                                                           .account = account_.get(),
                                                           .warn_after_ns = warn_after_ns_});
  Enter(State::kActive);
  const Layout& layout = formation_.members->layout;
  log_.Info("communicator ", FormatCommId(id()), ": ", layout.rank_count(), " ranks on ",
            layout.host_count(), " hosts, ", formation_.strategy->channels.size(),
            " channels, strategy ", formation_.strategy->origin);
  const RosterRanks roster{
      .ranks = layout.rank_count(),
      .on_host = layout.hosts[static_cast<size_t>(formation_.members->self.value())]};
  const std::string& staged = kernel_ranks_->staged();
  if (!staged.empty())
    log_.Warning(std::string(WithCommunicatorId(absl::InternalError(staged)).message()));
  for (size_t i = 0; i < locals_.size(); ++i) {
    RankPort* const port = locals_[i].port;
    if (port == nullptr) continue;
    port->SetKernelUse(kernel_ranks_->UseOf(LocalIndex(static_cast<int32_t>(i))));
    port->InitDone(absl::OkStatus(), id(), roster);
  }
  reporter_.SetStaged(staged);
  reporter_.Report(done(), absl::OkStatus());
}

}  // namespace mccs
