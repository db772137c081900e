// Sequences of protocol messages that no daemon sends, as tables of attacks on a communicator of
// which a tenant's own program is a host. Each attack ends that communicator with an error that
// names the host and the message; the daemon and its other tenant continue.
#ifndef MCCS_TESTS_SIM_ROGUE_ATTACK_H_
#define MCCS_TESTS_SIM_ROGUE_ATTACK_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <vector>

#include "tests/sim/rogue_peer.h"
#include "tests/sim/sim_job.h"

namespace mccs {

inline constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();

enum class Stage { kLinked, kOpened, kActive };

struct Attack {
  const char* name;
  Stage stage;
  std::function<std::vector<peer::Message>(const RoguePeer&)> messages;
  const char* error;  // part of the error message that the tenant gets
};

// The case's name in gtest.
inline void PrintTo(const Attack& attack, std::ostream* out) { *out << attack.name; }

template <typename Fill>
inline peer::Message Message(Fill fill) {
  peer::Message message;
  fill(message);
  return message;
}

template <typename Fill>
inline peer::Message Change(uint64_t epoch, Fill fill) {
  peer::Message message;
  message.mutable_strategy_change()->set_epoch(epoch);
  fill(*message.mutable_strategy_change());
  return message;
}

template <typename Fill>
inline peer::Message Answer(uint64_t epoch, Fill fill) {
  peer::Message message;
  message.mutable_strategy_change_answer()->set_epoch(epoch);
  fill(*message.mutable_strategy_change_answer());
  return message;
}

inline peer::Message Prepare(const Strategy& strategy) {
  return Change(strategy.epoch.value(),
                [&](auto& change) { ToProto(strategy, change.mutable_prepare()); });
}
inline peer::Message Route(const Strategy& strategy) {
  return Change(strategy.epoch.value(),
                [&](auto& change) { ToProto(strategy, change.mutable_route()); });
}
inline peer::Message Hold(uint64_t epoch) {
  return Change(epoch, [](auto& change) { change.set_hold(true); });
}
inline peer::Message Commit(uint64_t epoch, uint64_t after) {
  return Change(epoch, [&](auto& change) { change.mutable_commit()->set_after(after); });
}
inline peer::Message Done(uint64_t epoch) {
  return Change(epoch, [](auto& change) { change.set_done(true); });
}
inline peer::Message Move(uint64_t epoch) {
  return Change(epoch, [](auto& change) { change.set_move(true); });
}
inline peer::Message Dropped(uint64_t epoch) {
  return Change(epoch, [](auto& change) { change.set_aborted("no reason"); });
}
inline peer::Message Open(const Strategy& strategy) {
  return Message([&](auto& m) { ToProto(strategy, m.mutable_open()->mutable_strategy()); });
}
inline peer::Message Go() {
  return Message([](auto& m) { m.mutable_go(); });
}
inline peer::Message Ready() {
  return Message([](auto& m) { m.mutable_ready(); });
}

// A strategy without new lanes: only the choice of algorithms differs.
inline Strategy WithOtherCosts(const RoguePeer& rogue, uint64_t epoch) {
  Strategy strategy = rogue.Ring(epoch);
  strategy.algorithms.costs.hop_us += static_cast<double>(epoch);
  return strategy;
}
// A strategy with new lanes, which leave the victim from `address`.
inline Strategy WithAddress(const RoguePeer& rogue, uint64_t epoch, const std::string& address) {
  Strategy strategy = rogue.Ring(epoch);
  strategy.lanes.slots = 8;
  for (const HostIndex host : strategy.channels[0].ring) {
    strategy.channels[0].addresses.push_back(host == rogue.self() ? RoguePeer::kAddress : address);
  }
  return strategy;
}
inline Strategy WithForeignAddress(const RoguePeer& rogue, uint64_t epoch) {
  return WithAddress(rogue, epoch, "10.9.9.9");
}

using Messages = std::vector<peer::Message>;

// A world with a victim of the rogue peer, and a neighbor on the same host.
class RoguePeerTest : public ::testing::Test {
 protected:
  RoguePeerTest() { EXPECT_TRUE(neighbor_.Form()); }
  ~RoguePeerTest() override {
    neighbor_.Fill(500);
    neighbor_.PostAll(OpKind::kAllReduce, 500);
    EXPECT_TRUE(world_.RunUntil([&] { return neighbor_.Done(); })) << neighbor_.rank(0).failure();
    EXPECT_EQ(neighbor_.Wrong(OpKind::kAllReduce, 500), 0u);
  }

  void Reach(Stage stage) {
    if (stage == Stage::kLinked && !rogue_.leads()) {
      rogue_.Send(
          Message([&](auto& m) { m.mutable_hello()->set_host_index(rogue_.self().value()); }));
      return;
    }
    if (stage == Stage::kLinked) return;
    ASSERT_TRUE(rogue_.OpenLanes()) << rogue_.failure();
    if (stage != Stage::kActive) return;
    ASSERT_TRUE(rogue_.Start()) << rogue_.failure();
  }
  void Run(const Attack& attack) {
    ASSERT_NO_FATAL_FAILURE(Reach(attack.stage));
    ASSERT_EQ(rogue_.failure(), "");
    for (const peer::Message& message : attack.messages(rogue_)) {
      EXPECT_EQ(rogue_.failure(), "") << "before " << message.ShortDebugString();
      rogue_.Send(message);
    }
    // Well before any timeout: the message itself must fail the communicator.
    ASSERT_TRUE(rogue_.RunUntil([&] { return !rogue_.failure().empty(); }, 100 * kNsPerMs));
    EXPECT_THAT(rogue_.failure(), ::testing::AllOf(::testing::HasSubstr(RoguePeer::kName),
                                                   ::testing::HasSubstr(attack.error)));
  }

  SimWorld world_{{.seed = 7, .network = {}}};
  SimJob neighbor_{world_, {0, 1}, 4096};
  SimTenant& victim_ = world_.AddTenant(0, RoguePeer::kTenant);
  RoguePeer rogue_{world_, victim_};
};

inline std::string NameOfCase(const ::testing::TestParamInfo<Attack>& info) {
  return info.param.name;
}

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_ROGUE_ATTACK_H_
