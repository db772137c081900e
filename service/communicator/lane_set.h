// The lanes of one communicator under one strategy: per channel one to the next host of the ring
// and one from the host before, with the memory that they land in and are composed in.
//
// A lane that breaks is opened again by its sender; the ends agree on the last slice delivered.
// Only when that does not succeed within kLanePatienceNs does the set fail.
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks after Make.
#ifndef MCCS_SERVICE_COMMUNICATOR_LANE_SET_H_
#define MCCS_SERVICE_COMMUNICATOR_LANE_SET_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/communicator/controller_link.h"
#include "service/communicator/dial.h"
#include "service/communicator/strategy.h"
#include "service/device/device.h"
#include "service/executor/operation_binding.h"
#include "service/transport/lane.h"

namespace mccs {

// How long a lane may be without a connection once it had one.
inline constexpr int64_t kLanePatienceNs = 700 * kNsPerMs;

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
};

class LaneSet {
 public:
  // Makes the lanes and starts to open those that leave this host. kResourceExhausted: no memory.
  static absl::StatusOr<std::unique_ptr<LaneSet>> Make(const LaneSetOptions& options);

  // An authenticated stream that a peer opened for one of our lanes. Refused (closed) when it names
  // none of them.
  void Accept(const Preamble& preamble, std::unique_ptr<Connection> connection);

  // Every lane has had its first connection.
  bool ready() const;
  // True when anything moved. An error: a lane that cannot be restored, or a peer that broke the
  // protocol.
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

  std::span<const ChannelResources> resources() const { return resources_; }
  std::vector<CommunicatorStats::Lane> Stats() const;

 private:
  struct Channel {
    ChannelId id;
    HostIndex next, previous;
    uint16_t source_port = 0;
    std::unique_ptr<DeviceMemory> slots, staging;
    std::unique_ptr<SendLane> send;
    std::unique_ptr<RecvLane> receive;
    std::unique_ptr<Dial> dial;
    bool send_attached = false, receive_attached = false;   // ever
    MonotonicNs send_broken_at = 0, receive_broken_at = 0;  // 0: not broken
    MonotonicNs dial_again_at = 0;
    bool next_excused = false, previous_excused = false;
  };

  explicit LaneSet(const LaneSetOptions& options) : options_(options) {}
  absl::Status AddChannel(ChannelId id, const ChannelStrategy& strategy);
  absl::Status PollSend(Channel& channel, bool* moved);
  absl::Status PollReceive(Channel& channel, bool* moved);
  void StartDial(Channel& channel);
  absl::Status CheckPatience(const absl::Status& lane, MonotonicNs* broken_at, HostIndex peer,
                             ChannelId channel) const;

  const LaneSetOptions options_;
  std::vector<Channel> channels_;
  std::vector<ChannelResources> resources_;
  bool idle_ = false;  // the last Poll moved nothing
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LANE_SET_H_
