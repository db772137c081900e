#include "controller/state/recovered_strategies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "controller/api/operator_view.h"
#include "controller/coordinator/coordinator.h"
#include "controller/coordinator/strategy_persister.h"
#include "controller/store/memory_store.h"
#include "proto/stored.pb.h"
#include "tests/unit/controller/agent_messages.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace recovered_strategies_test {

constexpr AgentKey kFirst{1}, kSecond{2};

// A controller without its network, and its store, which survives it.
class RecoveredStrategiesTest : public testing::Test {
 protected:
  RecoveredStrategiesTest() { Restart(); }

  void Restart() {
    coordinator_ = std::make_unique<SharedCoordinator>(CoordinatorOptions{}, &clock_, log_.get());
    persister_ =
        std::make_unique<StrategyPersister>(&store_, coordinator_.get(), &clock_, log_.get());
    ASSERT_TRUE(persister_->Restore().ok());
  }
  std::vector<Outgoing> Send(AgentKey agent, const agent::v1::FromAgent& message) {
    return coordinator_->With([&](Coordinator& c) {
      c.Handle(agent, message);
      return c.TakeOutbox();
    });
  }
  void StartCommunicator(uint64_t id) {
    Send(kFirst, Registration(MakeHost("h0")));
    Send(kSecond, Registration(MakeHost("h1")));
    Send(kFirst, Announcement(MakeAnnounce(id, {"h0", "h1"})));
  }
  // Communicator 5 is stored, and the controller starts again.
  void StartAndRestart() {
    StartCommunicator(5);
    persister_->Persist();
    Restart();
  }
  void SetObjects(const std::string& text) {
    coordinator_->With(
        [&](Coordinator& c) { c.SetObjects(std::make_shared<ObjectSet>(After({}, text))); });
  }
  std::vector<Outgoing> Tick() {
    return coordinator_->With([](Coordinator& c) {
      c.Tick();
      return c.TakeOutbox();
    });
  }
  std::vector<StoredStrategy> Stored() { return store_.Load()->strategies; }
  size_t Viewed() {
    return coordinator_->With([](Coordinator& c) { return c.View().communicators.size(); });
  }

  ManualClock clock_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  MemoryStore store_;
  std::unique_ptr<SharedCoordinator> coordinator_;
  std::unique_ptr<StrategyPersister> persister_;
};

TEST_F(RecoveredStrategiesTest, StoresAProposalUntilTheCommunicatorEnds) {
  StartCommunicator(5);
  EXPECT_TRUE(Stored().empty()) << "agents' threads do not wait for a disk";
  persister_->Persist();
  ASSERT_EQ(Stored().size(), 1u);
  stored::CommunicatorStrategy record;
  ASSERT_TRUE(record.ParseFromString(Stored()[0].record));
  EXPECT_EQ(record.comm_id(), 5u);
  EXPECT_EQ(record.tenant(), "uid 1000");
  EXPECT_THAT(record.hosts(), testing::ElementsAre("h0", "h1"));
  EXPECT_EQ(record.strategy().origin(), "locality_ring");
  Send(kFirst, Ending(5));
  persister_->Persist();
  EXPECT_TRUE(Stored().empty());
}

TEST_F(RecoveredStrategiesTest, PortsStayTakenUntilDaemonsReconnect) {
  StartCommunicator(5);
  persister_->Persist();
  stored::CommunicatorStrategy record;
  ASSERT_TRUE(record.ParseFromString(Stored()[0].record));
  const auto& old_ports = record.strategy().channels(0).source_ports();
  Restart();
  EXPECT_EQ(Viewed(), 1u);
  // One of two ports belongs to the old communicator, in each direction.
  const uint32_t low = std::min(old_ports[0], old_ports[1]);
  const std::string ports = absl::StrCat(low, "-", low + 2);
  SetObjects(PolicyDocument(
      "p", absl::StrCat("  type: locality_ring\n  parameters: {source_ports: ", ports, "}\n")));
  Send(kFirst, Registration(MakeHost("h0")));
  const auto out = Send(kFirst, Announcement(MakeAnnounce(6, {"h0", "h1"})));
  ASSERT_EQ(out.size(), 1u);
  for (const uint32_t port : out[0].message->propose().strategy().channels(0).source_ports()) {
    EXPECT_NE(port, low);
  }
}

// Policies see NICs and positions only of hosts that have reconnected.
TEST_F(RecoveredStrategiesTest, MakesNoDecisionUntilAllHostsReconnect) {
  StartAndRestart();
  const agent::v1::Announce running = MakeRunning(5, {"h0", "h1"});
  const auto decided = [&](const std::string& order) {
    return coordinator_->With([&](Coordinator& c) {
      auto objects = std::make_shared<ObjectSet>(
          After({}, Together({TopologyDocument("t"),
                              PolicyDocument("p", "  type: locality_ring\n  parameters: {order: " +
                                                      order + "}\n")})));
      objects->revision = c.objects().revision + 1;
      const Decisions alone = Decide(*objects, c.View());
      c.SetObjects(objects);
      EXPECT_EQ(alone.changed.size(), c.DecisionsFor(objects->revision)->changed.size());
      c.TakeOutbox();
      return alone.changed.size();
    });
  };
  EXPECT_EQ(decided("[h1, h0]"), 0u);
  Send(kFirst, Registration(MakeHost("h0"), {running}));
  EXPECT_EQ(decided("[h1, h0]"), 0u) << "its leader is back, the other host is not";
  Send(kSecond, Registration(MakeHost("h1")));
  EXPECT_EQ(decided("[h1, h0]"), 1u);
}

TEST_F(RecoveredStrategiesTest, StopsWaitingForMissingHosts) {
  StartAndRestart();
  const agent::v1::Announce running = MakeRunning(5, {"h0", "h1"});
  Send(kFirst, Registration(MakeHost("h0"), {running}));
  const auto is_away = [&] {
    return coordinator_->With(
        [](Coordinator& c) { return c.View().communicators[0].reconnecting; });
  };
  EXPECT_TRUE(is_away());
  clock_.now += Coordinator::kOrphanTimeoutNs + 1;
  Send(kFirst, Beat());
  Tick();
  EXPECT_FALSE(is_away());
}

TEST_F(RecoveredStrategiesTest, ListsReconnectingCommunicators) {
  StartAndRestart();
  Send(kSecond, Registration(MakeHost("h1")));
  coordinator_->With([&](Coordinator& c) {
    const auto list = ListCommunicators(c.state(), clock_.now);
    ASSERT_EQ(list.communicators_size(), 1);
    EXPECT_EQ(list.communicators(0).id(), "0000000000000005");
    EXPECT_THAT(list.communicators(0).state(), testing::StartsWith("reconnecting: "));
    EXPECT_EQ(list.communicators(0).hosts(), 2);
    const auto hosts = ListHosts(c.state(), clock_.now);
    EXPECT_EQ(hosts.hosts(0).communicators(), 1u);
    EXPECT_EQ(FindCommunicator(c.state(), "00000000000000").status().code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(FindCommunicator(c.state(), "7").status().code(), absl::StatusCode::kNotFound);
  });
}

TEST_F(RecoveredStrategiesTest, ReconnectedCommunicatorIsListedOnce) {
  StartAndRestart();
  const agent::v1::Announce running = MakeRunning(5, {"h0", "h1"});
  Send(kFirst, Registration(MakeHost("h0"), {running}));
  EXPECT_EQ(Viewed(), 1u);
  persister_->Persist();
  EXPECT_EQ(Stored().size(), 1u);
}

TEST_F(RecoveredStrategiesTest, DropsCommunicatorsThatNeverReconnect) {
  StartAndRestart();
  clock_.now += Coordinator::kOrphanTimeoutNs + 1;
  Tick();
  EXPECT_EQ(Viewed(), 0u);
  persister_->Persist();
  EXPECT_TRUE(Stored().empty());
}

TEST_F(RecoveredStrategiesTest, OthersGetTheRatesOfDroppedCommunicators) {
  StartAndRestart();
  SetObjects(Together({TopologyDocument("t"), PolicyDocument("p", "  type: shares\n")}));
  agent::v1::Announce running = MakeRunning(6, {"h0", "h1"});
  running.set_tenant("uid 2");
  Send(kFirst, Registration(MakeHost("h0"), {running}));
  Send(kSecond, Registration(MakeHost("h1")));
  uint64_t rate_bps = 0;
  const auto tick_for = [&](int64_t ns) {
    for (const MonotonicNs end = clock_.now + ns; clock_.now < end;) {
      clock_.now += kNsPerSec;
      Send(kFirst, Beat());
      Send(kSecond, Beat());
      for (const Outgoing& out : Tick()) {
        if (out.message->has_rate_limits())
          rate_bps = out.message->rate_limits().lanes(0).rate_bps();
        if (!out.message->has_propose()) continue;
        *running.mutable_strategy() = out.message->propose().strategy();
        Send(kFirst, Announcement(running));
        Send(kFirst, Reporting(6, running.strategy().epoch()));
      }
    }
  };
  tick_for(Coordinator::kOrphanTimeoutNs);
  const uint64_t half_bps = rate_bps;
  EXPECT_GT(half_bps, 20'000'000'000u);
  tick_for(2 * kNsPerSec);
  EXPECT_NEAR(static_cast<double>(rate_bps), 2.0 * static_cast<double>(half_bps), 2);
}

TEST_F(RecoveredStrategiesTest, ErasesInvalidRecords) {
  stored::CommunicatorStrategy no_ring;
  no_ring.set_comm_id(8);
  no_ring.add_hosts("h0");
  no_ring.add_hosts("h1");
  strategy::ChannelStrategy* channel = no_ring.mutable_strategy()->add_channels();
  for (const int host : {0, 0}) channel->add_ring(host);
  StoreChange change;
  change.put_strategies = {{CommId(8), no_ring.SerializeAsString()},
                           {CommId(9), "\xff\xff no record"}};
  ASSERT_TRUE(store_.Commit(change).ok());
  Restart();
  EXPECT_EQ(Viewed(), 0u);
  persister_->Persist();
  EXPECT_TRUE(Stored().empty());
}

}  // namespace recovered_strategies_test
}  // namespace mccs
