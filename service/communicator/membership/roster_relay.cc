#include "service/communicator/membership/roster_relay.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace mccs {

std::vector<HostIndex> RosterChildren(HostIndex self, int hosts) {
  std::vector<HostIndex> children;
  const int64_t first = kDirectRosters + int64_t{kRosterFanOut} * self.value();
  for (int64_t host = first; host < std::min<int64_t>(first + kRosterFanOut, hosts); ++host)
    children.push_back(HostIndex(static_cast<int>(host)));
  return children;
}

CommId RelayIdOf(CommId id, const Secret& secret) {
  constexpr std::string_view kLabel = "roster relay";
  std::vector<uint8_t> text(kLabel.begin(), kLabel.end());
  const uint64_t number = id.value();
  const auto* bytes = reinterpret_cast<const uint8_t*>(&number);
  text.insert(text.end(), bytes, bytes + sizeof(number));
  uint64_t relay_id = 0;
  std::memcpy(&relay_id, wire::KeyedHash(secret, text).data(), sizeof(relay_id));
  return CommId(relay_id);
}

std::string RosterHash(const Secret& secret, const std::string& roster) {
  const auto hash =
      wire::KeyedHash(secret, {reinterpret_cast<const uint8_t*>(roster.data()), roster.size()});
  return std::string(hash.begin(), hash.end());
}

// ---- Receiving ----------------------------------------------------------------------------------

RosterRelay::Inbox::Inbox(RosterRelay& relay, CommId relay_id, const Secret& secret,
                          uint32_t most_bytes, Waker* waker)
    : relay_(relay), relay_id_(relay_id), secret_(secret), most_bytes_(most_bytes), waker_(waker) {
  relay_.inboxes_[relay_id_].push_back(this);
}

RosterRelay::Inbox::~Inbox() {
  const auto known = relay_.inboxes_.find(relay_id_);
  std::erase(known->second, this);
  if (known->second.empty()) relay_.inboxes_.erase(known);
}

std::optional<std::string> RosterRelay::Inbox::Take() {
  if (arrived_.empty()) return std::nullopt;
  std::string roster = std::move(arrived_.front());
  arrived_.pop_front();
  return roster;
}

std::optional<Secret> RosterRelay::SecretOf(CommId relay_id) const {
  const auto known = inboxes_.find(relay_id);
  if (known == inboxes_.end()) return std::nullopt;
  return known->second.front()->secret_;
}

void RosterRelay::Accept(CommId relay_id, const Secret& secret,
                         std::unique_ptr<Connection> connection) {
  const auto known = inboxes_.find(relay_id);
  if (known == inboxes_.end()) return;  // It has got the roster meanwhile.
  const auto open =
      std::ranges::count(incoming_, relay_id, [](const Incoming& each) { return each.relay_id; });
  if (open >= kMaxForwarders) return;
  incoming_.push_back({.relay_id = relay_id,
                       .secret = secret,
                       .link = std::make_unique<PeerLink>(std::move(connection),
                                                          known->second.front()->most_bytes_),
                       .deadline = access_.clock->Now() + kForwardTimeoutNs});
}

bool RosterRelay::Receive(Incoming& incoming, bool& moved) {
  const auto message = incoming.link->Receive();
  if (!message.ok() || access_.clock->Now() >= incoming.deadline) return true;
  if (!message->has_value()) return !inboxes_.contains(incoming.relay_id);
  moved = true;
  if ((*message)->has_roster()) Deliver(incoming, (*message)->roster());
  return true;  // A forwarder sends one message.
}

// Several communicators have one relay id if a job reuses an NCCL_COMM_ID early; each knows its
// roster by the hash.
void RosterRelay::Deliver(const Incoming& from, const std::string& roster) {
  const auto known = inboxes_.find(from.relay_id);
  if (known == inboxes_.end()) return;
  for (Inbox* inbox : known->second) {
    if (inbox->secret_ != from.secret || inbox->arrived_.size() >= kMaxArrived) continue;
    inbox->arrived_.push_back(roster);
    if (inbox->waker_ != nullptr) inbox->waker_->Wake();
  }
}

// ---- Sending ------------------------------------------------------------------------------------

void RosterRelay::Forward(const std::string& tenant, std::string roster, CommId relay_id,
                          const Secret& secret, const std::vector<Endpoint>& hosts) {
  if (hosts.empty() ||
      std::ranges::count(outgoing_, tenant, &Outgoing::tenant) >= kMaxForwardsPerTenant) {
    return;
  }
  auto message = std::make_shared<peer::Message>();
  message->set_roster(std::move(roster));
  for (const Endpoint& host : hosts) {
    const DialOptions dial{.route = {.to = host, .connect = {}},
                           .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = relay_id},
                           .secret = secret,
                           .waker = nullptr};
    outgoing_.push_back({.tenant = tenant,
                         .dial = std::make_unique<Dial>(access_, dial),
                         .link = nullptr,
                         .roster = message,
                         .deadline = access_.clock->Now() + kForwardTimeoutNs});
  }
}

// A receiver that cannot be reached asks the rendezvous.
bool RosterRelay::Send(Outgoing& outgoing, bool& moved) {
  if (access_.clock->Now() >= outgoing.deadline) return true;
  if (outgoing.link == nullptr) {
    auto connection = outgoing.dial->Poll();
    if (!connection.ok()) return true;
    if (*connection == nullptr) return false;
    outgoing.dial.reset();
    outgoing.link = std::make_unique<PeerLink>(std::move(*connection), kMaxHelloBytes);
    outgoing.link->Send(*std::exchange(outgoing.roster, nullptr));
    moved = true;
  }
  moved |= outgoing.link->Poll();
  return !outgoing.link->Receive().ok();  // The receiver closes when it has the roster.
}

bool RosterRelay::Poll() {
  bool moved = false;
  std::erase_if(incoming_, [&](Incoming& each) { return Receive(each, moved); });
  std::erase_if(outgoing_, [&](Outgoing& each) { return Send(each, moved); });
  return moved;
}

MonotonicNs RosterRelay::NextDeadline() const {
  MonotonicNs next = kNever;
  for (const Incoming& each : incoming_) next = std::min(next, each.deadline);
  for (const Outgoing& each : outgoing_) {
    next = std::min(next, each.deadline);
    if (each.dial != nullptr) next = std::min(next, each.dial->deadline());
  }
  return next;
}

}  // namespace mccs
