#include "service/communicator/membership/tree_relay.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace mccs {
namespace {

peer::Message MessageOf(Relayed kind, std::string bytes) {
  peer::Message message;
  if (kind == Relayed::kRoster) {
    message.set_roster(std::move(bytes));
  } else {
    message.mutable_open()->set_strategy(std::move(bytes));
  }
  return message;
}

// Null: the message has no bytes of this kind.
const std::string* BytesOf(Relayed kind, const peer::Message& message) {
  if (kind == Relayed::kRoster) return message.has_roster() ? &message.roster() : nullptr;
  return message.has_open() ? &message.open().strategy() : nullptr;
}

}  // namespace

std::vector<int> TreeChildren(int self, int receivers) {
  std::vector<int> children;
  const int64_t first = kDirectReceivers + int64_t{kTreeFanOut} * self;
  for (int64_t child = first; child < std::min<int64_t>(first + kTreeFanOut, receivers); ++child)
    children.push_back(static_cast<int>(child));
  return children;
}

CommId RelayIdOf(Relayed kind, CommId id, const Secret& secret) {
  const std::string_view label = kind == Relayed::kRoster ? "roster relay" : "strategy relay";
  std::vector<uint8_t> text(label.begin(), label.end());
  const uint64_t number = id.value();
  const auto* bytes = reinterpret_cast<const uint8_t*>(&number);
  text.insert(text.end(), bytes, bytes + sizeof(number));
  uint64_t relay_id = 0;
  std::memcpy(&relay_id, wire::KeyedHash(secret, text).data(), sizeof(relay_id));
  return CommId(relay_id);
}

std::string RelayHash(const Secret& secret, const std::string& bytes) {
  const auto hash =
      wire::KeyedHash(secret, {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
  return std::string(hash.begin(), hash.end());
}

// ---- Receiving ----------------------------------------------------------------------------------

TreeRelay::Inbox::Inbox(TreeRelay& relay, const Subject& subject, uint32_t most_bytes, Waker* waker)
    : relay_(relay), subject_(subject), most_bytes_(most_bytes), waker_(waker) {
  relay_.inboxes_[subject_.relay_id].push_back(this);
}

TreeRelay::Inbox::~Inbox() {
  const auto known = relay_.inboxes_.find(subject_.relay_id);
  std::erase(known->second, this);
  if (known->second.empty()) relay_.inboxes_.erase(known);
}

std::optional<std::string> TreeRelay::Inbox::Take() {
  if (arrived_.empty()) return std::nullopt;
  std::string bytes = std::move(arrived_.front());
  arrived_.pop_front();
  return bytes;
}

std::optional<Secret> TreeRelay::SecretOf(CommId relay_id) const {
  const auto known = inboxes_.find(relay_id);
  if (known == inboxes_.end()) return std::nullopt;
  return known->second.front()->subject_.secret;
}

void TreeRelay::Accept(CommId relay_id, const Secret& secret,
                       std::unique_ptr<Connection> connection) {
  const auto known = inboxes_.find(relay_id);
  if (known == inboxes_.end()) return;  // It has got the bytes meanwhile.
  const auto open =
      std::ranges::count(incoming_, relay_id, [](const Incoming& each) { return each.relay_id; });
  if (open >= kMaxForwarders) return;
  incoming_.push_back({.relay_id = relay_id,
                       .secret = secret,
                       .link = std::make_unique<PeerLink>(std::move(connection),
                                                          known->second.front()->most_bytes_),
                       .deadline = access_.clock->Now() + kForwardTimeoutNs});
}

bool TreeRelay::Receive(Incoming& incoming, bool& moved) {
  const auto message = incoming.link->Receive();
  if (!message.ok() || access_.clock->Now() >= incoming.deadline) return true;
  if (!message->has_value()) return !inboxes_.contains(incoming.relay_id);
  moved = true;
  Deliver(incoming, **message);
  return true;  // A forwarder sends one message.
}

// Several communicators have one relay id if a job reuses an NCCL_COMM_ID early; each knows its
// roster by the hash.
void TreeRelay::Deliver(const Incoming& from, const peer::Message& message) {
  const auto known = inboxes_.find(from.relay_id);
  if (known == inboxes_.end()) return;
  for (Inbox* inbox : known->second) {
    const std::string* const bytes = BytesOf(inbox->subject_.kind, message);
    if (bytes == nullptr || inbox->subject_.secret != from.secret) continue;
    if (inbox->arrived_.size() >= kMaxArrived) continue;
    inbox->arrived_.push_back(*bytes);
    if (inbox->waker_ != nullptr) inbox->waker_->Wake();
  }
}

// ---- Sending ------------------------------------------------------------------------------------

void TreeRelay::Forward(const std::string& tenant, const Subject& subject, std::string bytes,
                        const std::vector<Endpoint>& hosts) {
  if (hosts.empty()) return;
  Tenant& forwards = outgoing_[tenant];
  if (forwards.waiting.size() + hosts.size() > kMaxForwards) return;
  const auto message =
      std::make_shared<const peer::Message>(MessageOf(subject.kind, std::move(bytes)));
  for (const Endpoint& host : hosts) {
    forwards.waiting.push_back(
        {.dial = {.route = {.to = host, .connect = {}},
                  .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = subject.relay_id},
                  .secret = subject.secret,
                  .waker = nullptr},
         .message = message,
         .deadline = access_.clock->Now() + kForwardTimeoutNs});
  }
  bool moved = false;
  SendAll(forwards, moved);
}

bool TreeRelay::SendAll(Tenant& tenant, bool& moved) {
  std::erase_if(tenant.open, [&](Outgoing& each) { return Send(each, moved); });
  while (!tenant.waiting.empty() && tenant.open.size() < kMaxOpenForwards) {
    Outgoing& next = tenant.open.emplace_back(
        Outgoing{.what = std::move(tenant.waiting.front()), .dial = nullptr, .link = nullptr});
    tenant.waiting.pop_front();
    next.dial = std::make_unique<Dial>(access_, next.what.dial);
    moved = true;
  }
  return tenant.open.empty();
}

// A receiver that cannot be reached asks the source.
bool TreeRelay::Send(Outgoing& outgoing, bool& moved) {
  if (access_.clock->Now() >= outgoing.what.deadline) return true;
  if (outgoing.link == nullptr) {
    auto connection = outgoing.dial->Poll();
    if (!connection.ok()) return true;
    if (*connection == nullptr) return false;
    outgoing.dial.reset();
    outgoing.link = std::make_unique<PeerLink>(std::move(*connection), kMaxHelloBytes);
    outgoing.link->Send(*std::exchange(outgoing.what.message, nullptr));
    moved = true;
  }
  moved |= outgoing.link->Poll();
  return !outgoing.link->Receive().ok();  // The receiver closes when it has the bytes.
}

bool TreeRelay::Poll() {
  bool moved = false;
  std::erase_if(incoming_, [&](Incoming& each) { return Receive(each, moved); });
  absl::erase_if(outgoing_, [&](auto& each) { return SendAll(each.second, moved); });
  return moved;
}

MonotonicNs TreeRelay::NextDeadline() const {
  MonotonicNs next = kNever;
  for (const Incoming& each : incoming_) next = std::min(next, each.deadline);
  for (const auto& [name, tenant] : outgoing_) {
    for (const Outgoing& each : tenant.open) {
      next = std::min(next, each.what.deadline);
      if (each.dial != nullptr) next = std::min(next, each.dial->deadline());
    }
  }
  return next;
}

}  // namespace mccs
