// The views of the registry.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "controller/state/registry.h"
#include "tests/unit/controller/registry_fixture.h"

namespace mccs {
namespace registry_test {

using testing::ElementsAre;
using testing::IsEmpty;

class RegistryViewTest : public RegistryTest {};

TEST_F(RegistryViewTest, TheHostViewHasWhatTheAgentReports) {
  agent::v1::Host host = MakeHost("h0", "r1", "10.0.0.1:7400");
  host.mutable_position()->set_pod("p1");
  agent::v1::Nic* nic = host.add_nics();
  nic->set_name("nic0");
  nic->add_addresses("10.0.0.1");
  nic->set_speed_bps(100'000'000'000);
  nic->set_mtu_bytes(9000);
  ASSERT_TRUE(Register(kFirst, host).ok());
  const std::vector<HostView> views = registry_.HostViews();
  ASSERT_EQ(views.size(), 1u);
  EXPECT_EQ(views[0].position.pod, "p1");
  EXPECT_EQ(views[0].position.rack, "r1");
  EXPECT_EQ(views[0].position.host, "h0");
  EXPECT_EQ(views[0].gpus, 2);
  EXPECT_EQ(views[0].peer_address, "10.0.0.1");
  EXPECT_EQ(views[0].peer_port, 7400);
  ASSERT_EQ(views[0].nics.size(), 1u);
  EXPECT_EQ(views[0].nics[0].name, "nic0");
  EXPECT_EQ(views[0].nics[0].speed_bps, 100'000'000'000u);
  EXPECT_EQ(views[0].nics[0].mtu_bytes, 9000u);
  EXPECT_TRUE(HasAddress(views[0], "10.0.0.1"));
}

TEST_F(RegistryViewTest, AnInvalidPeerEndpointLeavesTheAddressEmpty) {
  ASSERT_TRUE(Register(kFirst, MakeHost("h0", "", "nonsense")).ok());
  EXPECT_EQ(registry_.HostViews()[0].peer_address, "");
  EXPECT_EQ(registry_.HostViews()[0].peer_port, 0);
}

TEST_F(RegistryViewTest, HostsAreOrderedByPosition) {
  ASSERT_TRUE(Register(kFirst, MakeHost("a", "r2")).ok());
  ASSERT_TRUE(Register(kSecond, MakeHost("b", "r1")).ok());
  ASSERT_TRUE(Register(kThird, MakeHost("c", "r1")).ok());
  std::vector<std::string> names;
  for (const HostView& view : registry_.View().hosts) names.push_back(view.position.host);
  EXPECT_THAT(names, ElementsAre("b", "c", "a"));
}

TEST_F(RegistryViewTest, TheViewHasTheGpusOfEachHostsRanks) {
  agent::v1::Host host = MakeHost("h0");
  host.mutable_gpus(0)->set_bus_id("0000:1b:00.0");
  host.mutable_gpus(1)->set_bus_id("0000:2b:00.0");
  agent::v1::Announce announce = AnnounceOf({"h1", "h0"});
  announce.clear_members();
  const std::vector<std::pair<std::string, std::string>> ranks = {{"h0", "0000:2b:00.0"},
                                                                  {"h1", "0000:1b:00.0"},
                                                                  {"h0", "0000:1b:00.0"},
                                                                  {"h0", "0000:1b:00.0"},
                                                                  {"elsewhere", "0000:1b:00.0"}};
  for (const auto& [name, gpu] : ranks) {
    cluster::Member* member = announce.add_members();
    member->set_rank(announce.members_size() - 1);
    member->set_host(name);
    member->set_gpu(gpu);
  }
  ASSERT_TRUE(Register(kFirst, host, {announce}).ok());
  const CommunicatorView view = registry_.View(kId);
  EXPECT_THAT(view.gpus, ElementsAre(IsEmpty(), ElementsAre(0, 1))) << "h1 is not registered";
  EXPECT_THAT(view.first_ranks, ElementsAre(1, 0));
  EXPECT_THAT(view.gpu_of_rank, ElementsAre(ElementsAre(-1), ElementsAre(1, 0, 0)));
}

TEST_F(RegistryViewTest, ACommunicatorsRevisionFollowsItsView) {
  AnnouncePair();
  uint64_t last = Record().revision;
  const auto changed = [&] { return std::exchange(last, Record().revision) != last; };
  ASSERT_TRUE(Announce("h0", AnnounceOf({"h0", "h1"})).ok());
  agent::v1::Announce running = AnnounceOf({"h0", "h1"});
  running.set_running(true);
  ASSERT_TRUE(Announce("h0", running).ok());
  registry_.Report("h1", ReportOf(1));
  EXPECT_FALSE(changed());
  Propose();
  EXPECT_TRUE(changed());
  agent::v1::Announce applied = AnnounceOf({"h0", "h1"});
  *applied.mutable_strategy() = Record().Newest();
  ASSERT_TRUE(Announce("h0", applied).ok());
  EXPECT_FALSE(changed()) << "policies saw this strategy before";
  registry_.SetCosts(kId, {.operation_us = 3});
  EXPECT_TRUE(changed());
  EXPECT_EQ(registry_.View(kId).costs->operation_us, 3);
  Propose();
  changed();
  registry_.DropProposals(kId);
  EXPECT_TRUE(changed());
  agent::v1::Announce renamed = applied;
  renamed.set_cgroup("/jobs/7");
  ASSERT_TRUE(Announce("h0", renamed).ok());
  EXPECT_TRUE(changed());
  ASSERT_TRUE(Register(kThird, "h2").ok());
  EXPECT_TRUE(changed()) << "a host's GPUs may have changed";
}

}  // namespace registry_test
}  // namespace mccs
