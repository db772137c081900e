#include "controller/api/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "controller/planning/measured_costs.h"
#include "controller/policy/shares.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/mentions.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace explanation_test {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kTopology = TwoSpinesDocument("h[0-1]", "h[2-3]");

class ExplanationTest : public testing::Test {
 protected:
  ExplanationTest() {
    for (int h = 0; h < 4; ++h) {
      const std::string name = "h" + std::to_string(h);
      EXPECT_TRUE(
          state_.registry.Register(AgentKey(h + 1), Registration(MakeHost(name)).registration(), 0)
              .ok());
    }
  }
  void Announce(uint64_t id, const std::vector<std::string>& hosts,
                const std::string& tenant = "uid 1000") {
    agent::v1::Announce announce = MakeAnnounce(id, hosts);
    announce.set_tenant(tenant);
    EXPECT_TRUE(state_.registry.Announce(hosts[0], announce, 0).ok());
  }
  // Reports the source port of the lane of host `from`, in a ring of `hosts` hosts.
  void Report(uint64_t id, const std::string& host, int from, int hosts, uint16_t port) {
    state_.registry.Report(host,
                           ReportingLane(id, from, (from + 1) % hosts, port).reports().complete(0));
  }
  control::v1::Explanation Ask(const std::string& id, const std::vector<std::string>& documents) {
    state_.objects = std::make_shared<ObjectSet>(After({}, Together(documents)));
    const auto ground = GatherExplanation(state_, id, 0);
    EXPECT_TRUE(ground.ok()) << ground.status();
    return Explain(*ground, *state_.objects);
  }
  static std::map<std::string, std::string> WhyOf(const control::v1::Explanation& explanation) {
    std::map<std::string, std::string> why;
    for (const control::v1::Fact& fact : explanation.reasons()) why[fact.name()] = fact.value();
    return why;
  }

  ClusterState state_;
};

constexpr char kFirst[] = "0000000000000007";

TEST_F(ExplanationTest, ShowsAlgorithmsChosenByTheOperator) {
  Announce(1, {"h0", "h1"});
  const std::string chosen = PolicyDocument("small",
                                            "  type: algorithm\n  parameters: {algorithm: direct}\n"
                                            "  selector: {sizes: {max_bytes: 64KiB}}\n");
  EXPECT_EQ(WhyOf(Ask("0", {kTopology, chosen}))["Algorithm"],
            "direct for all_reduce, all_to_all, sizes up to 64 KiB, by Policy 'small'");
  EXPECT_FALSE(WhyOf(Ask("0", {kTopology})).contains("Algorithm"));
}

TEST_F(ExplanationTest, FlowShareIsLimitedByItsFullestLink) {
  Announce(7, {"h0", "h2"});
  Announce(8, {"h1", "h3"}, "uid 2000");
  Report(7, "h0", 0, 2, 61050);
  Report(8, "h1", 0, 2, 61060);  // over the same spine
  control::v1::Explanation explanation = Ask(kFirst, {kTopology});
  ASSERT_EQ(explanation.flows_size(), 1);
  const control::v1::ExplainedFlow shared = explanation.flows(0);
  EXPECT_THAT(shared.links(),
              ElementsAre("h0/nic0-leaf0", "leaf0-spine0", "leaf1-spine0", "h2/nic0-leaf1"));
  EXPECT_NEAR(shared.fair_share_bps(), UsableFraction(1500) * 5e9, 1e3);
  EXPECT_EQ(explanation.payload_fraction(), UsableFraction(1500));
  EXPECT_THAT(WhyOf(explanation)["Links"], OneLineMentions("94 %", "1500 bytes"));
  EXPECT_THAT(shared.limit(), testing::AnyOf("leaf0 → spine0", "spine0 → leaf1"));
  ASSERT_EQ(shared.shared_with_size(), 1);
  EXPECT_EQ(shared.shared_with(0).communicator(), "0000000000000008");
  EXPECT_EQ(shared.shared_with(0).tenant(), "uid 2000");
  EXPECT_EQ(shared.shared_with(0).flows(), 1);
  EXPECT_EQ(shared.payload_bytes(), 100u);
  EXPECT_TRUE(shared.in_ring());

  Report(8, "h1", 0, 2, 61160);  // the other spine
  explanation = Ask(kFirst, {kTopology});
  EXPECT_NEAR(explanation.flows(0).fair_share_bps(), UsableFraction(1500) * 10e9, 1e3);
  EXPECT_EQ(explanation.flows(0).shared_with_size(), 0);
}

TEST_F(ExplanationTest, NamesLanesOverRdmaThatDoNotUseTheChosenPort) {
  Announce(7, {"h0", "h2"});
  agent::v1::FromAgent message = ReportingLane(7, 0, 1, 61050);
  agent::v1::RdmaLane* rdma =
      message.mutable_reports()->mutable_complete(0)->mutable_lanes(0)->mutable_rdma();
  rdma->set_device("bnxt_re0");
  rdma->set_source_port(61050);
  rdma->set_requested_source_port(61050);
  state_.registry.Report("h0", message.reports().complete(0));
  EXPECT_FALSE(WhyOf(Ask(kFirst, {kTopology})).contains("Source ports"));
  rdma->set_requested_source_port(61160);
  state_.registry.Report("h0", message.reports().complete(0));
  EXPECT_THAT(WhyOf(Ask(kFirst, {kTopology}))["Source ports"],
              OneLineMentions("channel 0 from h0", "61050 instead of 61160", "bnxt_re0"));
}

TEST_F(ExplanationTest, ReportsUnenforcedAndLoweredGuarantees) {
  Announce(7, {"h0", "h2"});
  const std::string tenant = TenantDocument("team-a", 1000, "  guarantee: 100Gbit/s\n");
  EXPECT_EQ(WhyOf(Ask(kFirst, {kTopology, tenant}))["Guarantee"],
            "not enforced: no Policy `shares` selects this communicator");
  const std::string shares = PolicyDocument("p", "  type: shares\n");
  EXPECT_THAT(WhyOf(Ask(kFirst, {kTopology, tenant, shares}))["Guarantee"],
              HasSubstr("lowered proportionally: "));
}

TEST_F(ExplanationTest, NamesTheCapAsTheLimit) {
  Announce(7, {"h0", "h2"});
  Report(7, "h0", 0, 2, 61050);
  const control::v1::Explanation explanation = Ask(
      kFirst, {kTopology, TenantDocument("team-a", 1000, "  cap: 1Gbit/s\n"),
               PolicyDocument("for-a", "  type: fair_flow\n  selector: {tenants: [team-a]}\n")});
  EXPECT_NEAR(explanation.flows(0).fair_share_bps(), 1e9, 1e5);
  EXPECT_EQ(explanation.flows(0).limit(), "the tenant's cap");
  auto why = WhyOf(explanation);
  EXPECT_EQ(why["Policy"], "fair_flow by Policy 'for-a', which selects tenant team-a");
  EXPECT_EQ(why["Chosen by"], "daemon default, epoch 1");
  EXPECT_EQ(why["Tenant"], "team-a: weight 1, cap 1 Gbit/s");
}

TEST_F(ExplanationTest, ComparesTheRingWithTheOrderOfRanks) {
  Announce(7, {"h0", "h2", "h1", "h3"});
  EXPECT_THAT(WhyOf(Ask(kFirst, {kTopology}))["Ring"],
              OneLineMentions("h0 → h2 → h1 → h3 → h0", "channel 0", "2 racks", "4 times",
                              "minimum 2", "in rank order 4"));
  EXPECT_THAT(WhyOf(Ask(kFirst, {}))["Ring"], HasSubstr("channel 0: within one rack"));
}

TEST_F(ExplanationTest, ShowsCostsAndTheirSource) {
  Announce(7, {"h0", "h2"});
  EXPECT_THAT(
      WhyOf(Ask(kFirst, {}))["Costs"],
      OneLineMentions("hop 10 us", "host 16 G", "lane 16 G", "memory 64 G", "(configured)"));
  agent::v1::Announce announce = state_.registry.communicators().begin()->second.announced;
  CostParameters measured;
  measured.hop_us = 92;
  measured.host_bytes_per_us = measured.lane_bytes_per_us = 12.5;
  PutCosts(measured, announce.mutable_strategy());
  EXPECT_TRUE(state_.registry.Announce("h0", announce, 0).ok());
  EXPECT_THAT(WhyOf(Ask(kFirst, {}))["Costs"],
              OneLineMentions("hop 92 us", "host 100 M", "lane 100 M", "measured", "hop 10 us",
                              "host 16 G", "lane 16 G"));
}

TEST_F(ExplanationTest, ReportsUnknownPaths) {
  Announce(7, {"h0", "h2"});
  Report(7, "h0", 0, 2, 40000);  // no rule for this port
  control::v1::Explanation explanation = Ask(kFirst, {kTopology});
  EXPECT_EQ(explanation.flows(0).links_size(), 0);
  EXPECT_THAT(WhyOf(explanation)["Paths"],
              HasSubstr("of 2 flows use source ports without a known path"));
  explanation = Ask(kFirst, {});
  EXPECT_EQ(explanation.flows(0).fair_share_bps(), 0);
  EXPECT_THAT(WhyOf(explanation)["Paths"], HasSubstr("not known: "));
  EXPECT_EQ(WhyOf(explanation)["Policy"], "locality_ring: no Policy selects this communicator");
}

TEST_F(ExplanationTest, DistinguishesLanesOutsideTheRing) {
  Announce(7, {"h0", "h1", "h2"});
  Report(7, "h0", 2, 2, 61050);  // from h2 to the host after the next one
  const control::v1::Explanation explanation = Ask(kFirst, {kTopology});
  EXPECT_EQ(explanation.flows(0).to(), "h1");
  EXPECT_FALSE(explanation.flows(0).in_ring());
  EXPECT_EQ(explanation.flows(0).fair_share_bps(), 0);
}

TEST_F(ExplanationTest, OneHostHasNoFlows) {
  Announce(7, {"h0"});
  const control::v1::Explanation explanation = Ask(kFirst, {kTopology});
  EXPECT_EQ(explanation.flows_size(), 0);
  EXPECT_EQ(WhyOf(explanation)["Ring"], "single host: no network traffic");
}

TEST_F(ExplanationTest, UnknownIdIsAnError) {
  EXPECT_EQ(GatherExplanation(state_, "7", 0).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace explanation_test
}  // namespace mccs
