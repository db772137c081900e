#include "service/transport/peer_listener.h"

#include <algorithm>
#include <utility>

namespace mccs {
namespace {

// Streams accepted in one Poll; the lanes want their turn.
constexpr int kMaxAcceptsPerPoll = 64;

}  // namespace

PeerListener::PeerListener(std::unique_ptr<Listener> listener, SecretLookup lookup, Random& random,
                           Log& log, const PeerListenerLimits& limits)
    : listener_(std::move(listener)),
      lookup_(std::move(lookup)),
      random_(random),
      log_(log),
      limits_(limits) {}

void PeerListener::Mark(uint8_t dscp) {
  listener_->Mark(dscp);
  marked_ = dscp != 0;
}

std::vector<Peer> PeerListener::Poll(MonotonicNs now) {
  AcceptNew(now);
  std::vector<Peer> proven;
  for (auto it = pending_.begin(); it != pending_.end();) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = it->Poll(now);
    if (connection.ok() && *connection == nullptr) {
      ++it;
      continue;
    }
    if (connection.ok()) {
      const bool lane = it->preamble().purpose == ConnectionPurpose::kLane;
      if (lane && marked_) (*connection)->Mark(0);  // Its lane knows what it bears.
      proven.push_back({.preamble = it->preamble(), .connection = *std::move(connection)});
    } else {
      log_.Warning("port ", listener_->local().port,
                   ": connection dropped: ", connection.status().message());
    }
    it = pending_.erase(it);
  }
  return proven;
}

void PeerListener::AcceptNew(MonotonicNs now) {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = listener_->Accept();
    if (!connection.ok()) {  // Out of descriptors, most likely: says so once until it works again.
      if (!accept_failed_)
        log_.Error("cannot accept other daemons: ", connection.status().message());
      accept_failed_ = true;
      return;
    }
    if (*connection == nullptr) return;
    accept_failed_ = false;
    if (pending_.size() >= limits_.pending) {
      log_.Warning("port ", listener_->local().port, ": more than ", limits_.pending,
                   " connections wait for their handshake; the oldest is dropped");
      pending_.pop_front();
    }
    pending_.emplace_back(*std::move(connection), lookup_, random_, limits_.patience, now);
  }
}

std::optional<MonotonicNs> PeerListener::NextDeadline() const {
  if (pending_.empty()) return std::nullopt;
  MonotonicNs earliest = pending_.front().deadline();
  for (const ServerHandshake& handshake : pending_) {
    earliest = std::min(earliest, handshake.deadline());
  }
  return earliest;
}

}  // namespace mccs
