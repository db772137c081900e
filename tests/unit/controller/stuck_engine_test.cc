// Hosts whose daemons send heartbeats while their engines take no turns.
#include <map>
#include <string>

#include "controller/api/metrics.h"
#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace stuck_engine_test {

using testing::HasSubstr;

class StuckEngine : public CoordinatorTest {
 protected:
  StuckEngine() { RegisterPair(); }

  // A heartbeat of h0 a second later; h1's engine takes turns meanwhile.
  void Beat(uint64_t turns) {
    clock_.now += kNsPerSec;
    agent::v1::FromAgent message;
    message.mutable_heartbeat()->set_engine_turns(++turns_of_h1_);
    Send(kSecond, message);
    message.mutable_heartbeat()->set_engine_turns(turns);
    Send(kFirst, message);
    Tick();
  }
  uint64_t turns_of_h1_ = 0;
};

TEST_F(StuckEngine, IsReportedAfterTheHeartbeatTimeout) {
  Beat(7);
  Beat(7);
  Beat(7);
  EXPECT_EQ(StateOf(0), "ready") << "2 s of 3 s";
  Beat(7);
  EXPECT_EQ(StateOf(0), "STUCK: no turn of its engine for 3 s");
  EXPECT_EQ(StateOf(1), "ready");
  Beat(7);
  EXPECT_EQ(StateOf(0), "STUCK: no turn of its engine for 4 s");
}

TEST_F(StuckEngine, IsReadyAgainWithTheNextTurn) {
  for (int i = 0; i < 10; ++i) Beat(7);
  EXPECT_THAT(StateOf(0), HasSubstr("STUCK"));
  Beat(8);
  EXPECT_EQ(StateOf(0), "ready");
  Beat(8);
  Beat(8);
  EXPECT_EQ(StateOf(0), "ready") << "the time counts from its last turn";
}

// A daemon that restarts counts from 0.
TEST_F(StuckEngine, FewerTurnsAreTurnsToo) {
  for (int i = 0; i < 10; ++i) Beat(1000);
  Beat(3);
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(StuckEngine, IsNotConcludedFromSilenceOrFromOlderDaemons) {
  Beat(7);
  for (int i = 0; i < 10; ++i) {
    clock_.now += kNsPerSec;
    Send(kFirst, mccs::Beat());  // without turns
    Send(kSecond, mccs::Beat());
    Tick();
  }
  EXPECT_EQ(StateOf(0), "ready");
  clock_.now += 4 * kNsPerSec;
  Tick();
  EXPECT_THAT(StateOf(0), HasSubstr("lost"));
}

TEST_F(StuckEngine, ARegistrationIsAFreshStart) {
  for (int i = 0; i < 10; ++i) Beat(7);
  Send(kThird, Registration(MakeHost("h0")));
  EXPECT_EQ(StateOf(0), "ready");
  agent::v1::FromAgent message;
  message.mutable_heartbeat()->set_engine_turns(7);
  Send(kThird, message);
  EXPECT_EQ(StateOf(0), "ready");
}

TEST_F(StuckEngine, IsCountedApartFromReadyHosts) {
  for (int i = 0; i < 10; ++i) Beat(7);
  std::map<std::string, double> hosts;
  for (const prometheus::MetricFamily& family : ControllerMetrics(coordinator_, {}, {})) {
    if (family.name != "mccs_controller_hosts") continue;
    for (const prometheus::ClientMetric& metric : family.metric)
      hosts[metric.label.at(0).value] = metric.gauge.value;
  }
  EXPECT_EQ(hosts["ready"], 1);
  EXPECT_EQ(hosts["stuck"], 1);
  clock_.now += 4 * kNsPerSec;
  Tick();
  EXPECT_EQ(StateOf(0).substr(0, 4), "lost");
}

}  // namespace stuck_engine_test
}  // namespace mccs
