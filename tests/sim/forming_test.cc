// Communicators that form with difficulty: ranks join by an NCCL_COMM_ID that hosts resolve to
// different addresses, or depart while the roster or the strategy is on its way. Many hosts, which
// forward both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "proto/strategy.pb.h"
#include "service/communicator/membership/strategy_spread.h"
#include "service/communicator/membership/tree_relay.h"
#include "tests/sim/scenario.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace forming_test {

using testing::HasSubstr;

// Without rank `departed`.
bool AllAnswered(const std::vector<SimRank*>& ranks, int departed = -1) {
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (static_cast<int>(r) != departed && !ranks[r]->answered) return false;
  }
  return true;
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
  SimWorld world_{{.seed = 3}};
};

TEST_F(SimEnvironmentId, RanksOfOneHostMeetByDifferentAddresses) {
  SimRank& a = Init(0, MakeEnvironmentId("10.0.0.1"), 3, 0);
  SimRank& b = Init(0, MakeEnvironmentId("10.0.7.1"), 3, 1);
  SimRank& c = Init(1, MakeEnvironmentId("10.0.0.1"), 3, 2);
  EXPECT_TRUE(Formed(a) && Formed(b) && Formed(c))
      << a.status.text << b.status.text << c.status.text;
  EXPECT_EQ(world_.host(0).daemon().communicators(), 1u);
}

// Debian's /etc/hosts maps the machine's own name to 127.0.1.1.
TEST_F(SimEnvironmentId, OtherHostsReachAHostThatResolvesItselfToLoopback) {
  SimRank& a = Init(0, MakeEnvironmentId("127.0.1.1"), 2, 0);
  SimRank& b = Init(1, MakeEnvironmentId("10.0.0.1"), 2, 1);
  EXPECT_TRUE(Formed(a) && Formed(b)) << a.status.text << b.status.text;
}

TEST_F(SimEnvironmentId, RejectsAddressOfAnotherHostForRankZero) {
  SimRank& a = Init(0, MakeEnvironmentId("10.0.0.2"), 2, 0);
  EXPECT_FALSE(Formed(a));
  EXPECT_THAT(a.status.text, HasSubstr("NCCL_COMM_ID must be an address of rank 0's host"));
}

TEST_F(SimEnvironmentId, RejectsUnresolvedName) {
  SimRank& a = Init(0, MakeEnvironmentId("node-7"), 2, 0);
  EXPECT_FALSE(Formed(a));
  EXPECT_THAT(a.status.text, HasSubstr("'node-7'"));
}

// A rank departs while the roster is on its way: its daemon no longer forms the communicator, and
// the rendezvous no longer listens. The other hosts must still learn it at once.
constexpr uint64_t kSeeds = 30;
constexpr int kRanks = 3;
// Far below the timeout of a leader whose members do not connect.
constexpr int64_t kPromptNs = kNsPerSec;

using Departure = std::function<void(SimTenant&, SimRank&)>;

void Abort(SimTenant& tenant, SimRank& rank) { tenant.Abort(rank); }
void Kill(SimTenant& tenant, SimRank&) { tenant.Kill(); }

class SimDepartureDuringRoster : public testing::Test {
 protected:
  // One rank per host; the rendezvous is on host 0, by `id` or an id that its daemon creates.
  void Join(uint64_t seed, const wire::UniqueId* id = nullptr) {
    world_.emplace(SimWorldOptions{.seed = seed, .hosts = kRanks});
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
    ASSERT_TRUE(world_->RunUntil([&] { return AllAnswered(ranks_, departed); }, kPromptNs));
    for (int r = 0; r < kRanks; ++r) {
      if (r == departed) continue;
      EXPECT_EQ(ranks_[r]->status.error, wire::ErrorClass::kRemote) << ranks_[r]->status.text;
    }
    EXPECT_TRUE(world_->RunUntil([&] { return world_->communicators() == 0; }, kPromptNs));
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
      EXPECT_THAT(ranks_[0]->status.text, HasSubstr(departed == 1 ? "rank 1" : "rank 2"));
    }
  }
}

TEST_F(SimDepartureDuringRoster, DepartedLeaderFailsTheOthers) {
  for (auto [seed, random] : Seeds(kSeeds)) {
    Join(seed);
    tenants_[0]->Abort(*ranks_[0]);
    ExpectOthersFailPromptly(0);
  }
}

// With such an id, the communicator's id is in the roster, which the leader never used.
TEST_F(SimDepartureDuringRoster, DepartedLeaderWithEnvironmentIdFailsTheOthers) {
  const wire::UniqueId id = MakeEnvironmentId("10.0.0.1", /*resolved=*/false);
  for (auto [seed, random] : Seeds(kSeeds)) {
    Join(seed, &id);
    tenants_[0]->Abort(*ranks_[0]);
    ExpectOthersFailPromptly(0);
  }
}

// ---- Forwarded rosters and strategies -----------------------------------------------------------

class SimManyHosts : public testing::Test {
 protected:
  static constexpr int kHosts = 80;

  // One rank per host, in the roster's order; host 0 has the rendezvous and leads. With a
  // controller, the leader waits for its proposal once all hosts have linked.
  void Join(uint64_t seed, bool controller = false) {
    world_.emplace(SimWorldOptions{.seed = seed, .hosts = kHosts});
    tenants_.clear();
    ranks_.clear();
    world_->host(0).controller().awaits_proposal = controller;
    for (int h = 0; h < kHosts; ++h) tenants_.push_back(&world_->AddTenant(h));
    ASSERT_TRUE(world_->GetUniqueId(*tenants_[0]));
    for (int h = 0; h < kHosts; ++h)
      ranks_.push_back(
          &tenants_[static_cast<size_t>(h)]->Init(tenants_[0]->unique_id(), kHosts, h));
  }
  void JoinUntilLinked(uint64_t seed) {
    Join(seed, /*controller=*/true);
    ASSERT_TRUE(
        world_->RunUntil([&] { return world_->host(0).controller().announced.size() == 1; }));
  }
  void ExpectFormed(int64_t limit_ns) {
    EXPECT_TRUE(world_->RunUntil([&] { return AllAnswered(ranks_); }, limit_ns));
    for (const SimRank* rank : ranks_)
      EXPECT_EQ(rank->status.error, wire::ErrorClass::kNone) << rank->status.text;
  }
  // Only these hosts have logged the text.
  void ExpectLogged(const std::string& text, const std::set<int>& hosts) {
    for (int h = 0; h < kHosts; ++h)
      EXPECT_EQ(world_->host(h).log().Contains(text), hosts.contains(h)) << "host " << h;
  }

  std::optional<SimWorld> world_;
  std::vector<SimTenant*> tenants_;
  std::vector<SimRank*> ranks_;
};

TEST_F(SimManyHosts, FormAtOnce) {
  Join(1);
  ExpectFormed(kRelayTimeoutNs / 10);
  ExpectLogged("requests the roster", {});
  ExpectLogged("requests the strategy", {});
}

// Each byte that a host sends for each other host would make this quadratic.
TEST_F(SimManyHosts, LeaderSendsBytesInProportionToTheHosts) {
  const auto bytes_of = [&](int hosts) {
    SimWorld world({.seed = 1, .hosts = hosts, .channels = 8});
    std::vector<SimTenant*> tenants;
    for (int h = 0; h < hosts; ++h) tenants.push_back(&world.AddTenant(h));
    EXPECT_TRUE(world.GetUniqueId(*tenants[0]));
    std::vector<SimRank*> ranks;
    for (int h = 0; h < hosts; ++h)
      ranks.push_back(&tenants[static_cast<size_t>(h)]->Init(tenants[0]->unique_id(), hosts, h));
    EXPECT_TRUE(world.RunUntil([&] { return AllAnswered(ranks); }));
    return static_cast<double>(world.network().bytes_written(world.host(0).address()));
  };
  EXPECT_LE(bytes_of(128), 4.4 * bytes_of(32));
}

// Host 13 forwards the roster to hosts 68 to 71, host 12 to those before.
TEST_F(SimManyHosts, ForwarderThatIsOutOfReachDelaysItsHostsOnly) {
  Join(2);
  for (const auto& [from, to] : {std::pair(13, 68), std::pair(12, 65)})
    world_->network().Partition(SimAddress(from), SimAddress(to));
  ExpectFormed(2 * kRelayTimeoutNs + kNsPerSec);
  ExpectLogged("requests the roster", {65, 68});
  // The receivers of the strategy are the hosts without the leader: one forwarder is another host.
  ExpectLogged("requests the strategy", {68});
}

TEST_F(SimManyHosts, DepartureDuringTheRosterFailsTheOthersPromptly) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Join(seed);
    ASSERT_TRUE(world_->RunUntil(
        [&] { return world_->host(0).log().Contains("all 80 ranks have joined"); }));
    const int departed = 1 + static_cast<int>(seed * 31 % (kHosts - 1));
    tenants_[static_cast<size_t>(departed)]->Kill();
    EXPECT_TRUE(world_->RunUntil([&] { return AllAnswered(ranks_, departed); },
                                 kPromptNs + kRelayTimeoutNs));
    EXPECT_TRUE(world_->RunUntil([&] { return world_->communicators() == 0; }));
  }
}

// Host 6 forwards the strategy to hosts 37 to 40.
constexpr int kForwarder = 6;
constexpr int kForwardedTo = 40;

TEST_F(SimManyHosts, SlowForwarderOfTheStrategyDelaysItsHostsOnly) {
  JoinUntilLinked(3);
  world_->network().Partition(SimAddress(kForwarder), SimAddress(kForwardedTo));
  EXPECT_FALSE(world_->RunUntil([&] { return AllAnswered(ranks_); }, kRelayTimeoutNs));
  ExpectFormed(kNsPerSec);
  ExpectLogged("requests the strategy from the leader: no host has forwarded it", {kForwardedTo});
}

// The forger knows the secret of the unique id, as every rank does, but not the daemons' key.
TEST_F(SimManyHosts, StrategyForgedWithTheRanksSecretReachesNobody) {
  JoinUntilLinked(4);
  const wire::UniqueId& id = tenants_[0]->unique_id();
  SeededRandom random(4);
  const PeerAccess access{.network = &world_->network().HostNetwork("10.0.9.9"),
                          .random = &random,
                          .clock = &world_->clock()};
  RecordingLog log;
  TreeRelay forger(access, log);
  Strategy forged = MakeRingStrategy(Epoch(1), {});
  for (int h = 0; h < kHosts; ++h) forged.channels[0].ring.push_back(HostIndex(h));
  forged.origin = "forged";
  strategy::Strategy serialised;
  ToProto(forged, &serialised);
  forger.Forward("red", StrategySubject(CommId(id.comm_id), wire::SecretOf(id)),
                 serialised.SerializeAsString(), {{SimAddress(kForwardedTo), kSimPort}});
  EXPECT_TRUE(world_->RunUntil(
      [&] {
        forger.Poll();
        return AllAnswered(ranks_);
      },
      kRelayTimeoutNs / 2));
  ExpectFormed(0);
  ExpectLogged("a host forwarded another strategy", {});
  ExpectLogged("forged", {});
}

TEST_F(SimManyHosts, DeathOfAForwarderOfTheStrategyFailsTheOthersPromptly) {
  for (auto [seed, random] : Seeds(5)) {
    JoinUntilLinked(seed);
    // The leader waits 200 ms for the controller; the strategy takes about a millisecond.
    world_->RunFor(199 * kNsPerMs + static_cast<int64_t>(random() % (2 * kNsPerMs)));
    world_->Kill(kForwarder);
    // A rank may have been initialised just before.
    const auto failed = [](const SimRank* rank) {
      return rank->answered && (rank->status.error != wire::ErrorClass::kNone || rank->failed());
    };
    EXPECT_TRUE(world_->RunUntil(
        [&] {
          return std::ranges::all_of(ranks_, [&](const SimRank* rank) {
            return rank == ranks_[kForwarder] || failed(rank);
          });
        },
        kPromptNs));
  }
}

}  // namespace forming_test
}  // namespace mccs
