// A tenant that opens lanes of its communicator itself: for epochs and channels that do not exist,
// or with invalid content.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "service/transport/stream_lane.h"
#include "tests/sim/rogue_attack.h"

namespace mccs {
namespace rogue_lanes_test {

using ::testing::HasSubstr;

class RogueLanes : public RoguePeerTest {
 protected:
  RogueLanes() {
    EXPECT_TRUE(rogue_.StartAsLeader());
    Reach(Stage::kActive);
  }
  // Writes the bytes and expects the failure of the communicator.
  void ExpectViolation(Connection& connection, std::string bytes) {
    const iovec piece{bytes.data(), bytes.size()};
    const auto written = connection.Write({&piece, 1});
    ASSERT_TRUE(written.ok() && *written == bytes.size());
    ASSERT_TRUE(rogue_.RunUntil([&] { return !rogue_.failure().empty(); }, kNsPerSec));
    EXPECT_THAT(rogue_.failure(),
                ::testing::AllOf(HasSubstr(RoguePeer::kAddress), HasSubstr("channel 0"),
                                 HasSubstr("violated the lane protocol")));
  }
};

TEST_F(RogueLanes, GarbageInsteadOfSliceEndsTheCommunicator) {
  ExpectViolation(rogue_.out(), std::string(64, 'x'));
}

TEST_F(RogueLanes, InvalidSliceNumberEndsTheCommunicator) {
  wire::SliceHeader header{};
  header.magic = wire::kSliceMagic;
  header.number = std::numeric_limits<uint64_t>::max();
  ExpectViolation(rogue_.out(),
                  std::string(reinterpret_cast<const char*>(&header), sizeof(header)));
}

TEST_F(RogueLanes, AcknowledgementOfUnsentSlicesEndsTheCommunicator) {
  ASSERT_NE(rogue_.in(), nullptr);
  const wire::AckFrame frame{.magic = wire::kResumeMagic,
                             .slots = RoguePeer::kShape.slots,
                             .slot_bytes = RoguePeer::kShape.slot_bytes,
                             .reserved = 0,
                             .delivered = std::numeric_limits<uint64_t>::max(),
                             .credit = std::numeric_limits<uint64_t>::max()};
  ExpectViolation(*rogue_.in(), std::string(reinterpret_cast<const char*>(&frame), sizeof(frame)));
}

// Only the connection ends.
TEST_F(RogueLanes, ClosesLaneOfUnknownEpochOrChannel) {
  const std::vector<std::pair<uint64_t, int>> places = {{1, 1},       {1, 31}, {1, 32}, {1, 33},
                                                        {1, 1 << 30}, {0, 0},  {0, 33}};
  for (const auto& [epoch, channel] : places) {
    SCOPED_TRACE(testing::Message() << "epoch " << epoch << " channel " << channel);
    ASSERT_TRUE(rogue_.OpenLane(epoch, channel));
    EXPECT_TRUE(rogue_.RunUntil([&] {
      std::byte byte;
      const iovec piece{&byte, 1};
      return rogue_.out().readable() && !rogue_.out().Read({&piece, 1}).ok();
    })) << "the lane stays open";
    EXPECT_EQ(rogue_.failure(), "");
  }
  EXPECT_FALSE(rogue_.OpenLane(std::numeric_limits<uint64_t>::max()))
      << "an epoch that is never used";
  EXPECT_EQ(rogue_.failure(), "");
}

}  // namespace rogue_lanes_test
}  // namespace mccs
