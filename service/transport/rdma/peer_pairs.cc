#include "service/transport/rdma/peer_pairs.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Completions per call of VerbsNic::Poll, and calls per turn.
constexpr size_t kCompletions = 64;
constexpr int kMaxPollsPerTurn = 16;

// Receive entries that a queue pair gets: fewer, the fewer are free. So 4,000 queue pairs can share
// 32,768 entries, and the first ones have enough for slices of a few channels.
constexpr uint32_t kMostReceives = 32;

constexpr uint32_t kRequestsPerPair = 256;

}  // namespace

PeerPairs::PeerPairs(const std::vector<RdmaNic>& nics, Random& random)
    : random_(random), completions_(kCompletions) {
  for (const RdmaNic& nic : nics) {
    MCCS_CHECK(nic.verbs != nullptr);
    Nic& added = nics_.emplace_back();
    added.address = nic.address;
    added.verbs = nic.verbs;
  }
}

PeerPairs::~PeerPairs() {
  for (const Nic& nic : nics_) MCCS_CHECK(nic.by_number.empty());
}

PeerPairs::Nic* PeerPairs::Find(const NicAddress& address) {
  const auto found = std::ranges::find(nics_, address, &Nic::address);
  return found == nics_.end() ? nullptr : &*found;
}

const NicAttributes* PeerPairs::Attributes(const NicAddress& nic) const {
  const auto found = std::ranges::find(nics_, nic, &Nic::address);
  return found == nics_.end() ? nullptr : &found->verbs->attributes();
}

absl::StatusOr<std::shared_ptr<PairDomain>> PeerPairs::Domain(const NicDomain& domain) {
  Nic* const nic = Find(domain.nic);
  if (nic == nullptr) {
    return absl::NotFoundError(absl::StrCat("no RDMA device has address ", domain.nic.address));
  }
  if (const auto known = nic->domains.find(domain.tenant); known != nic->domains.end()) {
    if (std::shared_ptr<PairDomain> used = known->second.lock(); used != nullptr) return used;
  }
  absl::erase_if(nic->domains, [](const auto& known) { return known.second.expired(); });
  auto made = std::make_shared<PairDomain>();
  MCCS_ASSIGN_OR_RETURN(made->verbs, nic->verbs->MakeDomain());
  nic->domains[domain.tenant] = made;
  return made;
}

// ---- Queue pairs --------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<PeerPair>> PeerPairs::FindOrMake(const PairKey& key) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    std::shared_ptr<PeerPair> pair = known->second.lock();
    if (pair != nullptr && pair->status().ok()) return pair;
    by_key_.erase(known);
  }
  wire::PairName name;
  random_.Fill(std::as_writable_bytes(std::span(name)));
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<PeerPair> pair, Make(key, name));
  // Entries of pairs that have ended.
  if (by_key_.size() > 2 * by_name_.size()) {
    absl::erase_if(by_key_, [](const auto& known) { return known.second.expired(); });
  }
  by_key_[key] = pair;
  return pair;
}

absl::StatusOr<std::shared_ptr<PeerPair>> PeerPairs::Accept(const PairKey& key,
                                                            const wire::PairFrame& offer) {
  if (const auto known = by_name_.find(offer.name); known != by_name_.end()) {
    std::shared_ptr<PeerPair> pair = known->second.lock();
    return pair != nullptr && pair->status().ok() ? pair : nullptr;
  }
  // This end of it has ended with its last lane.
  if (offer.connected != 0) return nullptr;
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<PeerPair> pair, Make(key, offer.name));
  MCCS_RETURN_IF_ERROR(pair->Connect(wire::AddressIn(offer), offer.receives));
  return pair;
}

absl::StatusOr<std::shared_ptr<PeerPair>> PeerPairs::Make(const PairKey& key,
                                                          const wire::PairName& name) {
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<PairDomain> domain, Domain(key.queues.domain));
  Nic& nic = *Find(key.queues.domain.nic);
  const NicAttributes& attributes = nic.verbs->attributes();
  const uint32_t free = attributes.receive_entries - domain->granted;
  if (free < kLeastReceives) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "RDMA device ", attributes.device, " has no free receive entries for tenant ",
        key.queues.domain.tenant, ": all ", attributes.receive_entries, " belong to queue pairs"));
  }
  const double share = static_cast<double>(free) / attributes.receive_entries;
  const auto wanted = static_cast<uint32_t>(kMostReceives * share * share);
  const uint32_t receives = std::min(free, std::max(wanted, kLeastReceives));
  MCCS_ASSIGN_OR_RETURN(
      std::unique_ptr<QueuePair> queue_pair,
      nic.verbs->MakeQueuePair(*domain->verbs, {.requests = kRequestsPerPair,
                                                .traffic_class = key.traffic_class,
                                                .source_port = key.source_port}));
  const PeerPair::Options options{
      .name = name,
      .serial = ++nic.last_serial,
      .requests = kRequestsPerPair,
      .receives = static_cast<uint8_t>(receives),
      .on_break = [&nic](PeerPair& broken) { nic.broken.push_back(broken.weak_from_this()); }};
  std::shared_ptr<PeerPair> pair(new PeerPair(std::move(domain), std::move(queue_pair), options),
                                 [this, &nic](PeerPair* ended) {
                                   Forget(nic, *ended);
                                   delete ended;
                                 });
  nic.by_number.emplace(pair->number(), pair.get());
  by_name_[name] = pair;
  return pair;
}

void PeerPairs::Forget(Nic& nic, const PeerPair& pair) {
  nic.by_number.erase(pair.number());
  by_name_.erase(pair.name());
}

void PeerPairs::Break(const SharedQueueKey& queues, const absl::Status& why) {
  std::vector<std::shared_ptr<PeerPair>> broken;
  for (const auto& [key, pair] : by_key_) {
    if (key.queues == queues) broken.push_back(pair.lock());
  }
  for (const std::shared_ptr<PeerPair>& pair : broken) {
    if (pair != nullptr) pair->Break(why);
  }
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool PeerPairs::Poll() {
  bool moved = false;
  for (Nic& nic : nics_) moved |= PollNic(nic);
  return moved;
}

bool PeerPairs::PollNic(Nic& nic) {
  bool moved = false;
  while (const std::optional<VerbsEvent> event = nic.verbs->TakeEvent()) {
    OnEvent(nic, *event);
    moved = true;
  }
  std::vector<std::shared_ptr<PeerPair>> drained;
  std::erase_if(nic.broken, [&](const std::weak_ptr<PeerPair>& broken) {
    std::shared_ptr<PeerPair> pair = broken.lock();
    if (pair != nullptr && !pair->queue_pair().drained()) return false;
    if (pair != nullptr) drained.push_back(std::move(pair));
    return true;
  });
  std::vector<std::shared_ptr<PeerPair>> served;
  bool emptied = false;
  for (int i = 0; i < kMaxPollsPerTurn && !emptied; ++i) {
    const size_t polled = nic.verbs->Poll(completions_);
    emptied = polled < completions_.size();
    moved |= polled > 0;
    for (const Completion& completion : std::span(completions_).first(polled)) {
      const auto pair = nic.by_number.find(completion.queue_pair);
      if (pair == nic.by_number.end()) {
        ++unknown_;
        continue;
      }
      // Its last user may leave.
      const std::shared_ptr<PeerPair> kept = pair->second->shared_from_this();
      kept->OnCompletion(completion);
      if (served.empty() || served.back() != kept) served.push_back(kept);
    }
  }
  // Returns receives that no lane's turn returns.
  for (const std::shared_ptr<PeerPair>& pair : served) pair->Flush();
  for (const std::shared_ptr<PeerPair>& pair : drained) {
    if (emptied) {
      pair->SetSettled();
    } else {
      nic.broken.push_back(pair);
    }
    moved = true;
  }
  return moved;
}

void PeerPairs::OnEvent(Nic& nic, const VerbsEvent& event) {
  const absl::Status why =
      absl::UnavailableError(absl::StrCat("RDMA device ", nic.verbs->attributes().device, " port ",
                                          nic.verbs->attributes().port, ": ", event.text));
  switch (event.kind) {
    case VerbsEvent::Kind::kQueuePair:
      if (const auto pair = nic.by_number.find(event.queue_pair); pair != nic.by_number.end()) {
        const std::shared_ptr<PeerPair> kept = pair->second->shared_from_this();
        kept->Break(why);
      }
      return;
    case VerbsEvent::Kind::kPortDown:
    case VerbsEvent::Kind::kDevice: {
      std::vector<std::shared_ptr<PeerPair>> pairs;
      for (const auto& [number, pair] : nic.by_number) pairs.push_back(pair->shared_from_this());
      for (const std::shared_ptr<PeerPair>& pair : pairs) pair->Break(why);
      return;
    }
    case VerbsEvent::Kind::kPortUp:
    case VerbsEvent::Kind::kOther:
      return;
  }
}

bool PeerPairs::Arm() {
  bool armed = true;
  for (const Nic& nic : nics_) armed &= nic.verbs->Arm();
  return armed;
}

void PeerPairs::SetWaker(Waker* waker) {
  for (const Nic& nic : nics_) nic.verbs->SetWaker(waker);
}

}  // namespace mccs
