// A coordinator whose daemons report measurements of the network.
#include "controller/measurement/cost_calibrator.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "controller/planning/measured_costs.h"
#include "tests/unit/controller/coordinator_fixture.h"

namespace mccs {
namespace cost_calibrator_test {

class CostCalibratorTest : public CoordinatorTest {
 protected:
  const CommunicatorRecord& communicator() {
    return coordinator_.registry().communicators().begin()->second;
  }
  uint64_t epoch() { return communicator().Applied().epoch(); }
  // Both hosts report these round trips, under the applied strategy.
  void Report(double one_way_us, uint64_t operations = 10'000) {
    for (const AgentKey agent : {kFirst, kSecond}) {
      agent::v1::FromAgent message = Reporting(1, epoch());
      ReportIn(&message)->set_operations(operations);
      ReportIn(&message)->add_lanes()->set_round_trip_ns(
          static_cast<int64_t>(2 * one_way_us * kNsPerUs));
      Send(agent, message);
    }
  }
  // The number of proposals in this time; the leader applies each at once.
  int Changes(int64_t ns, double one_way_us) {
    int changes = 0;
    for (const MonotonicNs end = clock_.now + ns; clock_.now < end;) {
      const std::vector<Outgoing> out = TickFor(kNsPerSec);
      if (out.empty()) continue;
      ApplyProposal(out);
      Report(one_way_us);
      ++changes;
    }
    return changes;
  }
  // The proposals of another controller when both hosts have connected to it.
  std::vector<strategy::Strategy> ProposalsOfNext(bool calibrates) {
    Coordinator next(
        {.heartbeat_timeout_ns = 3 * kNsPerSec, .version = "test", .calibrate_costs = calibrates},
        &clock_, log_.get());
    next.Handle(kFirst, Registration(MakeHost("h0"), {communicator().announced}));
    next.Handle(kSecond, Registration(MakeHost("h1")));
    next.Tick();
    std::vector<strategy::Strategy> proposed;
    for (const Outgoing& out : next.TakeOutbox()) {
      if (out.message.has_value() && out.message->has_propose())
        proposed.push_back(out.message->propose().strategy());
    }
    return proposed;
  }
};

TEST_F(CostCalibratorTest, ProposesMeasuredCostsOnce) {
  StartCommunicator();
  Report(1000);
  const strategy::Strategy before = communicator().Applied();
  EXPECT_EQ(Changes(120 * kNsPerSec, 1000), 1);
  const strategy::AlgorithmChoice& choice = communicator().Applied().algorithms();
  EXPECT_EQ(CostsOf(choice).hop_us, 1000 - 2 * CostParameters().slice_us);
  EXPECT_EQ(OwnCostsOf(choice), CostParameters());
  EXPECT_EQ(communicator().Applied().channels_size(), before.channels_size());
  EXPECT_EQ(communicator().Applied().channels(0).SerializeAsString(),
            before.channels(0).SerializeAsString())
      << "nothing but the costs";
}

// Its frame is cached, if nothing else changes (controller/planning/planner.h).
TEST_F(CostCalibratorTest, WorksWithAPolicyThatPlacesFlows) {
  StartCommunicator();
  coordinator_.SetObjects(std::make_shared<ObjectSet>(After(
      {},
      Together({TwoSpinesDocument("h0", "h1"), PolicyDocument("flows", "  type: fair_flow\n")}))));
  ApplyProposal(coordinator_.TakeOutbox());
  EXPECT_EQ(communicator().Applied().origin(), "fair_flow by flows");
  Report(1000);
  EXPECT_EQ(Changes(60 * kNsPerSec, 1000), 1);
  EXPECT_EQ(CostsOf(communicator().Applied().algorithms()).hop_us,
            1000 - 2 * CostParameters().slice_us);
}

TEST_F(CostCalibratorTest, KeepsCostsCloseToTheMeasurement) {
  StartCommunicator();
  Report(30);
  EXPECT_EQ(Changes(120 * kNsPerSec, 30), 0);
}

TEST_F(CostCalibratorTest, SkipsCommunicatorsWithFewOperations) {
  StartCommunicator();
  Report(1000, CostCalibrator::kLeastOperations - 1);
  EXPECT_TRUE(TickFor(120 * kNsPerSec).empty());
}

TEST_F(CostCalibratorTest, IgnoresADifferenceInASingleCheck) {
  StartCommunicator();
  for (int i = 0; i < 20; ++i) {
    Report(1000);
    EXPECT_TRUE(TickFor(CostCalibrator::kCheckEveryNs).empty());
    Report(18);
    EXPECT_TRUE(TickFor(CostCalibrator::kCheckEveryNs).empty());
  }
}

// The choice of algorithms changes the measurements, which change the choice.
TEST_F(CostCalibratorTest, UpdatesBecomeRareForAnyMeasurements) {
  StartCommunicator();
  int changes = 0;
  double one_way_us = 1000;
  Report(one_way_us);
  for (const MonotonicNs end = clock_.now + 3600 * kNsPerSec; clock_.now < end;) {
    const std::vector<Outgoing> out = TickFor(kNsPerSec);
    if (out.empty()) continue;
    ApplyProposal(out);
    one_way_us = one_way_us == 1000 ? 100 : 1000;
    Report(one_way_us);
    ++changes;
  }
  EXPECT_GE(changes, 2);
  EXPECT_LE(changes, 7) << "pauses of 1, 2, 4, 8, 16, 32 minutes";
}

TEST_F(CostCalibratorTest, NextControllerKnowsTheDaemonsCosts) {
  StartCommunicator();
  Report(1000);
  ASSERT_EQ(Changes(60 * kNsPerSec, 1000), 1);
  EXPECT_TRUE(ProposalsOfNext(/*calibrates=*/true).empty());
}

TEST_F(CostCalibratorTest, RestoresTheDaemonsCostsWithoutCalibration) {
  StartCommunicator();
  Report(1000);
  ASSERT_EQ(Changes(60 * kNsPerSec, 1000), 1);
  const std::vector<strategy::Strategy> proposed = ProposalsOfNext(/*calibrates=*/false);
  ASSERT_EQ(proposed.size(), 1u);
  EXPECT_EQ(CostsOf(proposed[0].algorithms()), CostParameters());
  EXPECT_FALSE(proposed[0].algorithms().has_configured_costs());
}

}  // namespace cost_calibrator_test
}  // namespace mccs
