// The bytes on the connections of a lane over streams (service/transport/stream_wire.h): slices for
// a receiver, with and without slots, or resumes and acknowledgements for a sender. The lane lands
// slices within the memory for them, and fails for good with an error message, or goes on.
//
// FUZZES: service/transport/stream_recv_lane.cc service/transport/stream_send_lane.cc
// FUZZES: service/transport/stream_lane.h service/transport/receive_window.h
// FUZZES: service/transport/lane_link.h
#include <array>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "service/transport/stream_lane.h"
#include "tests/fuzz/targets/fuzz_target.h"
#include "tests/fuzz/targets/input_stream.h"

namespace mccs {
namespace lane_headers_fuzz {

constexpr LaneShape kShape{.slots = 4, .slot_bytes = 8192};
constexpr int kMostSteps = 256;

class Memory final : public Region {
 public:
  explicit Memory(std::vector<std::byte>& bytes)
      : Region(RegionKind::kStaging, bytes.data(), bytes.size()) {}
};

SliceTag TagOf(uint8_t value) {
  SliceTag tag{};
  tag[0] = static_cast<std::byte>(value);
  return tag;
}

// Both ends of a lane: the connection, and what a peer does with it.
class Peer {
 public:
  std::unique_ptr<Connection> Connect() {
    stream_ = std::make_shared<InputStream>();
    return std::make_unique<InputConnection>(stream_);
  }
  void AppendAny(FuzzInput& input) {
    const std::span<const uint8_t> bytes = input.Bytes(input.Byte());
    stream().to_read.append(bytes.begin(), bytes.end());
  }
  InputStream& stream() { return *stream_; }

 private:
  std::shared_ptr<InputStream> stream_;
};

void CheckStatus(const LaneEnd& lane) {
  MCCS_CHECK(lane.status().ok() || !lane.status().message().empty());
  MCCS_CHECK((lane.state() == LaneState::kFailed) ==
             (!lane.status().ok() && !absl::IsUnavailable(lane.status())));
}

// Gives memory for each second slice.
class Sink final : public SliceSink {
 public:
  explicit Sink(const RegionSpan& memory) : memory_(memory) {}
  std::optional<RegionSpan> FindDestination(SliceNumber n, const SliceTag&,
                                            uint32_t bytes) override {
    MCCS_CHECK(bytes <= kShape.slot_bytes);
    if (n % 2 == 1) return std::nullopt;
    return memory_.Part(0, bytes);
  }

 private:
  const RegionSpan memory_;
};

void RunReceiver(FuzzInput& input, bool with_slots, bool with_sink) {
  static std::vector<std::byte> slots(kShape.receive_bytes());
  static std::vector<std::byte> landing(kShape.slot_bytes);
  static const Memory slots_region(slots);
  static const Memory landing_region(landing);
  const RegionSpan memory{&landing_region, 0, landing.size()};
  StreamRecvLane lane({}, kShape,
                      with_slots ? RegionSpan{&slots_region, 0, slots.size()} : RegionSpan{});
  Sink sink(memory);
  if (with_sink) lane.SetSink(&sink);
  Peer peer;
  lane.Attach(peer.Connect());
  uint64_t next_sent = 0;
  SliceNumber released = 0;
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    switch (input.Below(8)) {
      case 0:
        peer.AppendAny(input);
        break;
      case 1:
      case 2: {
        wire::TaggedSliceHeader slice{};
        slice.header.magic = input.Below(2) == 0 ? wire::kTaggedSliceMagic : wire::kSliceMagic;
        slice.header.number = next_sent++;
        slice.header.bytes = input.Take<uint16_t>() % (kShape.slot_bytes + 2);
        slice.tag = TagOf(input.Byte());
        const uint32_t payload = slice.header.bytes;
        const uint32_t header = wire::HeaderBytes(slice.header);
        input.Change(&slice);
        peer.stream().Append(slice, header);
        peer.stream().to_read.append(payload, 'p');
        break;
      }
      case 3: {
        const uint64_t n = released + input.Below(2 * kShape.slots);
        lane.Expect(n, memory.Part(0, input.Take<uint16_t>() % (kShape.slot_bytes + 1)),
                    TagOf(input.Byte()));
        break;
      }
      case 4:
        if (lane.Landed(released) != Landing::kNotYet) {
          MCCS_CHECK(lane.Bytes(released) <= kShape.slot_bytes);
          lane.Tag(released);
          lane.Release(released++);
        }
        break;
      case 5:
        peer.stream().broken = true;
        break;
      case 6:
        lane.Attach(peer.Connect());
        next_sent = lane.counters().slices;
        break;
      default:
        lane.Acknowledge();
        lane.OldestTag();
        lane.UnusedSlots();
    }
    lane.Poll();
    CheckStatus(lane);
    MCCS_CHECK(lane.counters().credit <= kShape.slots);
  }
}

void RunSender(FuzzInput& input) {
  static std::vector<std::byte> payload(kShape.slot_bytes);
  static const Memory region(payload);
  StreamSendLane lane({}, kShape);
  Peer peer;
  lane.Attach(peer.Connect());
  uint32_t magic = wire::kResumeMagic;
  for (int i = 0; i < kMostSteps && !input.empty(); ++i) {
    switch (input.Below(6)) {
      case 0:
        peer.AppendAny(input);
        break;
      case 1:
      case 2: {
        const uint64_t delivered = lane.acknowledged() + input.Below(kShape.slots + 1);
        wire::AckFrame frame{.magic = std::exchange(magic, wire::kAckMagic),
                             .slots = kShape.slots,
                             .slot_bytes = kShape.slot_bytes,
                             .reserved = 0,
                             .delivered = delivered,
                             .credit = delivered + input.Below(kShape.slots + 2)};
        input.Change(&frame);
        peer.stream().Append(frame);
        break;
      }
      case 3: {
        const uint64_t bytes = input.Take<uint16_t>() % (kShape.slot_bytes + 1);
        const auto posted = lane.Post({&region, 0, bytes}, TagOf(input.Byte()));
        MCCS_CHECK(posted.ok() || lane.state() == LaneState::kFailed);
        break;
      }
      case 4:
        peer.stream().room = input.Take<uint16_t>();
        peer.stream().broken = input.Below(4) == 0;
        break;
      default:
        lane.Attach(peer.Connect());
        magic = wire::kResumeMagic;
    }
    lane.Poll();
    CheckStatus(lane);
    MCCS_CHECK(lane.acknowledged() <= lane.source_free() && lane.source_free() <= lane.next());
    MCCS_CHECK(lane.next() - lane.acknowledged() <= kShape.slots);
  }
}

void Run(FuzzInput input) {
  const uint8_t kind = input.Byte();
  if (kind % 8 == 0) {
    RunSender(input);
  } else {
    RunReceiver(input, /*with_slots=*/(kind & 2) != 0, /*with_sink=*/(kind & 4) != 0);
  }
}

const FuzzTarget kTarget("lane_headers", Run);

}  // namespace lane_headers_fuzz
}  // namespace mccs
