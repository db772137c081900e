#include "service/communicator/membership/tree_relay.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"

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

const char* NameOf(Relayed kind) { return kind == Relayed::kRoster ? "roster" : "strategy"; }

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

absl::Status ParseRelayed(const std::string& bytes, google::protobuf::Message* message) {
  if (!message->ParseFromString(bytes)) return absl::DataLossError("it cannot be parsed");
  message->DiscardUnknownFields();
  const size_t needed = message->ByteSizeLong();
  if (needed == bytes.size()) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("it has ", bytes.size(), " bytes, of which its fields need ", needed));
}

TreeRelay::TreeRelay(const PeerAccess& access, Log& log, DaemonCounters* counters)
    : access_(access), counters_(counters), warnings_(log, "tenant") {}

TreeRelay::~TreeRelay() = default;

// ---- Receiving ----------------------------------------------------------------------------------

struct TreeRelay::Incoming final : Link {
  Incoming(TreeRelay& own_relay, const Inbox& inbox, std::unique_ptr<Connection> connection)
      : Link(own_relay, inbox.tenant_),
        relay_id(inbox.subject_.relay_id),
        secret(inbox.subject_.secret),
        kind(inbox.subject_.kind),
        tenant(inbox.tenant_),
        link(std::move(connection), inbox.most_bytes_),
        memory(own_relay.memory_, tenant) {
    deadline = relay.access_.clock->Now() + kForwardTimeoutNs;
    link.SetWaker(this);
    Wake();
  }

  Result Advance() override {
    Result result;
    if (relay.access_.clock->Now() >= deadline) return {.done = true};
    const uint64_t before = link.moved_bytes();
    auto message = link.Receive();
    result.cost = static_cast<int64_t>(link.moved_bytes() - before);
    result.moved = result.cost > 0;
    if (!message.ok()) {
      result.done = true;
    } else if (message->has_value()) {
      memory.Resize(0);
      relay.Deliver(*this, **message);
      result.done = true;  // A forwarder sends one message.
    } else if (!memory.Resize(link.buffered_bytes())) {
      relay.Drop(tenant, NameOf(kind), 1, "the daemon relays too many bytes for this tenant");
      result.done = true;
    } else {
      result.more = link.has_work();
    }
    return result;
  }
  void End() override { relay.receivers_.at(relay_id)->incoming.erase(place); }

  const CommId relay_id;
  const Secret secret;
  const Relayed kind;
  const std::string tenant;
  PeerLink link;
  RelayMemory::Share memory;
  std::list<Incoming>::iterator place;
};

TreeRelay::Inbox::Inbox(TreeRelay& relay, const Subject& subject, std::string tenant,
                        uint32_t most_bytes, Waker* waker)
    : relay_(relay),
      subject_(subject),
      tenant_(std::move(tenant)),
      most_bytes_(most_bytes),
      waker_(waker) {
  std::unique_ptr<Receivers>& receivers = relay_.receivers_[subject_.relay_id];
  if (receivers == nullptr) receivers = std::make_unique<Receivers>();
  receivers->inboxes.push_back(this);
}

TreeRelay::Inbox::~Inbox() {
  const auto known = relay_.receivers_.find(subject_.relay_id);
  std::erase(known->second->inboxes, this);
  if (known->second->inboxes.empty()) relay_.receivers_.erase(known);
}

std::optional<std::string> TreeRelay::Inbox::Take() {
  if (arrived_.empty()) return std::nullopt;
  std::string bytes = std::move(arrived_.front().bytes);
  arrived_.pop_front();
  return bytes;
}

std::optional<Secret> TreeRelay::SecretOf(CommId relay_id) const {
  const auto known = receivers_.find(relay_id);
  if (known == receivers_.end()) return std::nullopt;
  return known->second->inboxes.front()->subject_.secret;
}

void TreeRelay::Accept(CommId relay_id, const Secret& secret,
                       std::unique_ptr<Connection> connection) {
  const auto known = receivers_.find(relay_id);
  if (known == receivers_.end()) return;  // It has got the bytes meanwhile.
  Receivers& receivers = *known->second;
  const auto inbox = std::ranges::find_if(
      receivers.inboxes, [&](const Inbox* each) { return each->subject_.secret == secret; });
  if (inbox == receivers.inboxes.end() || receivers.incoming.size() >= kMaxForwarders) return;
  Incoming& added = receivers.incoming.emplace_back(*this, **inbox, std::move(connection));
  added.place = std::prev(receivers.incoming.end());
}

// Several communicators have one relay id if a job reuses an NCCL_COMM_ID early; each knows its
// roster by the hash.
void TreeRelay::Deliver(const Incoming& from, peer::Message& message) {
  for (Inbox* inbox : receivers_.at(from.relay_id)->inboxes) {
    const std::string* const bytes = BytesOf(inbox->subject_.kind, message);
    if (bytes == nullptr || inbox->subject_.secret != from.secret) continue;
    if (inbox->arrived_.size() >= kMaxArrived) continue;
    RelayMemory::Share memory(memory_, inbox->tenant_);
    if (!memory.Resize(bytes->size())) {
      Drop(inbox->tenant_, NameOf(from.kind), 1,
           "the daemon relays too many bytes for this tenant");
      continue;
    }
    inbox->arrived_.push_back({*bytes, std::move(memory)});
    if (inbox->waker_ != nullptr) inbox->waker_->Wake();
  }
}

// ---- Sending ------------------------------------------------------------------------------------

struct TreeRelay::Outgoing final : Link {
  Outgoing(TreeRelay& own_relay, const std::string& own_tenant, Forwarding own_what)
      : Link(own_relay, own_tenant), tenant(own_tenant), what(std::move(own_what)) {
    deadline = what.deadline;
    what.dial.waker = this;
    Wake();
  }

  // A receiver that cannot be reached asks the source.
  Result Advance() override {
    Result result;
    if (relay.access_.clock->Now() >= deadline) return {.done = true};
    if (link == nullptr) {
      if (dial == nullptr) {
        dial = std::make_unique<Dial>(relay.access_, what.dial);
        result.cost += kStateChangeCost;
        result.moved = true;
      }
      auto connection = dial->Poll();
      result.done = !connection.ok();
      if (!connection.ok() || *connection == nullptr) return result;
      dial.reset();
      link = std::make_unique<PeerLink>(std::move(*connection), kMaxHelloBytes);
      link->SetWaker(this);
      link->Queue(what.payload->frame);
    }
    const uint64_t before = link->moved_bytes();
    result.moved |= link->Poll();
    if (link->flushed()) what.payload.reset();
    result.done = !link->Receive().ok();  // The receiver closes when it has the bytes.
    result.more = !result.done && link->has_work();
    result.cost += static_cast<int64_t>(link->moved_bytes() - before);
    return result;
  }
  void End() override {
    const std::string name = tenant;
    TreeRelay& of = relay;
    of.outgoing_.at(name)->open.erase(place);
    of.OpenNext(name);
  }

  const std::string tenant;
  Forwarding what;
  std::unique_ptr<Dial> dial;      // from its first turn until the link is open
  std::unique_ptr<PeerLink> link;  // after that
  std::list<Outgoing>::iterator place;
};

void TreeRelay::Forward(const std::string& tenant, const Subject& subject, std::string bytes,
                        const std::vector<Endpoint>& hosts) {
  if (hosts.empty()) return;
  std::unique_ptr<Tenant>& forwards = outgoing_[tenant];
  if (forwards == nullptr) forwards = std::make_unique<Tenant>();
  PeerFrame frame = MakeFrame(MessageOf(subject.kind, std::move(bytes)));
  RelayMemory::Share memory(memory_, tenant);
  if (forwards->waiting.size() + hosts.size() > kMaxForwards) {
    Drop(tenant, NameOf(subject.kind), hosts.size(), "it has too many unsent messages");
  } else if (!memory.Resize(frame->size())) {
    Drop(tenant, NameOf(subject.kind), hosts.size(),
         "the daemon relays too many bytes for this tenant");
  } else {
    const auto payload =
        std::make_shared<const Payload>(Payload{std::move(frame), std::move(memory)});
    for (const Endpoint& host : hosts) {
      forwards->waiting.push_back(
          {.dial = {.route = {.to = host, .connect = {}},
                    .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = subject.relay_id},
                    .secret = subject.secret,
                    .waker = nullptr},
           .payload = payload,
           .deadline = access_.clock->Now() + kForwardTimeoutNs});
    }
  }
  OpenNext(tenant);
}

void TreeRelay::OpenNext(const std::string& tenant) {
  const auto found = outgoing_.find(tenant);
  Tenant& forwards = *found->second;
  const MonotonicNs now = access_.clock->Now();
  size_t expired = 0;
  while (!forwards.waiting.empty() && forwards.open.size() < kMaxOpenForwards) {
    Forwarding next = std::move(forwards.waiting.front());
    forwards.waiting.pop_front();
    if (now >= next.deadline) {
      ++expired;
      continue;
    }
    Outgoing& added = forwards.open.emplace_back(*this, tenant, std::move(next));
    added.place = std::prev(forwards.open.end());
  }
  if (expired > 0) Drop(tenant, "message", expired, "they waited too long for other hosts");
  if (forwards.open.empty()) outgoing_.erase(found);
}

void TreeRelay::Drop(const std::string& tenant, const char* what, size_t hosts, const char* why) {
  if (counters_ != nullptr) counters_->relay_dropped.Add(hosts);
  warnings_.Write(
      tenant,
      absl::StrCat("tenant ", tenant, ": a ", what, " for ", hosts, hosts == 1 ? " host" : " hosts",
                   " was not relayed: ", why, "; the receivers request it from its source"),
      access_.clock->Now());
}

// ---- Turns --------------------------------------------------------------------------------------

bool TreeRelay::Poll() {
  if (links_ == 0) return false;
  bool moved = false;
  ServeTurns(turns_, *access_.clock, kTurnBytes, [&](TurnQueue::Participant& participant) {
    auto& link = static_cast<Link&>(participant);
    const Result result = link.Advance();
    TurnQueue::Charge(link, kLinkTurnCost + result.cost);
    moved |= result.moved || result.done;
    if (result.done) {
      link.End();
    } else if (result.more) {
      link.Wake();
    } else {
      turns_.SleepUntil(link, link.deadline);
    }
    return kLinkTurnCost + result.cost;
  });
  return moved || turns_.HasWork();
}

MonotonicNs TreeRelay::NextDeadline() const {
  if (links_ == 0) return kNever;
  return turns_.HasWork() ? 0 : turns_.NextDeadline();
}

}  // namespace mccs
