#include "service/transport/peer_listener.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/socket_endpoint.h"

namespace mccs {
namespace {

// Streams accepted per Poll; limited so that lanes get their turns.
constexpr int kMaxAcceptsPerPoll = 64;
// Handshakes advanced per Poll, for the same reason: many clients may send at once.
constexpr size_t kMaxAdvancedPerPoll = 64;

}  // namespace

PeerListener::PeerListener(std::unique_ptr<Listener> listener, SecretLookup lookup, Random& random,
                           Log& log, const PeerListenerLimits& limits, PeerSecurity* security,
                           PeerListenerCounters* counters)
    : listener_(std::move(listener)),
      lookup_(std::move(lookup)),
      random_(random),
      log_(log),
      limits_(limits),
      security_(security),
      counters_(counters != nullptr ? *counters : uncounted_) {}

void PeerListener::Mark(uint8_t dscp) {
  listener_->Mark(dscp);
  marked_ = dscp != 0;
}

std::vector<Peer> PeerListener::Poll(MonotonicNs now) {
  AcceptNew(now);
  ListLate(now);
  std::vector<Peer> proven;
  for (size_t left = std::min(ready_.size(), kMaxAdvancedPerPoll); left > 0; --left) {
    Advance(static_cast<Pending&>(*ready_.Next()), now, proven);
  }
  while (proven_.all > limits_.proven) MakeRoom(/*proven=*/true, limits_.proven, now);
  return proven;
}

void PeerListener::ListLate(MonotonicNs now) {
  for (auto it = waiting_.begin(); it != waiting_.end() && it->handshake.deadline() <= now; ++it) {
    it->List();
  }
  if (due_ > now) return;
  due_ = kNever;
  for (Pending& pending : pending_) {
    if (pending.handshake.deadline() <= now) {
      pending.List();
    } else {
      due_ = std::min(due_, pending.handshake.deadline());
    }
  }
}

void PeerListener::Advance(Pending& pending, MonotonicNs now, std::vector<Peer>& proven) {
  ServerHandshake& handshake = pending.handshake;
  absl::StatusOr<std::unique_ptr<Connection>> connection = handshake.Poll(now);
  if (connection.ok() && *connection == nullptr) {
    if (!pending.proven && !handshake.peer_host().empty()) {
      Uncount(pending);
      pending.proven = true;
      Count(pending, handshake.peer_host(), handshake.peer_host());
    }
    if (pending.waits != handshake.awaits_secret()) {
      std::list<Pending>& home = handshake.awaits_secret() ? waiting_ : pending_;
      home.splice(home.end(), pending.waits ? waiting_ : pending_, pending.place);
      pending.waits = handshake.awaits_secret();
    }
    if (!pending.waits) due_ = std::min(due_, handshake.deadline());
    return;
  }
  if (connection.ok()) {
    (*connection)->SetWaker(nullptr);
    const bool lane = handshake.preamble().purpose == ConnectionPurpose::kLane;
    if (lane && marked_) (*connection)->Mark(0);  // The lane sets its own DSCP.
    counters_.accepted.Add(1);
    proven.push_back({.preamble = handshake.preamble(),
                      .secret = handshake.secret(),
                      .host = handshake.peer_host(),
                      .connection = *std::move(connection)});
  } else {
    const bool authenticated = !absl::IsUnauthenticated(connection.status()) &&
                               !absl::IsPermissionDenied(connection.status());
    (authenticated ? counters_.incomplete : counters_.not_authenticated).Add(1);
    warnings_.Write(handshake.source(),
                    absl::StrCat("port ", listener_->local().port, ": connection dropped: ",
                                 std::string(connection.status().message())),
                    now);
  }
  Remove(pending);
}

void PeerListener::Count(Pending& pending, const std::string& network, const std::string& source) {
  Counts& counts = CountsOf(pending.proven);
  pending.network = counts.networks.try_emplace(network).first;
  pending.source = pending.network->second.sources.try_emplace(source).first;
  ++counts.all;
  ++pending.network->second.all;
  ++pending.source->second;
}

void PeerListener::Uncount(const Pending& pending) {
  Counts& counts = CountsOf(pending.proven);
  SourceNetwork& network = pending.network->second;
  --counts.all;
  if (--pending.source->second == 0) network.sources.erase(pending.source);
  if (--network.all == 0) counts.networks.erase(pending.network);
}

void PeerListener::Remove(Pending& pending) {
  Uncount(pending);
  (pending.waits ? waiting_ : pending_).erase(pending.place);
}

void PeerListener::RetryLookup(CommId id) {
  for (Pending& pending : waiting_) {
    if (pending.handshake.preamble().comm_id != id) continue;
    pending.handshake.RetryLookup();
    pending.List();
  }
}

void PeerListener::AcceptNew(MonotonicNs now) {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = listener_->Accept();
    if (!connection.ok()) {  // Probably out of descriptors: logged once until it works again.
      if (!accept_failed_)
        log_.Error("cannot accept connections of other daemons: ", connection.status().message());
      accept_failed_ = true;
      return;
    }
    if (*connection == nullptr) return;
    accept_failed_ = false;
    Pending& added = pending_.emplace_back(ready_, *std::move(connection), lookup_, random_,
                                           security_, limits_.timeouts, now);
    added.place = std::prev(pending_.end());
    added.handshake.SetWaker(&added);
    added.List();
    Count(added, NetworkOf(added.handshake.source()), added.handshake.source());
    if (unproven_.all > limits_.pending) MakeRoom(/*proven=*/false, limits_.pending, now);
  }
}

template <typename Condition>
PeerListener::Pending* PeerListener::FindOldest(Condition condition) {
  for (std::list<Pending>* handshakes : {&waiting_, &pending_}) {
    const auto found = std::ranges::find_if(*handshakes, condition);
    if (found != handshakes->end()) return &*found;
  }
  return nullptr;
}

void PeerListener::MakeRoom(bool proven, size_t limit, MonotonicNs now) {
  size_t most = 0;
  for (const auto& [name, network] : CountsOf(proven).networks) most = std::max(most, network.all);
  const Networks::iterator network =
      FindOldest([&](const Pending& each) {
        return each.proven == proven && each.network->second.all == most;
      })->network;
  most = 0;
  for (const auto& [address, count] : network->second.sources) most = std::max(most, count);
  Pending* const oldest = FindOldest([&](const Pending& each) {
    return each.proven == proven && each.network == network && each.source->second == most;
  });
  counters_.displaced.Add(1);
  const std::string& source = oldest->source->first;
  warnings_.Write(network->first,
                  absl::StrCat("port ", listener_->local().port, ": more than ", limit,
                               proven ? " connections of the cluster's hosts" : " connections",
                               " wait for their handshake, most of them from ", source,
                               "; dropped the oldest one from there"),
                  now);
  Remove(*oldest);
}

std::optional<MonotonicNs> PeerListener::NextDeadline() const {
  if (ready_.size() > 0) return 0;  // Poll has left some for its next call.
  const MonotonicNs first =
      waiting_.empty() ? due_ : std::min(due_, waiting_.front().handshake.deadline());
  return first == kNever ? std::nullopt : std::optional(first);
}

}  // namespace mccs
