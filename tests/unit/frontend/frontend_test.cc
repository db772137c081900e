// Limits on the acceptance of processes.
#include "service/frontend/frontend.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace frontend_test {

const TenantIdentity kRed{"red", 400};
const TenantIdentity kBlue{"blue", 500};

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

TEST_F(FrontendTest, OneTenantCannotUseAllSessions) {
  Connect(kRed, kMaxSessions);
  EXPECT_TRUE(RunUntilSessions(kMaxSessionsPerTenant));
  RawTenant blue(world_, 0, kBlue);
  EXPECT_TRUE(blue.Greet());
  EXPECT_EQ(sessions(), kMaxSessionsPerTenant + 1);
  EXPECT_TRUE(world_.host(0).log().Contains("tenant red"));
}

TEST_F(FrontendTest, AnEndedSessionFreesItsPlace) {
  Connect(kRed, kMaxSessionsPerTenant);
  ASSERT_TRUE(RunUntilSessions(kMaxSessionsPerTenant));
  for (int i = 0; i < 3; ++i) processes_[static_cast<size_t>(i)]->dead = true;
  ASSERT_TRUE(RunUntilSessions(kMaxSessionsPerTenant - 3));
  Connect(kRed, 5);
  EXPECT_TRUE(RunUntilSessions(kMaxSessionsPerTenant));
}

TEST_F(FrontendTest, LogsARejectedTenantOncePerMinute) {
  Connect(kRed, kMaxSessionsPerTenant + 1);
  ASSERT_TRUE(RunUntilSessions(kMaxSessionsPerTenant));
  for (size_t round = 0; round < 10; ++round) {
    processes_[round]->dead = true;
    ASSERT_TRUE(RunUntilSessions(kMaxSessionsPerTenant - 1));
    Connect(kRed, 2);
    ASSERT_TRUE(RunUntilSessions(kMaxSessionsPerTenant));
  }
  EXPECT_EQ(world_.host(0).log().Count("rejected a process of tenant red"), 1u);
}

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
