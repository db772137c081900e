// A tenant's unique id names its rendezvous. Here that is not a daemon but a liar, which also plays
// the leader.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <tuple>

#include "base/random.h"
#include "service/communicator/links/peer_link.h"
#include "service/transport/peer_listener.h"
#include "tests/unit/frontend/raw_tenant.h"

namespace mccs {
namespace malicious_peer_test {

constexpr char kLiar[] = "10.0.0.9";
constexpr uint64_t kCommId = 0x1a;

class MaliciousPeerTest : public testing::Test {
 protected:
  MaliciousPeerTest()
      : world_({.seed = 1, .hosts = 1, .network = {}}), tenant_(world_, 0, {"blue", 500}) {
    door_ = std::make_unique<PeerListener>(
        std::move(*world_.network().HostNetwork(kLiar).Listen({kLiar, 7000})),
        [](const Preamble&) { return std::optional<Secret>(Secret{}); }, random_, *log_);
  }

  // Joins as rank 1 of 2 and sends `words` to the daemon when it connects for `purpose`. Returns
  // the result of init.
  std::string Init(ConnectionPurpose purpose, const peer::Message& words) {
    wire::UniqueId id{};
    id.magic = wire::kUniqueIdMagic;
    id.version = wire::kWireVersion;
    id.port = 7000;
    id.comm_id = kCommId;
    std::strcpy(id.host, kLiar);
    const uint64_t request = tenant_.Send(MakeCommInit(id, 2, 1));
    std::optional<wire::CommInitReply> reply;
    world_.RunUntil(
        [&] {
          Lie(purpose, words);
          return (reply = tenant_.Take<wire::CommInitReply>(request)).has_value();
        },
        100 * kNsPerSec);
    links_.clear();
    if (!reply.has_value()) return "no answer";
    EXPECT_TRUE(world_.RunUntil([&] { return world_.host(0).daemon().communicators() == 0; }));
    return reply->status.error == wire::ErrorClass::kNone ? "success" : reply->status.text;
  }

  static peer::Message GoodRoster() {
    peer::Message message;
    peer::Roster* roster = message.mutable_roster();
    roster->set_comm_id(kCommId);
    roster->set_tenant("blue");
    const Endpoint ours{SimAddress(0), kSimPort};
    const Endpoint theirs{kLiar, 7000};
    for (const auto& [rank, name, at] : {std::tuple(0, "h9", theirs), std::tuple(1, "h0", ours)}) {
      peer::HostInfo* host = roster->add_hosts();
      host->set_name(name);
      host->set_endpoint_host(at.host);
      host->set_endpoint_port(at.port);
      host->add_ranks()->set_rank(rank);
    }
    return message;
  }

  void Lie(ConnectionPurpose purpose, const peer::Message& words) {
    for (Peer& peer : door_->Poll(world_.clock().Now())) {
      PeerLink& link = *links_.emplace_back(std::make_unique<PeerLink>(std::move(peer.connection)));
      if (peer.preamble.purpose == purpose) {
        link.Send(words);
      } else if (peer.preamble.purpose == ConnectionPurpose::kJoin) {
        link.Send(GoodRoster());
      }
    }
    for (auto& link : links_) link->Poll();
  }

  SimWorld world_;
  RawTenant tenant_;
  SeededRandom random_{7};
  std::unique_ptr<Log> log_ = MakeNullLog();
  std::unique_ptr<PeerListener> door_;
  std::vector<std::unique_ptr<PeerLink>> links_;
};

TEST_F(MaliciousPeerTest, RejectionWithoutCodeIsAnError) {
  ASSERT_TRUE(tenant_.Greet());
  peer::Message words;
  words.mutable_rejected()->set_message("fine");
  EXPECT_THAT(Init(ConnectionPurpose::kJoin, words), testing::HasSubstr("fine"));
}

TEST_F(MaliciousPeerTest, FailureWithoutCodeIsAnError) {
  ASSERT_TRUE(tenant_.Greet());
  peer::Message words;
  words.mutable_failed()->set_message("all is well");
  EXPECT_THAT(Init(ConnectionPurpose::kMember, words), testing::HasSubstr("all is well"));
}

TEST_F(MaliciousPeerTest, InvalidDeparturesFailOnlyTheCommunicator) {
  ASSERT_TRUE(tenant_.Greet());
  for (int rank : {-1, 1, 2, 1 << 30}) {
    peer::Message words;
    words.mutable_departed()->set_rank(rank);
    EXPECT_THAT(Init(ConnectionPurpose::kMember, words), testing::HasSubstr("sent departed"))
        << rank;
  }
}

TEST_F(MaliciousPeerTest, RejectsInvalidStrategy) {
  ASSERT_TRUE(tenant_.Greet());
  peer::Message words;
  words.mutable_open()->mutable_strategy()->set_skew(99);
  EXPECT_THAT(Init(ConnectionPurpose::kMember, words), testing::HasSubstr("strategy"));
}

TEST_F(MaliciousPeerTest, RejectsRandomRosters) {
  ASSERT_TRUE(tenant_.Greet());
  const uint64_t seed = std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 2000; ++i) {
    peer::Message words = GoodRoster();
    peer::Roster& roster = *words.mutable_roster();
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
        roster.set_tenant("red");
        break;
    }
    ASSERT_THAT(Init(ConnectionPurpose::kJoin, words), testing::HasSubstr("invalid roster"))
        << words.ShortDebugString();
  }
}

}  // namespace malicious_peer_test
}  // namespace mccs
