// Invalid bytes on a lane's connection: each ends the lane permanently, with an error that names
// the violation.
#include "service/transport/stream_lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/communicator/fake_connection.h"
#include "tests/unit/device/gpu_memory.h"
#include "tests/unit/device/process_memory.h"

namespace mccs {
namespace stream_lane_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr LaneShape kShape{.slots = 4, .slot_bytes = 8192};
constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();

template <typename Frame>
std::string Bytes(const Frame& frame) {
  return std::string(reinterpret_cast<const char*>(&frame), sizeof(frame));
}

wire::AckFrame Frame(uint32_t magic, uint64_t delivered, uint64_t credit) {
  return {.magic = magic,
          .slots = kShape.slots,
          .slot_bytes = kShape.slot_bytes,
          .reserved = 0,
          .delivered = delivered,
          .credit = credit};
}
wire::AckFrame Resume(uint64_t delivered, uint64_t credit) {
  return Frame(wire::kResumeMagic, delivered, credit);
}
wire::AckFrame Ack(uint64_t delivered, uint64_t credit) {
  return Frame(wire::kAckMagic, delivered, credit);
}
wire::TaggedSliceHeader Slice(uint64_t number, uint32_t bytes) {
  wire::TaggedSliceHeader slice{};
  slice.header.magic = wire::kTaggedSliceMagic;
  slice.header.number = number;
  slice.header.bytes = bytes;
  return slice;
}
wire::SliceHeader Untagged(uint64_t number, uint32_t bytes) {
  wire::SliceHeader header = Slice(number, bytes).header;
  header.magic = wire::kSliceMagic;
  return header;
}
struct InvalidFrame {
  const char* name;
  std::string bytes;
  const char* error;
  std::string later = {};  // sent after the lane has read `bytes`
};
std::string NameOf(const ::testing::TestParamInfo<InvalidFrame>& info) { return info.param.name; }
void PrintTo(const InvalidFrame& frame, std::ostream* out) { *out << frame.name; }

class HostileReceiver : public ::testing::TestWithParam<InvalidFrame> {};

// Two slices are posted, and sent if the first frame allows it.
TEST_P(HostileReceiver, EndsTheSendLaneWithAnError) {
  StreamSendLane lane({}, kShape);
  auto wire = std::make_shared<FakeWire>();
  lane.Attach(std::make_unique<FakeConnection>(wire));
  const std::vector<std::byte> payload(8192);
  const RegionSpan piece = SpanOf(payload);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(lane.Post(piece, SliceTag{}).ok());
  for (const std::string& bytes : {GetParam().bytes, GetParam().later}) {
    wire->to_read += bytes;
    for (int i = 0; i < 16; ++i) lane.Poll();
  }
  EXPECT_TRUE(absl::IsDataLoss(lane.status())) << lane.status();
  EXPECT_THAT(lane.status().message(), AllOf(HasSubstr("10.0.0.2:2"), HasSubstr(GetParam().error)));
  EXPECT_LE(lane.acknowledged(), 2u);
  EXPECT_FALSE(lane.has_room());
  lane.Attach(std::make_unique<FakeConnection>(std::make_shared<FakeWire>()));
  EXPECT_TRUE(absl::IsDataLoss(lane.status())) << "another connection does not repair it";
  EXPECT_FALSE(lane.Post(piece, SliceTag{}).ok());
  EXPECT_FALSE(lane.Poll());
}

wire::AckFrame WithReserved() {
  wire::AckFrame frame = Resume(0, 4);
  frame.reserved = 1;
  return frame;
}
wire::AckFrame WithShape(uint32_t slots, uint32_t slot_bytes) {
  wire::AckFrame frame = Resume(0, 4);
  frame.slots = slots;
  frame.slot_bytes = slot_bytes;
  return frame;
}

INSTANTIATE_TEST_SUITE_P(
    StreamLane, HostileReceiver,
    ::testing::Values(
        InvalidFrame{"Garbage", std::string(64, 'x'), "invalid resume frame"},
        InvalidFrame{"AckBeforeResume", Bytes(Ack(0, 4)), "invalid resume frame"},
        InvalidFrame{"ResumeTwice", Bytes(Resume(0, 4)) + Bytes(Resume(0, 4)), "invalid ack frame"},
        InvalidFrame{"ReservedBytes", Bytes(WithReserved()), "invalid resume frame"},
        InvalidFrame{"NoSlots", Bytes(WithShape(0, 8192)), "the peer has 0 slots"},
        InvalidFrame{"TheMostSlots", Bytes(WithShape(~0u, ~0u)), "the peer has 4294967295 slots"},
        InvalidFrame{"OtherSlots", Bytes(WithShape(3, 8192)),
                     "the peer has 3 slots of 8192 bytes, this end 4 of 8192"},
        InvalidFrame{"ResumeOfWhatWasNotSent", Bytes(Resume(1, 5)),
                     "acknowledgement: 1 slices delivered; expected 0 to 0"},
        InvalidFrame{"ResumeAtTheLargestNumber", Bytes(Resume(kMost, kMost)),
                     "invalid acknowledgement"},
        InvalidFrame{"AckOfWhatWasNotSent", Bytes(Resume(0, 4)) + Bytes(Ack(3, 7)),
                     "acknowledgement: 3 slices delivered"},
        InvalidFrame{"AckOfMoreThanWasSent", Bytes(Resume(0, 4)),
                     "acknowledgement: 3 slices delivered; expected 0 to 2", Bytes(Ack(3, 7))},
        InvalidFrame{"AckThatGoesBack", Bytes(Resume(0, 4)),
                     "acknowledgement: 0 slices delivered; expected 1 to 2",
                     Bytes(Ack(1, 5)) + Bytes(Ack(0, 5))},
        InvalidFrame{"CreditOfAnAckThatGoesBack", Bytes(Resume(0, 4)),
                     "credit: 4 slices; expected 5 to 5", Bytes(Ack(1, 5)) + Bytes(Ack(1, 4))},
        InvalidFrame{"CreditOfAnAckBeyondTheSlots", Bytes(Resume(0, 4)),
                     "credit: 6 slices; expected 4 to 5", Bytes(Ack(1, 6))},
        InvalidFrame{"CreditThatGoesBack", Bytes(Resume(0, 3)),
                     "credit: 3 slices; expected 4 to 4"},
        InvalidFrame{"CreditBeyondTheSlots", Bytes(Resume(0, 5)),
                     "credit: 5 slices; expected 4 to 4"},
        InvalidFrame{"TheMostCredit", Bytes(Resume(0, kMost)), "slices; expected 4 to 4"}),
    NameOf);

class HostileSender : public ::testing::TestWithParam<InvalidFrame> {};

TEST_P(HostileSender, EndsTheReceiveLaneWithAnError) {
  const size_t bytes = size_t{kShape.slots} * kShape.slot_bytes;
  constexpr size_t kGuard = 64;
  std::vector<std::byte> memory(bytes + 2 * kGuard, std::byte{0x5a});
  StreamRecvLane lane({}, kShape, SpanAt(memory.data() + kGuard, bytes));
  auto wire = std::make_shared<FakeWire>();
  lane.Attach(std::make_unique<FakeConnection>(wire));
  wire->to_read = GetParam().bytes;
  for (int i = 0; i < 16; ++i) lane.Poll();
  EXPECT_TRUE(absl::IsDataLoss(lane.status())) << lane.status();
  EXPECT_THAT(lane.status().message(), AllOf(HasSubstr("10.0.0.2:2"), HasSubstr(GetParam().error)));
  for (size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(memory[i], std::byte{0x5a}) << i << " in front of the slots";
    ASSERT_EQ(memory[memory.size() - 1 - i], std::byte{0x5a}) << i << " behind the slots";
  }
  lane.Attach(std::make_unique<FakeConnection>(std::make_shared<FakeWire>()));
  EXPECT_TRUE(absl::IsDataLoss(lane.status())) << "another connection does not repair it";
  EXPECT_FALSE(lane.Poll());
}

std::string Slices(uint64_t count) {
  std::string bytes;
  for (uint64_t n = 0; n < count; ++n) bytes += Bytes(Slice(n, 8)) + std::string(8, 'x');
  return bytes;
}

INSTANTIATE_TEST_SUITE_P(
    StreamLane, HostileSender,
    ::testing::Values(
        InvalidFrame{"Garbage", std::string(64, 'x'), "invalid slice header"},
        InvalidFrame{"AnotherNumber", Bytes(Slice(1, 0)), "slice 1 arrived, expected slice 0"},
        InvalidFrame{"TheLargestNumber", Bytes(Slice(kMost, 0)), "arrived, expected slice 0"},
        InvalidFrame{"TheSameNumberTwice", Bytes(Slice(0, 0)) + Bytes(Slice(0, 0)),
                     "slice 0 arrived, expected slice 1"},
        InvalidFrame{"LongerThanASlot", Bytes(Slice(0, 8193)), "slice 0 has 8193 bytes"},
        InvalidFrame{"TheLongest", Bytes(Slice(0, ~0u)), "slice 0 has 4294967295 bytes"},
        InvalidFrame{"TheFirstOneWithoutATag", Bytes(Untagged(0, 0)), "slice 0 has no tag"},
        InvalidFrame{"WithoutCredit", Slices(5), "slice 4 arrived with credit for only 4 slices"},
        InvalidFrame{"GarbageBehindASlice", Slices(1) + std::string(48, 'x'),
                     "invalid slice header"}),
    NameOf);

// One system call less at each end.
TEST(StreamRecvLane, DoesNotWriteForShortSlicesThatLeaveCredit) {
  std::vector<std::byte> slots(size_t{kShape.slots} * kShape.slot_bytes);
  StreamRecvLane lane({}, kShape, SpanOf(slots));
  auto wire = std::make_shared<FakeWire>();
  lane.Attach(std::make_unique<FakeConnection>(wire));
  wire->to_read = Slices(1);
  for (int i = 0; i < 4; ++i) lane.Poll();
  lane.Release(0);
  EXPECT_FALSE(lane.Poll());
  EXPECT_EQ(wire->written, Bytes(Resume(0, 4)));
  EXPECT_TRUE(lane.defers_acknowledgement());
  lane.Acknowledge();
  EXPECT_TRUE(lane.Poll());
  EXPECT_EQ(wire->written, Bytes(Resume(0, 4)) + Bytes(Ack(1, 5)));
}

// The executor chooses staged plans for it (Reach).
TEST(StreamLane, MemoryOnAGpuIsRejectedOrLandsInASlot) {
  const GpuMemoryOfTest buffer(std::vector<std::byte>(100));
  StreamSendLane sender({}, kShape);
  EXPECT_TRUE(absl::IsUnimplemented(sender.Reach(buffer).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(sender.Post(WholeOf(buffer), {}).status()));
  std::vector<std::byte> slots(size_t{kShape.slots} * kShape.slot_bytes);
  StreamRecvLane receiver({}, kShape, SpanOf(slots));
  EXPECT_FALSE(receiver.Reach(buffer).ok());
  EXPECT_FALSE(receiver.Expect(0, WholeOf(buffer), {}));
  EXPECT_TRUE(sender.Reach(ProcessMemory::Get()).ok());
}

}  // namespace stream_lane_test
}  // namespace mccs
