// Limits on the acceptance of processes.
#include "service/frontend/frontend.h"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace frontend_test {

const TenantIdentity kRed{"red", 400};
const TenantIdentity kBlue{"blue", 500};

const size_t kProcesses = HostLimits{}[Resource::kProcesses];
const size_t kProcessesOfOne = kProcesses / 2;  // as many as it leaves free

class FrontendTest : public testing::Test {
 protected:
  FrontendTest() : world_({.seed = 1, .hosts = 1, .network = {}}) {}

  void Connect(const TenantIdentity& identity, size_t times) {
    for (size_t i = 0; i < times; ++i) {
      processes_.push_back(world_.host(0).tenant_listener().Connect(identity));
    }
  }
  size_t sessions() { return world_.host(0).daemon().sessions(); }
  bool RunUntilSessions(size_t count) {
    return world_.RunUntil([&] { return sessions() == count; }, kNsPerSec);
  }

  SimWorld world_;
  std::vector<std::shared_ptr<SimPipe>> processes_;
};

TEST_F(FrontendTest, OneTenantCannotUseAllProcesses) {
  Connect(kRed, kProcesses);
  EXPECT_TRUE(RunUntilSessions(kProcessesOfOne));
  RawTenant blue(world_, 0, kBlue);
  EXPECT_TRUE(blue.Greet());
  EXPECT_EQ(sessions(), kProcessesOfOne + 1);
  EXPECT_TRUE(world_.host(0).log().Contains("tenant red"));
}

TEST_F(FrontendTest, ARejectedProcessIsToldWhy) {
  Connect(kRed, kProcessesOfOne);
  ASSERT_TRUE(RunUntilSessions(kProcessesOfOne));
  RawTenant one_more(world_, 0, kRed);
  const auto answer = one_more.Await<wire::HelloReply>(/*request=*/0);
  ASSERT_TRUE(answer.has_value());
  EXPECT_STREQ(answer->status.text,
               "too many connected processes on this host: tenant red has 2048 and asks for 1 "
               "more, 2048 of 4096 are free, and a tenant may not have more than it leaves free; "
               "end unused processes, or ask the operator to raise limits.processes in mccsd's "
               "configuration");
}

TEST_F(FrontendTest, AnEndedSessionFreesItsPlace) {
  Connect(kRed, kProcessesOfOne);
  ASSERT_TRUE(RunUntilSessions(kProcessesOfOne));
  for (int i = 0; i < 3; ++i) processes_[static_cast<size_t>(i)]->dead = true;
  ASSERT_TRUE(RunUntilSessions(kProcessesOfOne - 3));
  Connect(kRed, 5);
  EXPECT_TRUE(RunUntilSessions(kProcessesOfOne));
}

TEST_F(FrontendTest, LogsARejectedTenantOncePerMinute) {
  Connect(kRed, kProcessesOfOne + 1);
  ASSERT_TRUE(RunUntilSessions(kProcessesOfOne));
  for (size_t round = 0; round < 10; ++round) {
    processes_[round]->dead = true;
    ASSERT_TRUE(RunUntilSessions(kProcessesOfOne - 1));
    Connect(kRed, 2);
    ASSERT_TRUE(RunUntilSessions(kProcessesOfOne));
  }
  EXPECT_EQ(world_.host(0).log().Count(
                "rejected a process: too many connected processes on this host: tenant red"),
            1u);
}

// Jobs of one user in different control groups: each is a tenant of its own, and all of the Tenant
// together get what one tenant gets.
TEST_F(FrontendTest, LimitsCountByTenantNotByUser) {
  world_.host(0).controller().tenants = {
      {.name = "pods",
       .selector = {.uids = {}, .sockets = {}, .cgroups = {"/kubepods*/pod{uid}"}},
       .quotas = {}}};
  world_.RunFor(kNsPerMs);
  Connect({"uid 0", 400, "/kubepods/pod1/c"}, kProcesses);
  EXPECT_TRUE(RunUntilSessions(kProcessesOfOne / 2));
  EXPECT_TRUE(world_.host(0).log().Contains("tenant pods/1 has 1024"));
  RawTenant other(world_, 0, {"uid 0", 500, "/kubepods/pod2/c"});
  EXPECT_TRUE(other.Greet());
  EXPECT_EQ(sessions(), kProcessesOfOne / 2 + 1);
}

// ---- Unknown tenants ----------------------------------------------------------------------------

class UnknownTenantsTest : public testing::Test {
 protected:
  UnknownTenantsTest()
      : world_({.seed = 1, .hosts = 1, .network = {}, .denies_unknown_tenants = true}) {}

  // The error message of the daemon's answer to a process; empty: it is accepted.
  std::string Rejection(const TenantIdentity& identity) {
    RawTenant& process = processes_.emplace_back(world_, 0, identity);
    const auto reply = process.Hello();
    EXPECT_TRUE(reply.has_value());
    const bool accepted = reply.has_value() && reply->status.error == wire::ErrorClass::kNone;
    return accepted || !reply.has_value() ? "" : reply->status.text;
  }
  void SetTenants(std::vector<TenantEntry> tenants) {
    world_.host(0).controller().tenants = std::move(tenants);
    world_.RunFor(kNsPerMs);
  }

  SimWorld world_;
  std::deque<RawTenant> processes_;
};

TEST_F(UnknownTenantsTest, AreToldWhoTheyAreAndWhatToDo) {
  const std::string text = Rejection({"uid 1000", 400, "/user.slice/x"});
  EXPECT_EQ(text,
            "uid 1000 belongs to no Tenant, and this host denies unknown tenants: ask the operator "
            "to add the user or the control group to a Tenant, or set MCCS_SOCKET to the socket of "
            "yours; the control group is /user.slice/x");
  EXPECT_TRUE(world_.host(0).log().Contains("denied process 400: uid 1000 belongs to no Tenant"));
  EXPECT_EQ(world_.host(0).daemon().counters()->denied_processes.value(), 1u);
}

TEST_F(UnknownTenantsTest, KnownOnesAreServed) {
  SetTenants({{.name = "a",
               .selector = {.uids = {1}, .sockets = {}, .cgroups = {"/jobs/{job}"}},
               .quotas = {}}});
  EXPECT_EQ(Rejection({"uid 1", 400}), "");
  EXPECT_EQ(Rejection({"uid 2", 401, "/jobs/7"}), "");
  EXPECT_EQ(Rejection({"team-b", 402}), "") << "an operator has configured its socket";
  EXPECT_NE(Rejection({"uid 2", 403, "/jobs"}), "");
}

TEST_F(UnknownTenantsTest, ADefaultTenantHasThem) {
  SetTenants({{.name = "default",
               .selector = {.uids = {}, .sockets = {}, .cgroups = {}, .unclaimed = true},
               .quotas = {}}});
  EXPECT_EQ(Rejection({"uid 1000", 400}), "");
}

TEST_F(UnknownTenantsTest, ThoseThatAreConnectedStay) {
  SetTenants(
      {{.name = "a", .selector = {.uids = {1}, .sockets = {}, .cgroups = {}}, .quotas = {}}});
  ASSERT_EQ(Rejection({"uid 1", 400}), "");
  SetTenants({});
  EXPECT_TRUE(processes_.back().GetUniqueId().has_value());
  EXPECT_NE(Rejection({"uid 1", 401}), "");
}

// ---- Work per turn ------------------------------------------------------------------------------

class FrontendTurnTest : public FrontendTest {
 protected:
  std::deque<RawTenant>& AddProcesses(const TenantIdentity& identity, size_t processes) {
    std::deque<RawTenant>& tenants = tenants_.emplace_back();
    for (size_t i = 0; i < processes; ++i) {
      tenants.emplace_back(world_, 0, identity);
      EXPECT_TRUE(tenants.back().Greet());
    }
    return tenants;
  }
  static void Flood(std::deque<RawTenant>& tenants, int requests) {
    for (RawTenant& tenant : tenants) {
      for (int i = 0; i < requests; ++i) tenant.Send(wire::GetUniqueId{});
    }
  }
  static size_t AnswersTo(const std::deque<RawTenant>& tenants) {
    size_t answers = 0;
    for (const RawTenant& tenant : tenants) answers += tenant.pipe().to_tenant.size();
    return answers;
  }
  bool Turn() { return world_.host(0).daemon().Poll(); }

  std::deque<std::deque<RawTenant>> tenants_;
};

TEST_F(FrontendTurnTest, ATenantsRequestsAreLimitedOverAllItsProcesses) {
  std::deque<RawTenant>& red = AddProcesses(kRed, 100);
  RawTenant blue(world_, 0, kBlue);
  ASSERT_TRUE(blue.Greet());
  const size_t before = AnswersTo(red);  // Greet ran the world
  Flood(red, 50);
  const uint64_t request = blue.Send(wire::GetUniqueId{});
  EXPECT_TRUE(Turn());
  EXPECT_TRUE(blue.Take<wire::UniqueIdReply>(request).has_value());
  EXPECT_LE(AnswersTo(red) - before, static_cast<size_t>(TenantBudget::kPerTurn));
  // Backpressure: every request is answered.
  int turns = 1;
  for (; AnswersTo(red) - before < 100 * 50 && turns < 1000; ++turns) EXPECT_TRUE(Turn());
  EXPECT_LE(turns, 100 * 50 / TenantBudget::kPerTurn + 1);
}

TEST_F(FrontendTurnTest, TheRequestsOfAllTenantsTogetherAreLimited) {
  constexpr size_t kTenants = 30;
  for (size_t t = 0; t < kTenants; ++t) {
    AddProcesses({"tenant " + std::to_string(t), static_cast<pid_t>(1000 + t)}, 4);
  }
  std::vector<size_t> before;
  for (std::deque<RawTenant>& tenants : tenants_) {
    before.push_back(AnswersTo(tenants));
    Flood(tenants, 100);
  }
  const auto answered = [&] {
    size_t sum = 0;
    for (size_t t = 0; t < kTenants; ++t) sum += AnswersTo(tenants_[t]) - before[t];
    return sum;
  };
  constexpr size_t kTurns = 30;
  for (size_t turn = 1; turn <= kTurns; ++turn) {
    Turn();
    // The last request of a turn may cost more than what is left.
    EXPECT_LE(answered(), turn * static_cast<size_t>(TurnBudget::kInTotal)) << "turn " << turn;
  }
  for (size_t t = 0; t < kTenants; ++t) {
    const size_t own = AnswersTo(tenants_[t]) - before[t];
    EXPECT_GE(own, kTurns * TurnBudget::kInTotal / kTenants / 2) << "tenant " << t;
    EXPECT_LE(own, kTurns * TurnBudget::kInTotal / kTenants * 2) << "tenant " << t;
  }
}

TEST_F(FrontendTurnTest, ManyProcessesThatEndAtOnceAreRemovedInSeveralTurns) {
  Connect(kRed, 500);
  ASSERT_TRUE(RunUntilSessions(500));
  for (const std::shared_ptr<SimPipe>& process : processes_) process->dead = true;
  size_t before = sessions();
  for (int turn = 0; turn < 1000 && before > 0; ++turn) {
    EXPECT_TRUE(Turn());
    EXPECT_LE(before - sessions(), static_cast<size_t>(kSessionsRemovedPerTurn));
    before = sessions();
  }
  EXPECT_EQ(before, 0u);
}

TEST_F(FrontendTurnTest, BuffersOfProcessesThatEndAtOnceAreRemovedInSeveralTurns) {
  constexpr size_t kProcesses = 20;
  constexpr size_t kBuffers = 100;
  std::deque<RawTenant>& red = AddProcesses(kRed, kProcesses);
  for (RawTenant& tenant : red) {
    for (size_t i = 0; i < kBuffers; ++i) {
      wire::ReserveRange range{};
      range.bytes = 1 << 20;
      tenant.Send(range);
    }
  }
  const auto buffers = [this] {
    const auto tenants = world_.host(0).daemon().counters()->Tenants();
    return tenants.at(kRed.tenant)->buffers.value();
  };
  ASSERT_TRUE(world_.RunUntil([&] { return buffers() == kProcesses * kBuffers; }, kNsPerSec));
  for (RawTenant& tenant : red) tenant.pipe().dead = true;
  int64_t before = static_cast<int64_t>(buffers());
  for (int turn = 0; turn < 1000 && before > 0; ++turn) {
    EXPECT_TRUE(Turn());
    const auto left = static_cast<int64_t>(buffers());
    EXPECT_LE(before - left, TenantBudget::kPerTurn) << "turn " << turn;
    before = left;
  }
  EXPECT_EQ(before, 0);
}

// Red's processes end ranks that do not exist, and blue ends one of its own.
class RankEndTurnTest : public FrontendTurnTest {
 protected:
  template <typename Message>
  int TurnsOfBluesDestroy(Message flood) {
    std::deque<RawTenant>& red = AddProcesses(kRed, 50);
    RawTenant blue(world_, 0, kBlue);
    EXPECT_TRUE(blue.Greet());
    const auto id = blue.GetUniqueId();
    EXPECT_TRUE(id.has_value());
    const auto formed = blue.Await<wire::CommInitReply>(blue.Send(MakeCommInit(*id, 1, 0)));
    EXPECT_TRUE(formed.has_value());
    for (RawTenant& tenant : red) {
      for (int i = 0; i < 50; ++i) tenant.Send(flood);
    }
    for (int i = 0; i < 10; ++i) Turn();  // red's processes are in the middle of their requests
    wire::CommDestroy destroy{};
    destroy.comm_handle = formed->comm_handle;
    const uint64_t request = blue.Send(destroy);
    int turns = 0;
    for (; turns < 1000 && !blue.Take<wire::Done>(request).has_value(); ++turns) Turn();
    return turns;
  }
  // One turn takes the message, a few end the rank.
  static constexpr int kFewTurns = 4;
};

TEST_F(RankEndTurnTest, EndsOfUnknownRanksDoNotDelayOtherTenants) {
  wire::CommDestroy unknown{};
  unknown.comm_handle = 12345;
  EXPECT_LE(TurnsOfBluesDestroy(unknown), kFewTurns);
}

TEST_F(RankEndTurnTest, ATenantsAbortsDoNotDelayTheEndOfAnothersRank) {
  wire::CommAbort abort{};
  abort.init_request = 1;  // that of Hello, which joined nothing
  EXPECT_LE(TurnsOfBluesDestroy(abort), kFewTurns);
}

// Finding the rank of an init request costs as much in a process with many ranks.
TEST_F(RankEndTurnTest, AbortsOfUnknownInitsCostNoMoreWithManyRanks) {
  constexpr int kRanks = 1000;
  constexpr uint64_t kAborts = 16;
  RawTenant& red = AddProcesses(kRed, 1).front();
  for (int i = 0; i < kRanks; ++i) {
    const auto id = red.GetUniqueId();
    ASSERT_TRUE(id.has_value());
    red.Send(MakeCommInit(*id, 2, 0));
  }
  ASSERT_TRUE(red.GetUniqueId().has_value()) << "all have been handled";
  wire::CommAbort abort{};
  abort.init_request = 1;  // that of Hello, which joined nothing
  uint64_t last = 0;
  for (uint64_t i = 0; i < kAborts; ++i) last = red.Send(abort);
  Turn();
  EXPECT_TRUE(red.Take<wire::Done>(last).has_value()) << "one turn takes 16 messages";
}

// ---- Acceptance ---------------------------------------------------------------------------------

// Processes that connect as fast as they are accepted, until one is rejected.
class FloodedDoor final : public TenantListener {
 public:
  // `alive`: when they are accepted.
  FloodedDoor(const SimPipe& answered, bool alive) : answered_(answered), alive_(alive) {}

  absl::StatusOr<std::unique_ptr<TenantChannel>> Accept() override {
    if (!answered_.to_tenant.empty() || accepted_ == kFlood) return nullptr;
    ++accepted_;
    if (!alive_) return absl::NotFoundError("the process has ended");
    processes_.Connect(kRed);
    return processes_.Accept();
  }
  static constexpr size_t kFlood = 20'000;
  size_t accepted() const { return accepted_; }

 private:
  const SimPipe& answered_;
  const bool alive_;
  SimTenantListener processes_;
  size_t accepted_ = 0;
};

class FloodTest : public FrontendTest, public testing::WithParamInterface<bool> {};

TEST_P(FloodTest, ManyProcessesDoNotDelayOtherSessions) {
  RawTenant blue(world_, 0, kBlue);
  auto tenant_listener = std::make_unique<FloodedDoor>(blue.pipe(), GetParam());
  const FloodedDoor& flood = *tenant_listener;
  world_.host(0).daemon().AddListener(std::move(tenant_listener));
  EXPECT_TRUE(blue.Greet());
  EXPECT_GT(flood.accepted(), 0u);
  EXPECT_LT(flood.accepted(), FloodedDoor::kFlood) << "one turn is bounded";
}

INSTANTIATE_TEST_SUITE_P(AliveOrNot, FloodTest, testing::Bool());

}  // namespace frontend_test
}  // namespace mccs
