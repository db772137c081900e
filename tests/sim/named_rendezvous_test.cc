// NCCL_COMM_ID in a cluster with a key: production daemons, agents and controllers.
#include "controller/coordinator/named_rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "service/communicator/membership/named_rendezvous.h"
#include "tests/sim/sim_control.h"
#include "tests/sim/sim_tenant.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/objects/documents.h"

namespace mccs {
namespace named_rendezvous_test {

// The controller uses all that a daemon sends.
static_assert(NamedRendezvousTable::kMaxPerHost == kMaxNamedRendezvous);

using testing::HasSubstr;

class SimNamedRendezvous : public testing::Test {
 protected:
  SimRank& Init(int host, int ranks, int rank, const std::string& tenant = "blue",
                const std::string& cgroup = "") {
    SimTenant& process = world_.AddTenant(host, tenant, cgroup);
    EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
    // An address that no host has, another one on each host.
    return process.Init(MakeEnvironmentId("10.9.9." + std::to_string(host)), ranks, rank);
  }
  bool Formed(const SimRank& rank) {
    return world_.RunUntil([&] { return rank.answered; }) &&
           rank.status.error == wire::ErrorClass::kNone;
  }

  SimControl* control_ = nullptr;  // owned by world_
  SimWorld world_{{.seed = 5,
                   .hosts = 3,
                   .controller = MakeSimControl(5, &control_, {.id_key = std::string(32, 'k')})}};
};

TEST_F(SimNamedRendezvous, RanksMeetWithoutTheAddress) {
  SimRank& last = Init(2, 3, 2);
  SimRank& first = Init(0, 3, 0);
  SimRank& second = Init(1, 3, 1);
  EXPECT_TRUE(Formed(first) && Formed(second) && Formed(last))
      << first.status.text << second.status.text << last.status.text;
}

TEST_F(SimNamedRendezvous, AnotherTenantWithTheSameIdIsNotInTheWay) {
  SimRank& squatter = Init(0, 2, 0, "red");
  world_.RunFor(100 * kNsPerMs);
  SimRank& first = Init(0, 2, 0);
  SimRank& second = Init(1, 2, 1);
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
  EXPECT_FALSE(squatter.answered);
  SimRank& its_second = Init(2, 2, 1, "red");
  EXPECT_TRUE(Formed(squatter) && Formed(its_second)) << squatter.status.text;
}

// As containers do, which all run as root.
TEST_F(SimNamedRendezvous, TenantsOfOneUserHaveTheirOwn) {
  control_->SetObjects(Together({Document("Tenant", "red", "  selector: {cgroups: [/red]}\n"),
                                 Document("Tenant", "blue", "  selector: {cgroups: [/blue]}\n")}));
  world_.RunFor(100 * kNsPerMs);
  SimRank& squatter = Init(0, 2, 0, "uid 0", "/red/a");
  SimRank& intruder = Init(2, 2, 1, "uid 0", "/red/b");
  world_.RunFor(100 * kNsPerMs);
  SimRank& first = Init(0, 2, 0, "uid 0", "/blue/a");
  SimRank& second = Init(1, 2, 1, "uid 0", "/blue/b");
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
  EXPECT_TRUE(Formed(squatter) && Formed(intruder)) << "with each other only";
}

TEST_F(SimNamedRendezvous, TheSameIdServesAgainAlsoOnAnotherHost) {
  for (const int first_host : {0, 0, 1, 2, 0}) {
    const int second_host = (first_host + 1) % 3;
    SimRank& first = Init(first_host, 2, 0);
    SimRank& second = Init(second_host, 2, 1);
    EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
  }
}

TEST_F(SimNamedRendezvous, RanksOfOneHostNeedNoController) {
  control_->Kill();
  SimRank& first = Init(0, 2, 0);
  SimRank& second = Init(0, 2, 1);
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
}

TEST_F(SimNamedRendezvous, OtherHostsWaitForTheController) {
  control_->Kill();
  SimRank& second = Init(1, 2, 1);
  SimRank& first = Init(0, 2, 0);
  world_.RunFor(6 * kNsPerSec);
  EXPECT_FALSE(first.answered || second.answered);
  EXPECT_TRUE(world_.host(1).log().Contains("the controller knows no host on which rank 0 joins"));
  control_->Restart();
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
}

// They fill no message to the controller.
TEST_F(SimNamedRendezvous, ATenantSeeksFewAtATime) {
  SimTenant& process = world_.AddTenant(1, "red");
  EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
  constexpr int kNames = kMaxNamedRendezvousPerTenant + 1;
  std::vector<SimRank*> seekers;
  for (int i = 0; i < kNames; ++i) {
    wire::UniqueId id = MakeEnvironmentId("10.9.9.9");
    id.comm_id += static_cast<uint64_t>(i);
    seekers.push_back(&process.Init(id, 2, 1));
  }
  world_.RunFor(100 * kNsPerMs);
  EXPECT_EQ(control_->agent(1).named_rendezvous().sought_size(), kMaxNamedRendezvousPerTenant);
  // Others find theirs, and the last one is sought when an earlier one is not any more.
  SimRank& second = Init(1, 2, 1);
  SimRank& first = Init(0, 2, 0);
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
  process.Abort(*seekers.front());
  wire::UniqueId last = MakeEnvironmentId("10.9.9.9");
  last.comm_id += kNames - 1;
  SimTenant& opener = world_.AddTenant(0, "red");
  EXPECT_TRUE(world_.RunUntil([&] { return opener.connected(); }));
  EXPECT_TRUE(Formed(opener.Init(last, 2, 0)) && Formed(*seekers.back()))
      << seekers.back()->status.text;
}

TEST_F(SimNamedRendezvous, ATenantHasFewOpenOnes) {
  SimTenant& process = world_.AddTenant(0, "red");
  EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
  SimRank* last = nullptr;
  for (int i = 0; i <= kMaxNamedRendezvousPerTenant; ++i) {
    wire::UniqueId id = MakeEnvironmentId("10.9.9.9");
    id.comm_id += static_cast<uint64_t>(i);
    last = &process.Init(id, 2, 0);
  }
  EXPECT_FALSE(Formed(*last));
  EXPECT_THAT(last->status.text, HasSubstr("ranks of 64 jobs of this tenant are still joining"));
  SimRank& first = Init(0, 2, 0);
  SimRank& second = Init(1, 2, 1);
  EXPECT_TRUE(Formed(first) && Formed(second)) << first.status.text << second.status.text;
}

}  // namespace named_rendezvous_test
}  // namespace mccs
