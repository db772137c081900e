#include "controller/state/topology_mismatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "controller/state/resolved_view.h"
#include "controller/view/fabric.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace topology_mismatch_test {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Hosts h0, h1 in rack r0 and h2, h3 in r1, each with two NICs of 50 Gb/s and two GPUs.
constexpr char kTopology[] =
    "apiVersion: mccs/v1\n"
    "kind: Topology\n"
    "metadata: {name: t}\n"
    "spec:\n"
    "  pods: [p0]\n"
    "  racks: [{name: r0, pod: p0}, {name: r1}]\n"
    "  switches: [{name: leaf0}]\n"
    "  hosts:\n"
    "    - name: h[0-1]\n"
    "      rack: r0\n"
    "      gpus: 2\n"
    "      nics:\n"
    "        - {name: nic0, switch: leaf0, capacity: 50Gbit/s, address: \"10.0.0.[0-1]\"}\n"
    "        - {name: nic1, switch: leaf0, capacity: 50Gbit/s, address: \"10.0.1.[0-1]\"}\n"
    "    - name: h[2-3]\n"
    "      rack: r1\n"
    "      gpus: 2\n"
    "      nics:\n"
    "        - {name: nic0, switch: leaf0, capacity: 50Gbit/s, address: \"10.0.0.[2-3]\"}\n"
    "        - {name: nic1, switch: leaf0, capacity: 50Gbit/s, address: \"10.0.1.[2-3]\"}\n";

class TopologyMismatchTest : public testing::Test {
 protected:
  TopologyMismatchTest() {
    for (int h = 0; h < 4; ++h) {
      HostView host = {.position = {"", "", absl::StrCat("h", h)}, .gpus = 2, .ready = true};
      for (int nic = 0; nic < 2; ++nic) {
        host.nics.push_back({.name = absl::StrCat("eth", nic),
                             .addresses = {absl::StrCat("10.0.", nic, ".", h)},
                             .speed_bps = 50'000'000'000});
      }
      host.peer_address = host.nics[0].addresses[0];
      view_.hosts.push_back(std::move(host));
    }
  }

  std::string Rejected(const ObjectSet& before = {}) {
    return std::string(CheckAgainstHosts(before, objects_, view_).message());
  }

  const ObjectSet objects_ = PlanApply({}, Read(kTopology))->next;
  ClusterView view_;
};

TEST_F(TopologyMismatchTest, AcceptsAMatchingTopology) {
  EXPECT_THAT(FindTopologyMismatches(objects_, view_), IsEmpty());
  view_.hosts[0].position = {"p0", "r0", "h0"};
  view_.hosts[2].position = {"p7", "r1", "h2"};  // The Topology has no pod for r1.
  view_.hosts[1].gpus = 8;
  view_.hosts[1].nics[1].speed_bps = 100'000'000'000;
  EXPECT_THAT(FindTopologyMismatches(objects_, view_), IsEmpty());
  EXPECT_EQ(Rejected(), "");
}

TEST_F(TopologyMismatchTest, RejectsAWrongAddressWithObjectFieldAndLine) {
  view_.hosts[3].nics[1].addresses = {"10.9.9.9"};
  EXPECT_THAT(Rejected(),
              OneLineMentions("a.yaml:20:68", "Topology 't'", "spec.hosts[1].nics[1].address",
                              "host h3", "NIC nic1", "10.0.1.3", "10.0.0.3", "10.9.9.9"));
}

TEST_F(TopologyMismatchTest, RejectsWrongGpusRacksPodsAndSpeedsTogether) {
  view_.hosts[0].gpus = 1;
  view_.hosts[1].position.rack = "r9";
  view_.hosts[2].nics[0].speed_bps = 25'000'000'000;
  view_.hosts[0].position.pod = "p9";
  const std::string text = Rejected();
  EXPECT_THAT(text, Mentions("a.yaml:11:13", "Topology 't'", "spec.hosts[0].gpus", "host h0",
                             "2 GPUs", "reports 1"));
  EXPECT_THAT(text, Mentions("a.yaml:10:13", "Topology 't'", "spec.hosts[0].rack", "host h1",
                             "rack r0", "rack r9"));
  EXPECT_THAT(text, Mentions("a.yaml:19:49", "Topology 't'", "spec.hosts[1].nics[0].capacity",
                             "host h2", "NIC nic0", "50 G", "25 G"));
  EXPECT_THAT(text, HasSubstr("host h0 is in pod p0 in the Topology, but in pod p9"));
}

// Rates use the reported MTU; the host stays in its Topology.
TEST_F(TopologyMismatchTest, RejectsAnMtuAboveTheNics) {
  for (HostView& host : view_.hosts) {
    for (NicView& nic : host.nics) nic.mtu_bytes = 9000;
  }
  EXPECT_EQ(Rejected(), "") << "the Topology has 1500";
  view_.hosts[2].nics[1].mtu_bytes = 1400;
  EXPECT_EQ(Rejected(), "") << "the default, which the operator did not set";
  view_.hosts[2].nics[1].mtu_bytes = 9000;
  const ObjectSet jumbo = PlanApply({}, Read(std::string(kTopology) + "  mtu: 9000\n"))->next;
  EXPECT_TRUE(CheckAgainstHosts({}, jumbo, view_).ok());
  view_.hosts[2].nics[1].mtu_bytes = 1500;
  EXPECT_THAT(CheckAgainstHosts({}, jumbo, view_).message(),
              Mentions("Topology 't'", "spec.mtu", "host h2", "NIC nic1", "MTU 9000", "MTU 1500"));
  EXPECT_THAT(FindTopologyMismatches(jumbo, view_), SizeIs(1));
  MarkMismatched(jumbo, &view_);
  EXPECT_FALSE(view_.hosts[2].mismatched);
}

TEST_F(TopologyMismatchTest, UnconnectedOrSilentHostsMatchAnything) {
  view_.hosts[0].gpus = 1;
  view_.hosts[0].ready = false;
  view_.hosts[1].gpus = 0;
  view_.hosts[2].nics[0].speed_bps = 0;
  EXPECT_EQ(Rejected(), "");
}

TEST_F(TopologyMismatchTest, ExistingMismatchDoesNotRejectOtherChanges) {
  view_.hosts[0].gpus = 1;
  EXPECT_EQ(Rejected(objects_), "");
  EXPECT_THAT(FindTopologyMismatches(objects_, view_), SizeIs(1));
}

TEST_F(TopologyMismatchTest, MismatchedHostIsInNoFabric) {
  view_.hosts[0].gpus = 1;
  view_.hosts[0].position.rack = "r0";
  const ClusterView resolved = ResolveView(view_, objects_);
  const Fabrics fabrics(resolved);
  EXPECT_EQ(fabrics.Find("h0"), nullptr);
  ASSERT_NE(fabrics.Find("h1"), nullptr);
  EXPECT_THAT(fabrics.Find("h1")->nics, SizeIs(2));
}

TEST_F(TopologyMismatchTest, UsesOnlyNicsThatExist) {
  view_.hosts[0].nics.pop_back();
  ASSERT_THAT(FindTopologyMismatches(objects_, view_), SizeIs(1));
  EXPECT_FALSE(FindTopologyMismatches(objects_, view_)[0].of_host);
  const ClusterView resolved = ResolveView(view_, objects_);
  const Fabrics fabrics(resolved);
  ASSERT_NE(fabrics.Find("h0"), nullptr);
  EXPECT_THAT(fabrics.Find("h0")->nics, SizeIs(1));
}

TEST_F(TopologyMismatchTest, HostWithoutReportedNicsUsesItsOwnAddress) {
  view_.hosts[0].nics.clear();
  const ClusterView resolved = ResolveView(view_, objects_);
  const Fabrics fabrics(resolved);
  ASSERT_NE(fabrics.Find("h0"), nullptr);
  ASSERT_THAT(fabrics.Find("h0")->nics, SizeIs(1));
  EXPECT_EQ(fabrics.Find("h0")->nics[0].address, "10.0.0.0");
}

TEST_F(TopologyMismatchTest, RemovesUnreportedAddressesFromAFirstStrategy) {
  strategy::Strategy strategy;
  for (int c = 0; c < 2; ++c) {
    auto* channel = strategy.add_channels();
    for (int h = 0; h < 2; ++h) {
      channel->add_ring(1 - h);
      channel->add_addresses(absl::StrCat("10.0.", c, ".", 1 - h));
      channel->add_source_ports(61000);
    }
  }
  strategy::Strategy same = strategy;
  RemoveUnknownAddresses(view_, {"h0", "h1"}, &same);
  EXPECT_EQ(same.DebugString(), strategy.DebugString());
  view_.hosts[0].nics.pop_back();
  RemoveUnknownAddresses(view_, {"h0", "h1"}, &strategy);
  EXPECT_EQ(strategy.channels(0).addresses_size(), 2);
  EXPECT_EQ(strategy.channels(1).addresses_size(), 0);
  RemoveUnknownAddresses(view_, {"h0", "elsewhere"}, &strategy);
  EXPECT_EQ(strategy.channels(0).addresses_size(), 0) << "its agent has not registered";
  EXPECT_EQ(strategy.channels(0).source_ports_size(), 2);
}

}  // namespace topology_mismatch_test
}  // namespace mccs
