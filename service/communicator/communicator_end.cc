// The end of a communicator on this host: its failure, and what has to be over before it may close.
#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/shim_control.h"
#include "service/communicator/communicator.h"

namespace mccs {
namespace {

// How long a failed communicator waits for peers to read the reason.
constexpr int64_t kCloseTimeoutNs = 5 * kNsPerSec;
// From a failure, or the departure of a window's rank, until the communicator waits no longer for
// processes that copy. Shorter than an abort waits: otherwise every such abort would time out, and
// the library would never free what the communicator may still use.
constexpr int64_t kCopyTimeoutNs = kNsPerSec;
static_assert(kCopyTimeoutNs < std::chrono::nanoseconds(wire::kAbortTimeout).count() * 3 / 4);

}  // namespace

void Communicator::Fail(const absl::Status& why, const FailOptions& options) {
  if (state_ == State::kFailed && failure_->notify_ports_at != kNever) {
    EscalateFailure(why, options.notify_hosts);
  }
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  const bool forming = state_ == State::kForming;
  if (work_ != nullptr) work_->Stop();
  Enter(State::kFailed);
  counters_->failures[FailureClassOf(why)].Add(1);
  failure_ = {.why = why,
              .revoked = options.revoked,
              .by_call = options.by_call,
              .abandons_copies_at = env_.access.clock->Now() + kCopyTimeoutNs};
  const absl::Status named = WithCommunicatorId(why);
  log_.Warning(std::string(named.message()));
  if (formation_.star != nullptr && options.notify_hosts) NotifyHosts(why, options.by_call);
  if (options.by_call) {
    failure_->notify_ports_at = env_.access.clock->Now() + Departures::kDepartureTimeoutNs;
  } else if (!forming) {
    FailPorts(named);
  }
  for (const LocalRank& local : locals_) {
    if (forming && local.port != nullptr) local.port->InitDone(named, id(), RosterRanks{});
  }
  if (!options.revoked) splits_.Fail(named);
  if (forming_ != nullptr) forming_->Withdraw(why);
  // The work that they wait for will never complete.
  for (const Draining& draining : std::exchange(draining_, {})) {
    draining.port->Fail(named);
    LocalRank* const local = Find(draining.port);
    if (local == nullptr) continue;
    if (options.by_call) Depart(*local, draining.why, /*by_call=*/true);
    RetainUntilReleased(*local);
    local->port = nullptr;
  }
  FinishWithdrawal();
  reporter_.Report(done(), failure_->why);
}

void Communicator::FailForDuplicateId() {
  formation_.id = CommId(unique_id_.comm_id);  // Log lines and reports from here on name this id.
  Fail(
      absl::DataLossError("invalid roster from the rendezvous: its id belongs "
                          "to another communicator of this "
                          "host"));
}

// Ranks whose notification of the first failure was delayed receive both now.
void Communicator::EscalateFailure(const absl::Status& why, bool notify_hosts) {
  failure_->notify_ports_at = kNever;
  failure_->why = absl::Status(why.code(), absl::StrCat(std::string(failure_->why.message()),
                                                        "; then: ", std::string(why.message())));
  const absl::Status named = WithCommunicatorId(failure_->why);
  log_.Warning(std::string(named.message()));
  if (notify_hosts) NotifyHosts(why, /*by_call=*/false);
  FailPorts(named);
  reporter_.Report(done(), failure_->why);
}

void Communicator::NotifyHosts(const absl::Status& why, bool by_call) {
  peer::Message message = FailedMessage(why);
  message.mutable_failed()->set_revoked(revoked());
  message.mutable_failed()->set_by_call(by_call);
  formation_.star->Broadcast(message);
}

void Communicator::FailPorts(const absl::Status& named) {
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) local.port->Fail(named);
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
  if (!linked && formation_.star != nullptr) {
    formation_.star->Broadcast(FailedMessage(failure_->why));
  }
  forming_.reset();
}

void Communicator::RetainUntilReleased(const LocalRank& local) {
  left_.push_back({local, env_.access.clock->Now() + kCopyTimeoutNs});
}

bool Communicator::ReleaseDepartedRanks() {
  // A running operation may use their buffers, and a put in progress their windows. A process that
  // copies a put holds up only the two ranks of the put. After a failure the device and the lanes
  // may use their memory, until they are destroyed.
  if (left_.empty()) return false;
  if (work_ != nullptr &&
      (work_->loop().running() || !work_->locally_quiescent() || state_ == State::kFailed)) {
    return false;
  }
  const auto free_from = std::stable_partition(left_.begin(), left_.end(), [&](const Left& left) {
    return work_ != nullptr && work_->messages().UsesMemoryOf(left.local.rank);
  });
  const std::vector<Left> free(free_from, left_.end());
  left_.erase(free_from, left_.end());
  for (const Left& left : free) left.local.port->OnReleased();
  return !free.empty();
}

void Communicator::AbandonCopiesOfDepartedRanks() {
  if (state_ != State::kActive) return;
  const MonotonicNs now = env_.access.clock->Now();
  for (Left& left : left_) {
    if (now < left.abandons_copies_at) continue;
    work_->AbandonCopiesFor(left.local.rank);
    // Until they have ended: nothing else wakes this.
    left.abandons_copies_at = now + kNsPerMs;
  }
}

bool Communicator::PollClosing() {
  FinishWithdrawal();
  if (state_ == State::kFailed && work_ != nullptr &&
      env_.access.clock->Now() >= failure_->abandons_copies_at) {
    work_->AbandonCopies();
    // Until they have ended: nothing else wakes this.
    failure_->abandons_copies_at = env_.access.clock->Now() + kNsPerMs;
  }
  if (state_ == State::kFailed && work_ != nullptr && work_->quiescent()) {
    failure_->done = work_->done();
    loop_cost_ += work_->cost();
    work_.reset();  // The work and the lanes are the last that point to tenants' memory.
    lane_cost_ += formation_.lanes->cost();
    formation_.lanes.reset();
  }
  AbandonCopiesOfDepartedRanks();
  bool moved = false;
  if (state_ != State::kFailed || work_ == nullptr) moved = ReleaseDepartedRanks();
  if (!MayClose()) return moved;
  Enter(State::kClosed);
  reporter_.End(failure());
  return true;
}

bool Communicator::MayClose() {
  if (state_ == State::kClosed || !left_.empty()) return false;
  const bool empty =
      std::ranges::all_of(locals_, [](const LocalRank& l) { return l.port == nullptr; });
  if (!empty) return false;
  // The leader stays while members may need it to forward messages.
  const Star* const star = formation_.star.get();
  const bool needed = star != nullptr && star->leads() && !star->all_others_left();
  if (state_ != State::kFailed) {
    return !needed && (star->leads() || star->flushed()) && formation_.lanes->drained();
  }
  if (failure_->notify_ports_at != kNever && needed) return false;
  if (work_ != nullptr || forming_ != nullptr) return false;
  const MonotonicNs now = env_.access.clock->Now();
  if (failure_->closing_deadline == 0) failure_->closing_deadline = now + kCloseTimeoutNs;
  return star == nullptr || star->flushed() || now >= failure_->closing_deadline;
}

}  // namespace mccs
