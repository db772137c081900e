// Control links of one communicator, at the leader and at a member, over connections controlled by
// the test.
#include "service/communicator/links/star.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/communicator/fake_connection.h"

namespace mccs {
namespace star_test {

peer::Message Hello(int host) {
  peer::Message message;
  message.mutable_hello()->set_host_index(host);
  return message;
}

peer::Message Departed(int rank) {
  peer::Message message;
  message.mutable_departed()->set_rank(rank);
  return message;
}

class StarTest : public testing::Test {
 protected:
  // `proven`: whose daemon it is by its certificate.
  std::shared_ptr<FakeWire> Dial(const std::string& proven = "") {
    auto wire = std::make_shared<FakeWire>();
    star_.Accept(std::make_unique<FakeConnection>(wire), proven);
    return wire;
  }
  std::shared_ptr<FakeWire> Join(int host, const std::string& proven = "") {
    auto wire = Dial(proven);
    wire->Deliver(Hello(host));
    star_.Poll();
    return wire;
  }

  Star star_{HostIndex(0), 3};
};

TEST_F(StarTest, IsCompleteAfterHelloOfEveryHost) {
  EXPECT_THAT(star_.Unlinked(), testing::ElementsAre(HostIndex(1), HostIndex(2)));
  Join(2);
  EXPECT_FALSE(star_.complete());
  Join(1);
  EXPECT_TRUE(star_.complete());
}

TEST_F(StarTest, DropsLinkWithoutHello) {
  for (int host : {-1, 0, 3, 1 << 30}) EXPECT_EQ(Join(host).use_count(), 1) << host;
  auto wire = Dial();
  wire->Deliver(Departed(1));
  star_.Poll();
  EXPECT_EQ(wire.use_count(), 1);
}

TEST_F(StarTest, AHostCannotSayHelloAsAnotherOne) {
  star_.ExpectHosts([](HostIndex host) { return "h" + std::to_string(host.value()); });
  EXPECT_EQ(Join(1, "h2").use_count(), 1);
  EXPECT_EQ(Join(1, "stranger").use_count(), 1);
  EXPECT_EQ(Join(1, "h1").use_count(), 2);
}

TEST_F(StarTest, DropsDuplicateHello) {
  auto first = Join(1);
  EXPECT_EQ(Join(1).use_count(), 1);
  EXPECT_EQ(first.use_count(), 2);
}

TEST_F(StarTest, LimitsUnidentifiedLinks) {
  std::vector<std::shared_ptr<FakeWire>> wires;
  for (int i = 0; i < 100; ++i) wires.push_back(Dial());
  int held = 0;
  for (const auto& wire : wires) held += wire.use_count() > 1 ? 1 : 0;
  EXPECT_LE(held, 3);
}

TEST_F(StarTest, HostsThatLinkAfterAFailureGetIt) {
  Join(1);
  peer::Message failed;
  failed.mutable_failed()->set_message("out of memory");
  star_.Broadcast(failed);
  star_.Poll();
  auto late = Dial();
  late->Deliver(Hello(2));
  EXPECT_FALSE(star_.flushed());
  star_.Poll();
  star_.Poll();
  ASSERT_EQ(late->Written().size(), 1u);
  EXPECT_EQ(late->Written()[0].failed().message(), "out of memory");
  EXPECT_TRUE(star_.flushed());
}

TEST_F(StarTest, LeaderForwardsDeparturesThatItsOwnerAccepts) {
  auto one = Join(1), two = Join(2);
  one->Deliver(Departed(5));
  auto received = star_.Receive();
  ASSERT_TRUE(received.ok() && received->has_value());
  EXPECT_EQ((*received)->from, HostIndex(1));
  star_.Poll();
  EXPECT_TRUE(two->written.empty());
  star_.Forward((*received)->from, (*received)->message.departed());
  star_.Poll();
  ASSERT_EQ(two->Written().size(), 1u);
  EXPECT_EQ(two->Written()[0].departed().rank(), 5);
  EXPECT_TRUE(one->written.empty());
}

TEST_F(StarTest, ReportsLostHostOnceUnlessDeparted) {
  auto one = Join(1), two = Join(2);
  star_.MarkDeparted(HostIndex(2));
  two->read_broken = true;
  one->read_broken = true;
  EXPECT_TRUE(absl::IsUnavailable(star_.Receive().status()));
  EXPECT_EQ(star_.lost(), HostIndex(1));
  const auto after = star_.Receive();
  ASSERT_TRUE(after.ok());
  EXPECT_FALSE(after->has_value());
  EXPECT_TRUE(star_.all_others_left());
}

struct CountingWaker final : Waker {
  void Wake() override { ++wakes; }
  int wakes = 0;
};

TEST(StarTurns, WakeTheOwnerAndReadOnlyLinksWithWork) {
  CountingWaker owner;
  Star star(HostIndex(0), 3, &owner);
  std::vector<std::shared_ptr<FakeWire>> wires;
  for (int host : {1, 2}) {
    wires.push_back(std::make_shared<FakeWire>());
    star.Accept(std::make_unique<FakeConnection>(wires.back()));
    wires.back()->Deliver(Hello(host));
    star.Poll();
    EXPECT_FALSE(star.Receive().value().has_value());
  }
  owner.wakes = 0;
  peer::Message ready;  // for the leader alone
  ready.mutable_ready();
  for (const auto& wire : wires) wire->Deliver(ready);
  star.Poll();
  EXPECT_FALSE(star.Receive().value().has_value()) << "no link had work";
  wires[1]->waker->Wake();
  EXPECT_EQ(owner.wakes, 1);
  const auto received = star.Receive();
  ASSERT_TRUE(received.ok() && received->has_value());
  EXPECT_EQ((*received)->from, HostIndex(2));
  EXPECT_FALSE(star.Receive().value().has_value()) << "the other link had no work";
}

peer::Message StalledOn(size_t bytes) {
  peer::Message message;
  message.mutable_stalled_on()->set_message(std::string(bytes, 'x'));
  return message;
}

peer::Message Failure(const std::string& text) {
  peer::Message message;
  message.mutable_failed()->set_message(text);
  return message;
}

// A program may act as all members of a large communicator. These are the turns of its leader.
class StarOfManyTest : public testing::Test {
 protected:
  static constexpr int kHosts = 100;

  void SetUp() override {
    for (int host = 1; host < kHosts; ++host) {
      wires_.push_back(std::make_shared<FakeWire>());
      star_.Accept(std::make_unique<FakeConnection>(wires_.back()));
      wires_.back()->Deliver(Hello(host));
    }
    while (Turn() > 0 || !star_.complete()) {
    }
  }
  // Runs a turn. Returns the number of messages received.
  int Turn() {
    owner_.wakes = 0;
    star_.Poll();
    int messages = 0;
    for (;; ++messages) {
      const auto received = star_.Receive();
      EXPECT_TRUE(received.ok()) << received.status();
      if (!received.ok() || !received->has_value()) return messages;
    }
  }
  size_t Unread() const {
    size_t bytes = 0;
    for (const auto& wire : wires_) bytes += wire->to_read.size();
    return bytes;
  }
  size_t Written() const {
    size_t bytes = 0;
    for (const auto& wire : wires_) bytes += wire->written.size();
    return bytes;
  }
  void WakeAll() {
    for (const auto& wire : wires_) wire->waker->Wake();
  }

  CountingWaker owner_;
  Star star_{HostIndex(0), kHosts, &owner_};
  std::vector<std::shared_ptr<FakeWire>> wires_;  // of hosts 1, 2, …
};

TEST_F(StarOfManyTest, ATurnReadsALimitedNumberOfBytes) {
  for (const auto& wire : wires_) wire->Deliver(StalledOn(512 << 10));
  WakeAll();
  int received = 0;
  for (int turn = 0; turn < 10'000 && Unread() > 0; ++turn) {
    const size_t before = Unread();
    received += Turn();
    EXPECT_LE(before - Unread(), Star::kCostPerTurn + kPeerBytesPerCall) << "turn " << turn;
    if (Unread() > 0) {
      EXPECT_GT(owner_.wakes, 0) << "the rest needs another turn";
    }
  }
  EXPECT_EQ(received, kHosts - 1);
  EXPECT_GE(star_.cost(), (kHosts - 1) * (512 << 10)) << "the tenant pays";
}

TEST_F(StarOfManyTest, ATurnSendsALimitedNumberOfBytes) {
  star_.Broadcast(StalledOn(256 << 10));
  EXPECT_EQ(Written(), 0u) << "the caller's turn sends nothing";
  for (int turn = 0; turn < 10'000 && !star_.flushed(); ++turn) {
    const size_t before = Written();
    Turn();
    EXPECT_LE(Written() - before, Star::kCostPerTurn + kPeerBytesPerCall) << "turn " << turn;
    if (!star_.flushed()) {
      EXPECT_GT(owner_.wakes, 0) << "the rest needs another turn";
    }
  }
  for (const auto& wire : wires_) EXPECT_EQ(wire->Written().size(), 1u);
}

TEST_F(StarOfManyTest, ForwardsFailuresOfLimitedLengthAndNumber) {
  for (int i = 0; i < 2 * kHosts; ++i) wires_[0]->Deliver(Failure(std::string(64 << 10, 'x')));
  wires_[0]->waker->Wake();
  while (Turn() > 0 || !star_.flushed()) {
  }
  EXPECT_EQ(wires_[1]->Written().size(), static_cast<size_t>(Star::kMaxForwardedFailures));
  EXPECT_LE(wires_[1]->written.size(), Star::kMaxForwardedFailures * (kMaxPeerTextBytes + 100));
  wires_[2]->Deliver(Failure("another host's"));
  wires_[2]->waker->Wake();
  while (Turn() > 0 || !star_.flushed()) {
  }
  EXPECT_EQ(wires_[1]->Written().back().failed().message(), "another host's");
}

TEST_F(StarTest, IsFlushedWhenEverythingIsWritten) {
  auto one = Join(1);
  one->room = 2;
  star_.Broadcast(Departed(1));
  EXPECT_FALSE(star_.flushed());
  one->room = 1000;
  star_.Poll();
  EXPECT_TRUE(star_.flushed());
}

}  // namespace star_test
}  // namespace mccs
