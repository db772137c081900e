// Daemons of a cluster with signed unique ids, one of which has not received the key yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/sim/sim_tenant.h"
#include "tests/sim/sim_world.h"

namespace mccs {
namespace missing_id_key_test {

using testing::HasSubstr;

constexpr char kNoKey[] = "mccsd of this host has no key of the cluster";

class SimMissingIdKey : public testing::Test {
 protected:
  void SetUp() override { GiveKeyTo(0); }

  void GiveKeyTo(int host) {
    SimController& controller = world_.host(host).controller();
    controller.id_key = std::string(32, 'k');
    ASSERT_TRUE(world_.RunUntil([&] { return !controller.id_key.has_value(); }));
  }
  SimTenant& AddProcess(int host) {
    SimTenant& process = world_.AddTenant(host);
    EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
    return process;
  }
  wire::UniqueId MakeId(int host) {
    SimTenant& process = AddProcess(host);
    EXPECT_TRUE(world_.GetUniqueId(process));
    return process.unique_id();
  }
  SimRank& Init(int host, const wire::UniqueId& id, int ranks, int rank) {
    return AddProcess(host).Init(id, ranks, rank);
  }
  bool Formed(const SimRank& rank) {
    return world_.RunUntil([&] { return rank.answered; }) &&
           rank.status.error == wire::ErrorClass::kNone;
  }
  // Rank `rank` of 2 joins at host 1, which has no key.
  void ExpectRejected(const wire::UniqueId& id, int rank) {
    const size_t streams = world_.network().streams_opened();
    const SimRank& rejected = Init(1, id, 2, rank);
    ASSERT_TRUE(world_.RunUntil([&] { return rejected.answered; }));
    EXPECT_EQ(rejected.status.error, wire::ErrorClass::kRemote);
    EXPECT_THAT(rejected.status.text, HasSubstr(kNoKey));
    EXPECT_EQ(world_.host(1).daemon().communicators(), 0u);
    world_.RunFor(kNsPerSec);
    EXPECT_EQ(world_.network().streams_opened(), streams) << "the daemon dialed an address";
  }

  SimWorld world_{{.seed = 7, .hosts = 2, .expects_id_key = true}};
};

TEST_F(SimMissingIdKey, TheCallSucceedsWhenTheKeyHasArrived) {
  const wire::UniqueId id = MakeId(0);
  ExpectRejected(id, 1);
  GiveKeyTo(1);
  SimRank& second = Init(1, id, 2, 1);
  SimRank& first = Init(0, id, 2, 0);
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
}

TEST_F(SimMissingIdKey, AnAddressOfTheTenantsChoiceIsNotDialed) {
  ExpectRejected(MakeUniqueId("10.9.9.9", 5000, 42), 1);
  wire::UniqueId forged = MakeId(1);
  std::strncpy(forged.host, "10.9.9.9", sizeof(forged.host));
  ExpectRejected(forged, 1);
}

TEST_F(SimMissingIdKey, NoPortOfTheTenantsChoiceIsOpened) {
  ExpectRejected(MakeEnvironmentId(SimAddress(1)), 0);
  EXPECT_TRUE(world_.network().HostNetwork(SimAddress(1)).Listen({SimAddress(1), 5000}).ok());
  ExpectRejected(MakeEnvironmentId(SimAddress(0)), 1);
}

TEST_F(SimMissingIdKey, RanksOfOneHostNeedNone) {
  const wire::UniqueId id = MakeId(1), later = MakeId(1);
  SimRank& first = Init(1, id, 2, 0);
  SimRank& second = Init(1, id, 2, 1);
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;

  SimRank& elsewhere = Init(0, MakeId(1), 2, 1);
  EXPECT_FALSE(Formed(elsewhere));
  EXPECT_THAT(elsewhere.status.text, HasSubstr("no daemon of this cluster made the unique id"));

  SimRank& before = Init(1, later, 2, 0);
  world_.RunFor(kNsPerMs);
  GiveKeyTo(1);
  SimRank& after = Init(1, later, 2, 1);
  EXPECT_TRUE(Formed(before) && Formed(after)) << before.status.text << after.status.text;
}

}  // namespace missing_id_key_test
}  // namespace mccs
