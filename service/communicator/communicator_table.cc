#include "service/communicator/communicator_table.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Remembered ids of ended communicators: late peers get an error at once instead of a timeout.
constexpr size_t kRememberedEnds = 1024;

}  // namespace

CommunicatorTable::JoinKey::JoinKey(const wire::UniqueId& unique_id, const std::string& its_tenant)
    : id(unique_id.comm_id), guessable(unique_id.guessable != 0), tenant(its_tenant) {
  static_assert(sizeof(unique_id.secret) == sizeof(secret));
  std::memcpy(secret.data(), unique_id.secret, sizeof(unique_id.secret));
}

absl::StatusOr<Communicator*> CommunicatorTable::Join(const JoinRequest& request, RankPort* port) {
  const auto joinable = joinable_.find(JoinKey(request.id, request.tenant));
  if (joinable != joinable_.end() && joinable->second->communicator.joinable()) {
    Communicator& communicator = joinable->second->communicator;
    communicator.AddRank(request, port);
    return &communicator;
  }
  const CommId id(request.id.comm_id);
  const auto known = by_id_.find(id);
  if (request.id.guessable == 0 && known != by_id_.end()) {
    const Communicator& oldest = known->second.begin()->second->communicator;
    if (oldest.tenant() != request.tenant) {
      return absl::PermissionDeniedError(
          absl::StrCat("communicator ", FormatCommId(id), " belongs to another tenant"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("unique id of communicator ", FormatCommId(id),
                     " was already used: call ncclGetUniqueId once per communicator"));
  }
  if (request.account != nullptr) MCCS_RETURN_IF_ERROR(request.account->TakeCommunicator());
  Entry& entry = Add(request);
  entry.communicator.AddRank(request, port);
  return &entry.communicator;
}

// ---- Lookup
// --------------------------------------------------------------------------------------

CommunicatorTable::Entry& CommunicatorTable::Add(const JoinRequest& request) {
  const uint64_t number = ++last_number_;
  Entry& entry = *entries_.emplace(number, std::make_unique<Entry>(turns_, env_, request, number))
                      .first->second;
  joinable_[entry.join_key] = &entry;
  by_id_[entry.join_key.id][number] = &entry;
  List(entry);
  return entry;
}

void CommunicatorTable::List(Entry& entry) {
  by_id_[entry.reach.id][entry.number] = &entry;
  if (!entry.reach.joinable) running_[entry.reach.id][entry.number] = &entry;
}

void CommunicatorTable::Drop(absl::flat_hash_map<CommId, Entries>& index, CommId id,
                             const Entry& entry) {
  const auto found = index.find(id);
  if (found == index.end()) return;
  found->second.erase(entry.number);
  if (found->second.empty()) index.erase(found);
}

void CommunicatorTable::Unlist(Entry& entry) {
  Drop(running_, entry.reach.id, entry);
  if (entry.reach.id != entry.join_key.id) Drop(by_id_, entry.reach.id, entry);
}

void CommunicatorTable::Relist(Entry& entry, const Communicator::Reach& reach) {
  Unlist(entry);
  entry.reach = reach;
  List(entry);
  const auto joinable = joinable_.find(entry.join_key);
  const bool listed = joinable != joinable_.end() && joinable->second == &entry;
  if (listed && !reach.joinable) joinable_.erase(joinable);
}

Communicator* CommunicatorTable::FindRunning(CommId id) const {
  const auto found = running_.find(id);
  return found == running_.end() ? nullptr : &found->second.begin()->second->communicator;
}

absl::StatusOr<std::optional<Secret>> CommunicatorTable::SecretFor(const Preamble& preamble) const {
  if (preamble.purpose == ConnectionPurpose::kJoin) {
    // The id was created here before any rank could have it.
    const std::optional<Secret> secret = rendezvous_.SecretOf(preamble.comm_id);
    if (secret.has_value()) return secret;
    return absl::NotFoundError(
        absl::StrCat("no communicator ", FormatCommId(preamble.comm_id),
                     " is forming on this host: its id was used or has expired"));
  }
  const Communicator* const communicator = FindRunning(preamble.comm_id);
  const bool ended = times_ended_.contains(preamble.comm_id);
  if (communicator == nullptr && !ended)
    return std::nullopt;  // The peer received the roster first.
  if (communicator == nullptr || communicator->state() == Communicator::State::kFailed) {
    return absl::NotFoundError(
        absl::StrCat("communicator ", FormatCommId(preamble.comm_id), " has ended on this host"));
  }
  // The peer received the strategy first.
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
  std::vector<Seat> seats;
  std::vector<const Entry*> closed;
  turns_.BeginRound(env_.access.clock->Now());
  while (TurnQueue::Taker* const taker = turns_.Next()) {
    Entry& entry = EntryOf(*taker);
    moved |= GiveTurn(entry, seats);
    if (entry.communicator.state() == Communicator::State::kClosed) closed.push_back(&entry);
  }
  Place(seats);
  for (const Entry* entry : closed) Close(*entry);
  const size_t destroyed = std::max(kDestroyedPerTurn, closed_.size() / kTurnsOfBacklog);
  for (size_t i = 0; i < destroyed && !closed_.empty(); ++i) closed_.pop_front();
  return moved || !closed_.empty() ||
         std::any_of(turns_.due().begin(), turns_.due().end(),
                     [](const TurnQueue::Taker* taker) { return taker->woken(); });
}

bool CommunicatorTable::GiveTurn(Entry& entry, std::vector<Seat>& seats) {
  Communicator& communicator = entry.communicator;
  const bool moved = communicator.Poll();
  // A guessable id's communicator gets its id from the roster, which a tenant may have forged.
  if (communicator.id() != entry.reach.id && IsTaken(communicator)) communicator.EndForTakenId();
  const Communicator::Reach reach = communicator.reach();
  if (reach != entry.reach) {
    changed_.push_back(reach.id);
    Relist(entry, reach);
  }
  for (Seat& seat : communicator.TakeSeats()) seats.push_back(std::move(seat));
  if (communicator.state() == Communicator::State::kClosed) return true;
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
  const auto known = by_id_.find(communicator.id());
  return known != by_id_.end() && std::ranges::any_of(known->second, [&](const auto& other) {
           return &other.second->communicator != &communicator &&
                  other.second->communicator.id() == communicator.id();
         });
}

bool CommunicatorTable::TakeProposals() {
  bool any = false;
  while (const std::optional<Proposal> proposal = env_.controller->TakeProposal()) {
    Communicator* communicator = FindRunning(proposal->id);
    if (communicator == nullptr) continue;  // It has ended in the meantime.
    communicator->Propose(proposal->strategy);
    any = true;
  }
  return any;
}

bool CommunicatorTable::TakePaces() {
  bool any = false;
  while (const std::optional<PaceOrder> order = env_.controller->TakePace()) {
    Communicator* communicator = FindRunning(order->id);
    if (communicator == nullptr) continue;  // It has ended in the meantime.
    communicator->SetPace(order->pace);
    any = true;
  }
  return any;
}

// First all ranks of a communicator join. Then the ranks whose processes have died leave, so that
// the communicator knows the other hosts and notifies them.
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
      why = absl::StrCat("failed to join: ", std::string(taken.message()));
    }
    auto communicator = Join(*seat.join, &gone_);
    if (communicator.ok()) gone.push_back({*communicator, std::move(why)});
  }
  for (const Gone& rank : gone) {
    rank.communicator->Leave(&gone_, rank.why, Communicator::Leaving::kAtOnce,
                             /*asked=*/false);
  }
}

void CommunicatorTable::Close(const Entry& closed) {
  auto node = entries_.extract(closed.number);
  if (node.empty()) return;
  Entry& entry = *node.mapped();
  Unlist(entry);
  Drop(by_id_, entry.join_key.id, entry);
  const auto joinable = joinable_.find(entry.join_key);
  if (joinable != joinable_.end() && joinable->second == &entry) joinable_.erase(joinable);
  entry.GiveBack();
  const CommId id = entry.reach.id;
  ended_.push_back(id);
  ++times_ended_[id];
  if (ended_.size() > kRememberedEnds) {
    const auto oldest = times_ended_.find(ended_.front());
    if (--oldest->second == 0) times_ended_.erase(oldest);
    ended_.pop_front();
  }
  changed_.push_back(id);
  closed_.push_back(std::move(node.mapped()));
}

bool CommunicatorTable::quiescent() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry.second->communicator.quiescent(); });
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
  const auto next = entries_.upper_bound(after);
  if (next == entries_.end()) return std::nullopt;
  Entry& entry = *next->second;
  entry.communicator.Tell(out);
  out->set_turns(entry.turns());
  return entry.number;
}

uint64_t CommunicatorTable::TurnsOf(CommId id) const {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? 0 : known->second.begin()->second->turns();
}

}  // namespace mccs
