// The part of a Communicator that ends it: it fails, notifies its ranks and the other hosts, and
// closes when no rank or host needs it any more.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/communicator/communicator.h"

namespace mccs {
namespace {

// How long a failed communicator waits for peers to read the reason.
constexpr int64_t kCloseTimeoutNs = 5 * kNsPerSec;

}  // namespace

void Communicator::Fail(const absl::Status& why, bool notify_hosts) {
  if (state_ == State::kFailed && notify_ports_at_ != kNever) EscalateFailure(why, notify_hosts);
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  const bool forming = state_ != State::kActive;
  Enter(State::kFailed);
  counters_->failures[FailureClassOf(why)].Add(1);
  failure_ = why;
  const absl::Status named = WithCommunicatorId(why);
  env_.log->Warning(std::string(named.message()));
  if (formation_.star != nullptr && notify_hosts) NotifyHosts(why, by_call_);
  if (by_call_) {
    notify_ports_at_ = env_.access.clock->Now() + Departures::kDepartureTimeoutNs;
  } else if (!forming) {
    FailPorts(named);
  }
  for (const LocalRank& local : locals_) {
    if (forming && local.port != nullptr) local.port->InitDone(named, id(), /*ranks=*/0);
  }
  if (!revoked_) splits_.Fail(named);
  if (forming_ != nullptr) forming_->Withdraw(why);
  // The work that they wait for will never complete.
  for (const Draining& draining : std::exchange(draining_, {})) {
    draining.port->Fail(named);
    for (LocalRank& local : locals_) {
      if (local.port != draining.port) continue;
      if (by_call_) Depart(local, draining.why, /*by_call=*/true);
      leaving_.push_back(local);
      local.port = nullptr;
    }
  }
  FinishWithdrawal();
  reporter_.Report(work(), failure_);
}

void Communicator::FailForDuplicateId() {
  formation_.id = CommId(unique_id_.comm_id);  // Log lines and reports from here on name this id.
  Fail(absl::DataLossError(
      "invalid roster from the rendezvous: its id belongs to another communicator of this "
      "host"));
}

// Ranks whose notification of the first failure was delayed receive both now.
void Communicator::EscalateFailure(const absl::Status& why, bool notify_hosts) {
  notify_ports_at_ = kNever;
  failure_ = absl::Status(why.code(), absl::StrCat(std::string(failure_.message()),
                                                   "; then: ", std::string(why.message())));
  const absl::Status named = WithCommunicatorId(failure_);
  env_.log->Warning(std::string(named.message()));
  if (notify_hosts) NotifyHosts(why, /*by_call=*/false);
  FailPorts(named);
  reporter_.Report(work(), failure_);
}

void Communicator::NotifyHosts(const absl::Status& why, bool by_call) {
  peer::Message message = FailedMessage(why);
  message.mutable_failed()->set_revoked(revoked_);
  message.mutable_failed()->set_by_call(by_call);
  formation_.star->Broadcast(message);
}

void Communicator::FailPorts(const absl::Status& named) {
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) local.port->Fail(named);
  }
}

// Departures::Check fails a call that needs a dead rank. Ranks that have posted nothing are
// notified here, before their next call.
void Communicator::ReportDeaths(MonotonicNs now) {
  const bool idle = !loop_->has_pending_calls() && !messages_->has_pending_calls();
  const absl::Status death = departures_.TakeDeath(idle, now);
  if (death.ok()) return;
  const absl::Status named = WithCommunicatorId(death);
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) local.port->ReportDeath(named);
  }
}

absl::Status Communicator::WithCommunicatorId(const absl::Status& why) const {
  return absl::Status(why.code(), absl::StrCat("communicator ", FormatCommId(id()), ": ",
                                               std::string(why.message())));
}

void Communicator::FinishWithdrawal() {
  if (state_ != State::kFailed || forming_ == nullptr) return;
  const bool linked = formation_.star != nullptr;
  if (!forming_->WithdrawalDone()) return;
  // The roster crossed with the withdrawal: the leader waits for this host, or the members wait for
  // this leader.
  if (!linked && formation_.star != nullptr) formation_.star->Broadcast(FailedMessage(failure_));
  forming_.reset();
}

bool Communicator::PollClosing() {
  FinishWithdrawal();
  if (state_ == State::kFailed && loop_ != nullptr && quiescent()) {
    work_at_end_ = work();
    loop_.reset();  // The loop and the lanes are the last that point to tenants' memory.
    messages_.reset();
    formation_.lanes.reset();
  }
  bool moved = false;
  if (state_ != State::kFailed || loop_ == nullptr) moved = ReleaseDepartedRanks();
  if (state_ == State::kClosed || !leaving_.empty()) return moved;
  const bool empty = std::all_of(locals_.begin(), locals_.end(),
                                 [](const LocalRank& l) { return l.port == nullptr; });
  if (!empty) return moved;
  // The leader stays while members may need it to forward messages.
  const bool needed =
      formation_.star != nullptr && formation_.star->leads() && !formation_.star->all_others_left();
  if (state_ == State::kFailed) {
    if (notify_ports_at_ != kNever && needed) return moved;
    if (loop_ != nullptr || forming_ != nullptr) return moved;
    const MonotonicNs now = env_.access.clock->Now();
    if (closing_deadline_ == 0) closing_deadline_ = now + kCloseTimeoutNs;
    const bool told = formation_.star == nullptr || formation_.star->flushed();
    if (!told && now < closing_deadline_) return moved;
  } else {
    if (needed || (!formation_.star->leads() && !formation_.star->flushed())) return moved;
    if (!formation_.lanes->drained()) return moved;
  }
  Enter(State::kClosed);
  reporter_.End(failure_);
  return true;
}

}  // namespace mccs
