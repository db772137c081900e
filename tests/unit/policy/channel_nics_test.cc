#include "controller/policy/channel_nics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/policy/flow.h"
#include "controller/policy/strategy_frame.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class ChannelNicsTest : public testing::Test {
 protected:
  ChannelNicsTest()
      : view_(ViewOf(RoutedLeafSpine({.racks = 2, .hosts_per_rack = 2, .nics_per_host = 4}))) {}

  // By channel and host: the NICs' addresses.
  std::vector<std::vector<std::string>> Choose(const CommunicatorView& communicator) {
    const Fabrics fabrics(view_);
    std::vector<std::vector<std::string>> addresses;
    for (const auto& channel : ChooseNics(communicator, HostsOf(fabrics, communicator))) {
      addresses.emplace_back();
      for (const LaneNic& nic : channel) addresses.back().push_back(nic.address);
    }
    return addresses;
  }

  ClusterView view_;
};

TEST_F(ChannelNicsTest, AChannelTakesTheNicNearAGpuOfItsCommunicator) {
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h2"}, {2})),
              ElementsAre(ElementsAre("10.0.0.2", "10.2.0.2")));
}

TEST_F(ChannelNicsTest, ThereAreAsManyChannelsAsNics) {
  EXPECT_THAT(
      Choose(AddCommunicator(&view_, 1, "a", {"h0", "h2"}, {1, 3})),
      ElementsAre(ElementsAre("10.0.0.1", "10.2.0.1"), ElementsAre("10.0.0.3", "10.2.0.3")));
}

TEST_F(ChannelNicsTest, AHostWithFewerNicsUsesThemInTurn) {
  CommunicatorView& communicator = AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0, 1, 2});
  communicator.gpus[1] = {3, 1};
  EXPECT_THAT(Choose(communicator),
              ElementsAre(ElementsAre("10.0.0.0", "10.1.0.3"), ElementsAre("10.0.0.1", "10.1.0.1"),
                          ElementsAre("10.0.0.2", "10.1.0.3")));
}

TEST_F(ChannelNicsTest, ANicMayHaveSeveralChannels) {
  const Fabrics fabrics(view_);
  const CommunicatorView& communicator = AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {1, 2});
  const ChannelNics nics = ChooseNics(communicator, HostsOf(fabrics, communicator), 2);
  ASSERT_EQ(nics.size(), 4u);
  EXPECT_EQ(nics[0], nics[2]);
  EXPECT_EQ(nics[1], nics[3]);
  EXPECT_FALSE(nics[0] == nics[1]);
}

// Else its flows would get twice what those of a job with one channel get.
TEST_F(ChannelNicsTest, ANicHasOneChannelHoweverManyTheCommunicatorHad) {
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {2}, 3)),
              ElementsAre(ElementsAre("10.0.0.2", "10.1.0.2")));
}

TEST_F(ChannelNicsTest, WhoseGpusAreNotKnownMayHaveAllNics) {
  CommunicatorView& communicator = AddCommunicator(&view_, 1, "a", {"h0", "h1"});
  communicator.gpus.clear();
  EXPECT_EQ(Choose(communicator).size(), 4u);
}

TEST_F(ChannelNicsTest, ANicWhoseLinkIsDrainedIsNotTaken) {
  view_.links_drained = {"h0/nic1-leaf0"};
  EXPECT_THAT(
      Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0, 1}, 2)),
      ElementsAre(ElementsAre("10.0.0.0", "10.1.0.0"), ElementsAre("10.0.0.0", "10.1.0.1")));
}

TEST_F(ChannelNicsTest, ANicThatTheHostDoesNotHaveIsNotTaken) {
  view_.hosts[0].nics.erase(view_.hosts[0].nics.begin() + 1);
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {1})),
              ElementsAre(ElementsAre("10.0.0.0", "10.1.0.1"), ElementsAre("10.0.0.2", "10.1.0.1"),
                          ElementsAre("10.0.0.3", "10.1.0.1")));
}

TEST_F(ChannelNicsTest, WithoutATopologyNoNicIsNamed) {
  view_.topologies.clear();
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"})), IsEmpty());
}

TEST_F(ChannelNicsTest, AddressesOfTwoFamiliesDoNotMeet) {
  view_.hosts[0].nics[0].addresses = {"fd00::1"};
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0})), IsEmpty());
}

TEST_F(ChannelNicsTest, AStrategyNamesTheNicsThatDaemonsDoNotUseAnyway) {
  const CommunicatorView& communicator = AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0, 1});
  const Fabrics fabrics(view_);
  const strategy::Strategy frame =
      FrameOf(communicator, {HostIndex(1), HostIndex(0)}, HostsOf(fabrics, communicator), "test");
  ASSERT_EQ(frame.channels_size(), 2);
  EXPECT_THAT(frame.channels(0).ring(), ElementsAre(1, 0));
  EXPECT_THAT(frame.channels(0).addresses(), IsEmpty());
  EXPECT_THAT(frame.channels(1).addresses(), ElementsAre("10.1.0.1", "10.0.0.1"));
  EXPECT_EQ(frame.epoch(), 2u);
}

}  // namespace
}  // namespace mccs
