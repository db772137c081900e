#include "service/communicator/communicator_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Ended communicators whose late peers are told so, instead of being left to wait.
constexpr size_t kRememberedEnds = 1024;

// Processes that looked a name up may differ in the address that they found
// (wire::UniqueId::looked_up).
bool SameId(const wire::UniqueId& a, const wire::UniqueId& b) {
  return a.comm_id == b.comm_id && a.guessable == b.guessable &&
         std::memcmp(a.secret, b.secret, sizeof(a.secret)) == 0;
}

}  // namespace

absl::StatusOr<Communicator*> CommunicatorTable::Join(const JoinRequest& request, RankPort* port) {
  const CommId id(request.id.comm_id);
  for (const auto& entry : entries_) {
    Communicator& communicator = entry->communicator;
    if (CommId(communicator.unique_id().comm_id) != id && communicator.id() != id) continue;
    if (communicator.tenant() != request.tenant) {
      if (request.id.guessable != 0) continue;
      return absl::PermissionDeniedError(
          absl::StrCat("communicator ", FormatCommId(id), " belongs to another tenant"));
    }
    if (communicator.joinable() && SameId(communicator.unique_id(), request.id)) {
      communicator.AddRank(request, port);
      return &communicator;
    }
    if (request.id.guessable == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("the unique id of communicator ", FormatCommId(id),
                       " has been used already: every communicator needs one of its own"));
    }
  }
  if (request.account != nullptr) MCCS_RETURN_IF_ERROR(request.account->TakeCommunicator());
  Entry& entry =
      *entries_.emplace_back(std::make_unique<Entry>(turns_, env_, request, ++last_number_));
  entry.communicator.AddRank(request, port);
  return &entry.communicator;
}

Communicator* CommunicatorTable::FindRunning(CommId id) const {
  for (const auto& entry : entries_) {
    Communicator& communicator = entry->communicator;
    if (communicator.id() == id && !communicator.joinable()) return &communicator;
  }
  return nullptr;
}

absl::StatusOr<std::optional<Secret>> CommunicatorTable::SecretFor(const Preamble& preamble) const {
  if (preamble.purpose == ConnectionPurpose::kJoin) {
    // The id was made here before anybody could have it.
    const std::optional<Secret> secret = rendezvous_.SecretOf(preamble.comm_id);
    if (secret.has_value()) return secret;
    return absl::NotFoundError(absl::StrCat("no communicator ", FormatCommId(preamble.comm_id),
                                            " is forming here: its id was used up or forgotten"));
  }
  const Communicator* const communicator = FindRunning(preamble.comm_id);
  const bool ended = std::find(ended_.begin(), ended_.end(), preamble.comm_id) != ended_.end();
  if (communicator == nullptr && !ended) return std::nullopt;  // The peer got the roster before us.
  if (communicator == nullptr || communicator->state() == Communicator::State::kFailed) {
    return absl::NotFoundError(
        absl::StrCat("communicator ", FormatCommId(preamble.comm_id), " has ended here"));
  }
  // The peer got the strategy before us.
  const std::optional<Epoch> lanes = communicator->reach().lanes;
  const bool later = !lanes.has_value() || preamble.epoch > *lanes;
  if (preamble.purpose == ConnectionPurpose::kLane && later) return std::nullopt;
  return communicator->secret();
}

void CommunicatorTable::Accept(Peer peer) {
  if (peer.preamble.purpose == ConnectionPurpose::kJoin) {
    if (rendezvous_.SecretOf(peer.preamble.comm_id) != peer.secret) return;
    rendezvous_.Accept(peer.preamble.comm_id, std::move(peer.connection));
    return;
  }
  Communicator* communicator = FindRunning(peer.preamble.comm_id);
  if (communicator == nullptr || communicator->secret() != peer.secret) return;
  if (peer.preamble.purpose == ConnectionPurpose::kMember) {
    communicator->AcceptMember(std::move(peer.connection));
  } else {
    communicator->AcceptLane(peer.preamble, std::move(peer.connection));
  }
}

bool CommunicatorTable::Poll() {
  bool moved = TakeProposals();
  moved |= TakePaces();
  bool closed = false;
  std::vector<Seat> seats;
  turns_.BeginRound(env_.access.clock->Now());
  while (TurnQueue::Taker* const taker = turns_.Next()) {
    Entry& entry = EntryOf(*taker);
    moved |= GiveTurn(entry, seats);
    closed |= entry.communicator.state() == Communicator::State::kClosed;
  }
  Place(seats);
  if (closed) Forget();
  return moved || std::any_of(turns_.due().begin(), turns_.due().end(),
                              [](const TurnQueue::Taker* taker) { return taker->woken(); });
}

bool CommunicatorTable::GiveTurn(Entry& entry, std::vector<Seat>& seats) {
  Communicator& communicator = entry.communicator;
  const bool moved = communicator.Poll();
  // The id of a guessable one comes with the roster, and the tenant may have written that.
  if (communicator.id() != entry.reach.id && IsTaken(communicator)) communicator.EndForTakenId();
  const Communicator::Reach reach = communicator.reach();
  if (reach != std::exchange(entry.reach, reach)) changed_.push_back(reach.id);
  for (Seat& seat : communicator.TakeSeats()) seats.push_back(std::move(seat));
  if (moved) {
    entry.Wake();
    return true;
  }
  if (communicator.urgency() != Urgency::kSleep) {
    turns_.KeepDue(entry);
    return false;
  }
  turns_.RestUntil(entry, communicator.NextDeadline());
  return false;
}

bool CommunicatorTable::IsTaken(const Communicator& communicator) const {
  return std::ranges::any_of(entries_, [&](const auto& entry) {
    return &entry->communicator != &communicator && entry->communicator.id() == communicator.id();
  });
}

bool CommunicatorTable::TakeProposals() {
  bool any = false;
  while (const std::optional<Proposal> proposal = env_.controller->TakeProposal()) {
    Communicator* communicator = FindRunning(proposal->id);
    if (communicator == nullptr) continue;  // It ended meanwhile.
    communicator->Propose(proposal->strategy);
    any = true;
  }
  return any;
}

bool CommunicatorTable::TakePaces() {
  bool any = false;
  while (const std::optional<PaceOrder> order = env_.controller->TakePace()) {
    Communicator* communicator = FindRunning(order->id);
    if (communicator == nullptr) continue;  // It ended meanwhile.
    communicator->SetPace(order->pace);
    any = true;
  }
  return any;
}

// All of a communicator's ranks join first; then those go whose processes are not there any more,
// so that the other hosts hear of it from a communicator that knows them.
void CommunicatorTable::Place(const std::vector<Seat>& seats) {
  struct Gone {
    Communicator* communicator;
    std::string why;
  };
  std::vector<Gone> gone;
  for (const Seat& seat : seats) {
    std::string why = seat.left_because;
    if (seat.port != nullptr && !seat.join.has_value())
      seat.port->NoSeat(seat.request, seat.status);
    if (!seat.join.has_value()) continue;
    if (seat.port != nullptr) {
      const absl::Status taken = seat.port->TakeSeat(seat.request, *seat.join);
      if (taken.ok()) continue;
      why = absl::StrCat("could not join: ", std::string(taken.message()));
    }
    auto communicator = Join(*seat.join, &gone_);
    if (communicator.ok()) gone.push_back({*communicator, std::move(why)});
  }
  for (const Gone& rank : gone) {
    rank.communicator->Leave(&gone_, rank.why, Communicator::Leaving::kAtOnce,
                             /*asked=*/false);
  }
}

void CommunicatorTable::Forget() {
  std::erase_if(entries_, [&](const auto& entry) {
    if (entry->communicator.state() != Communicator::State::kClosed) return false;
    ended_.push_back(entry->communicator.id());
    changed_.push_back(entry->communicator.id());
    return true;
  });
  while (ended_.size() > kRememberedEnds) ended_.pop_front();
}

bool CommunicatorTable::quiescent() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry->communicator.quiescent(); });
}

Urgency CommunicatorTable::urgency() const {
  Urgency most = Urgency::kSleep;
  for (TurnQueue::Taker* taker : turns_.due()) {
    most = std::max(most, taker->woken() ? Urgency::kSpin : EntryOf(*taker).communicator.urgency());
  }
  return most;
}

MonotonicNs CommunicatorTable::NextDeadline() const {
  MonotonicNs next = turns_.NextDeadline();
  for (TurnQueue::Taker* taker : turns_.due()) {
    next = std::min(next, EntryOf(*taker).communicator.NextDeadline());
  }
  return next;
}

std::optional<uint64_t> CommunicatorTable::TellNext(uint64_t after,
                                                    state::Communicator* out) const {
  const auto next =
      std::upper_bound(entries_.begin(), entries_.end(), after,
                       [](uint64_t n, const auto& entry) { return n < entry->number; });
  if (next == entries_.end()) return std::nullopt;
  (*next)->communicator.Tell(out);
  out->set_turns((*next)->turns());
  return (*next)->number;
}

uint64_t CommunicatorTable::TurnsOf(CommId id) const {
  for (const auto& entry : entries_) {
    if (entry->communicator.id() == id) return entry->turns();
  }
  return 0;
}

}  // namespace mccs
