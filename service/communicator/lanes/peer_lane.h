// One end of a lane, how its connections are opened, and how long it may be without one.
//
// The sender reopens a broken lane, over other NICs too (lane_routes.h); the ends agree on the last
// slice delivered. If that does not succeed within kLaneReconnectTimeoutNs, the end reports an
// error. A lane on another route than its strategy's returns when it can. If all ranks of the peer
// have left (MarkDeparted), it reports none and reopens nothing. If only this end's work is done
// (TolerateLoss), it reports none, but reopens the lane: the peer may still wait for it.
//
// OWNER: LaneSet. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_PEER_LANE_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_PEER_LANE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "proto/agent.pb.h"
#include "service/communicator/lanes/lane_meter.h"
#include "service/communicator/lanes/lane_routes.h"
#include "service/communicator/lanes/reopen_request.h"
#include "service/communicator/links/dial.h"
#include "service/counters.h"
#include "service/device/device.h"
#include "service/pacing/host_pacing.h"
#include "service/pacing/lane_gate.h"
#include "service/pacing/rate_limits.h"
#include "service/transport/lane.h"

namespace mccs {

// Adds a lane's traffic to its tenant's counters.
class LaneTally {
 public:
  // Null: not counted. LIFETIME: `into` outlives this.
  explicit LaneTally(TenantCounters::Lanes* into) : into_(into) {}

  // `now`: totals of the lane since it was created.
  void Count(const LaneCounters& now) {
    if (into_ == nullptr) return;
    into_->bytes.Add(now.payload_bytes - bytes_);
    into_->reconnects.Add(now.reconnects - reconnects_);
    into_->copied_bytes.Add(now.copied_bytes - copied_bytes_);
    bytes_ = now.payload_bytes;
    reconnects_ = now.reconnects;
    copied_bytes_ = now.copied_bytes;
  }
  // Adds a wait that has ended.
  void CountWait(LaneWait wait, int64_t ns) {
    static_assert(static_cast<size_t>(LaneWait::kConnection) + 1 == kLaneWaits);
    if (into_ != nullptr) into_->wait_ns[static_cast<size_t>(wait)].Add(static_cast<uint64_t>(ns));
  }

 private:
  TenantCounters::Lanes* const into_;
  uint64_t bytes_ = 0;  // counted so far
  uint64_t reconnects_ = 0;
  uint64_t copied_bytes_ = 0;
};

// How long an outgoing lane was blocked, by reason.
class LaneWaits {
 public:
  // Starts a wait for `wait` and counts the previous one. Reads the clock only if the reason
  // changes.
  void SetReason(LaneWait wait, const Clock& clock, LaneTally& tally) {
    if (wait == wait_) return;
    const MonotonicNs now = clock.Now();
    if (wait_ != LaneWait::kNothing) {
      ns_[Index(wait_)] += now - since_;
      tally.CountWait(wait_, now - since_);
    }
    wait_ = wait;
    since_ = now;
  }
  // Until `now`, including the current wait.
  int64_t TotalNs(LaneWait wait, MonotonicNs now) const {
    return ns_[Index(wait)] + (wait == wait_ ? now - since_ : 0);
  }

 private:
  static constexpr size_t Index(LaneWait wait) { return static_cast<size_t>(wait); }

  LaneWait wait_ = LaneWait::kNothing;
  MonotonicNs since_ = 0;
  std::array<int64_t, kLaneWaits> ns_{};
};

// How long a lane may be without a connection after it had one.
inline constexpr int64_t kLaneReconnectTimeoutNs = 700 * kNsPerMs;

// Measures how long a lane has been without a connection that works (LaneEnd::works). One that
// breaks before it works does not end the wait, and the time that the exchange on it took does not
// count.
class ReconnectTimeout {
 public:
  // Returns the error that ends the wait; OK while there is none or time is left. `status`: the
  // lane's, or why its first connection cannot be opened.
  absl::Status Check(const LaneEnd& lane, const absl::Status& status, MonotonicNs now);
  void Reset() { *this = {}; }
  // The lane is broken, or was, and does not work yet.
  bool started() const { return broken_at_ != 0; }
  // The lane is broken.
  bool waiting() const { return broken_; }
  // When the wait ends; never if the lane is not broken.
  MonotonicNs deadline() const;

 private:
  bool broken_ = false;
  MonotonicNs broken_at_ = 0;  // later by the time of exchanges since then
  MonotonicNs exchanges_since_ = 0;
  MonotonicNs ready_since_ = 0;
};

// The effect of a failure of a lane's first connection.
enum class FirstDial : uint8_t {
  kMustSucceed,  // an error: the communicator is forming and the peer expects it
  kMayRetry,     // wait: the peer may have failed, and the star delivers the reason
};

class OutgoingLane {
 public:
  // Starts to dial as in `dial`, whose preamble names the lane. If the source port is busy, the
  // lane starts from a port of the system's choice and moves later (MoveTo). `rate` may be null.
  // REQUIRES: `lane` is not null.
  // LIFETIME: `rate` outlives this.
  OutgoingLane(const PeerAccess& access, const DialOptions& dial, LaneRoutes routes,
               FirstDial first, std::unique_ptr<SendLane> lane, LaneTally tally, RateMeter* rate);

  SendLane& lane() { return *lane_; }
  const SendLane& lane() const { return *lane_; }
  ChannelId channel() const { return options_.preamble.channel; }
  HostIndex peer() const { return options_.preamble.to_host; }

  // Moves the lane to another route when the new connection is open. Until then the lane works, and
  // is restored, as before; failed attempts are repeated. If another lane has the source port, this
  // one first moves to a port of the system's choice: two lanes that exchange ports would otherwise
  // wait for each other.
  void MoveTo(const DialRoute& route);

  // Sets the rate limits: those of the lane itself, else those of `routing`'s lane to the peer.
  // LIFETIME: `host` outlives this.
  // `rates`: the lane rates of `limits`.
  void SetRateLimits(const RateLimits& limits, const SentRates& rates, ChannelId routing,
                     HostPacing& host);
  // It has data to send, and its gate alone delays it.
  bool held() const { return gate_ != nullptr && gate_->held(); }

  // Advances bytes and connections; sets `moved` if any moved. An error: the first connection
  // failed, the lane cannot be restored, or the peer broke the protocol.
  absl::Status Poll(bool* moved);

  // It has had its first connection.
  bool attached() const { return attached_; }
  // The receiver has lost its connection, and this end has not noticed.
  void OnReopenRequest();
  // Everything posted has been acknowledged, or no longer matters.
  bool drained() const { return departed_ || lane_->acknowledged() == lane_->next(); }
  void MarkDeparted();
  void TolerateLoss();
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

  // "channel 0 to 10.0.0.2:7400", "message lane 1 to 10.0.0.2:7400".
  std::string Describe() const;
  agent::v1::Lane Stats() const;

 private:
  // Returns true if a connection was opened.
  absl::StatusOr<bool> PollDial();
  bool PollMove();
  // Returns true if another attempt has started.
  bool OnMoveFailed(const absl::Status& why);
  void DialFromSystemPort(const absl::Status& why);
  void AttachConnection(std::unique_ptr<Connection> connection);
  // Assigns the gate to the NIC that the lane leaves from.
  void SetNic();
  DialOptions OptionsOfMove() const;
  // Why the lane has no connection; OK if it has one or its first is being opened.
  absl::Status ConnectionError() const;
  // The lane's final error, with the reason why it could not reconnect.
  absl::Status WithRedialError(const absl::Status& over) const;
  std::string DescribeState(const absl::Status& status) const;
  void StartDial();
  // Packets can leave from it now. `address`: as in ConnectOptions.
  bool HasLink(const std::string& address) const;
  // The lane gets a connection on this route, which may not be the strategy's.
  void TakeRoute(const DialRoute& route);
  const DialRoute& chosen_route() const;

  const PeerAccess access_;
  DialOptions options_;  // of the current connection, or of the first one
  const LaneRoutes routes_;
  const FirstDial first_;
  absl::Status first_failure_;    // for kMayRetry
  absl::Status redial_error_;     // of the last dial that was to restore the connection
  HostPacing* pacing_ = nullptr;  // with gate_
  // The tenant's rate limit, as last set.
  struct TenantRate {
    std::string tenant;
    uint64_t rate_bps = 0;
    uint64_t revision = 0;
  };
  TenantRate tenant_rate_;
  std::unique_ptr<LaneGate> gate_;  // null: unlimited; outlives the lane
  std::unique_ptr<SendLane> lane_;
  LaneTally tally_;
  LaneMeter meter_;
  LaneWaits waits_;
  std::unique_ptr<Dial> dial_;
  DialRoute dial_route_;
  int attempt_ = 0;                       // of dials since the lane broke
  MonotonicNs restart_dial_at_ = kNever;  // of a lane that had a connection, or has other routes
  int64_t restart_after_ns_ = 0;
  std::optional<DialRoute> move_to_;  // target of a pending move
  std::unique_ptr<Dial> move_dial_;   // dials it, beside what keeps the lane working
  bool via_system_port_ = false;      // it first moves to a port of the system's choice
  MonotonicNs retry_move_at_ = 0;
  int64_t return_after_ns_ = 0;  // from another route; doubles each time
  absl::Status move_error_;      // why the last attempt failed, or why the lane left its route
  bool attached_ = false;
  bool lost_at_peer_ = false;  // see OnReopenRequest
  bool departed_ = false;
  bool tolerates_loss_ = false;
  ReconnectTimeout reconnect_timeout_;
  MonotonicNs redial_at_ = 0;
};

// Source of an incoming lane.
struct LaneOrigin {
  ChannelId channel;
  HostIndex peer;
  Endpoint endpoint;  // of the peer, for messages
};

class IncomingLane {
 public:
  // `slots`: the memory of the lane's slots; null: it has none. REQUIRES: `lane` is not null.
  IncomingLane(const Clock& clock, const LaneOrigin& origin, std::shared_ptr<Region> slots,
               std::unique_ptr<RecvLane> lane, LaneTally tally);

  RecvLane& lane() { return *lane_; }
  const RecvLane& lane() const { return *lane_; }
  ChannelId channel() const { return origin_.channel; }
  HostIndex peer() const { return origin_.peer; }

  // For lanes that have other routes.
  void SetReopenRequest(std::unique_ptr<ReopenRequest> request) { request_ = std::move(request); }
  // Sets its class, and the DSCP of its acknowledgements (Connection::Mark).
  void SetClass(TrafficClass traffic_class, uint8_t dscp);
  // Takes an authenticated connection from the peer; it replaces an older one.
  void Attach(std::unique_ptr<Connection> connection);
  // As OutgoingLane's; before the first connection there is nothing to do.
  absl::Status Poll(bool* moved);

  bool attached() const { return attached_; }
  void MarkDeparted();
  void TolerateLoss() { MarkDeparted(); }  // the peer reopens it
  MonotonicNs NextDeadline() const;
  // "channel 0 from 10.0.0.2:7400".
  std::string Describe() const;

 private:
  const Clock& clock_;
  const LaneOrigin origin_;
  std::shared_ptr<Region> slots_;  // outlives the lane; may be null
  std::unique_ptr<RecvLane> lane_;
  LaneTally tally_;
  bool attached_ = false;
  bool departed_ = false;
  ReconnectTimeout reconnect_timeout_;
  std::unique_ptr<ReopenRequest> request_;  // may be null
  MonotonicNs acknowledge_at_ = 0;          // deferred acknowledgements
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_PEER_LANE_H_
