// Quotas of Tenants, as sent by the controller, and the limit of buffers of every tenant: over all
// processes of a Tenant on one host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>

#include "tests/sim/scenario.h"

namespace mccs {
namespace quotas_test {

using testing::HasSubstr;

// The controller sends Tenant team-a to a host.
void SendQuotas(SimWorld& world, int host, const TenantQuotas& quotas) {
  world.host(host).controller().tenants = {
      {.name = "team-a",
       .selector = {.uids = {1}, .sockets = {}, .cgroups = {"/jobs/a"}},
       .quotas = quotas}};
}

class SimQuotas : public testing::Test {
 protected:
  explicit SimQuotas(const BufferLimits& buffers = {}) : world_({.hosts = 1, .buffers = buffers}) {}

  SimTenant& Process(const std::string& called, const std::string& cgroup = "") {
    SimTenant& process = world_.AddTenant(0, called, cgroup);
    EXPECT_TRUE(world_.RunUntil([&] { return process.connected(); }));
    return process;
  }
  void SetQuotas(const TenantQuotas& quotas) {
    SendQuotas(world_, 0, quotas);
    world_.RunFor(kNsPerMs);
  }
  // Forms a communicator of one rank. Null: rejected, and rejection_ is the error message.
  SimRank* Form(SimTenant& process) {
    EXPECT_TRUE(world_.GetUniqueId(process));
    SimRank& rank = process.Init(process.unique_id(), 1, 0);
    EXPECT_TRUE(world_.RunUntil([&] { return rank.answered; }));
    rejection_ = rank.status.text;
    return rejection_.empty() ? &rank : nullptr;
  }
  bool Register(SimTenant& process, size_t buffer) {
    process.Register(memory_[buffer].data(), memory_[buffer].size());
    world_.RunFor(kNsPerMs);
    return process.BufferAt(memory_[buffer].data()) != 0;
  }

  std::string rejection_;
  std::array<std::array<std::byte, 4096>, 6> memory_;
  SimWorld world_;
};

TEST_F(SimQuotas, RejectsCommunicatorsAboveTheQuota) {
  SetQuotas({.communicators = 2});
  SimTenant& user = Process("uid 1");
  SimTenant& group = Process("uid 9", "/jobs/a/rank0");
  SimTenant& neighbor = Process("uid 9", "/jobs/b");
  SimRank* const first = Form(user);
  ASSERT_NE(first, nullptr) << rejection_;
  EXPECT_NE(Form(group), nullptr) << rejection_;
  EXPECT_EQ(Form(user), nullptr);
  EXPECT_THAT(rejection_, HasSubstr("Tenant team-a has 2 communicators on this host, and "
                                    "quotas.communicators is 2"));
  EXPECT_NE(Form(neighbor), nullptr) << rejection_;
  user.Destroy(*first);
  ASSERT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().communicators() == 2; }));
  EXPECT_NE(Form(user), nullptr) << rejection_;
}

TEST_F(SimQuotas, RejectsMemoryAboveTheQuotaUntilAProcessEnds) {
  SetQuotas({.memory_bytes = 3 * 4096});
  SimTenant& user = Process("uid 1");
  SimTenant& group = Process("uid 9", "/jobs/a");
  SimTenant& neighbor = Process("uid 9");
  EXPECT_TRUE(Register(user, 0) && Register(user, 1) && Register(group, 2));
  EXPECT_FALSE(Register(group, 3));
  EXPECT_TRUE(Register(neighbor, 4));
  user.Kill();
  ASSERT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().sessions() == 2; }));
  EXPECT_TRUE(Register(group, 5));
}

TEST_F(SimQuotas, ChangedQuotasApplyToNewRequests) {
  SimTenant& user = Process("uid 1");
  for (int i = 0; i < 3; ++i) ASSERT_NE(Form(user), nullptr);
  SetQuotas({.communicators = 1});
  EXPECT_EQ(world_.host(0).daemon().communicators(), 3u);
  EXPECT_EQ(Form(user), nullptr);
  SetQuotas({.communicators = 4});
  EXPECT_NE(Form(user), nullptr) << rejection_;
}

// Each pod has the quotas by itself: one cannot use up those of another.
TEST_F(SimQuotas, HoldForEachTextThatAPatternCaptures) {
  world_.host(0).controller().tenants = {
      {.name = "pods",
       .selector = {.uids = {}, .sockets = {}, .cgroups = {"/kubepods*/pod{uid}"}},
       .quotas = {.communicators = 1}}};
  world_.RunFor(kNsPerMs);
  SimTenant& first = Process("uid 0", "/kubepods/burstable/pod1/a");
  SimTenant& same = Process("uid 0", "/kubepods/burstable/pod1/b");
  SimTenant& second = Process("uid 0", "/kubepods/pod2/a");
  EXPECT_NE(Form(first), nullptr) << rejection_;
  EXPECT_EQ(Form(same), nullptr);
  EXPECT_THAT(rejection_, HasSubstr("Tenant pods/1 has 1 communicator on this host"));
  EXPECT_NE(Form(second), nullptr) << rejection_;
}

TEST_F(SimQuotas, OfDefaultHoldForAllThatNoTenantSelects) {
  world_.host(0).controller().tenants = {
      {.name = "default",
       .selector = {.uids = {}, .sockets = {}, .cgroups = {}, .unclaimed = true},
       .quotas = {.communicators = 1}},
      {.name = "team-a",
       .selector = {.uids = {1}, .sockets = {}, .cgroups = {}},
       .quotas = {.communicators = 2}}};
  world_.RunFor(kNsPerMs);
  SimTenant& one = Process("uid 7");
  SimTenant& other = Process("uid 8");
  SimTenant& of_a = Process("uid 1");
  EXPECT_NE(Form(one), nullptr) << rejection_;
  EXPECT_EQ(Form(other), nullptr);
  EXPECT_THAT(rejection_, HasSubstr("Tenant default has 1 communicator"));
  EXPECT_NE(Form(of_a), nullptr) << rejection_;
  EXPECT_NE(Form(of_a), nullptr) << rejection_;
}

// A Tenant that is deleted or changed ends no process.
TEST_F(SimQuotas, ProcessesOutliveTheChangeOfTheirTenant) {
  SetQuotas({.communicators = 1});
  SimTenant& user = Process("uid 1");
  SimRank* const rank = Form(user);
  ASSERT_NE(rank, nullptr) << rejection_;
  EXPECT_EQ(Form(user), nullptr);
  world_.host(0).controller().tenants = std::vector<TenantEntry>();
  world_.RunFor(kNsPerMs);
  EXPECT_TRUE(user.connected());
  EXPECT_EQ(world_.host(0).daemon().communicators(), 1u);
  EXPECT_NE(Form(user), nullptr) << "without a Tenant there is no quota: " << rejection_;
  SetQuotas({.communicators = 3});
  EXPECT_NE(Form(user), nullptr) << rejection_;
  EXPECT_EQ(Form(user), nullptr) << "the communicators of before count";
}

// Two hosts at their limit, each running the operation that the other one delays.
TEST(SimQuotaOfOperations, DelaysOperationsWithoutDeadlock) {
  for (auto [seed, random] : Seeds(20)) {
    SimWorld world({.seed = seed, .hosts = 2});
    for (const int h : {0, 1}) SendQuotas(world, h, {.operations = 1});
    std::deque<SimJob> jobs;
    for (int j = 0; j < 3; ++j) {
      SimJob& job = jobs.emplace_back(world, std::vector<int>{0, 1}, 64 << 10, "uid 1");
      ASSERT_TRUE(job.Form());
      job.Fill(1000);
    }
    // Each host's ranks post in a different order.
    for (int call = 0; call < 5; ++call) {
      for (int r = 0; r < 2; ++r) {
        std::vector<size_t> order = {0, 1, 2};
        std::shuffle(order.begin(), order.end(), random);
        for (const size_t j : order) {
          jobs[j].Post(r, OpKind::kAllReduce, 1000);
          world.RunFor(RandomUs(random, 300));
        }
      }
    }
    ASSERT_TRUE(world.RunUntil([&] { return std::ranges::all_of(jobs, &SimJob::Done); }));
    for (const SimJob& job : jobs) EXPECT_EQ(job.Wrong(OpKind::kAllReduce, 1000), 0u);
  }
}

// One communicator always has calls waiting, the other one has a few.
TEST(SimQuotaOfOperations, CommunicatorsTakeTurns) {
  SimWorld world({.hosts = 2});
  for (const int h : {0, 1}) SendQuotas(world, h, {.operations = 1});
  SimJob greedy(world, {0, 1}, 64 << 10, "uid 1"), modest(world, {0, 1}, 64 << 10, "uid 1");
  for (SimJob* job : {&greedy, &modest}) {
    ASSERT_TRUE(job->Form());
    job->Fill(1000);
  }
  const auto post = [](SimJob& job, int calls) {
    for (int i = 0; i < calls; ++i) job.PostAll(OpKind::kAllReduce, 1000);
  };
  post(greedy, 40);
  world.RunFor(kNsPerMs);
  post(modest, 4);
  ASSERT_TRUE(world.RunUntil([&] {
    if (greedy.rank(0).posted - greedy.rank(0).done() < 10) post(greedy, 10);
    return modest.Done();
  }));
  ASSERT_TRUE(greedy.Complete());
}

// The limit of buffers that applies to every tenant.
class SimBufferLimit : public SimQuotas {
 protected:
  SimBufferLimit() : SimQuotas({.buffers_per_tenant = 3}) {}
};

TEST_F(SimBufferLimit, AppliesToAllProcessesOfATenant) {
  SimTenant& first = Process("blue");
  SimTenant& second = Process("blue");
  SimTenant& neighbor = Process("red");
  EXPECT_TRUE(Register(first, 0) && Register(first, 1) && Register(second, 2));
  EXPECT_FALSE(Register(second, 3));
  EXPECT_TRUE(Register(neighbor, 4));
  first.Kill();
  ASSERT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().sessions() == 2; }));
  EXPECT_TRUE(Register(second, 5));
}

}  // namespace quotas_test
}  // namespace mccs
