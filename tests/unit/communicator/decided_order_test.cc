// Which operation may start when: a leader and members; the test plays the other hosts.
#include "service/communicator/schedule/decided_order.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/communicator/fake_connection.h"

namespace mccs {
namespace decided_order_test {

// The messages written to the connection since the last call.
std::vector<peer::Message> Written(FakeWire& wire) {
  std::vector<peer::Message> messages = wire.Written();
  wire.written.clear();
  return messages;
}

StarMessage From(int host, const peer::Message& message) { return {HostIndex(host), message}; }

peer::Message Parse(const std::string& text) {
  peer::Message message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

peer::Message Wanted() { return Parse("order_request {}"); }
peer::Message Asked() { return Parse("order_hold {}"); }
peer::Message StartedUpTo(uint64_t operation) {
  return Parse(absl::StrCat("order_started { operation: ", operation, " }"));
}
peer::Message BeginsAfter(uint64_t operation) {
  return Parse(absl::StrCat("order_begins { after: ", operation, " }"));
}
peer::Message Next(uint64_t operation, uint64_t captured) {
  return Parse(absl::StrCat("order_next { operation: ", operation, " captured: ", captured, " }"));
}

class LeaderTest : public testing::Test {
 protected:
  LeaderTest() {
    for (int host : {1, 2}) {
      auto wire = std::make_shared<FakeWire>();
      star_.Accept(std::make_unique<FakeConnection>(wire));
      peer::Message hello;
      hello.mutable_hello()->set_host_index(host);
      wire->Deliver(hello);
      star_.Poll();
      wires_.push_back(std::move(wire));
    }
  }
  bool OnMessage(int host, const peer::Message& message) {
    const auto handled = order_.OnMessage(From(host, message));
    return handled.ok() && *handled;
  }
  // Messages to host 1 (0) or 2 (1) since the last call.
  std::vector<peer::Message> Sent(size_t wire) {
    star_.Poll();
    return Written(*wires_[wire]);
  }

  Star star_{HostIndex(0), 3};
  std::vector<std::shared_ptr<FakeWire>> wires_;
  std::optional<uint64_t> left_;  // by the last host
  DecidedOrder order_{
      &star_, 3, [this](HostIndex host) { return host == HostIndex(2) ? left_ : std::nullopt; }};
};

TEST_F(LeaderTest, SendsNothingWithoutReplays) {
  for (uint64_t n = 1; n <= 5; ++n) {
    ASSERT_TRUE(order_.Allows(n, kPosted));
    EXPECT_FALSE(order_.Allows(n, 1));
    order_.Started(n, kPosted);
    order_.Poll();
  }
  for (size_t wire : {0, 1}) EXPECT_TRUE(Sent(wire).empty());
}

TEST_F(LeaderTest, HoldsAllHostsAndContinuesAfterHighest) {
  order_.Started(1, kPosted);
  order_.Request();
  order_.Request();
  for (size_t wire : {0, 1}) {
    const auto sent = Sent(wire);
    ASSERT_EQ(sent.size(), 1u);
    EXPECT_TRUE(sent[0].has_order_hold());
  }
  EXPECT_FALSE(order_.Allows(2, kPosted));
  EXPECT_TRUE(OnMessage(1, StartedUpTo(3)));
  EXPECT_FALSE(order_.Poll());
  EXPECT_TRUE(OnMessage(2, StartedUpTo(0)));
  EXPECT_TRUE(order_.Poll());
  EXPECT_EQ(Sent(0).at(0).order_begins().after(), 3u);
  for (uint64_t n : {2u, 3u}) {  // started by another host
    EXPECT_FALSE(order_.Allows(n, 1));
    ASSERT_TRUE(order_.Allows(n, kPosted));
    order_.Started(n, kPosted);
  }
  EXPECT_TRUE(Sent(0).empty());
  EXPECT_TRUE(order_.Allows(4, kPosted));
  ASSERT_TRUE(order_.Allows(4, 1));
  order_.Started(4, 1);
  const auto sent = Sent(0);
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].order_next().operation(), 4u);
  EXPECT_EQ(sent[0].order_next().captured(), 1u);
}

TEST_F(LeaderTest, StartsOnMembersRequest) {
  EXPECT_TRUE(OnMessage(2, Wanted()));
  EXPECT_TRUE(OnMessage(1, Wanted()));
  ASSERT_EQ(Sent(0).size(), 1u) << "one request";
}

TEST_F(LeaderTest, DoesNotWaitForDepartedHost) {
  order_.Request();
  EXPECT_TRUE(OnMessage(1, StartedUpTo(1)));
  left_ = 0;
  EXPECT_TRUE(order_.Poll());
  EXPECT_EQ(Sent(0).at(1).order_begins().after(), 1u);
}

// It has completed the operation, so the other hosts will run it too.
TEST_F(LeaderTest, ContinuesAfterLastOperationOfDepartedHost) {
  order_.Request();
  EXPECT_TRUE(OnMessage(1, StartedUpTo(4)));
  left_ = 5;
  EXPECT_TRUE(order_.Poll());
  EXPECT_EQ(Sent(0).at(1).order_begins().after(), 5u);
  EXPECT_FALSE(order_.Allows(5, 1));
  EXPECT_TRUE(order_.Allows(5, kPosted));
}

TEST_F(LeaderTest, RejectsUnexpectedAnswers) {
  EXPECT_FALSE(order_.OnMessage(From(1, StartedUpTo(1))).ok());
  EXPECT_FALSE(order_.OnMessage(From(1, Asked())).ok());
  EXPECT_FALSE(order_.OnMessage(From(1, Next(1, 0))).ok());
  EXPECT_FALSE(OnMessage(1, peer::Message())) << "not meant for the order";
}

TEST_F(LeaderTest, RejectsDuplicateAndImplausibleAnswers) {
  order_.Request();
  EXPECT_TRUE(absl::IsDataLoss(order_.OnMessage(From(1, StartedUpTo(~uint64_t{0}))).status()));
  EXPECT_TRUE(OnMessage(1, StartedUpTo(1)));
  EXPECT_TRUE(absl::IsDataLoss(order_.OnMessage(From(1, StartedUpTo(1))).status()));
}

// The request may have been sent before the departure was known.
TEST_F(LeaderTest, IgnoresAnswerOfDepartedHost) {
  order_.Request();
  EXPECT_TRUE(OnMessage(1, StartedUpTo(1)));
  left_ = 1;
  EXPECT_TRUE(order_.Poll());
  EXPECT_TRUE(OnMessage(2, StartedUpTo(7)));
  EXPECT_TRUE(order_.Allows(2, 1)) << "no boundary applies to it";
}

class MemberTest : public testing::Test {
 protected:
  bool OnMessage(const peer::Message& message) {
    const auto handled = order_.OnMessage(From(0, message));
    return handled.ok() && *handled;
  }

  Star star_{HostIndex(1), HostIndex(0), 3, nullptr};
  DecidedOrder order_{&star_, 3, [](HostIndex) { return std::nullopt; }};
};

TEST_F(MemberTest, RunsDecisionsInOrder) {
  order_.Started(1, kPosted);
  EXPECT_TRUE(OnMessage(Asked()));
  EXPECT_FALSE(order_.Allows(2, kPosted));
  EXPECT_TRUE(OnMessage(BeginsAfter(2)));
  ASSERT_TRUE(order_.Allows(2, kPosted));
  EXPECT_TRUE(OnMessage(Next(3, 7)));
  EXPECT_TRUE(OnMessage(Next(4, 0)));
  order_.Started(2, kPosted);
  EXPECT_FALSE(order_.Allows(3, kPosted));
  EXPECT_FALSE(order_.Allows(3, 6));
  ASSERT_TRUE(order_.Allows(3, 7));
  order_.Started(3, 7);
  ASSERT_TRUE(order_.Allows(4, kPosted));
  order_.Started(4, kPosted);
  EXPECT_FALSE(order_.Allows(5, kPosted));
}

TEST_F(MemberTest, RejectsInvalidOrders) {
  EXPECT_FALSE(order_.OnMessage(From(0, BeginsAfter(1))).ok());
  EXPECT_FALSE(order_.OnMessage(From(2, Asked())).ok()) << "not the leader";
  order_.Started(5, kPosted);
  EXPECT_TRUE(OnMessage(Asked()));
  EXPECT_FALSE(order_.OnMessage(From(0, Asked())).ok());
  EXPECT_FALSE(order_.OnMessage(From(0, Next(6, 1))).ok());
  EXPECT_FALSE(order_.OnMessage(From(0, BeginsAfter(4))).ok()) << "before the running operation";
  EXPECT_TRUE(OnMessage(BeginsAfter(5)));
  EXPECT_FALSE(order_.OnMessage(From(0, Next(7, 1))).ok());
  EXPECT_TRUE(OnMessage(Next(6, 1)));
  EXPECT_FALSE(order_.OnMessage(From(0, Next(6, 1))).ok());
}

TEST(DecidedOrder, SingleHostAllowsEverything) {
  DecidedOrder order(nullptr, 1, nullptr);
  order.Request();
  EXPECT_TRUE(order.Allows(1, 3));
  order.Started(1, 3);
  EXPECT_TRUE(order.Allows(2, kPosted));
  EXPECT_FALSE(order.Poll());
}

}  // namespace decided_order_test
}  // namespace mccs
