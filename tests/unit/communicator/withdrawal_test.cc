// A host that withdraws while its communicator forms sends the reason and keeps its link until the
// rendezvous has read it. The test plays the rendezvous and answers at any time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <optional>

#include "base/random.h"
#include "service/communicator/membership/joining.h"
#include "service/transport/peer_listener.h"
#include "tests/sim/sim_world.h"

namespace mccs {
namespace withdrawal_test {

using testing::HasSubstr;

constexpr char kMeetingPlace[] = "10.0.0.9";
constexpr uint32_t kInitTimeoutMs = 500;

class WithdrawalTest : public testing::Test {
 protected:
  WithdrawalTest() : world_({.seed = 1, .hosts = 1, .network = {}}), tenant_(world_.AddTenant(0)) {
    door_ = std::make_unique<PeerListener>(
        std::move(*world_.network().HostNetwork(kMeetingPlace).Listen({kMeetingPlace, 7000})),
        [](const Preamble&) { return std::optional<Secret>(Secret{}); }, random_, *log_);
  }

  // Rank 1 of 2 joins.
  void Join() {
    wire::UniqueId id{};
    id.magic = wire::kUniqueIdMagic;
    id.version = wire::kWireVersion;
    id.port = 7000;
    id.comm_id = 0x1a;
    std::strcpy(id.host, kMeetingPlace);
    ASSERT_TRUE(Run([&] { return tenant_.connected(); }));
    rank_ = &tenant_.Init(id, 2, 1, kInitTimeoutMs);
  }

  // It withdraws after kInitTimeoutMs, and its reason has arrived here.
  void JoinAndGiveUp() {
    answer_.mutable_waiting()->add_missing_ranks(0);
    Join();
    ASSERT_TRUE(Run([&] { return withdrawal_.has_value(); }));
  }

  bool Run(const std::function<bool()>& done, int64_t limit_ns = 2 * kNsPerSec) {
    return world_.RunUntil(
        [&] {
          Serve();
          return done();
        },
        limit_ns);
  }

  void Serve() {
    for (Peer& peer : door_->Poll(world_.clock().Now())) {
      link_ = std::make_unique<PeerLink>(std::move(peer.connection));
    }
    if (link_ == nullptr) return;
    link_->Poll();
    for (;;) {
      const auto message = link_->Receive();
      if (!message.ok()) {
        closed_ = true;
        link_.reset();
        return;
      }
      if (!message->has_value()) return;
      if ((*message)->has_join()) link_->Send(answer_);
      if ((*message)->has_failed()) withdrawal_ = (*message)->failed();
    }
  }

  size_t Communicators() { return world_.host(0).daemon().communicators(); }

  SimWorld world_;
  SimTenant& tenant_;
  SeededRandom random_{7};
  std::unique_ptr<Log> log_ = MakeNullLog();
  std::unique_ptr<PeerListener> door_;
  std::unique_ptr<PeerLink> link_;
  SimRank* rank_ = nullptr;
  peer::Message answer_;  // to the join
  std::optional<peer::Failed> withdrawal_;
  bool closed_ = false;
};

TEST_F(WithdrawalTest, KeepsLinkUntilAnswered) {
  JoinAndGiveUp();
  EXPECT_THAT(withdrawal_->message(), HasSubstr("rank 0 has not joined"));
  ASSERT_FALSE(Run([&] { return closed_; }, kWithdrawalTimeoutNs / 2))
      << "closed before the reason was read";
  peer::Message refused;
  refused.mutable_rejected()->set_message("so be it");
  link_->Send(refused);
  EXPECT_TRUE(Run([&] { return closed_ && Communicators() == 0; }, 10 * kNsPerMs));
}

TEST_F(WithdrawalTest, FailsRankAtOnce) {
  JoinAndGiveUp();
  EXPECT_TRUE(Run([&] { return rank_->answered; }, kNsPerMs));
  EXPECT_THAT(rank_->status.text, HasSubstr("rank 0 has not joined"));
}

TEST_F(WithdrawalTest, TimesOutWithoutAnswer) {
  JoinAndGiveUp();
  EXPECT_FALSE(Run([&] { return closed_; }, kWithdrawalTimeoutNs - 10 * kNsPerMs));
  EXPECT_TRUE(Run([&] { return closed_ && Communicators() == 0; }, 20 * kNsPerMs));
}

TEST_F(WithdrawalTest, EndsWhenRendezvousCloses) {
  JoinAndGiveUp();
  link_.reset();
  EXPECT_TRUE(Run([&] { return Communicators() == 0; }, 10 * kNsPerMs));
}

TEST_F(WithdrawalTest, EndsAtOnceAfterRejection) {
  answer_.mutable_rejected()->set_message("not you");
  Join();
  ASSERT_TRUE(Run([&] { return rank_->answered; }));
  EXPECT_THAT(rank_->status.text, HasSubstr("not you"));
  EXPECT_TRUE(Run([&] { return closed_ && Communicators() == 0; }, 10 * kNsPerMs));
}

}  // namespace withdrawal_test
}  // namespace mccs
