// Ranks that meet by NCCL_COMM_ID when hosts resolve its name to different addresses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tests/sim/sim_world.h"

namespace mccs {
namespace environment_id_test {

using testing::HasSubstr;

// The library's message for NCCL_COMM_ID=name:5000 on a host where the name resolves to `address`.
wire::UniqueId IdAt(const std::string& address, bool resolved = true) {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = 5000;
  id.guessable = 1;
  id.resolved = resolved ? 1 : 0;
  id.comm_id = 0xc0ffee;
  std::strcpy(id.host, address.c_str());
  return id;
}

class SimEnvironmentId : public testing::Test {
 protected:
  SimRank& Init(int host, const wire::UniqueId& id, int ranks, int rank) {
    SimTenant& tenant = world_.AddTenant(host);
    EXPECT_TRUE(world_.RunUntil([&] { return tenant.connected(); }));
    return tenant.Init(id, ranks, rank);
  }
  bool Formed(const SimRank& rank) {
    return world_.RunUntil([&] { return rank.answered; }) &&
           rank.status.error == wire::ErrorClass::kNone;
  }
  SimWorld world_{{.seed = 3, .network = {}}};
};

TEST_F(SimEnvironmentId, RanksOfOneHostMeetByDifferentAddresses) {
  SimRank& a = Init(0, IdAt("10.0.0.1"), 3, 0);
  SimRank& b = Init(0, IdAt("10.0.7.1"), 3, 1);
  SimRank& c = Init(1, IdAt("10.0.0.1"), 3, 2);
  EXPECT_TRUE(Formed(a) && Formed(b) && Formed(c))
      << a.status.text << b.status.text << c.status.text;
  EXPECT_EQ(world_.host(0).daemon().communicators(), 1u);
}

// Debian's /etc/hosts maps the machine's own name to 127.0.1.1.
TEST_F(SimEnvironmentId, OtherHostsReachAHostThatResolvesItselfToLoopback) {
  SimRank& a = Init(0, IdAt("127.0.1.1"), 2, 0);
  SimRank& b = Init(1, IdAt("10.0.0.1"), 2, 1);
  EXPECT_TRUE(Formed(a) && Formed(b)) << a.status.text << b.status.text;
}

TEST_F(SimEnvironmentId, RejectsAddressOfAnotherHostForRankZero) {
  SimRank& a = Init(0, IdAt("10.0.0.2"), 2, 0);
  EXPECT_FALSE(Formed(a));
  EXPECT_THAT(a.status.text, HasSubstr("NCCL_COMM_ID must be an address of rank 0's host"));
}

TEST_F(SimEnvironmentId, RejectsUnresolvedName) {
  SimRank& a = Init(0, IdAt("node-7"), 2, 0);
  EXPECT_FALSE(Formed(a));
  EXPECT_THAT(a.status.text, HasSubstr("'node-7'"));
}

}  // namespace environment_id_test
}  // namespace mccs
