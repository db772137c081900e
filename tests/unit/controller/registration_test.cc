// Who is let in, and what becomes of those whose Topology goes.
#include "controller/registration.h"

#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace {

using testing::HasSubstr;

class RegistrationTest : public CoordinatorTest {
 protected:
  static agent::FromAgent Says(const std::string& host, int64_t unix_ns,
                               const std::string& topology = "") {
    agent::FromAgent message = Registration(MakeHost(host));
    message.mutable_registration()->set_unix_ns(unix_ns);
    message.mutable_registration()->set_topology(topology);
    return message;
  }
  void Apply(const std::string& text) {
    coordinator_.SetObjects(std::make_shared<ObjectSet>(After({}, text)));
  }
};

TEST_F(RegistrationTest, AClockThatIsOffByMoreThanTheToleranceIsRefusedAndSeen) {
  ExpectEnded(Say(kFirst, Says("h0", wall_clock_.now - 75 * kNsPerSec)), kFirst,
              "the clock of host h0 is 1 min 15 s behind the controller's, more than 10 s");
  EXPECT_THAT(StateOf(0), HasSubstr("refused: the clock of host h0"));
  ExpectEnded(Say(kSecond, Says("h0", wall_clock_.now + kClockToleranceNs + kNsPerSec)), kSecond,
              "11 s ahead of");
  Say(kThird, Says("h0", wall_clock_.now + kClockToleranceNs));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, AnAgentThatSaysNoTimeIsNotCompared) {
  Say(kFirst, Says("h0", 0));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, TheLargestTimesAreRefusedToo) {
  ExpectEnded(Say(kFirst, Says("h0", std::numeric_limits<int64_t>::max())), kFirst, "ahead of");
  ExpectEnded(Say(kSecond, Says("h0", 1)), kSecond, "behind");
}

TEST_F(RegistrationTest, ATopologyThatIsNotThereIsRefusedUntilItIs) {
  Apply(TopologyDocument("cluster-a"));
  ExpectEnded(Say(kFirst, Says("h0", 0, "cluster-b")), kFirst,
              "mccsd on h0 is configured with `topology: cluster-b`, but there is no such Topology "
              "(did you mean 'cluster-a'?)");
  EXPECT_THAT(StateOf(0), HasSubstr("refused: mccsd on h0"));
  Apply(TopologyDocument("cluster-b"));
  Say(kSecond, Says("h0", 0, "cluster-b"));
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(RegistrationTest, ATopologyWithoutTheHostIsRefused) {
  Apply(Together({TopologyDocument("cluster-a", "h[0-1]"),
                  Document("Topology", "cluster-b",
                           "  racks: [{name: r0}]\n  switches: [{name: leaf0}]\n  hosts:\n"
                           "    - {name: h7, rack: r0, gpus: 2, nics: [{name: nic0, switch: leaf0, "
                           "capacity: 50Gbps}]}\n")}));
  ExpectEnded(Say(kFirst, Says("h0", 0, "cluster-b")), kFirst,
              "Topology 'cluster-a' has this host, and that one has not");
  ExpectEnded(Say(kFirst, Says("h9", 0, "cluster-b")), kFirst, "that Topology has no such host");
}

TEST_F(RegistrationTest, AHostWhoseTopologyIsTakenAwayIsRefusedAndOthersAreNot) {
  Apply(TopologyDocument("cluster-a"));
  Say(kFirst, Says("h0", 0, "cluster-a"));
  Say(kSecond, Says("h1", 0));
  Apply(PolicyDocument("p", "  policy: fair_flow\n"));
  ExpectEnded(coordinator_.TakeOutbox(), kFirst, "there is no such Topology");
  EXPECT_THAT(StateOf(0), HasSubstr("refused: "));
  EXPECT_EQ(StateOf(1), "ready");
  const std::vector<OwnDecision> decided = coordinator_.TakeDecisions();
  ASSERT_EQ(decided.size(), 1u);
  EXPECT_EQ(decided[0].action, "refuse a daemon");
  EXPECT_EQ(decided[0].objects, "host 'h0'");
  EXPECT_THAT(decided[0].outcome, HasSubstr("refused: mccsd on h0 is configured with"));
  // It tries again, for ever.
  ExpectEnded(Say(kThird, Says("h0", 0, "cluster-a")), kThird, "there is no such Topology");
  EXPECT_TRUE(coordinator_.TakeDecisions().empty()) << "once for all attempts";
  Apply(TopologyDocument("cluster-a"));
  Say(AgentKey(4), Says("h0", 0, "cluster-a"));
  EXPECT_EQ(StateOf(0), "ready");
}

}  // namespace
}  // namespace mccs
