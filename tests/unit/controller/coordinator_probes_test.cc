// Source port mapping `probe`: the coordinator's requests and its reaction to answers. The fabric
// uses a hash that is unknown to the coordinator.
#include <set>

#include "absl/strings/str_cat.h"
#include "controller/view/source_ports.h"
#include "tests/unit/controller/coordinator_fixture.h"
#include "topology/five_tuple.h"

namespace mccs {
namespace coordinator_probes_test {

using testing::HasSubstr;
using testing::Not;

constexpr int kSpines = 2;

// h0 at leaf0 and h1 at leaf1; a spine link carries half of a NIC.
std::string Fabric(const std::string& switches) {
  return Document(
      "Topology", "t",
      absl::StrCat("  racks: [{name: \"r[0-1]\"}]\n"
                   "  switches:\n"
                   "    - name: \"leaf[0-1],spine[0-1]\"\n",
                   switches,
                   "  hosts:\n"
                   "    - {name: h0, rack: r0, gpus: 2, nics: [{name: nic0, switch: leaf0,"
                   " capacity: 100Gbit/s, address: 10.0.0.1}]}\n"
                   "    - {name: h1, rack: r1, gpus: 2, nics: [{name: nic0, switch: leaf1,"
                   " capacity: 100Gbit/s, address: 10.0.1.1}]}\n"
                   "  links:\n"
                   "    - {ends: [\"leaf[0-1]\", \"spine[0-1]\"], capacity: 50Gbit/s}\n"
                   "  source_ports: {mapping: probe}\n"));
}

class CoordinatorProbesTest : public CoordinatorTest {
 protected:
  void Start(const std::string& switches = "      addresses: [\"10.255.0.[1-4]\"]\n") {
    SetFabric(switches);
    Send(kFirst, Registration(MakeHost("h0", "r0", "10.0.0.1:7400")));
    Send(kSecond, Registration(MakeHost("h1", "r1", "10.0.1.1:7400")));
    for (const uint64_t id : {1, 2})
      Deliver(Send(kFirst, Announcement(MakeAnnounce(id, {"h0", "h1"}))));
  }
  void SetFabric(const std::string& switches) {
    objects_ =
        After(objects_, Together({Fabric(switches), PolicyDocument("p", "  type: fair_flow\n")}));
    coordinator_.SetObjects(std::make_shared<ObjectSet>(objects_));
    Deliver(coordinator_.TakeOutbox());
  }

  // The spine that a flow takes. Another `seed_`: the fabric has changed its hash.
  int SpineOf(const std::string& source, uint32_t port) const {
    return static_cast<int>(Mix(Mix(seed_ + *ParseIpv4(source)) + port) % kSpines);
  }

  agent::v1::FromAgent AnswerTo(const agent::v1::Probe& probe) {
    agent::v1::FromAgent message;
    message.mutable_probed()->set_request_id(probe.request_id());
    for (const agent::v1::ProbeFlow& flow : probe.flows()) {
      ++probes_;
      EXPECT_EQ(flow.switches(), 3u);
      EXPECT_EQ(flow.destination_port(), 7400u);
      const bool out = flow.source() == "10.0.0.1";
      agent::v1::ProbedFlow* found = message.mutable_probed()->add_flows();
      if (!why_not_.empty()) {
        found->set_error(why_not_);
        continue;
      }
      found->add_hops(out ? "10.255.0.1" : "10.255.0.2");
      found->add_hops(absl::StrCat("10.255.0.", 3 + SpineOf(flow.source(), flow.source_port())));
      found->add_hops(out ? "10.255.0.2" : "10.255.0.1");
    }
    return message;
  }

  // Agents apply proposals and answer probe requests.
  void Deliver(std::vector<Outgoing> outbox) {
    for (Outgoing& out : outbox) {
      if (out.message->has_propose()) {
        ++proposals_;
        Deliver(ApplyProposal(out));
      } else if (out.message->has_probe()) {
        const agent::v1::FromAgent answer = AnswerTo(out.message->probe());
        Deliver(Send(out.to, answer));
      }
    }
  }
  void Rounds(int count) {
    for (int i = 0; i < count; ++i) {
      clock_.now += kNsPerSec;
      Deliver(Send(kFirst, Beat()));
      Deliver(Send(kSecond, Beat()));
      Deliver(Tick());
    }
  }

  const strategy::Strategy& StrategyOf(uint64_t id) { return RecordOf(id).Newest(); }
  // The real spines of both communicators' lanes from this host.
  std::multiset<int> SpinesFrom(int host) {
    std::multiset<int> spines;
    for (const uint64_t id : {1, 2}) {
      const strategy::ChannelStrategy& channel = StrategyOf(id).channels(0);
      for (int i = 0; i < channel.ring_size(); ++i) {
        if (channel.ring(i) != host) continue;
        spines.insert(SpineOf(host == 0 ? "10.0.0.1" : "10.0.1.1", channel.source_ports(i)));
      }
    }
    return spines;
  }

  ObjectSet objects_;
  uint64_t seed_ = 1;
  std::string why_not_;
  int probes_ = 0, proposals_ = 0;
};

TEST_F(CoordinatorProbesTest, PlacesFlowsOnAnUnconfiguredFabric) {
  Start();
  Rounds(10);
  EXPECT_EQ(SpinesFrom(0), (std::multiset<int>{0, 1}));
  EXPECT_EQ(SpinesFrom(1), (std::multiset<int>{0, 1}));
  EXPECT_THAT(StrategyOf(1).origin(), Not(HasSubstr("except")));
  // Then only periodic checks remain.
  const int proposals = proposals_, probes = probes_;
  Rounds(30);
  EXPECT_EQ(proposals_, proposals);
  EXPECT_EQ(probes_, probes);
  Rounds(60);
  EXPECT_EQ(proposals_, proposals);
  EXPECT_EQ(probes_, probes + 4);
}

class SeededCoordinatorProbesTest : public CoordinatorProbesTest,
                                    public testing::WithParamInterface<uint64_t> {};

TEST_P(SeededCoordinatorProbesTest, ConvergesToDisjointPaths) {
  seed_ = GetParam();
  Start();
  Rounds(15);
  EXPECT_EQ(SpinesFrom(0), (std::multiset<int>{0, 1})) << "seed " << seed_;
  EXPECT_EQ(SpinesFrom(1), (std::multiset<int>{0, 1})) << "seed " << seed_;
  const int proposals = proposals_;
  Rounds(5);
  EXPECT_EQ(proposals_, proposals) << "seed " << seed_;
}

INSTANTIATE_TEST_SUITE_P(Seeds, SeededCoordinatorProbesTest, testing::Range<uint64_t>(1, 101));

TEST_F(CoordinatorProbesTest, ReplacesAFlowThatMovedToAnotherPath) {
  Start();
  Rounds(10);
  seed_ = 2;
  for (int i = 0; i < 20 && SpinesFrom(0) == std::multiset<int>{0, 1}; ++i) ++seed_;
  ASSERT_NE(SpinesFrom(0), (std::multiset<int>{0, 1}));
  Rounds(140);
  EXPECT_EQ(SpinesFrom(0), (std::multiset<int>{0, 1}));
  EXPECT_EQ(SpinesFrom(1), (std::multiset<int>{0, 1}));
}

TEST_F(CoordinatorProbesTest, ProbesAgainAfterATopologyChange) {
  Start();
  Rounds(10);
  const int probes = probes_;
  SetFabric("      addresses: [\"10.255.0.[1-4]\", \"10.254.0.[1-4]\"]\n");
  Rounds(5);
  EXPECT_GT(probes_, probes);
  EXPECT_EQ(SpinesFrom(0), (std::multiset<int>{0, 1}));
}

TEST_F(CoordinatorProbesTest, ReportsFailedProbesWhileLanesContinue) {
  why_not_ = "mccsd may not open raw sockets";
  Start();
  Rounds(40);
  EXPECT_THAT(StrategyOf(1).origin(), HasSubstr("before the paths of 2 lanes were probed"));
  EXPECT_NE(StrategyOf(1).channels(0).source_ports(0), 0u);
  const int proposals = proposals_;
  Rounds(100);
  EXPECT_EQ(proposals_, proposals);
  why_not_ = "";
  Rounds(40);
  EXPECT_EQ(SpinesFrom(0), (std::multiset<int>{0, 1}));
}

TEST_F(CoordinatorProbesTest, DoesNotProbeWithoutSwitchAddresses) {
  Start("");
  Rounds(40);
  EXPECT_EQ(probes_, 0);
  EXPECT_THAT(StrategyOf(1).origin(), HasSubstr("set the switches' `addresses`"));
}

}  // namespace coordinator_probes_test
}  // namespace mccs
