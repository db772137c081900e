#include "service/pacing/lane_gate.h"

#include <gtest/gtest.h>

#include "service/pacing/host_pacing.h"
#include "tests/sim/sim_network.h"

namespace mccs {
namespace lane_gate_test {

constexpr uint64_t kRate = 80'000'000;  // 10 MB/s

class LaneGateTest : public testing::Test {
 protected:
  // One turn of a lane with `bytes` to send; what is sent is acknowledged at once.
  uint64_t Turn(LaneGate& gate, uint64_t unsent) {
    const uint64_t allowed = std::min(gate.Allowance(), unsent);
    if (allowed > 0) gate.Sent(allowed);
    gate.OnTurnEnd({.held = allowed == 0, .unsent = true, .in_flight = false});
    return allowed;
  }
  // Simulates an engine that sleeps until the gate's deadlines; returns the bytes sent.
  uint64_t RunFor(LaneGate& gate, int64_t ns) {
    uint64_t sent = 0;
    const MonotonicNs end = clock_.Now() + ns;
    while (clock_.Now() < end) {
      sent += Turn(gate, 1 << 20);
      ++turns_;
      if (!gate.held()) continue;
      EXPECT_GT(gate.NextDeadline(), clock_.Now()) << "the engine would spin";
      clock_.Set(std::min(gate.NextDeadline(), end));
    }
    return sent;
  }

  SimClock clock_;
  HostPacing host_;
  int turns_ = 0;
  LaneGate gate_{clock_, host_.Tenant("a", "10.0.0.1")};
};

TEST_F(LaneGateTest, IsOpenAtFirst) {
  EXPECT_EQ(Turn(gate_, 1 << 30), 1u << 30);
  EXPECT_FALSE(gate_.held());
  EXPECT_EQ(gate_.NextDeadline(), kNever);
}

TEST_F(LaneGateTest, ARateHoldsAndTheEngineSleeps) {
  gate_.Set(kRate, {}, 0);
  EXPECT_NEAR(static_cast<double>(RunFor(gate_, 2 * kNsPerSec)), 20e6, 0.03 * 20e6);
  EXPECT_LE(turns_, 2 * 2 * kNsPerSec / TokenBucket::kQuantumNs + 10);
}

TEST_F(LaneGateTest, TheTenantsRateHoldsForAllItsLanes) {
  LaneGate other(clock_, host_.Tenant("a", "10.0.0.1")),
      foreign(clock_, host_.Tenant("b", "10.0.0.1"));
  host_.Tenant("a", "10.0.0.1")->SetRate(kRate, 1, clock_.Now());
  uint64_t sent = 0, others = 0;
  for (int i = 0; i < 20'000; ++i) {
    sent += Turn(gate_, 1 << 20);
    others += Turn(other, 1 << 20);
    EXPECT_EQ(Turn(foreign, 1000), 1000u);
    clock_.Set(clock_.Now() + 50 * kNsPerUs);
  }
  EXPECT_NEAR(static_cast<double>(sent), 5e6, 0.03 * 5e6);
  EXPECT_NEAR(static_cast<double>(others), 5e6, 0.03 * 5e6);
}

// Each NIC has the full rate, and a lane that moves to another NIC counts there.
TEST_F(LaneGateTest, TheTenantsRateIsOfOneNic) {
  LaneGate other(clock_, host_.Tenant("a", "10.0.0.1"));
  other.SetTenant(host_.Tenant("a", "10.0.0.2"));
  for (const char* nic : {"10.0.0.1", "10.0.0.2"}) {
    host_.Tenant("a", nic)->SetRate(kRate, 1, clock_.Now());
  }
  uint64_t sent = 0, others = 0;
  for (int i = 0; i < 20'000; ++i) {
    sent += Turn(gate_, 1 << 20);
    others += Turn(other, 1 << 20);
    clock_.Set(clock_.Now() + 50 * kNsPerUs);
  }
  EXPECT_NEAR(static_cast<double>(sent), 10e6, 0.03 * 10e6);
  EXPECT_NEAR(static_cast<double>(others), 10e6, 0.03 * 10e6);
}

// It had a place in the queue; the others do not wait for it.
TEST_F(LaneGateTest, ALaneThatChangesItsTenantLeavesTheQueue) {
  LaneGate leaver(clock_, host_.Tenant("a", "10.0.0.1"));
  host_.Tenant("a", "10.0.0.1")->SetRate(kRate, 1, clock_.Now());
  EXPECT_EQ(Turn(leaver, 100), 0u);
  leaver.SetTenant(host_.Tenant("b", "10.0.0.1"));
  EXPECT_EQ(Turn(leaver, 100), 100u);
  clock_.Set(clock_.Now() + TokenBucket::kQuantumNs);
  EXPECT_EQ(Turn(gate_, 100), 100u);
}

TEST_F(LaneGateTest, NothingLeavesOutsideTheWindows) {
  const SendWindows windows{
      .period_ns = 10 * kNsPerMs, .origin_ns = clock_.Now() + kNsPerMs, .open_ns = 4 * kNsPerMs};
  gate_.Set(0, windows, 0);
  EXPECT_EQ(Turn(gate_, 100), 0u);
  EXPECT_EQ(gate_.NextDeadline(), windows.origin_ns);
  clock_.Set(gate_.NextDeadline());
  EXPECT_EQ(Turn(gate_, 100), 100u);
  clock_.Set(clock_.Now() + 4 * kNsPerMs);
  EXPECT_EQ(Turn(gate_, 100), 0u);
  EXPECT_EQ(gate_.NextDeadline(), windows.origin_ns + 10 * kNsPerMs);
}

TEST_F(LaneGateTest, WithARateAndWindowsBothHold) {
  gate_.Set(kRate, {.period_ns = 10 * kNsPerMs, .origin_ns = 0, .open_ns = 5 * kNsPerMs}, 0);
  const auto sent = static_cast<double>(RunFor(gate_, kNsPerSec));
  EXPECT_LE(sent, 10e6 * 1.03);
  EXPECT_GE(sent, 5e6) << "a send window may use the tokens from before";
}

TEST_F(LaneGateTest, AHigherClassOnTheNicGoesFirst) {
  LaneGate high(clock_, host_.Tenant("b", "10.0.0.1")),
      elsewhere(clock_, host_.Tenant("c", "10.0.0.1"));
  gate_.SetNic(host_.Nic("10.0.0.1"));
  high.SetNic(host_.Nic("10.0.0.1"));
  elsewhere.SetNic(host_.Nic("10.0.0.2"));
  high.Set(0, {}, 3);
  gate_.Set(0, {}, 1);
  high.OnTurnEnd({.held = false, .unsent = false, .in_flight = true});
  const auto sent = static_cast<double>(RunFor(gate_, kNsPerSec));
  EXPECT_NEAR(sent, 200 * 8192, 0.1 * 200 * 8192) << "a trickle";
  EXPECT_EQ(Turn(elsewhere, 1 << 20), 1u << 20);
  EXPECT_EQ(Turn(high, 1 << 20), 1u << 20);
  // A lane that its own gate blocks does not count as busy.
  high.OnTurnEnd({.held = true, .unsent = true, .in_flight = false});
  EXPECT_EQ(Turn(gate_, 1 << 20), 1u << 20);
  high.OnTurnEnd({.held = false, .unsent = true, .in_flight = false});
  Turn(gate_, 1 << 20);
  EXPECT_EQ(Turn(gate_, 1 << 20), 0u);
  high.OnTurnEnd({.held = false, .unsent = false, .in_flight = false});
  EXPECT_EQ(Turn(gate_, 1 << 20), 1u << 20);
}

TEST_F(LaneGateTest, ADestroyedGateBlocksNoOther) {
  host_.Tenant("a", "10.0.0.1");
  gate_.SetNic(host_.Nic("10.0.0.1"));
  {
    LaneGate high(clock_, host_.Tenant("a", "10.0.0.1"));
    high.SetNic(host_.Nic("10.0.0.1"));
    high.Set(0, {}, 7);
    host_.Tenant("a", "10.0.0.1")->SetRate(kRate, 1, clock_.Now());
    EXPECT_EQ(Turn(high, 100), 0u);  // joins the queue
    high.OnTurnEnd({.held = false, .unsent = true, .in_flight = true});
  }
  clock_.Set(clock_.Now() + TokenBucket::kQuantumNs);
  EXPECT_EQ(Turn(gate_, 100), 100u);
}

TEST_F(LaneGateTest, NewRateLimitsEndAWait) {
  gate_.Set(8, {}, 0);
  EXPECT_EQ(Turn(gate_, 100), 0u);
  EXPECT_GT(gate_.NextDeadline(), clock_.Now());
  gate_.Set(0, {}, 0);
  EXPECT_LE(gate_.NextDeadline(), clock_.Now());
  EXPECT_EQ(Turn(gate_, 100), 100u);
}

// Also a lane that stopped calling because its connection has ended.
TEST_F(LaneGateTest, ALaneThatDoesNotAskIsNotBlocked) {
  gate_.Set(kRate, {}, 0);
  EXPECT_EQ(Turn(gate_, 100), 0u);
  EXPECT_TRUE(gate_.held());
  gate_.OnTurnEnd({.held = false, .unsent = false, .in_flight = false});
  EXPECT_FALSE(gate_.held());
  EXPECT_EQ(gate_.NextDeadline(), kNever);
}

}  // namespace lane_gate_test
}  // namespace mccs
