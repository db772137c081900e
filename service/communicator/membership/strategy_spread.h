// Spreads the first strategy of a communicator from the leader over the other hosts, down the tree
// of tree_relay.h. The receivers are the hosts without the leader, in the roster's order.
//
//   leader ──Open──► the first receivers, which forward it to others, which forward it …
//      ├──OpenNotice (hash)──► the others
//      ◄──OpenRequest──────── no forwarder has sent these bytes in time
//      └──Open───────────────►
//
// Every receiver has the roster and a link to the leader before the leader chooses the strategy, so
// it expects its forwarder.
//
// OWNER: Forming. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_STRATEGY_SPREAD_H_
#define MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_STRATEGY_SPREAD_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/peer.pb.h"
#include "service/communicator/links/star.h"
#include "service/communicator/membership/membership.h"
#include "service/communicator/membership/tree_relay.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {

// Requested strategies that the leader sends at once; others wait.
inline constexpr size_t kMaxStrategiesAtOnce = 16;
// How long a host waits for the strategy that it has requested: many may request it at once. The
// leader waits as long for the hosts' lanes.
inline constexpr int64_t kStrategyRequestTimeoutNs = 30 * kNsPerSec;

// Identifies the strategy of communicator `id` among what is relayed.
TreeRelay::Subject StrategySubject(CommId id, const Secret& secret);
// The hosts to which `members.self`, which is not the leader, forwards the strategy.
std::vector<HostIndex> StrategyChildren(const Membership& members);

// The leader's side.
class StrategySource {
 public:
  // Sends the strategy to the first receivers, and its hash to the others.
  // LIFETIME: `star` outlives this. REQUIRES: it leads, and every host is linked.
  StrategySource(Star& star, const Membership& members, const Secret& secret,
                 const Strategy& strategy);

  // kDataLoss: the host has no reason to request the strategy, or has done so already.
  absl::Status OnRequest(HostIndex from);
  // Answers requests. Returns true if anything moved.
  bool Poll();

 private:
  Star& star_;
  PeerFrame open_;
  std::vector<bool> may_request_;  // by HostIndex
  std::deque<HostIndex> requests_;
  std::vector<HostIndex> answering_;  // links that may still have a part of the answer to send
};

// A member's side, until it has the strategy.
class StrategyReceiver {
 public:
  struct Options {
    TreeRelay* relay = nullptr;
    Star* star = nullptr;
    const Clock* clock = nullptr;
    Log* log = nullptr;
    CommId id;
    Secret secret{};
    std::string tenant = {};
    uint32_t most_bytes = kMaxPeerMessageBytes;  // of a message
    Waker* waker = nullptr;
  };
  // LIFETIME: what `options` points to outlives this.
  explicit StrategyReceiver(const Options& options);

  // kDataLoss: an invalid or second notice.
  absl::Status OnNotice(const peer::OpenNotice& notice);
  // The serialised strategy, if a forwarder has sent the bytes of the notice. Requests it from the
  // leader if it is late; the leader's answer is a message of its own. kDeadlineExceeded: neither
  // has sent it.
  absl::StatusOr<std::optional<std::string>> Poll();
  // The leader has sent the notice, so that Poll limits the time.
  bool notified() const { return !hash_.empty(); }
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const { return deadline_; }

 private:
  void Request(const char* why);

  const Options options_;
  std::optional<TreeRelay::Inbox> inbox_;  // until the strategy is requested
  std::string hash_;                       // of the notice; empty: no notice yet
  MonotonicNs deadline_ = kNever;          // after the notice: of the relay, then of the request
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_MEMBERSHIP_STRATEGY_SPREAD_H_
