// The frames on the stream of a lane over RDMA (service/transport/rdma/rdma_wire.h), by which its
// ends agree on a queue pair, for either end and either maker. The lane fails or stalls with an
// error message, or goes on.
//
// FUZZES: service/transport/rdma/rdma_lane_link.cc service/transport/rdma/peer_pairs.cc
// FUZZES: service/transport/rdma/pair_proof.cc
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "service/transport/rdma/pair_proof.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/input_stream.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/transport/rdma/fake_verbs.h"
#include "tests/unit/transport/rdma/rdma_host.h"

namespace mccs {
namespace rdma_frames_fuzz {

constexpr LaneShape kShape{.slots = 4, .slot_bytes = 8192};
constexpr char kAddress[] = "10.0.0.1";
constexpr int kMostSteps = 64;
constexpr wire::PairName kName = {7};

class Peer {
 public:
  // `lane_sends`: the lane under test is the sender's end. `makes`: this peer makes the queue pair.
  Peer(bool lane_sends, bool makes) : lane_sends_(lane_sends) {
    if (!makes) gid_.fill(0xff);  // larger than that of any NIC
  }

  std::unique_ptr<Connection> Connect() {
    stream_ = std::make_shared<InputStream>();
    return std::make_unique<InputConnection>(stream_);
  }

  void SendNext(FuzzInput& input) {
    switch (input.Below(8)) {
      case 0:
      case 1:
        return SendHello(input);
      case 2:
        return SendPairFrame(wire::kPairOfferMagic, input);
      case 3:
        return SendPairFrame(wire::kPairAcceptMagic, input);
      case 4:
        return SendPairFrame(wire::kPairGoMagic, input);
      case 5:
        return SendPairFrame(wire::kPairGoneMagic, input);
      case 6:
        stream_->broken = true;
        return;
      default: {
        const std::span<const uint8_t> bytes = input.Bytes(input.Byte());
        stream_->to_read.append(bytes.begin(), bytes.end());
      }
    }
  }

 private:
  void SendHello(FuzzInput& input) {
    wire::LaneHello hello{};
    hello.magic = wire::kLaneHelloMagic;
    hello.version = wire::kRdmaLaneVersion;
    hello.slots = kShape.slots;
    hello.slot_bytes = kShape.slot_bytes;
    if (lane_sends_) {
      hello.has_slots = 1;
      hello.credit = kShape.slots;
    }
    hello.gid = gid_;
    input.Change(&hello);
    stream_->Append(hello);
  }
  // With the proof of one who has the name of the queue pair: the lane's, or this peer's own.
  void SendPairFrame(uint32_t magic, FuzzInput& input) {
    wire::PairFrame frame{};
    frame.magic = magic;
    frame.queue_pair = 5;
    frame.mtu_bytes = 4096;
    frame.gid = gid_;
    frame.lane = 1;
    frame.receives = 64;
    const bool offers = magic == wire::kPairOfferMagic;
    const wire::PairName name = offers ? kName : OfferedName();
    frame.pair = offers && input.Below(4) != 0 ? name : wire::IdOf(name);
    input.Change(&frame);
    const wire::Nonce own{};
    const wire::Nonce lanes = LanesNonce();
    if (input.Below(8) != 0) {
      frame.proof =
          wire::FrameProof(name, frame, lane_sends_ ? lanes : own, lane_sends_ ? own : lanes);
    }
    stream_->Append(frame);
  }
  // Of the lane's frames, the first is its hello, the second its first offer.
  template <typename Frame>
  Frame Written(size_t index) const {
    Frame frame{};
    const size_t at = index * sizeof(Frame);
    if (stream_->written.size() >= at + sizeof(Frame)) {
      std::memcpy(&frame, stream_->written.data() + at, sizeof(Frame));
    }
    return frame;
  }
  wire::Nonce LanesNonce() const { return Written<wire::LaneHello>(0).nonce; }
  wire::PairName OfferedName() const { return Written<wire::PairFrame>(1).pair; }

  const bool lane_sends_;
  Gid gid_{};
  std::shared_ptr<InputStream> stream_;
};

void Run(FuzzInput input) {
  const uint8_t kind = input.Byte();
  const bool sends = (kind & 1) != 0;
  const bool has_slots = (kind & 2) != 0;
  static std::vector<std::byte> slots(kShape.receive_bytes());
  SimClock clock;
  SeededRandom random(1);
  FakeFabric fabric(clock, /*seed=*/1);
  FakeNic& nic = fabric.AddNic("fake0");
  RdmaHost<> host({{.address = {kAddress}, .verbs = &nic}}, random, clock);
  const LaneIdentity identity{.communicator = CommId(7),
                              .epoch = Epoch(1),
                              .channel = ChannelId(0),
                              .from = HostIndex(sends ? 0 : 1),
                              .to = HostIndex(sends ? 1 : 0),
                              .queues = {.peer = {"10.0.0.2", 7400},
                                         .domain = {.nic = {kAddress}, .tenant = "a"},
                                         .traffic_class = TrafficClass(0)}};
  std::unique_ptr<LaneEnd> lane;
  SendLane* sender = nullptr;
  if (sends) {
    auto made = host.transport.MakeSendLane(identity, kShape);
    sender = made.get();
    lane = std::move(made);
  } else {
    lane = host.transport.MakeRecvLane(identity, kShape, has_slots ? SpanOf(slots) : RegionSpan{});
  }
  Peer peer(sends, (kind & 4) != 0);
  lane->Attach(peer.Connect());
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    switch (input.Below(8)) {
      case 0:
        lane->Attach(peer.Connect());
        break;
      case 1:
        clock.Set(clock.Now() + input.Byte() * kNsPerMs);
        break;
      case 2:
        if (sender != nullptr && sender->has_room()) {
          MCCS_CHECK(sender->Post(SpanOf(slots).Part(0, input.Byte()), SliceTag{}).ok());
        }
        break;
      default:
        peer.SendNext(input);
    }
    fabric.Step();
    host.transport.Poll();
    lane->Poll();
    MCCS_CHECK(lane->status().ok() || !lane->status().message().empty());
  }
}

const FuzzTarget kTarget("rdma_frames", Run);

}  // namespace rdma_frames_fuzz
}  // namespace mccs
