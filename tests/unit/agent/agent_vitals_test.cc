// Heartbeats say how the daemon is, and wake its engine: an engine without turns is stuck.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/log.h"
#include "service/agent/agent.h"
#include "tests/unit/agent/loopback_controller.h"
#include "tests/unit/eventually.h"

namespace mccs {
namespace agent_vitals_test {

using testing::HasSubstr;

constexpr int64_t kTimeoutNs = 300 * kNsPerMs;

// An engine without work: it takes a turn only when it is woken.
struct Engine {
  std::atomic<uint64_t> turns = 1;
  std::atomic<bool> stuck = false;

  void Wake() {
    if (!stuck) ++turns;
  }
};

TEST(AgentVitals, AnIdleEngineIsReadyAndAStuckOneIsStuckUntilItTakesTurns) {
  LoopbackController controller("127.0.0.1:0", kTimeoutNs);
  ASSERT_TRUE(controller.status().ok()) << controller.status();
  Engine engine;
  const std::unique_ptr<Log> log = MakeNullLog();
  Agent agent(
      {.controller = controller.address(), .version = "test", .wake = [&] { engine.Wake(); }},
      log.get());
  const AgentHost host{.inventory = {.name = "h1", .nics = {}, .gpus = {}},
                       .position = {"p1", "r1", "h1"},
                       .peer_endpoint = "10.0.0.1:7400"};
  ASSERT_TRUE(agent
                  .Start(host, {.engine_turns = [&] { return engine.turns.load(); },
                                .certificate_end_s = [] { return int64_t{1'800'000'000}; }})
                  .ok());
  ASSERT_TRUE(Eventually([&] { return controller.ReadyFor("h1") > 4 * kTimeoutNs; }));
  EXPECT_EQ(controller.HostState("h1"), "ready") << "each heartbeat wakes it";
  EXPECT_GE(engine.turns, 8u);
  EXPECT_EQ(controller.Hosts().hosts(0).certificate_end_s(), 1'800'000'000);

  engine.stuck = true;
  ASSERT_TRUE(Eventually([&] { return controller.HostState("h1").starts_with("STUCK"); }));
  EXPECT_THAT(controller.HostState("h1"), HasSubstr("no turn of its engine for"));
  EXPECT_TRUE(agent.connected());

  engine.stuck = false;
  EXPECT_TRUE(Eventually([&] { return controller.HostState("h1") == "ready"; }));
}

}  // namespace agent_vitals_test
}  // namespace mccs
