// Rendezvous, over connections controlled by the test.
#include "service/communicator/membership/rendezvous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/random.h"
#include "service/communicator/membership/joining.h"
#include "service/communicator/membership/tree_relay.h"
#include "tests/sim/sim_network.h"
#include "tests/unit/communicator/fake_connection.h"

namespace mccs {
namespace rendezvous_test {

using testing::HasSubstr;

peer::Roster RosterIn(const peer::Message& message) {
  peer::Roster roster;
  EXPECT_TRUE(message.has_roster() && roster.ParseFromString(message.roster()));
  return roster;
}

class RendezvousTest : public testing::Test {
 protected:
  wire::UniqueId Make(const std::string& tenant = "blue") {
    return rendezvous_.MakeId({"10.0.0.1", 7400}, tenant).value();
  }
  // `proven`: whose daemon it is by its certificate.
  std::shared_ptr<FakeWire> Connect(const wire::UniqueId& id, const std::string& proven = "") {
    auto wire = std::make_shared<FakeWire>();
    opened_.push_back(wire);
    rendezvous_.Accept(CommId(id.comm_id), std::make_unique<FakeConnection>(wire), proven);
    return wire;
  }
  static peer::Message Join(int ranks, int rank, const std::string& host,
                            const std::string& tenant = "blue") {
    peer::Message message;
    peer::Join* join = message.mutable_join();
    join->set_ranks(ranks);
    join->mutable_rank()->set_rank(rank);
    join->mutable_gpu()->set_uuid("gpu" + std::to_string(rank));
    join->set_tenant(tenant);
    join->set_host(host);
    return message;
  }
  void Run(int64_t ns = 0) {
    clock_.Set(clock_.Now() + ns);
    for (const std::weak_ptr<FakeWire>& each : opened_) {
      const std::shared_ptr<FakeWire> wire = each.lock();
      if (wire != nullptr && wire->waker != nullptr) wire->waker->Wake();
    }
    for (int i = 0; i < 100 && rendezvous_.Poll(); ++i) {
    }
  }
  static std::string RejectionTo(const std::shared_ptr<FakeWire>& wire) {
    for (const peer::Message& message : wire->Written()) {
      if (message.has_rejected()) return message.rejected().message();
    }
    return "";
  }

  std::vector<std::weak_ptr<FakeWire>> opened_;
  SeededRandom random_{1};
  SimClock clock_;
  std::unique_ptr<Log> log_ = MakeNullLog();
  Rendezvous rendezvous_{random_, clock_, *log_};
};

TEST_F(RendezvousTest, SendsRosterWhenAllHaveJoined) {
  const auto id = Make();
  auto a = Connect(id), b = Connect(id);
  a->Deliver(Join(3, 0, "h0"));
  b->Deliver(Join(3, 2, "h1"));
  Run();
  a->Deliver(Join(3, 1, "h0"));
  Run();
  for (const auto& wire : {a, b}) {
    const auto received = wire->Written();
    ASSERT_FALSE(received.empty());
    ASSERT_TRUE(received.back().has_roster());
    const peer::Roster roster = RosterIn(received.back());
    EXPECT_EQ(roster.comm_id(), id.comm_id);
    EXPECT_EQ(roster.hosts_size(), 2);
  }
  EXPECT_EQ(rendezvous_.pending_rendezvous(), 0u);
  EXPECT_FALSE(rendezvous_.SecretOf(CommId(id.comm_id)).has_value());
}

TEST_F(RendezvousTest, AHostCannotJoinAsAnotherOne) {
  const auto id = Make();
  auto liar = Connect(id, "h1");
  liar->Deliver(Join(2, 0, "h0"));
  Run();
  EXPECT_THAT(RejectionTo(liar), testing::AllOf(HasSubstr("certificate of host h1"),
                                                HasSubstr("as host h0"), HasSubstr("`tls`")));
  // The others are not affected.
  auto a = Connect(id, "h0"), b = Connect(id, "h1");
  a->Deliver(Join(2, 0, "h0"));
  b->Deliver(Join(2, 1, "h1"));
  Run();
  ASSERT_FALSE(a->Written().empty());
  EXPECT_TRUE(a->Written().back().has_roster());
}

TEST_F(RendezvousTest, EachRosterHasAKeyOfItsOwn) {
  std::set<std::string> keys;
  for (int i = 0; i < 3; ++i) {
    auto wire = Connect(Make());
    wire->Deliver(Join(1, 0, "h0"));
    Run();
    ASSERT_FALSE(wire->Written().empty());
    const std::string key = RosterIn(wire->Written().back()).key();
    EXPECT_EQ(key.size(), sizeof(Secret));
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), 3u);
}

// Its ranks join without the network, and beside those of other hosts.
class RendezvousOfTheOwnHost : public RendezvousTest {
 protected:
  std::unique_ptr<PeerLink> ConnectOwn(const wire::UniqueId& id, const Secret& secret) {
    auto connection = rendezvous_.ConnectOwn(CommId(id.comm_id), secret, {"10.0.0.1", 7400});
    return connection == nullptr ? nullptr : std::make_unique<PeerLink>(std::move(connection));
  }
};

TEST_F(RendezvousOfTheOwnHost, JoinsInMemory) {
  const auto id = Make();
  const auto own = ConnectOwn(id, SecretOf(id));
  ASSERT_NE(own, nullptr);
  own->Send(Join(2, 0, "h0"));
  auto other = Connect(id, "h1");
  other->Deliver(Join(2, 1, "h1"));
  Run();
  const auto received = own->Receive();
  ASSERT_TRUE(received.ok() && received->has_value()) << received.status();
  EXPECT_EQ(RosterIn(**received).hosts_size(), 2);
  EXPECT_EQ(ConnectOwn(id, SecretOf(id)), nullptr) << "it is over";
}

TEST_F(RendezvousOfTheOwnHost, NeedsTheSecret) {
  const auto id = Make();
  Secret secret = SecretOf(id);
  secret.back() ^= 1;
  EXPECT_EQ(ConnectOwn(id, secret), nullptr);
}

TEST_F(RendezvousOfTheOwnHost, NeedsNoDescriptor) {
  HostLimits limits;
  limits[Resource::kDescriptors] = 0;
  HostBudget budget(limits);
  const auto id = rendezvous_
                      .MakeId({"10.0.0.1", 7400}, "blue",
                              budget.Of("blue", "", std::make_shared<TenantCounters>()))
                      .value();
  const auto own = ConnectOwn(id, SecretOf(id));
  own->Send(Join(1, 0, "h0"));
  Run();
  const auto received = own->Receive();
  ASSERT_TRUE(received.ok() && received->has_value()) << received.status();
  EXPECT_TRUE((*received)->has_roster());
}

class RendezvousOfManyHosts : public RendezvousTest {
 protected:
  static constexpr int kHosts = kDirectReceivers + 2 * kMaxRostersAtOnce;

  void SetUp() override {
    id_ = Make();
    for (int h = 0; h < kHosts; ++h) {
      wires_.push_back(Connect(id_));
      wires_.back()->Deliver(Join(kHosts, h, "h" + std::to_string(1000 + h)));
    }
    Run();
  }
  static peer::Message Request() {
    peer::Message message;
    message.mutable_roster_request();
    return message;
  }
  bool HasRoster(int host) {
    const auto received = wires_[static_cast<size_t>(host)]->Written();
    return !received.empty() && received.back().has_roster();
  }

  wire::UniqueId id_{};
  std::vector<std::shared_ptr<FakeWire>> wires_;  // in the roster's order
};

TEST_F(RendezvousOfManyHosts, SendsTheRosterToTheFirstAndItsHashToTheOthers) {
  ASSERT_TRUE(HasRoster(0));
  const std::string roster = wires_[0]->Written().back().roster();
  const std::string hash = RelayHash(wire::SecretOf(id_), roster);
  for (int h = 0; h < kHosts; ++h) {
    const peer::Message last = wires_[static_cast<size_t>(h)]->Written().back();
    if (h < kDirectReceivers) {
      EXPECT_EQ(last.roster(), roster);
    } else {
      EXPECT_EQ(last.roster_notice().hash(), hash);
    }
  }
}

TEST_F(RendezvousOfManyHosts, SendsTheRosterOnceOnRequest) {
  wires_[kHosts - 1]->Deliver(Request());
  Run();
  EXPECT_TRUE(HasRoster(kHosts - 1));
  const size_t messages = wires_[kHosts - 1]->Written().size();
  wires_[kHosts - 1]->Deliver(Request());
  wires_[0]->Deliver(Request());
  Run();
  EXPECT_EQ(wires_[kHosts - 1]->Written().size(), messages) << "it has the roster";
}

TEST_F(RendezvousOfManyHosts, SendsFewRequestedRostersAtOnce) {
  for (int h = kDirectReceivers; h < kHosts; ++h) {
    wires_[static_cast<size_t>(h)]->room = 1;
    wires_[static_cast<size_t>(h)]->Deliver(Request());
  }
  Run();
  int begun = 0;
  for (int h = kDirectReceivers; h < kHosts; ++h)
    begun += wires_[static_cast<size_t>(h)]->room == 0 ? 1 : 0;
  EXPECT_EQ(begun, kMaxRostersAtOnce);
  for (int h = kDirectReceivers; h < kHosts; ++h) wires_[static_cast<size_t>(h)]->room = 1 << 30;
  Run();
  for (int h = kDirectReceivers; h < kHosts; ++h) EXPECT_TRUE(HasRoster(h)) << "host " << h;
}

TEST_F(RendezvousOfManyHosts, ForgetsTheRosterAfterATime) {
  Run(kRendezvousCloseTimeoutNs);
  wires_[kHosts - 1]->Deliver(Request());
  Run();
  EXPECT_FALSE(HasRoster(kHosts - 1));
}

TEST_F(RendezvousTest, InvalidRankEndsTheRendezvous) {
  struct Case {
    peer::Message join;
    std::string text;
  };
  const Case cases[] = {{Join(3, 0, "h1"), "two processes claim rank 0"},
                        {Join(4, 1, "h1"), "other ranks with 3"},
                        {Join(3, 3, "h1"), "out of range"},
                        {Join(3, -1, "h1"), "out of range"},
                        {Join(3, 1, "h1", "red"), "belongs to tenant red"},
                        {Join(3, 1, std::string(5000, 'x')), "too much data"}};
  for (const Case& c : cases) {
    const auto id = Make();
    auto a = Connect(id), b = Connect(id);
    a->Deliver(Join(3, 0, "h0"));
    Run();
    b->Deliver(c.join);
    Run();
    EXPECT_THAT(RejectionTo(a), HasSubstr(c.text));
    EXPECT_THAT(RejectionTo(b), HasSubstr(c.text));
  }
  EXPECT_EQ(rendezvous_.pending_rendezvous(), 0u);
}

// Any tenant can guess an id that was derived from NCCL_COMM_ID, and may join before the others.
TEST_F(RendezvousTest, RejectsOnlyOtherTenantFromGuessableRendezvous) {
  wire::UniqueId id{};
  id.guessable = 1;
  id.comm_id = 0xc0ffee;
  ASSERT_TRUE(rendezvous_.Register(id, "blue").ok());
  auto liar = Connect(id), a = Connect(id), b = Connect(id);
  liar->Deliver(Join(4, 1, "h9", "red"));
  Run();
  a->Deliver(Join(2, 0, "h0"));
  b->Deliver(Join(2, 1, "h1"));
  Run();
  EXPECT_THAT(RejectionTo(liar), HasSubstr("a job of tenant blue"));
  for (const auto& wire : {a, b}) {
    const auto received = wire->Written();
    ASSERT_FALSE(received.empty());
    EXPECT_TRUE(received.back().has_roster()) << received.back().ShortDebugString();
  }
  // Likewise after ranks have joined.
  ASSERT_TRUE(rendezvous_.Register(id, "blue").ok());
  a = Connect(id), b = Connect(id), liar = Connect(id);
  a->Deliver(Join(2, 0, "h0"));
  Run();
  liar->Deliver(Join(2, 1, "h9", "red"));
  Run();
  EXPECT_THAT(RejectionTo(a), "");
  b->Deliver(Join(2, 1, "h1"));
  Run();
  EXPECT_TRUE(b->Written().back().has_roster());
}

TEST_F(RendezvousTest, RejectsSharedGpuUnlessBothAllowIt) {
  for (const bool allowed : {false, true}) {
    const auto id = Make();
    auto a = Connect(id);
    for (int rank = 0; rank < 2; ++rank) {
      peer::Message join = Join(3, rank, "h0");
      join.mutable_join()->mutable_gpu()->set_uuid("same");
      join.mutable_join()->mutable_gpu()->set_shared(allowed);
      a->Deliver(join);
    }
    Run();
    EXPECT_EQ(RejectionTo(a).empty(), allowed) << RejectionTo(a);
  }
}

TEST_F(RendezvousTest, RejectsTooManyRanksOnOneHost) {
  const auto id = Make();
  auto a = Connect(id);
  for (int rank = 0; rank < 130; ++rank) a->Deliver(Join(200, rank, "h0"));
  Run();
  EXPECT_THAT(RejectionTo(a), HasSubstr("exceeds the limit"));
}

TEST_F(RendezvousTest, NamesHostThatDisconnects) {
  const auto id = Make();
  auto a = Connect(id), b = Connect(id);
  a->Deliver(Join(3, 0, "h0"));
  b->Deliver(Join(3, 1, "h1"));
  Run();
  b->read_broken = true;
  Run();
  EXPECT_THAT(RejectionTo(a), HasSubstr("host h1 (rank 1) disconnected"));
}

TEST_F(RendezvousTest, ForwardsReasonOfWithdrawal) {
  const auto id = Make();
  auto a = Connect(id), b = Connect(id);
  a->Deliver(Join(3, 0, "h0"));
  b->Deliver(Join(3, 1, "h1"));
  b->Deliver(FailedMessage(absl::DeadlineExceededError("init timed out: rank 2\nhas not joined")));
  b->read_broken = true;  // and it disconnects
  Run();
  EXPECT_EQ(RejectionTo(a), "init timed out: rank 2 has not joined");
  ASSERT_TRUE(a->Written().back().has_rejected());
  EXPECT_EQ(a->Written().back().rejected().error_code(),
            static_cast<uint32_t>(absl::StatusCode::kDeadlineExceeded));
  EXPECT_FALSE(RejectionTo(b).empty()) << "it waits for an answer";
  EXPECT_EQ(rendezvous_.pending_rendezvous(), 0u);
}

TEST_F(RendezvousTest, HostWithoutRanksCannotEndRendezvous) {
  const auto id = Make();
  auto a = Connect(id), b = Connect(id);
  a->Deliver(Join(2, 0, "h0"));
  b->Deliver(FailedMessage(absl::CancelledError("not for me")));
  Run();
  a->Deliver(Join(2, 1, "h0"));
  Run();
  EXPECT_TRUE(a->Written().back().has_roster());
}

TEST_F(RendezvousTest, RejectsIllegalMessages) {
  peer::Message go;
  go.mutable_go();
  for (const peer::Message& lie : {peer::Message(), go}) {
    const auto id = Make();
    auto a = Connect(id), b = Connect(id);
    a->Deliver(Join(2, 0, "h0"));
    b->Deliver(lie);
    Run();
    EXPECT_EQ(RejectionTo(a), "") << "it had registered no rank";
    EXPECT_EQ(rendezvous_.pending_rendezvous(), 1u);
    a->Deliver(lie);
    Run();
    EXPECT_THAT(RejectionTo(a), HasSubstr("message rejected: host h0 sent"));
    EXPECT_EQ(rendezvous_.pending_rendezvous(), 0u);
  }
}

// A link buffers a message until it is complete, and there may be thousands of links.
TEST_F(RendezvousTest, RejectsTooLongMessages) {
  const auto id = Make();
  auto wire = Connect(id);
  wire->Deliver(Join(2, 0, std::string(kMaxJoinMessageBytes, 'x')));
  wire->to_read.resize(4);  // its length prefix only
  Run();
  auto other = Connect(id);
  other->Deliver(Join(1, 0, "h0"));
  Run();
  EXPECT_TRUE(wire->Written().empty());
  EXPECT_TRUE(other->Written().back().has_roster());
}

TEST_F(RendezvousTest, ToleratesDisconnectWithoutRanks) {
  const auto id = Make();
  auto a = Connect(id), b = Connect(id);
  a->Deliver(Join(2, 0, "h0"));
  b->read_broken = true;
  Run();
  EXPECT_EQ(RejectionTo(a), "");
  a->Deliver(Join(2, 1, "h0"));
  Run();
  EXPECT_TRUE(a->Written().back().has_roster());
}

TEST_F(RendezvousTest, TruncatesMissingRanks) {
  const auto id = Make();
  auto a = Connect(id);
  a->Deliver(Join(1 << 20, 1, "h0"));
  Run();
  Run(kNsPerSec);
  const auto received = a->Written();
  ASSERT_EQ(received.size(), 1u) << "sent once, because nothing changed";
  EXPECT_EQ(received[0].waiting().missing_ranks(0), 0);
  EXPECT_EQ(received[0].waiting().missing_ranks(1), 2);
  EXPECT_EQ(received[0].waiting().more() +
                static_cast<uint32_t>(received[0].waiting().missing_ranks_size()),
            (1u << 20) - 1);
  EXPECT_LT(a->written.size(), 200u);
}

// ---- Turns --------------------------------------------------------------------------------------

// A program may act as all daemons of a large communicator.
TEST_F(RendezvousTest, ATurnReadsALimitedNumberOfRanks) {
  constexpr int kHosts = 64;
  constexpr int kRanksPerHost = 32;
  const auto id = Make();
  std::vector<std::shared_ptr<FakeWire>> wires;
  for (int h = 0; h < kHosts; ++h) {
    wires.push_back(Connect(id));
    for (int r = 0; r < kRanksPerHost; ++r)
      wires.back()->Deliver(Join(kHosts * kRanksPerHost + 1, h * kRanksPerHost + r, "h"));
    wires.back()->waker->Wake();
  }
  const auto unread = [&] {
    size_t ranks = 0;
    for (const auto& wire : wires) ranks += wire->to_read.size();
    return ranks;
  };
  int turns = 0;
  for (; unread() > 0 && turns < 10'000; ++turns) {
    EXPECT_TRUE(rendezvous_.Poll()) << "a turn that leaves work must be followed by another one";
  }
  // One read takes several messages.
  EXPECT_GE(turns, kHosts * kRanksPerHost * Rendezvous::kLinkCost / Rendezvous::kCostPerTurn / 2);
  Run();
}

TEST_F(RendezvousTest, RanksOfOneTenantDoNotDelayThoseOfAnother) {
  constexpr int kHosts = 64;
  const auto flooded = Make("red");
  for (int h = 0; h < kHosts; ++h) {
    auto wire = Connect(flooded);
    for (int r = 0; r < 100; ++r) wire->Deliver(Join(kHosts * 100 + 1, h * 100 + r, "h", "red"));
    wire->waker->Wake();
  }
  const auto id = Make("blue");
  auto a = Connect(id);
  a->Deliver(Join(1, 0, "h0"));
  a->waker->Wake();
  for (int turn = 0; turn < 3; ++turn) rendezvous_.Poll();
  ASSERT_FALSE(a->Written().empty());
  EXPECT_TRUE(a->Written().back().has_roster());
}

TEST_F(RendezvousTest, WaitingRendezvousHasNoDeadline) {
  const auto id = Make();
  auto a = Connect(id);
  a->Deliver(Join(2, 0, "h0"));
  Run();
  EXPECT_EQ(rendezvous_.NextDeadline(), kNever);
}

TEST_F(RendezvousTest, RemovesOldestUnusedIdOfTenant) {
  const auto victim = Make("blue");
  const auto first = Make("red");
  for (size_t i = 0; i < 2 * kMaxUnusedIdsPerTenant; ++i) Make("red");
  EXPECT_TRUE(rendezvous_.SecretOf(CommId(victim.comm_id)).has_value());
  EXPECT_FALSE(rendezvous_.SecretOf(CommId(first.comm_id)).has_value());
  EXPECT_EQ(rendezvous_.pending_rendezvous(), kMaxUnusedIdsPerTenant + 1);
}

TEST_F(RendezvousTest, UnusedIdsAreInTheBudget) {
  HostLimits limits;
  limits[Resource::kUniqueIds] = 4;
  HostBudget budget(limits);
  const auto make = [&](const std::string& tenant) {
    return rendezvous_.MakeId({"10.0.0.1", 7400}, "user",
                              budget.Of(tenant, "", std::make_shared<TenantCounters>()));
  };
  const auto pending = [&](const absl::StatusOr<wire::UniqueId>& id) {
    return rendezvous_.SecretOf(CommId(id->comm_id)).has_value();
  };
  const auto first = make("blue"), second = make("blue"), red = make("red");
  EXPECT_TRUE(pending(first) && pending(second) && pending(red));
  const auto refused = make("green");
  EXPECT_THAT(refused.status().message(),
              testing::AllOf(HasSubstr("too many unused unique ids"), HasSubstr("1 of 4 are free"),
                             HasSubstr("limits.unique_ids")));
  const auto third = make("blue");
  ASSERT_TRUE(third.ok()) << "it replaces the tenant's oldest one";
  EXPECT_FALSE(pending(first));
  EXPECT_TRUE(pending(second) && pending(red) && pending(third));
  Connect(*second);
  EXPECT_EQ(budget.held(Resource::kUniqueIds), 2u) << "a used one no longer counts";
  EXPECT_TRUE(make("green").ok());
}

// By whom it pays for, not by the tenant whose ranks may join.
TEST_F(RendezvousTest, ATenantsIdsDoNotReplaceThoseOfAnotherWithTheSameUser) {
  HostBudget budget{HostLimits{}};
  const auto counters = std::make_shared<TenantCounters>();
  const auto blue = budget.Of("blue", "", counters), red = budget.Of("red", "", counters);
  const auto kept = rendezvous_.MakeId({"10.0.0.1", 7400}, "uid 0", blue);
  for (size_t i = 0; i <= kMaxUnusedIdsPerTenant; ++i)
    ASSERT_TRUE(rendezvous_.MakeId({"10.0.0.1", 7400}, "uid 0", red).ok());
  EXPECT_TRUE(rendezvous_.SecretOf(CommId(kept->comm_id)).has_value());
}

TEST_F(RendezvousTest, KeepsUsedIds) {
  const auto used = Make("red");
  auto a = Connect(used);
  a->Deliver(Join(2, 0, "h0", "red"));
  Run();
  for (size_t i = 0; i < 2 * kMaxUnusedIdsPerTenant; ++i) Make("red");
  EXPECT_TRUE(rendezvous_.SecretOf(CommId(used.comm_id)).has_value());
}

TEST_F(RendezvousTest, ClosesLinkOfHostThatDoesNotRead) {
  const auto id = Make();
  auto a = Connect(id);
  a->room = 0;
  a->Deliver(Join(1, 0, "h0"));
  Run();
  EXPECT_EQ(rendezvous_.pending_rendezvous(), 0u);
  EXPECT_EQ(a.use_count(), 2) << "the link waits for it";
  Run(kRendezvousCloseTimeoutNs);
  EXPECT_EQ(a.use_count(), 1);
}

TEST_F(RendezvousTest, GuessableIdMayBeReusedWithNewId) {
  wire::UniqueId id{};
  id.comm_id = 77;
  id.guessable = 1;
  ASSERT_TRUE(rendezvous_.Register(id, "blue").ok());
  ASSERT_TRUE(rendezvous_.Register(id, "blue").ok());
  EXPECT_EQ(rendezvous_.pending_rendezvous(), 1u);
  auto a = Connect(id);
  a->Deliver(Join(1, 0, "h0"));
  Run();
  ASSERT_TRUE(a->Written().back().has_roster());
  EXPECT_NE(RosterIn(a->Written().back()).comm_id(), 77u);
}

// The last link of some of them uses up the cost of its turn.
TEST_F(RendezvousTest, IsIdleAfterManyLinksHaveClosedInOneTurn) {
  for (int hosts = 120; hosts <= 136; ++hosts) {
    SCOPED_TRACE(hosts);
    const auto id = Make();
    std::vector<std::shared_ptr<FakeWire>> wires;
    for (int h = 0; h < hosts; ++h) {
      wires.push_back(Connect(id));
      wires.back()->Deliver(Join(hosts, h, "h" + std::to_string(h)));
    }
    Run();
    for (const auto& wire : wires) wire->read_broken = true;
    Run();
    for (const auto& wire : wires) EXPECT_EQ(wire.use_count(), 1);
    EXPECT_FALSE(rendezvous_.Poll());
    EXPECT_EQ(rendezvous_.NextDeadline(), kNever) << "the engine may sleep";
  }
}

}  // namespace rendezvous_test
}  // namespace mccs
