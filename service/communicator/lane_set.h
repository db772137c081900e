// Lanes of one communicator that belong together (communicator_lanes.h says which): a table of
// (channel, peer, direction).
//
//                    channels 0 … n−1              kMessageChannel
//   ring neighbours  opened when the set is made   opened on first use
//   other hosts      opened on first use           opened on first use
//
// The sender opens a lane: its SendTo dials, and slices may be posted at once, as far as credit
// goes. The receiver has its end from its first ReceiveFrom or from the peer's first connection,
// whichever comes first. What no lane uses is not allocated: slots come with the receiving end,
// staging with the first plan that composes slices for the lane.
//
// A host may open kMaxChannels + 1 lanes to us at most, and it has proven that it is a member. All
// memory of a communicator's sets together is bounded by kMaxLaneMemoryBytes.
//
// OWNER: CommunicatorLanes. THREAD: the owning engine. Never blocks after Make.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANE_SET_H_
#define MCCS_SERVICE_COMMUNICATOR_LANE_SET_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "service/communicator/controller_link.h"
#include "service/communicator/dial.h"
#include "service/communicator/lane_meter.h"
#include "service/communicator/operation_signature.h"
#include "service/communicator/peer_lane.h"
#include "service/communicator/strategy.h"
#include "service/counters.h"
#include "service/device/device.h"
#include "service/executor/lane_directory.h"
#include "service/transport/lane.h"

namespace mccs {

// What all lanes of one communicator take on this host, in bytes of addresses.
struct LaneMemory {
  uint64_t taken = 0;
  uint64_t allowed = kMaxLaneMemoryBytes;
};

struct LaneSetOptions {
  PeerAccess access;
  Transport* transport = nullptr;
  Device* device = nullptr;
  CommId id;
  Secret secret{};
  HostIndex self;
  std::vector<Endpoint> hosts;  // by HostIndex
  std::string source_host;      // address that our lanes leave from; empty: the system's choice
  Strategy strategy;
  Waker* waker = nullptr;  // when lanes that are dialled from here have something to do
  bool messages = true;    // kMessageChannel may be used, too
  std::shared_ptr<LaneMemory> memory = nullptr;        // null: of this set alone
  std::shared_ptr<TenantCounters> counters = nullptr;  // null: nobody counts
  HostPacing* pacing = nullptr;                        // null: SetPace is not called
};

class LaneSet final : public LaneDirectory {
 public:
  // Makes the lanes of the rings and starts to open those that leave this host.
  // kResourceExhausted: no memory. As CheckAddresses, too.
  static absl::StatusOr<std::unique_ptr<LaneSet>> Make(const LaneSetOptions& options);

  // Sets aside, of the memory that the communicator may have, what the rings' plans may yet take
  // for slices that they compose. kResourceExhausted: there is not as much.
  absl::Status ReserveStaging();

  // REQUIRES for all: a channel of the strategy or kMessageChannel, another host of the
  // communicator.
  ~LaneSet() override;
  SendLane* SendTo(ChannelId channel, HostIndex peer) override;
  absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId channel, HostIndex peer) override;
  absl::StatusOr<MemRef> StagingTo(ChannelId channel, HostIndex peer) override;

  // Whether a slice of operation `own.number` waits on a lane of the plans that is of another call
  // than `own`: then that call. Such a slice is met by who runs a plan over its lane, but the
  // peer's call may be run by another algorithm, over lanes that ours has no use for.
  std::optional<OperationSignature> CallBeside(const OperationSignature& own) const;

  // `listener` hears of every lane for messages that comes from another host, those that are there
  // already included.
  using MessageListener = std::function<void(HostIndex from, RecvLane& lane)>;
  void SetMessageListener(MessageListener listener);

  // kInvalidArgument: the strategy's lanes would leave from an address that this host has not.
  absl::Status CheckAddresses(const Strategy& strategy) const;
  // Lanes out of this host go over to connections by the routes of `strategy`, each when its new
  // one is there; slices go on as they were. REQUIRES: the rings are ours.
  void MoveTo(const Strategy& strategy);

  // How fast the lanes out of this host may send from now on, those that come later included.
  void SetPace(const Pace& pace);
  // One of them has something to send, and its gate alone holds it back.
  bool held() const;

  // Gives the device the memory of the lanes back in which nothing lies; lanes that are used later
  // take it again. It takes 0.04 ms per MiB, so one call does a part: `*next`, 0 at first, is where
  // the next one goes on. REQUIRES: no operation runs.
  enum class GivenBack {
    kAll,
    kSome,  // call again
    kNone,  // slices that were composed here are on their way yet
  };
  static constexpr size_t kGivenBackPerCall = 16 * kMiB;  // and the rest of a lane
  GivenBack GiveBackMemory(size_t* next);

  // An authenticated stream that a peer opened for one of our lanes. Refused (closed) when it names
  // none that may be.
  void Accept(const Preamble& preamble, std::unique_ptr<Connection> connection);

  // Every lane of the rings has had its first connection.
  bool ready() const;
  // True when anything moved. An error: a lane that cannot be opened or restored, a peer that broke
  // the protocol, or no memory for a lane that a peer opened.
  absl::StatusOr<bool> Poll();
  // All that was sent has been acknowledged, and all that came: closing loses nothing.
  bool drained() const;
  // `host` has finished everything that it takes part in and may close its lanes: a break is no
  // loss.
  void Excuse(HostIndex host);
  // When Poll has something to do though nothing arrives.
  MonotonicNs NextDeadline() const;
  // Lanes that are not up, for texts.
  std::string DescribeMissing() const;

  // In the order in which they were made.
  const std::vector<std::unique_ptr<OutgoingLane>>& outgoing() const { return outgoing_; }
  const std::vector<std::unique_ptr<IncomingLane>>& incoming() const { return incoming_; }
  // Of the lanes out of this host; those of the rings first, by channel.
  std::vector<CommunicatorStats::Lane> Stats() const;
  // Of all of them together, at the most; 0: not known.
  uint64_t rate_bps() const { return rate_.rate_bps(); }

 private:
  using LaneKey = std::pair<ChannelId, HostIndex>;
  template <typename Value>
  using Table = absl::flat_hash_map<LaneKey, Value>;

  explicit LaneSet(const LaneSetOptions& options);
  absl::Status AddRing(ChannelId id, const ChannelStrategy& strategy);
  // Whether a lane of `channel` with `peer` may be.
  bool MayBe(ChannelId channel, HostIndex peer) const;
  DialRoute RouteTo(ChannelId channel, HostIndex peer) const;
  OutgoingLane& Open(ChannelId channel, HostIndex peer, FirstDial first);
  absl::StatusOr<IncomingLane*> FindOrMakeIncoming(ChannelId channel, HostIndex peer);
  absl::Status TakeMemory(uint64_t bytes);
  // How many bytes they gave back.
  size_t GiveBackSlots(RecvLane& lane);
  size_t GiveBackStaging(const OutgoingLane& lane);
  absl::StatusOr<std::unique_ptr<DeviceMemory>> AllocateSlots();
  size_t LaneBytes() const;

  const LaneSetOptions options_;
  std::vector<ChannelStrategy> channels_;  // with the routes that hold now
  RateMeter rate_;                         // outlives the lanes
  // In the order in which they were made: those of the rings first, so many of each.
  std::vector<std::unique_ptr<OutgoingLane>> outgoing_;
  std::vector<std::unique_ptr<IncomingLane>> incoming_;
  size_t ring_lanes_ = 0;
  Table<OutgoingLane*> outgoing_by_key_;
  Table<IncomingLane*> incoming_by_key_;
  Table<std::unique_ptr<DeviceMemory>> staging_;
  std::vector<bool> excused_;  // by HostIndex
  MessageListener message_listener_;
  std::optional<Pace> pace_;
  const std::shared_ptr<LaneMemory> memory_;
  uint64_t memory_bytes_ = 0;    // of `memory_`, for slots and staging here
  uint64_t reserved_bytes_ = 0;  // of these, not allocated yet
  absl::Status refused_memory_;  // for a lane that a peer opened
  bool idle_ = false;            // the last Poll moved nothing
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANE_SET_H_
