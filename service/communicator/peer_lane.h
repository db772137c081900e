// One end of a lane as a communicator keeps it: the lane, how its connections come about, and how
// long it may be without one.
//
// A lane that breaks is opened again by its sender; the ends agree on the last slice delivered.
// Only when that does not succeed within kLanePatienceNs does the end report an error. An end whose
// peer is excused reports none: a break is no loss then.
//
// OWNER: LaneSet. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_PEER_LANE_H_
#define MCCS_SERVICE_COMMUNICATOR_PEER_LANE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/ids.h"
#include "service/communicator/controller_link.h"
#include "service/communicator/dial.h"
#include "service/communicator/lane_meter.h"
#include "service/communicator/lane_tally.h"
#include "service/communicator/lane_waits.h"
#include "service/device/device.h"
#include "service/pacing/host_pacing.h"
#include "service/pacing/lane_gate.h"
#include "service/pacing/pace.h"
#include "service/transport/lane.h"

namespace mccs {

// How long a lane may be without a connection once it had one.
inline constexpr int64_t kLanePatienceNs = 700 * kNsPerMs;

// Since when a lane has been without its connection.
class LanePatience {
 public:
  // What the lane's status means now: nothing, or the error that ends the wait.
  absl::Status Check(const absl::Status& lane, MonotonicNs now);
  void Reset() { broken_at_ = 0; }
  bool waiting() const { return broken_at_ != 0; }
  // When it is over; never while nothing is broken.
  MonotonicNs deadline() const;

 private:
  MonotonicNs broken_at_ = 0;
};

// What a first connection that does not come about means.
enum class FirstDial : uint8_t {
  kMustSucceed,  // while the communicator forms: its peer awaits it
  kPatient,      // later: the peer may just have failed, and its reason be on the way over the star
};

class OutgoingLane {
 public:
  // Starts to dial as `dial` says; its preamble names the lane. From a source port that is busy it
  // moves there later (MoveTo), and begins from one of the system's choice. REQUIRES: `lane` is not
  // null. `rate` may be; LIFETIME: it outlives this.
  OutgoingLane(const PeerAccess& access, const DialOptions& dial, FirstDial first,
               std::unique_ptr<SendLane> lane, LaneTally tally, RateMeter* rate);

  SendLane& lane() { return *lane_; }
  const SendLane& lane() const { return *lane_; }
  ChannelId channel() const { return options_.preamble.channel; }
  HostIndex peer() const { return options_.preamble.to_host; }

  // The lane goes over to a connection by another route as soon as that is there. Until then it
  // works, and is restored, as before; what does not work out is tried again. Where somebody has
  // the port that it is to leave from, it first gives up its own, for one of the system's choice:
  // lanes that exchange ports would wait for each other.
  void MoveTo(const DialRoute& route);

  // How fast it may send from now on. LIFETIME: `host` outlives this.
  void SetPace(const Pace& pace, HostPacing& host);
  // It has something to send, and its gate alone holds it back.
  bool held() const { return gate_ != nullptr && gate_->held(); }

  // Moves bytes and connections; sets `moved` when any moved. An error: the first connection did
  // not come about, the lane cannot be restored, or the peer broke the protocol.
  absl::Status Poll(bool* moved);

  // Has had its first connection.
  bool attached() const { return attached_; }
  // All that was posted has been acknowledged, or need not be.
  bool drained() const { return excused_ || lane_->acknowledged() == lane_->next(); }
  void Excuse();
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;

  // "channel 0 to 10.0.0.2:7400".
  std::string Describe() const;
  CommunicatorStats::Lane Stats() const;

 private:
  // True when a connection came.
  absl::StatusOr<bool> PollDial();
  bool PollMove();
  // True: another attempt is under way.
  bool CannotMove(const absl::Status& why);
  void BeginElsewhere(const absl::Status& why);
  void Take(std::unique_ptr<Connection> connection);
  // The gate goes by the NIC that the lane leaves from.
  void SetNic();
  DialOptions OptionsOfMove() const;
  // Why the lane has no connection; OK while it has, or its first one is on the way.
  absl::Status Trouble() const;
  std::string DescribeState(const absl::Status& status) const;
  void StartDial() { dial_ = std::make_unique<Dial>(access_, options_); }

  const PeerAccess access_;
  DialOptions options_;  // of connections that worked, or of the first one
  const FirstDial first_;
  absl::Status first_failure_;    // of kPatient
  HostPacing* pacing_ = nullptr;  // with gate_
  // What its Tenant may send, as the lane was told.
  struct TenantRate {
    std::string tenant;
    uint64_t rate_bps = 0;
    uint64_t revision = 0;
  };
  TenantRate tenant_rate_;
  std::unique_ptr<LaneGate> gate_;  // null: as fast as it can; outlives the lane
  std::unique_ptr<SendLane> lane_;
  LaneTally tally_;
  LaneMeter meter_;
  LaneWaits waits_;
  std::unique_ptr<Dial> dial_;
  std::optional<DialRoute> move_to_;  // to which the lane has not come yet
  std::unique_ptr<Dial> move_dial_;   // that way, beside what keeps the lane working
  bool stands_aside_ = false;         // that goes to a port of the system's choice first
  MonotonicNs move_again_at_ = 0;
  absl::Status cannot_move_;  // why the last try failed
  bool attached_ = false;
  bool excused_ = false;
  LanePatience patience_;
  MonotonicNs dial_again_at_ = 0;
};

// Where an incoming lane comes from.
struct LaneOrigin {
  ChannelId channel;
  HostIndex peer;
  Endpoint endpoint;  // of the peer, for texts
};

class IncomingLane {
 public:
  // `slots` is the memory that `lane` lands in. REQUIRES: neither is null.
  IncomingLane(const Clock& clock, const LaneOrigin& origin, std::unique_ptr<DeviceMemory> slots,
               std::unique_ptr<RecvLane> lane, LaneTally tally);

  RecvLane& lane() { return *lane_; }
  const RecvLane& lane() const { return *lane_; }
  ChannelId channel() const { return origin_.channel; }
  HostIndex peer() const { return origin_.peer; }

  // What its acknowledgements bear (Connection::Mark).
  void Mark(uint8_t dscp) { lane_->Mark(dscp); }
  // A connection that the peer opened, authenticated; it takes the place of an older one.
  void Attach(std::unique_ptr<Connection> connection);
  // As OutgoingLane's; without a first connection there is nothing to do.
  absl::Status Poll(bool* moved);

  bool attached() const { return attached_; }
  void Excuse();
  MonotonicNs NextDeadline() const { return patience_.deadline(); }
  // "channel 0 from 10.0.0.2:7400".
  std::string Describe() const;

 private:
  const Clock& clock_;
  const LaneOrigin origin_;
  std::unique_ptr<DeviceMemory> slots_;  // outlives the lane
  std::unique_ptr<RecvLane> lane_;
  LaneTally tally_;
  bool attached_ = false;
  bool excused_ = false;
  LanePatience patience_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_PEER_LANE_H_
