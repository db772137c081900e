// A rank departs while the roster is on its way: its daemon no longer forms the communicator, and
// the rendezvous no longer listens. The other hosts must still learn it at once.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace departure_during_roster_test {

using testing::HasSubstr;

constexpr uint64_t kSeeds = 30;
constexpr int kRanks = 3;
// Far below the timeout of a leader whose members do not connect.
constexpr int64_t kPromptNs = kNsPerSec;

using Departure = std::function<void(SimTenant&, SimRank&)>;

void Abort(SimTenant& tenant, SimRank& rank) { tenant.Abort(rank); }
void Kill(SimTenant& tenant, SimRank&) { tenant.Kill(); }

class SimDepartureDuringRoster : public testing::Test {
 protected:
  // One rank per host; they meet on host 0 by `id`, or by an id that its daemon creates.
  void Join(uint64_t seed, const wire::UniqueId* id = nullptr) {
    world_.emplace(SimWorldOptions{.seed = seed, .hosts = kRanks, .network = {}});
    tenants_.clear();
    ranks_.clear();
    for (int r = 0; r < kRanks; ++r) tenants_.push_back(&world_->AddTenant(r));
    tenants_[0]->RequestUniqueId();
    ASSERT_TRUE(world_->RunUntil([&] { return tenants_[0]->has_unique_id(); }));
    const wire::UniqueId common = id != nullptr ? *id : tenants_[0]->unique_id();
    for (int r = 0; r < kRanks; ++r) ranks_.push_back(&tenants_[r]->Init(common, kRanks, r));
    ASSERT_TRUE(world_->RunUntil(
        [&] { return world_->host(0).log().Contains("all 3 ranks have joined"); }));
  }

  void ExpectOthersFailPromptly(int departed) {
    ASSERT_TRUE(world_->RunUntil([&] { return AllButOneAnswered(departed); }, kPromptNs));
    for (int r = 0; r < kRanks; ++r) {
      if (r == departed) continue;
      EXPECT_EQ(ranks_[r]->status.error, wire::ErrorClass::kRemote) << ranks_[r]->status.text;
    }
    EXPECT_TRUE(world_->RunUntil([&] { return Communicators() == 0; }, kPromptNs));
  }

  bool AllButOneAnswered(int departed) const {
    for (int r = 0; r < kRanks; ++r) {
      if (r != departed && !ranks_[r]->answered) return false;
    }
    return true;
  }
  size_t Communicators() {
    size_t sum = 0;
    for (int h = 0; h < kRanks; ++h) sum += world_->host(h).daemon().communicators();
    return sum;
  }

  std::optional<SimWorld> world_;
  std::vector<SimTenant*> tenants_;
  std::vector<SimRank*> ranks_;
};

TEST_F(SimDepartureDuringRoster, LeaderErrorNamesDepartedMember) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    for (const Departure& depart : {Departure(Abort), Departure(Kill)}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed);
      Join(seed);
      const int departed = 1 + static_cast<int>(seed % 2);
      depart(*tenants_[departed], *ranks_[departed]);
      ExpectOthersFailPromptly(departed);
      EXPECT_THAT(std::string(ranks_[0]->status.text),
                  HasSubstr(departed == 1 ? "rank 1" : "rank 2"));
    }
  }
}

TEST_F(SimDepartureDuringRoster, DepartedLeaderFailsTheOthers) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Join(seed);
    tenants_[0]->Abort(*ranks_[0]);
    ExpectOthersFailPromptly(0);
  }
}

// With such an id, the communicator's id is in the roster, which the leader never used.
TEST_F(SimDepartureDuringRoster, DepartedLeaderWithEnvironmentIdFailsTheOthers) {
  wire::UniqueId id{};
  id.magic = wire::kUniqueIdMagic;
  id.version = wire::kWireVersion;
  id.port = 5000;
  id.guessable = 1;
  id.comm_id = 0xc0ffee;
  std::strcpy(id.host, "10.0.0.1");
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Join(seed, &id);
    tenants_[0]->Abort(*ranks_[0]);
    ExpectOthersFailPromptly(0);
  }
}

}  // namespace departure_during_roster_test
}  // namespace mccs
