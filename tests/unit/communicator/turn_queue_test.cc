#include "service/communicator/turn_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <set>
#include <vector>

namespace mccs {
namespace turn_queue_test {

using Takers = std::vector<const TurnQueue::Participant*>;

class TurnQueueTest : public testing::Test {
 protected:
  Takers Round(MonotonicNs now) {
    Takers turns;
    queue_.BeginRound(now);
    while (const TurnQueue::Participant* participant = queue_.Next()) turns.push_back(participant);
    return turns;
  }

  TurnQueue queue_;
  TurnQueue::Participant a_{queue_}, b_{queue_}, c_{queue_};
};

TEST_F(TurnQueueTest, NoTurnWithoutWake) {
  EXPECT_EQ(Round(1), Takers{});
  EXPECT_EQ(a_.turns(), 0u);
  EXPECT_EQ(queue_.NextDeadline(), kNever);
}

TEST_F(TurnQueueTest, OneTurnEachInWakeOrder) {
  c_.Wake();
  a_.Wake();
  c_.Wake();
  EXPECT_TRUE(c_.woken());
  EXPECT_EQ(queue_.due().size(), 2u);
  EXPECT_EQ(Round(1), (Takers{&c_, &a_}));
  EXPECT_FALSE(c_.woken());
  EXPECT_EQ(Round(2), Takers{});
  EXPECT_EQ(c_.turns(), 1u);
}

TEST_F(TurnQueueTest, WakeDuringTurnCountsForNextRound) {
  a_.Wake();
  queue_.BeginRound(1);
  EXPECT_EQ(queue_.Next(), &a_);
  a_.Wake();
  queue_.SleepUntil(a_, 1000);  // it does not rest: it was woken in the meantime
  EXPECT_EQ(queue_.Next(), nullptr);
  EXPECT_TRUE(a_.woken());
  EXPECT_EQ(queue_.NextDeadline(), kNever);
  EXPECT_EQ(Round(2), Takers{&a_});
}

TEST_F(TurnQueueTest, WakeBeforeTurnUsesThatTurn) {
  a_.Wake();
  b_.Wake();
  queue_.BeginRound(1);
  EXPECT_EQ(queue_.Next(), &a_);
  b_.Wake();
  c_.Wake();
  EXPECT_EQ(queue_.Next(), &b_);
  EXPECT_EQ(queue_.Next(), nullptr);
  EXPECT_EQ(Round(2), Takers{&c_}) << "b's turn has handled its wake-up";
}

TEST_F(TurnQueueTest, RequeuedMembersAreNotWoken) {
  a_.Wake();
  queue_.BeginRound(1);
  queue_.Requeue(*queue_.Next());
  EXPECT_EQ(queue_.Next(), nullptr);
  EXPECT_FALSE(a_.woken());
  ASSERT_EQ(queue_.due().size(), 1u);
  EXPECT_EQ(Round(2), Takers{&a_});
}

TEST_F(TurnQueueTest, DestroyedMembersAreRemoved) {
  auto gone = std::make_unique<TurnQueue::Participant>(queue_);
  gone->Wake();
  a_.Wake();
  gone.reset();
  EXPECT_EQ(Round(1), Takers{&a_});
  gone = std::make_unique<TurnQueue::Participant>(queue_);
  gone->Wake();
  queue_.BeginRound(2);
  queue_.SleepUntil(*queue_.Next(), 5);
  EXPECT_EQ(queue_.Next(), nullptr);
  gone.reset();
  EXPECT_EQ(queue_.NextDeadline(), kNever);
  EXPECT_EQ(Round(6), Takers{});
}

// Against a list that is searched linearly.
TEST(TurnQueueSeeds, EveryDueMemberGetsExactlyOneTurn) {
  struct Member {
    explicit Member(TurnQueue& queue) : participant(queue) {}
    TurnQueue::Participant participant;
    bool due = false;
    MonotonicNs deadline = kNever;
  };
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    TurnQueue queue;
    std::deque<Member> members;
    for (int i = 0; i < 30; ++i) members.emplace_back(queue);
    MonotonicNs now = 1;
    for (int round = 0; round < 300; ++round) {
      now += static_cast<MonotonicNs>(random() % 20);
      for (uint64_t i = random() % 4; i > 0; --i) {
        Member& woken = members[random() % members.size()];
        woken.participant.Wake();
        woken.due = true;
      }
      std::set<const TurnQueue::Participant*> expected;
      MonotonicNs first = kNever;
      for (Member& member : members) {
        if (member.due || member.deadline <= now) expected.insert(&member.participant);
        if (!member.due) first = std::min(first, member.deadline);
      }
      if (expected.empty()) {
        ASSERT_EQ(queue.NextDeadline(), first);
      }
      ASSERT_LE(queue.NextDeadline(), first);
      queue.BeginRound(now);
      while (TurnQueue::Participant* participant = queue.Next()) {
        ASSERT_EQ(expected.erase(participant), 1u);
        Member& member = *std::find_if(members.begin(), members.end(), [&](const Member& m) {
          return &m.participant == participant;
        });
        member.due = random() % 4 == 0;
        member.deadline = kNever;
        if (member.due) {
          queue.Requeue(*participant);
        } else if (random() % 3 != 0) {
          member.deadline = now + 1 + static_cast<MonotonicNs>(random() % 200);
          queue.SleepUntil(*participant, member.deadline);
        }
      }
      ASSERT_TRUE(expected.empty());
    }
  }
}

}  // namespace turn_queue_test
}  // namespace mccs
