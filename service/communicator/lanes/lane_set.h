// A set of lanes of one communicator (see communicator_lanes.h): a table of (channel, peer,
// direction).
//
//                    channels 0 … n−1              message lanes
//   ring neighbours  opened when the set is made   opened on first use
//   other hosts      opened on first use           opened on first use
//
// Message lane m takes the addresses of channel m modulo n, and a source port of the system's
// choice.
//
// The sender opens a lane: its SendTo dials, and slices may be posted at once within the credit.
// The receiver creates its end at its first ReceiveFrom or at the peer's first connection. Memory
// is allocated on demand: slots with the receiving end, staging memory with the first plan that
// composes slices for the lane. Message lanes have no slots: their payload goes to the memory that
// their sink finds, and a rejected one is discarded.
//
// A peer that has authenticated itself as a member may open a lane of each channel and
// MessageLanes() message lanes to this host. kMaxLaneMemoryBytes limits the slots and the staging
// memory of all sets of a communicator, kMaxMessageLaneBytes the message lanes.
//
// A turn polls the lanes that have work: a lane is woken by its connection, its user or its
// deadline. Lanes of channels are polled in every turn, because an executor that uses one uses it
// in most turns.
//
// OWNER: CommunicatorLanes. THREAD: the owning engine. Never blocks after Make.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANES_LANE_SET_H_
#define MCCS_SERVICE_COMMUNICATOR_LANES_LANE_SET_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ready_list.h"
#include "base/units.h"
#include "proto/agent.pb.h"
#include "service/communicator/lanes/lane_meter.h"
#include "service/communicator/lanes/lane_routes.h"
#include "service/communicator/lanes/operation_signature.h"
#include "service/communicator/lanes/peer_lane.h"
#include "service/communicator/links/dial.h"
#include "service/communicator/strategy/strategy.h"
#include "service/counters.h"
#include "service/device/device.h"
#include "service/executor/lane_directory.h"
#include "service/host_budget.h"
#include "service/transport/lane.h"

namespace mccs {

// Address space of all lanes of one communicator on this host, in bytes.
struct LaneMemory {
  // `budget`: of the communicator's tenant; null: not limited.
  explicit LaneMemory(std::shared_ptr<TenantResources> budget = nullptr)
      : taken(std::move(budget), Resource::kLaneMemory) {}
  BudgetShare taken;
  uint64_t allowed = kMaxLaneMemoryBytes;
};

struct LaneSetOptions {
  PeerAccess access;
  Transport* transport = nullptr;
  Device* device = nullptr;
  CommId id;
  Secret secret{};
  std::string tenant = {};  // whose communicator it is
  HostIndex self;
  std::vector<Endpoint> hosts;  // by HostIndex
  std::string source_host;      // source address of our lanes; empty: the system's choice
  // By HostIndex: addresses of the NICs where lanes may end, the usual one first. Empty: they end
  // at `hosts` and `source_host`.
  std::vector<LaneRoutes::Addresses> nics = {};
  Strategy strategy;
  Waker* waker = nullptr;                              // woken when lanes have work
  bool collectives = true;                             // the strategy's channels may be used
  bool messages = true;                                // message lanes may be used
  std::shared_ptr<LaneMemory> memory = nullptr;        // null: for this set alone
  std::shared_ptr<TenantCounters> counters = nullptr;  // null: not counted
  std::shared_ptr<TenantResources> budget = nullptr;   // null: not limited
  HostPacing* pacing = nullptr;                        // null: SetRateLimits is not called
};

class LaneSet final : public LaneDirectory {
 public:
  // Creates the ring lanes and starts to open those out of this host. kResourceExhausted: no
  // memory. Other errors: as for CheckAddresses.
  static absl::StatusOr<std::unique_ptr<LaneSet>> Make(const LaneSetOptions& options);

  // Reserves the memory that the rings' plans may need to compose slices. kResourceExhausted: over
  // the communicator's limit.
  absl::Status ReserveStaging();

  // REQUIRES for all: a channel of the strategy or a message lane's, and another host of the
  // communicator.
  ~LaneSet() override;
  SendLane* SendTo(ChannelId channel, HostIndex peer) override;
  absl::StatusOr<RecvLane*> ReceiveFrom(ChannelId channel, HostIndex peer) override;
  absl::StatusOr<RegionSpan> StagingTo(ChannelId channel, HostIndex peer) override;

  // Finds a slice of operation `own.number` that belongs to a call other than `own`, on any
  // collective lane, and returns that call. The executor checks only lanes of its own plan, but the
  // peer's call may use another algorithm and other lanes.
  std::optional<OperationSignature> FindMismatchedCall(const OperationSignature& own) const;

  // Calls `listener` for every incoming message lane, including existing ones.
  using MessageListener = std::function<void(HostIndex from, int lane, RecvLane& receive)>;
  void SetMessageListener(MessageListener listener);

  // kInvalidArgument: the strategy uses a source address that this host does not have.
  absl::Status CheckAddresses(const Strategy& strategy) const;
  // Moves each outgoing lane to the route of `strategy` when its new connection is open. Slices
  // continue unchanged. REQUIRES: `strategy` has the same rings, or the set only message lanes.
  void MoveTo(const Strategy& strategy);

  // Sets the rate limits of all outgoing lanes, including later ones.
  void SetRateLimits(const RateLimits& limits);
  // As of its last Poll, an outgoing lane has data to send, and its gate alone delays it.
  bool held() const { return held_ > 0; }

  // Returns the memory of empty lanes to the device; lanes used later allocate it again. Takes 0.04
  // ms per MiB, so one call does a part. `*next` is the position of the next call, initially 0.
  // REQUIRES: no operation runs.
  enum class MemoryRelease {
    kAll,
    kSome,  // call again
    kNone,  // slices composed here are still in flight
  };
  static constexpr size_t kReleasedBytesPerCall = 16 * kMiB;  // rounded up to a whole lane
  MemoryRelease ReleaseLaneMemory(size_t* next);

  // Takes an authenticated stream that a peer opened for one of our lanes. Closes it if it does not
  // name a legal lane, or if the receiver of a lane only asks for another connection.
  void Accept(const Preamble& preamble, std::unique_ptr<Connection> connection);

  // Every ring lane has had its first connection.
  bool ready() const;
  // Returns true if anything moved. An error: a lane cannot be opened or restored, a peer broke the
  // protocol, or a resource was lacking for a lane that a peer or this host opened.
  // Polls each lane that has work once. Ends when its cost (turn_cost.h) reaches kCostPerPoll,
  // rounded up to a lane's Poll; the next call continues with the next lane. A lane costs the bytes
  // that it moves, and kLaneCost if there are any: they may be few, in a system call of their own.
  static constexpr int64_t kCostPerPoll = 1 * kMiB;
  static constexpr int64_t kLaneCost = 4 * kKiB;
  absl::StatusOr<bool> Poll();
  // Of all calls of Poll.
  int64_t cost() const { return cost_; }
  // Everything sent and received has been acknowledged: closing loses nothing.
  bool drained() const;
  // `host` has finished all its work and may close its lanes: a broken connection is not an error.
  void MarkDeparted(HostIndex host);
  // This host has finished all work on the set, and its peers may close their ends: a broken
  // connection is not an error. Lanes out of this host are restored all the same, for peers that
  // have not finished.
  void TolerateLosses();
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;
  // Number of lanes that the next Poll polls.
  size_t ready_lanes() const { return ready_.size(); }
  // Names the lanes that are not up, for messages.
  std::string DescribeMissing() const;

  // In the order of creation.
  const std::vector<std::unique_ptr<OutgoingLane>>& outgoing() const { return outgoing_; }
  const std::vector<std::unique_ptr<IncomingLane>>& incoming() const { return incoming_; }
  // Of the outgoing lanes; ring lanes first, by channel.
  std::vector<agent::v1::Lane> Stats() const;
  // Highest rate of all of them together, in bit/s; 0: unknown.
  uint64_t rate_bps() const { return rate_.rate_bps(); }

  // Memory that lanes write, counted for the communicator; the transport forgets it when it ends.
  // kResourceExhausted: a limit is reached. LIFETIME: the transport outlives it.
  absl::StatusOr<std::shared_ptr<Region>> AllocateMemory(uint64_t bytes);

 private:
  using LaneKey = std::pair<ChannelId, HostIndex>;
  template <typename Value>
  using Table = absl::flat_hash_map<LaneKey, Value>;

  // One lane's turns: exactly one of the two is set.
  struct LaneTurns final : ReadyList::Member {
    using Member::Member;
    size_t index = 0;  // in turns_
    OutgoingLane* outgoing = nullptr;
    IncomingLane* incoming = nullptr;
    bool on_request = false;        // else polled in every turn
    bool held = false;              // counted in held_
    MonotonicNs deadline = kNever;  // the next time to poll it, in deadlines_
  };

  explicit LaneSet(const LaneSetOptions& options);
  LaneTurns& AddTurns(ChannelId channel);
  // After a change of all lanes.
  void WakeAll();
  // Lists the lanes whose deadline has passed.
  void ListDue();
  absl::Status PollLane(LaneTurns& turns, bool* moved);
  void UpdateDeadline(LaneTurns& turns);
  void SetDeadline(LaneTurns& turns, MonotonicNs deadline);
  absl::Status AddRing(ChannelId id, const ChannelStrategy& strategy);
  // Whether a lane of `channel` with `peer` is legal.
  bool IsLegalLane(ChannelId channel, HostIndex peer) const;
  // The channel whose addresses and rate limits a lane has.
  ChannelId RoutingChannel(ChannelId channel) const;
  DialRoute RouteTo(ChannelId channel, HostIndex peer) const;
  // This host's usual address for lanes; empty: the system's choice.
  const std::string& own_address() const;
  LaneRoutes RoutesTo(HostIndex peer) const;
  // Of a lane between `from` and `to`, one of which is this host.
  Preamble PreambleOf(ChannelId channel, HostIndex from, HostIndex to) const;
  // Of the lane between this host and `peer`, out of this host or into it.
  LaneIdentity IdentityOf(ChannelId channel, HostIndex from, HostIndex to) const;
  TrafficClass traffic_class() const;
  OutgoingLane& Open(ChannelId channel, HostIndex peer, FirstDial first);
  absl::StatusOr<LaneTurns*> FindOrMakeIncoming(ChannelId channel, HostIndex peer);
  absl::Status ReserveMemory(uint64_t bytes);
  // Return the number of bytes released.
  size_t ReleaseSlots(RecvLane& lane);
  size_t ReleaseStaging(const OutgoingLane& lane);
  // Memory of which the transport forgets all when its lane does not need it any more.
  absl::StatusOr<std::shared_ptr<Region>> AllocateReserved(uint64_t bytes);

  const LaneSetOptions options_;
  const int message_lanes_;                // legal ones between this host and each other
  std::vector<ChannelStrategy> channels_;  // with the current routes
  RateMeter rate_;                         // outlives the lanes
  ReadyList ready_;
  std::deque<LaneTurns> turns_;                         // of all lanes, whose connections wake them
  std::set<std::pair<MonotonicNs, size_t>> deadlines_;  // with indices in turns_
  Table<std::shared_ptr<Region>> staging_;              // outlives the lanes
  // In the order of creation: ring_lanes_ ring lanes first, in each of the two.
  std::vector<std::unique_ptr<OutgoingLane>> outgoing_;
  std::vector<std::unique_ptr<IncomingLane>> incoming_;
  size_t ring_lanes_ = 0;
  Table<OutgoingLane*> outgoing_by_key_;
  Table<LaneTurns*> incoming_by_key_;
  std::vector<bool> departed_;  // by HostIndex
  MessageListener message_listener_;
  std::optional<RateLimits> rate_limits_;
  std::optional<SentRates> sent_rates_;  // of rate_limits_
  const std::shared_ptr<LaneMemory> memory_;
  uint64_t memory_bytes_ = 0;    // of `memory_`, for slots and staging here
  uint64_t reserved_bytes_ = 0;  // of these, not allocated yet
  BudgetShare descriptors_;      // one for each lane, also over RDMA
  BudgetShare mappings_;         // for each slots and staging
  absl::Status rejected_;        // a lane for which a resource was lacking
  size_t held_ = 0;              // number of lanes
  bool idle_ = false;            // the last Poll moved nothing
  int64_t cost_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANES_LANE_SET_H_
