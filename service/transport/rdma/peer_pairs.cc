#include "service/transport/rdma/peer_pairs.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/transport/rdma/pair_proof.h"

namespace mccs {
namespace {

// Completions per call of VerbsNic::Poll, and calls per turn.
constexpr size_t kCompletions = 64;
constexpr int kMaxPollsPerTurn = 16;
constexpr uint64_t kPacketMask = (1 << 24) - 1;
constexpr int64_t kCheckEveryNs = kNsPerSec / 2;
// A port that is down for so long, at a host without another one, ends its lanes for good. A queue
// pair survives shorter interruptions by itself.
constexpr int64_t kPortReturnNs = 700 * kNsPerMs;

}  // namespace

PeerPairs::PeerPairs(const std::vector<RdmaNic>& nics, VerbsJobs& jobs, Random& random,
                     const Clock& clock)
    : jobs_(jobs), random_(random), clock_(clock), completions_(kCompletions) {
  for (const RdmaNic& nic : nics) {
    MCCS_CHECK(nic.verbs != nullptr);
    Nic& added = nics_.emplace_back();
    added.address = nic.address;
    added.verbs = nic.verbs;
  }
}

PeerPairs::Nic* PeerPairs::Find(const NicAddress& address) {
  const auto found = std::ranges::find(nics_, address, &Nic::address);
  return found == nics_.end() ? nullptr : &*found;
}

size_t PeerPairs::working_nics() const {
  return static_cast<size_t>(
      std::ranges::count_if(nics_, [](const Nic& nic) { return nic.status.ok(); }));
}

const NicAttributes* PeerPairs::Attributes(const NicAddress& nic) const {
  const auto found = std::ranges::find(nics_, nic, &Nic::address);
  return found == nics_.end() ? nullptr : &found->verbs->attributes();
}

absl::StatusOr<PeerPairs::Nic*> PeerPairs::FindWorking(const NicAddress& address) {
  Nic* const nic = Find(address);
  if (nic == nullptr) {
    return absl::NotFoundError(absl::StrCat("no RDMA device has address ", address.address));
  }
  MCCS_RETURN_IF_ERROR(nic->status);
  return nic;
}

absl::StatusOr<std::shared_ptr<PairDomain>> PeerPairs::Domain(const NicDomain& domain) {
  MCCS_ASSIGN_OR_RETURN(Nic* const nic, FindWorking(domain.nic));
  std::weak_ptr<PairDomain>& known = nic->domains[domain.tenant];
  if (std::shared_ptr<PairDomain> used = known.lock(); used != nullptr) return used;
  auto made = std::make_shared<PairDomain>(*nic->verbs, jobs_, domain.tenant);
  known = made;
  absl::erase_if(nic->domains, [](const auto& entry) { return entry.second.expired(); });
  return made;
}

// ---- Queue pairs --------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<PeerPair>> PeerPairs::FindOrMake(const PairKey& key) {
  MCCS_RETURN_IF_ERROR(FindWorking(key.queues.domain.nic).status());
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;
  PeerPair::Options options{.key = key, .name = {}, .is_maker = true};
  random_.Fill(std::as_writable_bytes(std::span(options.name)));
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<PeerPair> pair, Make(std::move(options), nullptr));
  by_key_[key] = pair;
  return pair;
}

absl::StatusOr<std::shared_ptr<PeerPair>> PeerPairs::Accept(const PairKey& key,
                                                            const wire::PairFrame& offer,
                                                            const wire::Nonce& senders,
                                                            const wire::Nonce& receivers) {
  MCCS_RETURN_IF_ERROR(FindWorking(key.queues.domain.nic).status());
  if (offer.connected == 0) {
    if (by_id_.contains(wire::IdOf(offer.pair))) {
      return absl::PermissionDeniedError("it offers a queue pair of other lanes");
    }
    return Make({.key = key, .name = offer.pair, .is_maker = false}, &offer);
  }
  const auto known = by_id_.find(offer.pair);
  if (known == by_id_.end()) return nullptr;  // this end of it has ended with its last lane
  const PeerPair& pair = *known->second;
  if (!wire::Equal(offer.proof, wire::FrameProof(pair.name(), offer, senders, receivers))) {
    return absl::PermissionDeniedError("it offers a queue pair whose name it does not have");
  }
  const PairKey& own = pair.key();
  if (pair.options().is_maker || own.queues.peer != key.queues.peer ||
      own.queues.domain != key.queues.domain || own.peer_gid != key.peer_gid) {
    return absl::PermissionDeniedError("it offers a queue pair of other lanes");
  }
  if (own != key) {
    return absl::UnavailableError("this end has not the class and route of the queue pair yet");
  }
  return known->second;
}

wire::Nonce PeerPairs::MakeNonce() {
  wire::Nonce nonce;
  random_.Fill(std::as_writable_bytes(std::span(nonce)));
  return nonce;
}

absl::StatusOr<std::shared_ptr<PeerPair>> PeerPairs::Make(PeerPair::Options options,
                                                          const wire::PairFrame* offer) {
  const PairKey& key = options.key;
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<PairDomain> domain, Domain(key.queues.domain));
  Nic& nic = *Find(key.queues.domain.nic);
  options.serial = ++nic.last_serial;
  Owner& owner = *this;
  auto pair = std::make_shared<PeerPair>(domain, owner, clock_, options);
  std::optional<QueuePairAddress> peer;
  if (offer != nullptr) {
    peer = wire::AddressIn(*offer);
    MCCS_RETURN_IF_ERROR(pair->SetPeer(*peer, offer->receives));
  }
  by_id_[pair->id()] = pair;

  auto made = std::make_shared<absl::StatusOr<std::unique_ptr<QueuePair>>>();
  const QueuePairOptions queue_pair{
      .requests = options.requests,
      .receives = options.receives,
      .ip_traffic_class = key.ip_traffic_class,
      .source_port = key.source_port,
      .first_packet = static_cast<uint32_t>(random_.NextU64() & kPacketMask)};
  const auto make = [](PairDomain& made_in, const QueuePairOptions& made_with,
                       const std::optional<QueuePairAddress>& connected_to)
      -> absl::StatusOr<std::unique_ptr<QueuePair>> {
    MCCS_ASSIGN_OR_RETURN(ProtectionDomain * verbs, made_in.Open());
    MCCS_ASSIGN_OR_RETURN(std::unique_ptr<QueuePair> result,
                          made_in.nic().MakeQueuePair(*verbs, made_with));
    if (connected_to.has_value()) MCCS_RETURN_IF_ERROR(result->Connect(*connected_to));
    return result;
  };
  jobs_.Run(
      VerbsJobs::Kind::kConnect, domain->tenant(),
      [made, make, raw = domain.get(), queue_pair, peer, abandoned = pair->abandoned()] {
        *made = *abandoned ? absl::CancelledError("no lane uses it any more")
                           : make(*raw, queue_pair, peer);
      },
      [&nic, pair, made, connected = peer.has_value()] {
        if (made->ok()) nic.by_number[(**made)->address().number] = pair;
        if (made->ok() && connected) pair->SetConnected();
        pair->OnMade(std::move(*made));
      });
  return pair;
}

void PeerPairs::OnBroken(PeerPair& pair) {
  by_id_.erase(pair.id());
  OnWithdrawn(pair);
}

void PeerPairs::OnWithdrawn(PeerPair& pair) {
  const auto known = by_key_.find(pair.key());
  if (known != by_key_.end() && known->second.get() == &pair) by_key_.erase(known);
}

void PeerPairs::Break(const SharedQueueKey& queues, const absl::Status& why) {
  std::vector<std::shared_ptr<PeerPair>> broken;
  for (const auto& [key, pair] : by_key_) {
    if (key.queues == queues) broken.push_back(pair);
  }
  for (const std::shared_ptr<PeerPair>& pair : broken) pair->Break(why);
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool PeerPairs::Poll() {
  bool moved = false;
  for (Nic& nic : nics_) moved |= TakeEvents(nic);
  TakeStopped();
  for (Nic& nic : nics_) moved |= PollCompletions(nic);
  for (const std::weak_ptr<PeerPair>& queued : std::exchange(queued_, {})) {
    if (const std::shared_ptr<PeerPair> pair = queued.lock(); pair != nullptr) pair->Flush();
  }
  if (waiting_ > 0) CheckProgress();
  return moved;
}

void PeerPairs::CheckProgress() {
  const MonotonicNs now = clock_.Now();
  if (now < check_at_) return;
  check_at_ = now + kCheckEveryNs;
  std::vector<std::shared_ptr<PeerPair>> pairs;  // broken ones leave by_id_
  for (const auto& [id, pair] : by_id_) {
    if (pair->waits()) pairs.push_back(pair);
  }
  for (const std::shared_ptr<PeerPair>& pair : pairs) pair->CheckProgress();
}

bool PeerPairs::TakeEvents(Nic& nic) {
  bool moved = false;
  while (const std::optional<VerbsEvent> event = nic.verbs->TakeEvent()) {
    OnEvent(nic, *event);
    moved = true;
  }
  if (nic.ends_at != kNever && clock_.Now() >= nic.ends_at) EndPairsOfPort(nic);
  return moved;
}

// A tenant whose peers keep the completion queue full does not delay the end of others' pairs: the
// queue is polled in its order.
void PeerPairs::TakeStopped() {
  const MonotonicNs now = clock_.Now();
  while (!stopped_.empty() && stopped_.begin()->first <= now) {
    std::shared_ptr<PeerPair> pair = std::move(stopped_.begin()->second);
    stopped_.erase(stopped_.begin());
    Nic& nic = *Find(pair->key().queues.domain.nic);
    nic.settling.push_back({nic.polled + nic.verbs->completion_entries(), std::move(pair)});
  }
}

bool PeerPairs::PollCompletions(Nic& nic) {
  std::vector<std::shared_ptr<PeerPair>> served;
  const uint64_t polled_before = nic.polled;
  bool emptied = false;
  for (int i = 0; i < kMaxPollsPerTurn && !emptied; ++i) {
    const size_t polled = nic.verbs->Poll(completions_);
    emptied = polled < completions_.size();
    nic.polled += polled;
    for (const Completion& completion : std::span(completions_).first(polled)) {
      const auto found = nic.by_number.find(completion.queue_pair);
      if (found == nic.by_number.end()) {
        ++unknown_;
        continue;
      }
      const std::shared_ptr<PeerPair> pair = found->second;
      pair->OnCompletion(completion);
      if (served.empty() || served.back() != pair) served.push_back(pair);
    }
  }
  const bool settled = Settle(nic, emptied);
  // Returns receives that no lane's turn returns.
  for (const std::shared_ptr<PeerPair>& pair : served) pair->Flush();
  return settled || nic.polled > polled_before;
}

bool PeerPairs::Settle(Nic& nic, bool emptied) {
  bool moved = false;
  while (!nic.settling.empty() && (emptied || nic.polled >= nic.settling.front().after)) {
    const std::shared_ptr<PeerPair> pair = std::move(nic.settling.front().pair);
    nic.settling.pop_front();
    const auto known = nic.by_number.find(pair->number());
    if (known != nic.by_number.end() && known->second == pair) nic.by_number.erase(known);
    pair->Settle();
    moved = true;
  }
  return moved;
}

void PeerPairs::OnEvent(Nic& nic, const VerbsEvent& event) {
  const absl::Status why =
      absl::UnavailableError(absl::StrCat("RDMA device ", nic.verbs->attributes().device, " port ",
                                          nic.verbs->attributes().port, ": ", event.text));
  const auto found = nic.by_number.find(event.queue_pair);
  const std::shared_ptr<PeerPair> pair = found == nic.by_number.end() ? nullptr : found->second;
  switch (event.kind) {
    case VerbsEvent::Kind::kQueuePair:
      if (pair != nullptr) pair->Break(why);
      return;
    case VerbsEvent::Kind::kDrained:
      if (pair == nullptr) return;
      pair->Break(why);
      return pair->OnDrained();
    case VerbsEvent::Kind::kDevice:
      if (nic.status.ok()) {
        Report(absl::StrCat(std::string(why.message()),
                            ": no lane uses it any more; restart mccsd after a repair"));
      }
      nic.status = why;
      return BreakAll(nic, why);
    case VerbsEvent::Kind::kPortDown:
      return OnPortDown(nic, why);
    case VerbsEvent::Kind::kPortUp:
      if (!nic.port_error.ok()) Report(std::string(why.message()));
      nic.port_error = absl::OkStatus();
      nic.ends_at = kNever;
      return;
    case VerbsEvent::Kind::kOther:
      return;
  }
}

// With another port, the lanes move there at once.
void PeerPairs::OnPortDown(Nic& nic, const absl::Status& why) {
  if (nic.port_error.ok()) Report(std::string(why.message()));
  nic.port_error = why;
  const bool has_other = std::ranges::any_of(
      nics_, [](const Nic& other) { return other.status.ok() && other.port_error.ok(); });
  if (has_other) return BreakAll(nic, why);
  if (nic.ends_at == kNever) nic.ends_at = clock_.Now() + kPortReturnNs;
}

void PeerPairs::EndPairsOfPort(Nic& nic) {
  nic.ends_at = kNever;
  BreakAll(nic, absl::DeadlineExceededError(absl::StrCat(nic.port_error.message(), ", for ",
                                                         kPortReturnNs / kNsPerMs, " ms")));
}

void PeerPairs::BreakAll(Nic& nic, const absl::Status& why) {
  std::vector<std::shared_ptr<PeerPair>> pairs;
  for (const auto& [id, pair] : by_id_) {
    if (pair->key().queues.domain.nic == nic.address) pairs.push_back(pair);
  }
  for (const std::shared_ptr<PeerPair>& pair : pairs) pair->Break(why);
}

MonotonicNs PeerPairs::NextDeadline() const {
  MonotonicNs next = kNever;
  if (!stopped_.empty()) next = stopped_.begin()->first;
  for (const Nic& nic : nics_) next = std::min(next, nic.ends_at);
  if (waiting_ > 0) next = std::min(next, check_at_);
  return next;
}

bool PeerPairs::PrepareSleep() {
  for (const Nic& nic : nics_) nic.verbs->Arm();
  return Poll();
}

}  // namespace mccs
