// The first strategy on its way from the leader to the other hosts. Connections are controlled by
// the test; the simulation (tests/sim/forming_test.cc) has whole hosts.
#include "service/communicator/membership/strategy_spread.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "proto/strategy.pb.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/communicator/fake_connection.h"
#include "tests/unit/recording_log.h"

namespace mccs {
namespace strategy_spread_test {

constexpr CommId kId{0x2a};
constexpr Secret kSecret{7};

Membership MembersOf(int hosts, HostIndex self, HostIndex leader) {
  Membership members;
  members.layout.hosts.resize(static_cast<size_t>(hosts));
  members.self = self;
  members.leader = leader;
  return members;
}

Strategy StrategyOf(int hosts) {
  Strategy strategy = MakeRingStrategy(Epoch(1), {});
  for (int h = 0; h < hosts; ++h) strategy.channels[0].ring.push_back(HostIndex(h));
  return strategy;
}

TEST(StrategyChildren, ReachEveryMemberOnce) {
  for (const int hosts : {1, 2, kDirectReceivers + 1, kDirectReceivers + 2, 1000}) {
    for (const int leader : {0, hosts / 3, hosts - 1}) {
      SCOPED_TRACE(testing::Message() << hosts << " hosts, leader " << leader);
      std::vector<int> parents(static_cast<size_t>(hosts));
      for (int h = 0; h < hosts; ++h) {
        if (h == leader) continue;
        for (const HostIndex child :
             StrategyChildren(MembersOf(hosts, HostIndex(h), HostIndex(leader)))) {
          ASSERT_LT(child.value(), hosts);
          ++parents[static_cast<size_t>(child.value())];
        }
      }
      EXPECT_EQ(parents[static_cast<size_t>(leader)], 0);
      int direct = 0;
      for (int h = 0; h < hosts; ++h) {
        EXPECT_LE(parents[static_cast<size_t>(h)], 1) << h;
        direct += h != leader && parents[static_cast<size_t>(h)] == 0 ? 1 : 0;
      }
      EXPECT_EQ(direct, std::min(hosts - 1, kDirectReceivers));
    }
  }
}

// ---- The leader ---------------------------------------------------------------------------------

class StrategySourceTest : public testing::Test {
 protected:
  static constexpr int kHosts = 1 + kDirectReceivers + 2 * static_cast<int>(kMaxStrategiesAtOnce);
  static constexpr HostIndex kLeader{3};

  StrategySourceTest() {
    for (int h = 0; h < kHosts; ++h) {
      wires_.push_back(std::make_shared<FakeWire>());
      if (HostIndex(h) == kLeader) continue;
      peer::Message hello;
      hello.mutable_hello()->set_host_index(h);
      wires_.back()->Deliver(hello);
      star_.Accept(std::make_unique<FakeConnection>(wires_.back()));
    }
    star_.Poll();
    EXPECT_TRUE(star_.complete());
    source_.emplace(star_, MembersOf(kHosts, kLeader, kLeader), kSecret, StrategyOf(kHosts));
    star_.Poll();
  }
  // The host got the strategy from the leader.
  bool HasStrategy(int host) const {
    const auto received = wires_[static_cast<size_t>(host)]->Written();
    return !received.empty() && received.back().has_open();
  }
  void Poll() {
    for (int turn = 0; turn < 10; ++turn) {
      for (const auto& wire : wires_) {
        if (wire->waker != nullptr) wire->waker->Wake();
      }
      source_->Poll();
      star_.Poll();
    }
  }

  std::vector<std::shared_ptr<FakeWire>> wires_;  // by host
  Star star_{kLeader, kHosts};
  std::optional<StrategySource> source_;
};

TEST_F(StrategySourceTest, SendsTheStrategyToTheFirstAndItsHashToTheOthers) {
  const std::string strategy = wires_[0]->Written().back().open().strategy();
  strategy::Strategy parsed;
  ASSERT_TRUE(parsed.ParseFromString(strategy));
  EXPECT_EQ(parsed.channels(0).ring_size(), kHosts);
  for (int h = 0; h < kHosts; ++h) {
    if (HostIndex(h) == kLeader) continue;
    const auto received = wires_[static_cast<size_t>(h)]->Written();
    ASSERT_EQ(received.size(), 1u) << h;
    if (h <= kDirectReceivers) {
      EXPECT_EQ(received[0].open().strategy(), strategy) << h;
    } else {
      EXPECT_EQ(received[0].open_notice().hash(), RelayHash(kSecret, strategy)) << h;
    }
  }
}

TEST_F(StrategySourceTest, SendsTheStrategyOnceOnRequest) {
  ASSERT_FALSE(HasStrategy(kHosts - 1));
  EXPECT_TRUE(source_->OnRequest(HostIndex(kHosts - 1)).ok());
  Poll();
  EXPECT_TRUE(HasStrategy(kHosts - 1));
  EXPECT_TRUE(absl::IsDataLoss(source_->OnRequest(HostIndex(kHosts - 1))));
  EXPECT_TRUE(absl::IsDataLoss(source_->OnRequest(HostIndex(0)))) << "it was sent to host 0 before";
}

TEST_F(StrategySourceTest, SendsFewRequestedStrategiesAtOnce) {
  for (int h = kDirectReceivers + 1; h < kHosts; ++h) {
    wires_[static_cast<size_t>(h)]->room = 1;
    EXPECT_TRUE(source_->OnRequest(HostIndex(h)).ok());
  }
  Poll();
  size_t begun = 0;
  for (int h = kDirectReceivers + 1; h < kHosts; ++h)
    begun += wires_[static_cast<size_t>(h)]->room == 0 ? 1 : 0;
  EXPECT_EQ(begun, kMaxStrategiesAtOnce);
  for (const auto& wire : wires_) wire->room = 1 << 30;
  Poll();
  for (int h = kDirectReceivers + 1; h < kHosts; ++h) EXPECT_TRUE(HasStrategy(h)) << h;
}

// ---- A member -----------------------------------------------------------------------------------

class StrategyReceiverTest : public testing::Test {
 protected:
  StrategyReceiverTest() {
    receiver_.emplace(StrategyReceiver::Options{.relay = &relay_,
                                                .star = &star_,
                                                .clock = &clock_,
                                                .log = &log_,
                                                .id = kId,
                                                .secret = kSecret});
  }
  static peer::OpenNotice NoticeOf(const std::string& strategy) {
    peer::OpenNotice notice;
    notice.set_hash(RelayHash(kSecret, strategy));
    return notice;
  }
  // A forwarder that has authenticated itself sends this.
  void Forward(const std::string& strategy) {
    peer::Message message;
    message.mutable_open()->set_strategy(strategy);
    auto wire = std::make_shared<FakeWire>();
    wire->Deliver(message);
    const CommId relay_id = StrategySubject(kId, kSecret).relay_id;
    relay_.Accept(relay_id, kSecret, std::make_unique<FakeConnection>(wire));
    relay_.Poll();
  }
  std::optional<std::string> Poll() {
    const auto polled = receiver_->Poll();
    EXPECT_TRUE(polled.ok()) << polled.status();
    return polled.value_or(std::nullopt);
  }
  bool Requested() const { return log_.Contains("requests the strategy"); }
  void Advance(int64_t ns) { network_.AdvanceTo(clock_.Now() + ns); }

  SimClock clock_;
  SimNetwork network_{clock_, 1};
  SeededRandom random_{1};
  RecordingLog log_;
  const PeerAccess access_{&network_.HostNetwork("10.0.0.1"), &random_, &clock_};
  TreeRelay relay_{access_, log_};
  Star star_{HostIndex(1), HostIndex(0), 2, nullptr};
  std::optional<StrategyReceiver> receiver_;
};

TEST_F(StrategyReceiverTest, TakesTheForwardedStrategyAfterTheNotice) {
  Forward("a strategy");
  EXPECT_EQ(Poll(), std::nullopt) << "its hash is not known";
  EXPECT_TRUE(receiver_->OnNotice(NoticeOf("a strategy")).ok());
  EXPECT_EQ(Poll(), "a strategy");
  EXPECT_FALSE(Requested());
}

TEST_F(StrategyReceiverTest, RequestsTheStrategyIfAnotherOneIsForwarded) {
  EXPECT_TRUE(receiver_->OnNotice(NoticeOf("a strategy")).ok());
  Forward("another strategy");
  EXPECT_EQ(Poll(), std::nullopt);
  EXPECT_TRUE(Requested());
  EXPECT_FALSE(relay_.SecretOf(StrategySubject(kId, kSecret).relay_id).has_value())
      << "only the leader's answer counts from now on";
}

TEST_F(StrategyReceiverTest, RequestsTheStrategyIfNoneIsForwardedInTime) {
  EXPECT_EQ(receiver_->NextDeadline(), kNever);
  EXPECT_TRUE(receiver_->OnNotice(NoticeOf("a strategy")).ok());
  Advance(kRelayTimeoutNs - 1);
  EXPECT_EQ(Poll(), std::nullopt);
  EXPECT_FALSE(Requested());
  EXPECT_EQ(receiver_->NextDeadline(), clock_.Now() + 1);
  Advance(1);
  EXPECT_EQ(Poll(), std::nullopt);
  EXPECT_TRUE(Requested());
  Advance(kStrategyRequestTimeoutNs);
  EXPECT_TRUE(absl::IsDeadlineExceeded(receiver_->Poll().status()));
}

TEST_F(StrategyReceiverTest, IgnoresARosterOfAForwarder) {
  EXPECT_TRUE(receiver_->OnNotice(NoticeOf("a roster")).ok());
  peer::Message message;
  message.set_roster("a roster");
  auto wire = std::make_shared<FakeWire>();
  wire->Deliver(message);
  relay_.Accept(StrategySubject(kId, kSecret).relay_id, kSecret,
                std::make_unique<FakeConnection>(wire));
  relay_.Poll();
  EXPECT_EQ(Poll(), std::nullopt);
  EXPECT_FALSE(Requested());
}

}  // namespace strategy_spread_test
}  // namespace mccs
