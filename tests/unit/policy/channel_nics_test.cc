#include "controller/view/channel_nics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "absl/strings/str_cat.h"
#include "controller/policy/rings.h"
#include "controller/view/flow.h"
#include "tests/unit/policy/clusters.h"

namespace mccs {
namespace channel_nics_test {

using testing::ElementsAre;
using testing::IsEmpty;

class ChannelNicsTest : public testing::Test {
 protected:
  ChannelNicsTest()
      : view_(ViewOf(RoutedLeafSpine({.racks = 2, .hosts_per_rack = 2, .nics_per_host = 4}))) {}

  // The NICs' addresses, by channel and host.
  std::vector<std::vector<std::string>> Choose(const CommunicatorView& communicator) {
    return Choose(view_, communicator);
  }
  static std::vector<std::vector<std::string>> Choose(const ClusterView& view,
                                                      const CommunicatorView& communicator) {
    const Fabrics fabrics(view);
    std::vector<std::vector<std::string>> addresses;
    for (const auto& channel : ChooseNics(communicator, HostsOf(fabrics, communicator))) {
      addresses.emplace_back();
      for (const LaneNic& nic : channel) addresses.back().push_back(nic.address);
    }
    return addresses;
  }

  ClusterView view_;
};

TEST_F(ChannelNicsTest, UsesTheNicNearTheCommunicatorsGpu) {
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h2"}, {2})),
              ElementsAre(ElementsAre("10.0.0.2", "10.2.0.2")));
}

TEST_F(ChannelNicsTest, ThereAreAsManyChannelsAsNics) {
  EXPECT_THAT(
      Choose(AddCommunicator(&view_, 1, "a", {"h0", "h2"}, {1, 3})),
      ElementsAre(ElementsAre("10.0.0.1", "10.2.0.1"), ElementsAre("10.0.0.3", "10.2.0.3")));
}

TEST_F(ChannelNicsTest, HostWithFewerNicsUsesThemInTurn) {
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

// With more channels, its flows would get more than those of a job with one channel.
TEST_F(ChannelNicsTest, OneChannelPerNicRegardlessOfTheCurrentNumber) {
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {2}, 3)),
              ElementsAre(ElementsAre("10.0.0.2", "10.1.0.2")));
}

TEST_F(ChannelNicsTest, UsesAllNicsIfGpusAreNotKnown) {
  CommunicatorView& communicator = AddCommunicator(&view_, 1, "a", {"h0", "h1"});
  communicator.gpus.clear();
  EXPECT_EQ(Choose(communicator).size(), 4u);
}

TEST_F(ChannelNicsTest, SkipsANicWithADrainedLink) {
  view_.links_drained = {"h0/nic1-leaf0"};
  EXPECT_THAT(
      Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0, 1}, 2)),
      ElementsAre(ElementsAre("10.0.0.0", "10.1.0.0"), ElementsAre("10.0.0.0", "10.1.0.1")));
}

TEST_F(ChannelNicsTest, SkipsANicThatTheHostDoesNotHave) {
  view_.hosts[0].nics.erase(view_.hosts[0].nics.begin() + 1);
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {1})),
              ElementsAre(ElementsAre("10.0.0.0", "10.1.0.1"), ElementsAre("10.0.0.2", "10.1.0.1"),
                          ElementsAre("10.0.0.3", "10.1.0.1")));
}

TEST_F(ChannelNicsTest, ChoosesNoNicWithoutATopology) {
  view_.topologies.clear();
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"})), IsEmpty());
}

TEST_F(ChannelNicsTest, RejectsAddressesOfTwoFamilies) {
  view_.hosts[0].nics[0].addresses = {"fd00::1"};
  EXPECT_THAT(Choose(AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0})), IsEmpty());
}

// A separate fabric for each rail, without links between them.
class RailsTest : public ChannelNicsTest {
 protected:
  // Builds hosts h0, h1, … Arguments: for each GPU of a host, the rail of its NIC. Addresses are
  // "10.HOST.GPU.RAIL".
  void Build(const std::vector<std::vector<int>>& rails_of_hosts) {
    auto topology = std::make_shared<Topology>("rails");
    const RackId rack = topology->AddRack("r");
    std::vector<SwitchId> rails;
    for (int r = 0; r < 4; ++r) rails.push_back(topology->AddSwitch(absl::StrCat("rail", r)));
    for (size_t h = 0; h < rails_of_hosts.size(); ++h) {
      const std::vector<int>& of_host = rails_of_hosts[h];
      const HostId host =
          topology->AddHost(absl::StrCat("h", h), rack, static_cast<int>(of_host.size()));
      for (size_t gpu = 0; gpu < of_host.size(); ++gpu) {
        const int r = of_host[gpu];
        const NicId nic = topology->AddNic(host, absl::StrCat("nic", gpu), rails[r], 100,
                                           absl::StrCat("10.", h, ".", gpu, ".", r));
        topology->SetNear(topology->host(host).gpus[gpu], nic);
      }
    }
    view_ = ViewOf(topology);
  }
  // The home ranks, by channel and host, of a communicator whose ranks on each host have the given
  // GPUs, in their order.
  std::vector<std::vector<int>> HomesFor(std::vector<std::vector<int>> gpu_of_rank,
                                         int per_nic = 1) {
    const CommunicatorView communicator = JobOf(std::move(gpu_of_rank));
    const Fabrics fabrics(view_);
    const std::vector<const FabricHost*> hosts = HostsOf(fabrics, communicator);
    return ChooseHomes(communicator, hosts, ChooseNics(communicator, hosts, per_nic));
  }
  static CommunicatorView JobOf(std::vector<std::vector<int>> gpu_of_rank) {
    std::vector<std::string> hosts;
    for (size_t h = 0; h < gpu_of_rank.size(); ++h) hosts.push_back(absl::StrCat("h", h));
    std::vector<std::vector<int>> gpus = gpu_of_rank;
    for (std::vector<int>& each : gpus) std::ranges::sort(each);
    CommunicatorView communicator = MakeJob(1, "a", hosts, std::move(gpus));
    communicator.gpu_of_rank = std::move(gpu_of_rank);
    return communicator;
  }
  // For one communicator with the given GPUs on each host.
  std::vector<std::vector<std::string>> ChooseFor(std::vector<std::vector<int>> gpus) {
    std::vector<std::string> hosts;
    for (size_t h = 0; h < gpus.size(); ++h) hosts.push_back(absl::StrCat("h", h));
    return Choose(MakeJob(1, "a", hosts, std::move(gpus)));
  }
};

TEST_F(RailsTest, ChannelsOnSharedRailsUseTheirNics) {
  Build({{0, 1, 2}, {0, 1, 2}});
  EXPECT_THAT(ChooseFor({{1, 2}, {1, 2}}), ElementsAre(ElementsAre("10.0.1.1", "10.1.1.1"),
                                                       ElementsAre("10.0.2.2", "10.1.2.2")));
}

TEST_F(RailsTest, AChannelOfGpusOnDifferentRailsStaysOnOneRail) {
  Build({{0, 1}, {0, 1}});
  EXPECT_THAT(ChooseFor({{0}, {1}}), ElementsAre(ElementsAre("10.0.0.0", "10.1.0.0")));
}

TEST_F(RailsTest, PrefersARailNearMostHosts) {
  Build({{0, 1}, {0, 1}, {0, 1}});
  EXPECT_THAT(ChooseFor({{0}, {1}, {1}}),
              ElementsAre(ElementsAre("10.0.1.1", "10.1.1.1", "10.2.1.1")));
}

TEST_F(RailsTest, MatchesNicsByRailNotByOrder) {
  Build({{0, 1, 2}, {2, 0, 1}});
  EXPECT_THAT(ChooseFor({{0, 1, 2}, {0, 1, 2}}),
              ElementsAre(ElementsAre("10.0.0.0", "10.1.1.0"), ElementsAre("10.0.1.1", "10.1.2.1"),
                          ElementsAre("10.0.2.2", "10.1.0.2")));
}

TEST_F(RailsTest, SkipsARailThatAHostLacks) {
  Build({{0, 1, 2}, {1, 2}});
  EXPECT_THAT(ChooseFor({{0, 1, 2}, {0, 1}}), ElementsAre(ElementsAre("10.0.1.1", "10.1.0.1"),
                                                          ElementsAre("10.0.2.2", "10.1.1.2")));
  EXPECT_THAT(ChooseFor({{0}, {0}}), ElementsAre(ElementsAre("10.0.1.1", "10.1.0.1")));
}

TEST_F(RailsTest, UsesAnyNicOnACommonRailWithoutANearOne) {
  Build({{0, 2}, {1, 2}});
  EXPECT_THAT(ChooseFor({{0}, {0}}), ElementsAre(ElementsAre("10.0.1.2", "10.1.1.2")));
}

TEST_F(RailsTest, TwoNicsOnOneRailAlternate) {
  Build({{0, 0, 1}, {1, 0, 1}});
  EXPECT_THAT(ChooseFor({{0, 1, 2}, {0, 1, 2}}),
              ElementsAre(ElementsAre("10.0.0.0", "10.1.1.0"), ElementsAre("10.0.1.0", "10.1.1.0"),
                          ElementsAre("10.0.2.1", "10.1.0.1")));
}

TEST_F(RailsTest, SkipsARailWithALinkDown) {
  Build({{0, 1}, {0, 1}});
  view_.links_down = {"h1/nic0-rail0"};
  EXPECT_THAT(ChooseFor({{0}, {0}}), ElementsAre(ElementsAre("10.0.1.1", "10.1.1.1")));
}

TEST_F(RailsTest, HostsWithoutACommonRailUseTheDefault) {
  Build({{0, 1}, {2, 3}});
  EXPECT_THAT(ChooseFor({{0}, {0}}), IsEmpty());
}

TEST_F(RailsTest, HostsOfDifferentTopologiesUseTheDefault) {
  Build({{0}, {0}});
  Topology other("other");
  const HostId host = other.AddHost("x", other.AddRack("r"), 1);
  other.AddNic(host, "nic0", other.AddSwitch("s"), 100, "10.9.0.0");
  view_.topologies.push_back(std::make_shared<const Topology>(std::move(other)));
  EXPECT_THAT(Choose(MakeJob(1, "a", {"h0", "x"}, {{0}, {0}})), IsEmpty());
}

// Random hosts: chosen NICs always reach each other, and the result is empty only if none do.
TEST_F(RailsTest, ChosenNicsReachEachOther) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<int>> rails(2 + random() % 3), gpus;
    std::vector<int> hosts_on(4);
    for (std::vector<int>& of_host : rails) {
      std::vector<int> all = {0, 1, 2, 3};
      std::shuffle(all.begin(), all.end(), random);
      of_host.assign(all.begin(), all.begin() + 1 + static_cast<std::ptrdiff_t>(random() % 4));
      for (const int r : of_host) ++hosts_on[r];
      gpus.emplace_back();
      for (int gpu = 0; gpu < static_cast<int>(of_host.size()); ++gpu) {
        if (gpu == 0 || random() % 2 == 0) gpus.back().push_back(gpu);
      }
    }
    Build(rails);
    const auto nics = ChooseFor(gpus);
    const bool can_meet =
        std::find(hosts_on.begin(), hosts_on.end(), rails.size()) != hosts_on.end();
    EXPECT_EQ(!nics.empty(), can_meet) << "seed " << seed;
    for (const std::vector<std::string>& channel : nics) {
      ASSERT_EQ(channel.size(), rails.size()) << "seed " << seed;
      for (const std::string& address : channel)
        EXPECT_EQ(address.back(), channel.front().back()) << "seed " << seed;
    }
  }
}

TEST_F(ChannelNicsTest, StrategyNamesOnlyNicsOtherThanTheDefault) {
  const CommunicatorView& communicator = AddCommunicator(&view_, 1, "a", {"h0", "h1"}, {0, 1});
  const Fabrics fabrics(view_);
  const strategy::Strategy frame =
      MakeFrame(communicator, {HostIndex(1), HostIndex(0)}, HostsOf(fabrics, communicator), "test");
  ASSERT_EQ(frame.channels_size(), 2);
  EXPECT_THAT(frame.channels(0).ring(), ElementsAre(1, 0));
  EXPECT_THAT(frame.channels(0).addresses(), IsEmpty());
  EXPECT_THAT(frame.channels(1).addresses(), ElementsAre("10.1.0.1", "10.0.0.1"));
  EXPECT_EQ(frame.epoch(), 2u);
}

// ---- Home ranks ---------------------------------------------------------------------------------

TEST_F(RailsTest, HomeIsTheRankNearTheNic) {
  Build({{0, 1, 2}, {2, 0, 1}});
  EXPECT_THAT(HomesFor({{0, 1, 2}, {0, 1, 2}}),
              ElementsAre(ElementsAre(0, 1), ElementsAre(1, 2), ElementsAre(2, 0)));
}

TEST_F(RailsTest, HomesFollowTheOrderOfRanksNotOfGpus) {
  Build({{0, 1}, {0, 1}});
  EXPECT_THAT(HomesFor({{1, 0}, {0, 1}}), ElementsAre(ElementsAre(1, 0), ElementsAre(0, 1)));
}

TEST_F(RailsTest, HomesInTurnAreTheDefault) {
  Build({{0, 1}, {0, 1}});
  EXPECT_THAT(HomesFor({{0, 1}, {0, 1}}), ElementsAre(IsEmpty(), IsEmpty()));
}

// GPUs 0 and 1 are near one NIC, GPUs 2 and 3 near another.
TEST_F(RailsTest, ChannelsOfANicTakeTurnsOfTheRanksNearIt) {
  auto topology = std::make_shared<Topology>("pairs");
  const RackId rack = topology->AddRack("r");
  const SwitchId leaf = topology->AddSwitch("leaf");
  for (int h = 0; h < 2; ++h) {
    const HostId host = topology->AddHost(absl::StrCat("h", h), rack, 4);
    for (int n = 0; n < 2; ++n) {
      const NicId nic = topology->AddNic(host, absl::StrCat("nic", n), leaf, 100,
                                         absl::StrCat("10.", h, ".0.", n));
      for (const int gpu : {2 * n, 2 * n + 1}) {
        topology->SetNear(topology->host(host).gpus[static_cast<size_t>(gpu)], nic);
      }
    }
  }
  view_ = ViewOf(topology);
  EXPECT_THAT(HomesFor({{0, 1, 2, 3}, {0, 1, 2, 3}}), ElementsAre(IsEmpty(), ElementsAre(2, 2)));
  EXPECT_THAT(HomesFor({{0, 1, 2, 3}, {0, 1, 2, 3}}, /*per_nic=*/2),
              ElementsAre(IsEmpty(), ElementsAre(2, 2), ElementsAre(1, 1), IsEmpty()));
}

TEST_F(RailsTest, UnknownGpusGiveNoHomes) {
  Build({{0, 1}, {0, 1}});
  CommunicatorView communicator = JobOf({{1, 0}, {1, 0}});
  communicator.gpu_of_rank[1].clear();
  const Fabrics fabrics(view_);
  const std::vector<const FabricHost*> hosts = HostsOf(fabrics, communicator);
  EXPECT_THAT(ChooseHomes(communicator, hosts, ChooseNics(communicator, hosts)),
              ElementsAre(IsEmpty(), IsEmpty()));
}

TEST_F(RailsTest, FrameHasTheHomesInTheOrderOfTheRing) {
  Build({{0, 1}, {0, 1}});
  const CommunicatorView communicator = JobOf({{1, 0}, {0, 1}});
  const Fabrics fabrics(view_);
  const strategy::Strategy frame = MakeFrame(communicator, {HostIndex(1), HostIndex(0)},
                                             HostsOf(fabrics, communicator), "test", 1);
  ASSERT_EQ(frame.channels_size(), 2);
  EXPECT_THAT(frame.channels(0).homes(), ElementsAre(0, 1));
  EXPECT_THAT(frame.channels(1).homes(), ElementsAre(1, 0));
}

}  // namespace channel_nics_test
}  // namespace mccs
