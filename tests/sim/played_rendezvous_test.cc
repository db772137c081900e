// A communicator whose rendezvous, and sometimes its leader, is the test: it does not answer, or
// gives wrong answers, as a tenant's own program may.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/membership/joining.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_world.h"

namespace mccs {
namespace played_rendezvous_test {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr char kAddress[] = "10.0.0.9";
constexpr uint16_t kPort = 7000;
constexpr int kRanks = 3;
constexpr char kRosterOfThreeRanks[] =
    "comm_id: 0x1a tenant: 'red' hosts { name: 'h0' endpoint_host: '10.0.0.1' "
    "endpoint_port: 7400 ranks { rank: 0 } ranks { rank: 1 } ranks { rank: 2 } }";
// Rank 0, and so the leader, is at the rendezvous.
constexpr char kRosterOfTwoHosts[] =
    "comm_id: 0x1a tenant: 'red' hosts { name: 'h9' endpoint_host: '10.0.0.9' "
    "endpoint_port: 7000 ranks { rank: 0 } } hosts { name: 'h0' endpoint_host: '10.0.0.1' "
    "endpoint_port: 7400 ranks { rank: 1 } }";

peer::Message Text(const std::string& text) {
  peer::Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

peer::Roster RosterFrom(const std::string& text) {
  peer::Roster roster;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &roster)) << text;
  return roster;
}

peer::Message MessageOf(const peer::Roster& roster) {
  peer::Message message;
  message.set_roster(roster.SerializeAsString());
  return message;
}

class SimPlayedRendezvous : public testing::Test {
 protected:
  SimPlayedRendezvous() {
    listener_ = std::make_unique<PeerListener>(
        std::move(*world_.network().HostNetwork(kAddress).Listen({kAddress, kPort})),
        [](const Preamble&) { return std::optional<Secret>(Secret{}); }, random_, *log_);
    for (SimTenant*& tenant : tenants_) tenant = &world_.AddTenant(0, "red");
  }

  SimRank& Init(int rank, int ranks, uint32_t timeout_ms = 0) {
    return tenants_[rank]->Init(id_, ranks, rank, timeout_ms);
  }
  // All three ranks join; rank 0 names another size.
  std::vector<SimRank*> InitAll(int ranks_of_rank_0) {
    std::vector<SimRank*> ranks(kRanks);
    for (const int r : {1, 2, 0}) {
      ranks[r] = &Init(r, r == 0 ? ranks_of_rank_0 : kRanks);
      world_.RunFor(100 * kNsPerUs);
    }
    EXPECT_TRUE(
        Run([&] { return std::ranges::all_of(ranks, [](auto* rank) { return rank->answered; }); }));
    return ranks;
  }
  // Rank 1 of 2 joins. Returns its error message, and "success" if there is none.
  std::string ErrorOfInit() {
    const SimRank& rank = Init(1, 2);
    EXPECT_TRUE(Run([&] { return rank.answered; }, 100 * kNsPerSec));
    links_.clear();
    EXPECT_TRUE(world_.RunUntil([&] { return world_.communicators() == 0; }));
    return rank.status.error == wire::ErrorClass::kNone ? "success" : rank.status.text;
  }

  bool Run(const std::function<bool()>& done, int64_t limit_ns = 10 * kNsPerSec) {
    return world_.RunUntil(
        [&] {
          Serve();
          return done();
        },
        limit_ns);
  }
  void Serve() {
    for (Peer& peer : listener_->Poll(world_.clock().Now())) {
      auto& link = *links_.emplace_back(std::make_unique<PeerLink>(std::move(peer.connection)));
      const auto answer = answers_.find(peer.preamble.purpose);
      if (answer != answers_.end()) link.Send(answer->second);
    }
    std::erase_if(links_, [this](const std::unique_ptr<PeerLink>& link) {
      link->Poll();
      for (;;) {
        const auto message = link->Receive();
        if (!message.ok()) return true;
        if (!message->has_value()) return false;
        if ((*message)->has_failed()) withdrawal_ = (*message)->failed();
      }
    });
  }

  SimWorld world_{{.seed = 1, .hosts = 1}};
  SimTenant* tenants_[kRanks];
  wire::UniqueId id_ = MakeUniqueId(kAddress, kPort, 0x1a);
  std::map<ConnectionPurpose, peer::Message> answers_;  // sent to each connection
  SeededRandom random_{7};
  std::unique_ptr<Log> log_ = MakeNullLog();
  std::unique_ptr<PeerListener> listener_;
  std::vector<std::unique_ptr<PeerLink>> links_;  // that the daemon has not closed
  std::optional<peer::Failed> withdrawal_;        // the daemon's
};

// ---- Wrong answers ------------------------------------------------------------------------------

// Lengths are checked for the size that a rank names, so no call may run for another size.
TEST_F(SimPlayedRendezvous, RejectsRanksThatNameAnotherSizeThanTheRoster) {
  answers_[ConnectionPurpose::kJoin] = MessageOf(RosterFrom(kRosterOfThreeRanks));
  for (const int ranks : {1, 1 << 20}) {
    for (const SimRank* rank : InitAll(ranks)) {
      EXPECT_THAT(rank->status.text,
                  AllOf(HasSubstr(absl::StrCat("rank 0 joins with ", ranks, " ranks")),
                        HasSubstr("rank 1 with 3")));
      EXPECT_EQ(rank->memory.data(), nullptr) << "it can post no call";
    }
    EXPECT_TRUE(world_.RunUntil([&] { return world_.communicators() == 0; }));
  }
}

TEST_F(SimPlayedRendezvous, AcceptsRanksThatAgreeWithTheRoster) {
  answers_[ConnectionPurpose::kJoin] = MessageOf(RosterFrom(kRosterOfThreeRanks));
  for (const SimRank* rank : InitAll(kRanks)) {
    ASSERT_EQ(rank->status.error, wire::ErrorClass::kNone) << rank->status.text;
    EXPECT_EQ(rank->ranks, kRanks);
  }
}

TEST_F(SimPlayedRendezvous, RejectsGrowToDifferentSizes) {
  answers_[ConnectionPurpose::kJoin] = MessageOf(RosterFrom(kRosterOfThreeRanks));
  const std::vector<SimRank*> ranks = InitAll(kRanks);
  const SimRank& four = tenants_[0]->Grow(*ranks[0], 4);
  const SimRank& five = tenants_[1]->Grow(*ranks[1], 5);
  ASSERT_TRUE(world_.RunUntil([&] { return four.answered && five.answered; }, kNsPerSec));
  for (const SimRank* rank : {&four, &five}) {
    EXPECT_THAT(rank->status.text, HasSubstr("rank 1 joins with 5 ranks, rank 0 with 4"));
  }
}

// Daemons and the controller find a communicator by its id. For an id from the environment the
// roster contains that id.
TEST_F(SimPlayedRendezvous, RejectsRosterWithIdOfAnotherTenantsCommunicator) {
  SimTenant& blue = world_.AddTenant(0, "blue");
  ASSERT_TRUE(world_.GetUniqueId(blue));
  SimRank& victim = blue.Init(blue.unique_id(), 1, 0);
  ASSERT_TRUE(world_.RunUntil([&] { return victim.answered; }));
  const size_t announced = world_.host(0).controller().announced.size();

  id_.guessable = 1;
  peer::Roster roster = RosterFrom(kRosterOfTwoHosts);
  roster.set_comm_id(victim.id.value());
  answers_[ConnectionPurpose::kJoin] = MessageOf(roster);
  const SimRank& hostile_rank = Init(1, 2);
  EXPECT_TRUE(Run([&] { return hostile_rank.answered; }));
  EXPECT_THAT(hostile_rank.status.text,
              HasSubstr("its id belongs to another communicator of this host"));
  EXPECT_TRUE(world_.RunUntil([&] { return world_.communicators() == 1; }));
  EXPECT_FALSE(victim.failed()) << victim.failure();
  EXPECT_EQ(world_.host(0).controller().announced.size(), announced);
  EXPECT_THAT(world_.host(0).controller().ended, Not(Contains(victim.id)));
}

TEST_F(SimPlayedRendezvous, FailureWithoutCodeIsAnError) {
  answers_[ConnectionPurpose::kJoin] = MessageOf(RosterFrom(kRosterOfTwoHosts));
  answers_[ConnectionPurpose::kMember] = Text("failed { message: 'all is well' }");
  EXPECT_THAT(ErrorOfInit(), HasSubstr("all is well"));
}

TEST_F(SimPlayedRendezvous, RejectsRandomRosters) {
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    peer::Roster roster = RosterFrom(kRosterOfTwoHosts);
    switch (random() % 6) {
      case 0:
        roster.set_comm_id(random());
        break;
      case 1:
        roster.clear_hosts();
        break;
      case 2:
        roster.mutable_hosts(static_cast<int>(random() % 2))->clear_ranks();
        break;
      case 3:
        roster.mutable_hosts(0)->mutable_ranks(0)->set_rank(static_cast<int>(1 + random() % 1000));
        break;
      case 4:
        roster.mutable_hosts(1)->add_ranks()->set_rank(static_cast<int>(random()));
        break;
      case 5:
        roster.set_tenant("blue");
        break;
    }
    answers_[ConnectionPurpose::kJoin] = MessageOf(roster);
    ASSERT_THAT(ErrorOfInit(), HasSubstr("invalid roster")) << roster.ShortDebugString();
  }
}

TEST_F(SimPlayedRendezvous, RejectsBytesThatAreNoRoster) {
  answers_[ConnectionPurpose::kJoin].set_roster("\xff\xff\xff");
  EXPECT_THAT(ErrorOfInit(), HasSubstr("invalid roster"));
}

TEST_F(SimPlayedRendezvous, RejectsNoticeWithoutHash) {
  answers_[ConnectionPurpose::kJoin] = Text("roster_notice { hash: 'short' }");
  EXPECT_THAT(ErrorOfInit(), HasSubstr("sent roster_notice"));
}

// Neither a forwarder nor the rendezvous sends the roster of the notice.
TEST_F(SimPlayedRendezvous, WithheldRosterEndsTheJoin) {
  answers_[ConnectionPurpose::kJoin].mutable_roster_notice()->set_hash(std::string(32, 'x'));
  const SimRank& rank = Init(1, 2);
  EXPECT_FALSE(Run([&] { return rank.answered; }, kRosterRequestTimeoutNs));
  EXPECT_TRUE(Run([&] { return rank.answered; }, kRelayTimeoutNs + kNsPerSec));
  EXPECT_THAT(rank.status.text, HasSubstr("has sent no roster"));
  EXPECT_TRUE(Run([&] { return world_.communicators() == 0; }));
}

TEST_F(SimPlayedRendezvous, RejectionWithoutCodeEndsTheJoinAtOnce) {
  answers_[ConnectionPurpose::kJoin] = Text("rejected { message: 'not you' }");
  const SimRank& rank = Init(1, 2);
  ASSERT_TRUE(Run([&] { return rank.answered; }));
  EXPECT_NE(rank.status.error, wire::ErrorClass::kNone);
  EXPECT_THAT(rank.status.text, HasSubstr("not you"));
  EXPECT_TRUE(Run([&] { return links_.empty() && world_.communicators() == 0; }, 10 * kNsPerMs));
}

// ---- No answer ----------------------------------------------------------------------------------

// A host that withdraws while its communicator forms sends the reason and keeps its link until the
// rendezvous has read it. Here its only rank has timed out, and the reason has arrived.
class SimWithdrawal : public SimPlayedRendezvous {
 protected:
  void SetUp() override {
    answers_[ConnectionPurpose::kJoin] = Text("waiting { missing_ranks: 0 }");
    rank_ = &Init(1, 2, /*timeout_ms=*/500);
    ASSERT_TRUE(Run([&] { return withdrawal_.has_value(); }));
  }
  bool RunUntilEnded(int64_t limit_ns) {
    return Run([&] { return links_.empty() && world_.communicators() == 0; }, limit_ns);
  }

  SimRank* rank_ = nullptr;
};

TEST_F(SimWithdrawal, FailsTheRankAtOnceAndKeepsTheLinkUntilAnswered) {
  EXPECT_THAT(withdrawal_->message(), HasSubstr("rank 0 has not joined"));
  EXPECT_TRUE(Run([&] { return rank_->answered; }, kNsPerMs));
  EXPECT_THAT(rank_->status.text, HasSubstr("rank 0 has not joined"));
  ASSERT_FALSE(Run([&] { return links_.empty(); }, kWithdrawalTimeoutNs / 2))
      << "closed before the reason was read";
  links_.front()->Send(Text("rejected { message: 'so be it' }"));
  EXPECT_TRUE(RunUntilEnded(10 * kNsPerMs));
}

TEST_F(SimWithdrawal, TimesOutWithoutAnswer) {
  EXPECT_FALSE(Run([&] { return links_.empty(); }, kWithdrawalTimeoutNs - 10 * kNsPerMs));
  EXPECT_TRUE(RunUntilEnded(20 * kNsPerMs));
}

TEST_F(SimWithdrawal, EndsWhenTheRendezvousCloses) {
  links_.clear();
  EXPECT_TRUE(RunUntilEnded(10 * kNsPerMs));
}

}  // namespace played_rendezvous_test
}  // namespace mccs
