#include "service/communicator/turns/turn_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace mccs {
namespace turn_queue_test {

using Takers = std::vector<const TurnQueue::Participant*>;

constexpr int64_t kQuantum = 100;

class TurnQueueTest : public testing::Test {
 protected:
  Takers Round(MonotonicNs now) {
    Takers turns;
    queue_.BeginRound(now);
    while (const TurnQueue::Participant* participant = queue_.Next()) turns.push_back(participant);
    return turns;
  }
  Takers Due() {
    Takers due;
    queue_.ForEachDue([&](TurnQueue::Participant& participant) { due.push_back(&participant); });
    return due;
  }

  TurnQueue queue_{kQuantum};
  TurnQueue::Participant a_{queue_, "red"}, b_{queue_, "red"}, c_{queue_, "red"};
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
  EXPECT_TRUE(queue_.any_woken());
  EXPECT_EQ(Due(), (Takers{&c_, &a_}));
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
  EXPECT_FALSE(queue_.any_woken());
  EXPECT_EQ(Due(), Takers{&a_});
  EXPECT_EQ(Round(2), Takers{&a_});
}

TEST_F(TurnQueueTest, DestroyedMembersAreRemoved) {
  auto gone = std::make_unique<TurnQueue::Participant>(queue_, "red");
  gone->Wake();
  a_.Wake();
  gone.reset();
  EXPECT_EQ(Round(1), Takers{&a_});
  gone = std::make_unique<TurnQueue::Participant>(queue_, "red");
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
    explicit Member(TurnQueue& queue) : participant(queue, "red") {}
    TurnQueue::Participant participant;
    bool due = false;
    MonotonicNs deadline = kNever;
  };
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    TurnQueue queue(kQuantum);
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

// ---- Tenants ------------------------------------------------------------------------------------

TEST_F(TurnQueueTest, ATenantWithManyMembersGetsNoMoreThanATenantWithOne) {
  std::deque<TurnQueue::Participant> many;
  for (int i = 0; i < 64; ++i) many.emplace_back(queue_, "blue").Wake();
  a_.Wake();
  int red = 0;
  int blue = 0;
  for (int round = 0; round < 640; ++round) {
    queue_.BeginRound(1);
    while (TurnQueue::Participant* participant = queue_.Next()) {
      ++(participant == &a_ ? red : blue);
      TurnQueue::Charge(*participant, kQuantum);
      queue_.Requeue(*participant);
    }
  }
  EXPECT_EQ(red, 640);
  EXPECT_EQ(blue, 640);
  for (const TurnQueue::Participant& member : many) EXPECT_EQ(member.turns(), 10u);
}

TEST_F(TurnQueueTest, MembersBeyondTheCreditStayDueInTheirOrder) {
  TurnQueue::Participant other(queue_, "blue");
  for (TurnQueue::Participant* member : {&a_, &b_, &c_, &other}) member->Wake();
  const auto round = [&](int64_t cost) {
    Takers turns;
    queue_.BeginRound(1);
    while (TurnQueue::Participant* participant = queue_.Next()) {
      turns.push_back(participant);
      TurnQueue::Charge(*participant, cost);
    }
    return turns;
  };
  EXPECT_EQ(round(kQuantum / 2), (Takers{&a_, &b_, &other}));
  EXPECT_TRUE(queue_.backlogged());
  EXPECT_TRUE(queue_.any_woken());
  EXPECT_EQ(Due(), Takers{&c_});
  EXPECT_EQ(round(0), Takers{&c_});
  EXPECT_FALSE(queue_.backlogged());
  EXPECT_FALSE(queue_.any_woken());
}

// A round is needed at once only for members without a turn; otherwise the caller could never rest.
TEST_F(TurnQueueTest, RequeuedMembersAreNoBacklog) {
  std::deque<TurnQueue::Participant> many;
  for (int i = 0; i < 10; ++i) many.emplace_back(queue_, "blue").Wake();
  a_.Wake();
  for (int sweep = 0; sweep < 3; ++sweep) {
    int rounds = 0;
    do {
      ++rounds;
      queue_.BeginRound(1);
      while (TurnQueue::Participant* participant = queue_.Next()) {
        TurnQueue::Charge(*participant, kQuantum / 2);
        queue_.Requeue(*participant);
      }
    } while (queue_.backlogged() && rounds < 100);
    EXPECT_EQ(rounds, 5);
    EXPECT_FALSE(queue_.any_woken());
    for (const TurnQueue::Participant& member : many) {
      EXPECT_EQ(member.turns(), static_cast<uint64_t>(sweep) + 1);
    }
  }
}

TEST_F(TurnQueueTest, ATenantRepaysItsDebt) {
  TurnQueue::Participant other(queue_, "blue");
  const auto turns_of = [&](int64_t cost_of_a) {
    a_.Wake();
    other.Wake();
    Takers turns;
    queue_.BeginRound(1);
    while (TurnQueue::Participant* participant = queue_.Next()) {
      turns.push_back(participant);
      TurnQueue::Charge(*participant, participant == &a_ ? cost_of_a : 1);
    }
    return turns;
  };
  EXPECT_EQ(turns_of(4 * kQuantum), (Takers{&a_, &other}));
  for (int round = 0; round < 3; ++round) EXPECT_EQ(turns_of(1), Takers{&other}) << round;
  EXPECT_EQ(turns_of(1).size(), 2u);
}

TEST_F(TurnQueueTest, ATenantAloneNeverWaitsForItsCredit) {
  for (int round = 0; round < 10; ++round) {
    a_.Wake();
    queue_.BeginRound(1);
    ASSERT_EQ(queue_.Next(), &a_) << round;
    TurnQueue::Charge(a_, 1000 * kQuantum);
    EXPECT_EQ(queue_.Next(), nullptr);
  }
}

TEST_F(TurnQueueTest, AnInterruptedRoundContinues) {
  for (TurnQueue::Participant* member : {&a_, &b_}) member->Wake();
  auto gone = std::make_unique<TurnQueue::Participant>(queue_, "blue");
  gone->Wake();
  queue_.BeginRound(1);
  EXPECT_EQ(queue_.Next(), &a_);
  EXPECT_TRUE(queue_.in_round());
  EXPECT_EQ(Due(), (Takers{&b_, gone.get()}));
  gone.reset();
  a_.Wake();
  EXPECT_EQ(queue_.Next(), &b_);
  EXPECT_EQ(queue_.Next(), nullptr);
  EXPECT_FALSE(queue_.in_round());
  EXPECT_EQ(Round(2), Takers{&a_});
}

TEST_F(TurnQueueTest, AMemberMovesToAnotherTenantWithItsTurn) {
  TurnQueue::Participant other(queue_, "blue");
  for (TurnQueue::Participant* member : {&a_, &b_, &other}) member->Wake();
  queue_.MoveTo(a_, "blue");
  queue_.BeginRound(1);
  EXPECT_EQ(queue_.Next(), &b_);
  TurnQueue::Charge(b_, kQuantum);
  EXPECT_EQ(queue_.Next(), &other);
  TurnQueue::Charge(other, kQuantum);
  EXPECT_EQ(queue_.Next(), nullptr) << "a shares the credit of the other member of its tenant";
  EXPECT_TRUE(a_.woken());
  EXPECT_EQ(Round(2), Takers{&a_});
}

// Tenants whose members are always due and can use a quantum in one turn each, one that pauses, and
// turns of random cost. Between any two rounds the service of two busy tenants differs by less than
// two of the most expensive turns.
TEST(TurnQueueSeeds, BusyTenantsGetEqualServiceInAnyWindow) {
  constexpr int64_t kMostExpensive = 7 * kQuantum;
  constexpr size_t kBusy = 4;
  constexpr int kRounds = 400;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    TurnQueue queue(kQuantum);
    struct Member {
      Member(TurnQueue& queue, size_t its_tenant)
          : participant(queue, std::string(1, static_cast<char>('a' + its_tenant))),
            tenant(its_tenant) {}
      TurnQueue::Participant participant;
      const size_t tenant;
      int last_turn = 0;
    };
    std::deque<Member> members;                 // those of the tenant that pauses come last
    std::array<int64_t, kBusy + 1> least_of{};  // cost of a turn
    std::array<int64_t, kBusy + 1> range_of{};
    size_t most_members = 0;
    for (size_t tenant = 0; tenant <= kBusy; ++tenant) {
      const size_t own = 1 + random() % 20;
      most_members = std::max(most_members, own);
      for (size_t i = 0; i < own; ++i) members.emplace_back(queue, tenant);
      least_of[tenant] = kQuantum / static_cast<int64_t>(own) + 1;
      range_of[tenant] = 1 + static_cast<int64_t>(random() % (kMostExpensive - kQuantum - 1));
    }
    for (Member& member : members) {
      if (member.tenant < kBusy) member.participant.Wake();
    }
    std::array<int64_t, kBusy> service{};
    std::vector<std::array<int64_t, kBusy>> after;  // every round
    for (int round = 1; round <= kRounds; ++round) {
      const bool back = random() % 10 == 0;
      int64_t of_returned = 0;
      for (Member& member : members) {
        if (back && member.tenant == kBusy) member.participant.Wake();
      }
      queue.BeginRound(1);
      while (TurnQueue::Participant* participant = queue.Next()) {
        Member& member = *std::find_if(members.begin(), members.end(), [&](const Member& m) {
          return &m.participant == participant;
        });
        const bool busy = member.tenant < kBusy;
        const auto more = random() % static_cast<uint64_t>(range_of[member.tenant]);
        const int64_t cost = least_of[member.tenant] + static_cast<int64_t>(more);
        TurnQueue::Charge(*participant, cost);
        if (busy) {
          service[member.tenant] += cost;
          queue.Requeue(*participant);
        } else {
          of_returned += cost;
        }
        member.last_turn = round;
      }
      after.push_back(service);
      ASSERT_LE(of_returned, kQuantum + kMostExpensive) << "credit gathered while idle";
      const auto longest = static_cast<int>(most_members * (kMostExpensive / kQuantum + 1)) + 1;
      for (const Member& member : members) {
        if (member.tenant == kBusy) continue;
        ASSERT_LE(round - member.last_turn, longest) << "starved";
      }
    }
    for (size_t begin = 0; begin < after.size(); begin += 7) {
      for (size_t end = begin + 1; end < after.size(); end += 5) {
        int64_t least = std::numeric_limits<int64_t>::max();
        int64_t most = 0;
        for (size_t tenant = 0; tenant < kBusy; ++tenant) {
          const int64_t served = after[end][tenant] - after[begin][tenant];
          least = std::min(least, served);
          most = std::max(most, served);
        }
        ASSERT_LT(most - least, 2 * kMostExpensive) << "rounds " << begin << " to " << end;
      }
    }
  }
}

}  // namespace turn_queue_test
}  // namespace mccs
