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

constexpr char kTimedOut[] = "timed out after 10 s (only collectives are traced)";
static_assert(OperationTrace::kTimeoutNs == 10 * kNsPerSec);

}  // namespace

CommunicatorTable::JoinKey::JoinKey(const JoinRequest& request)
    : id(request.id.comm_id), guessable(request.id.guessable != 0), tenant(request.tenant) {
  // Without a key of the cluster, all tenants derive the same id from a text.
  if (guessable && request.account != nullptr) tenant = request.account->name();
  static_assert(sizeof(request.id.secret) == sizeof(secret));
  std::memcpy(secret.data(), request.id.secret, sizeof(request.id.secret));
}

absl::StatusOr<Communicator*> CommunicatorTable::Join(const JoinRequest& request, RankPort* port) {
  const auto joinable = joinable_.find(JoinKey(request));
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
          absl::StrCat("cannot join communicator ", FormatCommId(id),
                       ": it belongs to another tenant; use the unique id of this job"));
    }
    return absl::FailedPreconditionError(
        absl::StrCat("unique id of communicator ", FormatCommId(id),
                     " was already used; call ncclGetUniqueId once per communicator"));
  }
  Shares shares(request.budget);
  MCCS_RETURN_IF_ERROR(shares.Take());
  if (request.account != nullptr) MCCS_RETURN_IF_ERROR(request.account->AdmitCommunicator());
  Entry& entry = Add(request, std::move(shares));
  entry.communicator.AddRank(request, port);
  return &entry.communicator;
}

absl::Status CommunicatorTable::Shares::Take() {
  MCCS_RETURN_IF_ERROR(communicator.Take());
  MCCS_RETURN_IF_ERROR(forming.Take());
  return link.Take();
}

// ---- Lookup -------------------------------------------------------------------------------------

CommunicatorTable::Entry& CommunicatorTable::Add(const JoinRequest& request, Shares shares) {
  const uint64_t number = ++last_number_;
  Entry& entry = *entries_
                      .emplace(number, std::make_unique<Entry>(turns_, env_, request,
                                                               std::move(shares), number))
                      .first->second;
  joinable_[entry.join_key] = &entry;
  by_id_[entry.join_key.id][number] = &entry;
  AddToIndex(entry);
  return entry;
}

void CommunicatorTable::AddToIndex(Entry& entry) {
  by_id_[entry.reachability.id][entry.number] = &entry;
  if (!entry.reachability.joinable) running_[entry.reachability.id][entry.number] = &entry;
}

void CommunicatorTable::Drop(absl::flat_hash_map<CommId, Entries>& index, CommId id,
                             const Entry& entry) {
  const auto found = index.find(id);
  if (found == index.end()) return;
  found->second.erase(entry.number);
  if (found->second.empty()) index.erase(found);
}

void CommunicatorTable::RemoveFromIndex(Entry& entry) {
  Drop(running_, entry.reachability.id, entry);
  if (entry.reachability.id != entry.join_key.id) Drop(by_id_, entry.reachability.id, entry);
}

void CommunicatorTable::UpdateIndex(Entry& entry, const Communicator::Reachability& reachability) {
  RemoveFromIndex(entry);
  entry.reachability = reachability;
  AddToIndex(entry);
  const auto joinable = joinable_.find(entry.join_key);
  const bool listed = joinable != joinable_.end() && joinable->second == &entry;
  if (listed && !reachability.joinable) joinable_.erase(joinable);
}

Communicator* CommunicatorTable::FindRunning(CommId id) const {
  const auto found = running_.find(id);
  return found == running_.end() ? nullptr : &found->second.begin()->second->communicator;
}

absl::StatusOr<std::optional<Secret>> CommunicatorTable::SecretFor(const Preamble& preamble) const {
  if (preamble.purpose == ConnectionPurpose::kJoin) {
    // The id was created here before any rank could have it.
    std::optional<Secret> secret = rendezvous_.SecretOf(preamble.comm_id);
    if (!secret.has_value()) secret = relay_.SecretOf(preamble.comm_id);
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
    return absl::NotFoundError(absl::StrCat("communicator ", FormatCommId(preamble.comm_id),
                                            " has ended on this host; see mccsd's log there"));
  }
  // The peer received the strategy first.
  const std::optional<Epoch> lanes = communicator->reachability().lanes;
  const bool later = !lanes.has_value() || preamble.epoch > *lanes;
  if (preamble.purpose == ConnectionPurpose::kLane && later) return std::nullopt;
  return communicator->key();
}

void CommunicatorTable::Accept(Peer peer) {
  if (peer.preamble.purpose == ConnectionPurpose::kJoin) {
    if (rendezvous_.SecretOf(peer.preamble.comm_id) == peer.secret) {
      rendezvous_.Accept(peer.preamble.comm_id, std::move(peer.connection), peer.host);
    } else {
      relay_.Accept(peer.preamble.comm_id, peer.secret, std::move(peer.connection));
    }
    return;
  }
  Communicator* communicator = FindRunning(peer.preamble.comm_id);
  if (communicator == nullptr || communicator->key() != peer.secret) return;
  if (peer.preamble.purpose == ConnectionPurpose::kMember) {
    communicator->AcceptMember(std::move(peer.connection), peer.host);
  } else {
    communicator->AcceptLane(peer.preamble, std::move(peer.connection));
  }
}

bool CommunicatorTable::Poll() {
  bool moved = TakeUpdates();
  std::vector<SplitResult> results;
  std::vector<const Entry*> closed;
  if (!turns_.in_round()) turns_.BeginRound(env_.access.clock->Now());
  for (int64_t cost = 0; cost < kEngineTurnCost;) {
    TurnQueue::Participant* const participant = turns_.Next();
    if (participant == nullptr && !turns_.backlogged()) break;
    if (participant == nullptr) {
      turns_.BeginRound(env_.access.clock->Now());
      continue;
    }
    Entry& entry = EntryOf(*participant);
    const int64_t before = CostOf(entry.communicator);
    const size_t joined = results.size();
    moved |= GiveTurn(entry, results);
    const int64_t own = kTurnCost + CostOf(entry.communicator) - before +
                        static_cast<int64_t>(results.size() - joined) * kStateChangeCost;
    TurnQueue::Charge(entry, own);
    entry.communicator.CountTurn(own);
    cost += own;
    if (entry.communicator.state() == Communicator::State::kClosed) closed.push_back(&entry);
  }
  JoinSplitRanks(results);
  if (!traces_.empty()) moved |= PollTraces();
  for (const Entry* entry : closed) Close(*entry);
  const size_t destroyed =
      std::clamp(closed_.size() / kTurnsOfBacklog, kDestroyedPerTurn, kMaxDestroyedPerTurn);
  for (size_t i = 0; i < destroyed && !closed_.empty(); ++i) closed_.pop_front();
  return moved || !closed_.empty() || turns_.any_woken() || turns_.in_round() ||
         turns_.backlogged();
}

int64_t CommunicatorTable::CostOf(const Communicator& communicator) const {
  return communicator.cost() + static_cast<int64_t>(env_.device->inline_bytes());
}

bool CommunicatorTable::GiveTurn(Entry& entry, std::vector<SplitResult>& results) {
  Communicator& communicator = entry.communicator;
  const bool moved = communicator.Poll();
  if (communicator.state() != Communicator::State::kForming) entry.shares.forming.ReturnAll();
  // A guessable id's communicator gets its id from the roster, which a tenant may have forged.
  if (communicator.id() != entry.reachability.id && HasDuplicateId(communicator))
    communicator.FailForDuplicateId();
  const Communicator::Reachability reachability = communicator.reachability();
  if (reachability != entry.reachability) {
    changed_.push_back(reachability.id);
    UpdateIndex(entry, reachability);
  }
  for (SplitResult& result : communicator.TakeSplitResults()) results.push_back(std::move(result));
  if (communicator.state() == Communicator::State::kClosed) return true;
  if (moved) {
    entry.Wake();
    return true;
  }
  if (communicator.urgency() != Urgency::kSleep) {
    turns_.Requeue(entry);
    return false;
  }
  turns_.SleepUntil(entry, communicator.NextDeadline());
  return false;
}

bool CommunicatorTable::HasDuplicateId(const Communicator& communicator) const {
  const auto known = by_id_.find(communicator.id());
  return known != by_id_.end() && std::ranges::any_of(known->second, [&](const auto& other) {
           return &other.second->communicator != &communicator &&
                  other.second->communicator.id() == communicator.id();
         });
}

// Updates of communicators that have ended in the meantime have no effect.
bool CommunicatorTable::TakeUpdates() {
  bool any = false;
  while (const std::optional<Proposal> proposal = env_.controller->TakeProposal()) {
    Communicator* const communicator = FindRunning(proposal->id);
    if (communicator != nullptr) communicator->Propose(proposal->strategy);
    any |= communicator != nullptr;
  }
  while (const std::optional<RateUpdate> update = env_.controller->TakeRateUpdate()) {
    Communicator* const communicator = FindRunning(update->id);
    if (communicator != nullptr) communicator->SetRateLimits(update->limits);
    any |= communicator != nullptr;
  }
  while (const std::optional<TraceOrder> order = env_.controller->TakeTraceOrder()) {
    OnTraceOrder(*order);
    any = true;
  }
  return any;
}

// ---- Traces -------------------------------------------------------------------------------------

void CommunicatorTable::OnTraceOrder(const TraceOrder& order) {
  if (order.stop) {
    const auto known = std::ranges::find(traces_, order.request_id, &RunningTrace::request_id);
    if (known == traces_.end()) return;  // It has ended.
    EndTrace(*known, "stopped");
    traces_.erase(known);
    return;
  }
  const absl::Status started = StartTrace(order);
  if (started.ok()) return;
  trace::Host rejected;
  rejected.set_host(env_.position.host);
  rejected.set_requested(order.operations);
  rejected.set_error(std::string(started.message()));
  env_.controller->SendTrace(order.request_id, rejected);
}

absl::Status CommunicatorTable::StartTrace(const TraceOrder& order) {
  const auto found = running_.find(order.id);
  if (found == running_.end()) {
    return absl::NotFoundError(
        absl::StrCat("communicator ", FormatCommId(order.id), " does not run on this host"));
  }
  if (order.operations < 1 || order.operations > OperationTrace::kMaxOperations) {
    return absl::InvalidArgumentError(absl::StrCat("cannot trace ", order.operations,
                                                   " operations: expected 1 to ",
                                                   OperationTrace::kMaxOperations));
  }
  const auto& [number, entry] = *found->second.begin();
  if (std::ranges::find(traces_, number, &RunningTrace::number) != traces_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("a trace of communicator ", FormatCommId(order.id),
                     " is already running on this host; try again in ",
                     OperationTrace::kTimeoutNs / kNsPerSec, " s"));
  }
  if (traces_.size() >= kMaxTraces) {
    return absl::ResourceExhaustedError(
        absl::StrCat(traces_.size(),
                     " traces are already running on this host, which is the limit; try again in ",
                     OperationTrace::kTimeoutNs / kNsPerSec, " s"));
  }
  auto trace = std::make_unique<OperationTrace>(order.operations, *env_.access.clock);
  MCCS_RETURN_IF_ERROR(entry->communicator.SetTrace(trace.get()));
  traces_.push_back({order.request_id, number, std::move(trace)});
  return absl::OkStatus();
}

void CommunicatorTable::EndTrace(const RunningTrace& ended, const char* why) {
  const auto known = entries_.find(ended.number);
  if (known != entries_.end()) (void)known->second->communicator.SetTrace(nullptr);
  trace::Host result;
  result.set_host(env_.position.host);
  ended.trace->WriteTo(why, &result);
  env_.controller->SendTrace(ended.request_id, result);
}

bool CommunicatorTable::PollTraces() {
  return std::erase_if(traces_, [this](const RunningTrace& running) {
           const auto known = entries_.find(running.number);
           const bool active = known != entries_.end() &&
                               known->second->communicator.state() == Communicator::State::kActive;
           if (active && !running.trace->HasEnded()) return false;
           EndTrace(running, active ? kTimedOut : "the communicator ended");
           return true;
         }) > 0;
}

// First all ranks of a communicator join. Then the ranks whose processes have died leave, so that
// the communicator knows the other hosts and notifies them.
void CommunicatorTable::JoinSplitRanks(const std::vector<SplitResult>& results) {
  struct DepartedRank {
    Communicator* communicator;
    Rank rank;
    std::string why;
  };
  std::vector<DepartedRank> departed;
  for (const SplitResult& result : results) {
    std::string why = result.departure_reason;
    if (result.port != nullptr && !result.join.has_value())
      result.port->OnNotMember(result.request, result.status);
    if (!result.join.has_value()) continue;
    if (result.port != nullptr) {
      const absl::Status taken = result.port->JoinSplit(result.request, *result.join);
      if (taken.ok()) continue;
      why = absl::StrCat("failed to join: ", std::string(taken.message()));
    }
    const Rank rank(result.join->rank.rank());
    auto communicator = Join(*result.join, /*port=*/nullptr);
    if (communicator.ok()) departed.push_back({*communicator, rank, std::move(why)});
  }
  for (const DepartedRank& departure : departed) {
    departure.communicator->FailForDepartedRank(departure.rank, departure.why);
  }
}

void CommunicatorTable::Close(const Entry& closed) {
  auto node = entries_.extract(closed.number);
  if (node.empty()) return;
  Entry& entry = *node.mapped();
  RemoveFromIndex(entry);
  Drop(by_id_, entry.join_key.id, entry);
  const auto joinable = joinable_.find(entry.join_key);
  if (joinable != joinable_.end() && joinable->second == &entry) joinable_.erase(joinable);
  entry.ReturnAccount();
  const CommId id = entry.reachability.id;
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

void CommunicatorTable::TenantsChanged() {
  for (const auto& [number, entry] : entries_) {
    if (entry->account == nullptr) continue;
    turns_.MoveTo(*entry, entry->account->name());
    entry->communicator.TenantsChanged();
  }
}

bool CommunicatorTable::quiescent() const {
  return std::all_of(entries_.begin(), entries_.end(),
                     [](const auto& entry) { return entry.second->communicator.quiescent(); });
}

Urgency CommunicatorTable::urgency() const {
  if (turns_.any_woken()) return Urgency::kSpin;
  Urgency most = Urgency::kSleep;
  turns_.ForEachDue([&](TurnQueue::Participant& due) {
    most = std::max(most, EntryOf(due).communicator.urgency());
  });
  return most;
}

MonotonicNs CommunicatorTable::NextDeadline() const {
  MonotonicNs next = turns_.NextDeadline();
  for (const RunningTrace& running : traces_) next = std::min(next, running.trace->deadline());
  turns_.ForEachDue([&](TurnQueue::Participant& due) {
    next = std::min(next, EntryOf(due).communicator.NextDeadline());
  });
  return next;
}

std::optional<uint64_t> CommunicatorTable::WriteNextState(uint64_t after,
                                                          state::Communicator* out) const {
  const auto next = entries_.upper_bound(after);
  if (next == entries_.end()) return std::nullopt;
  Entry& entry = *next->second;
  entry.communicator.WriteState(out);
  out->set_turns(entry.turns());
  return entry.number;
}

uint64_t CommunicatorTable::TurnsOf(CommId id) const {
  const auto known = by_id_.find(id);
  return known == by_id_.end() ? 0 : known->second.begin()->second->turns();
}

}  // namespace mccs
