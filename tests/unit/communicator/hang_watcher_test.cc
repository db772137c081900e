// The sentence about ranks that wait for others, also for invalid answers.
#include "service/communicator/schedule/hang_watcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/mentions.h"

namespace mccs {
namespace hang_watcher_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DescribeStallTest : public testing::Test {
 protected:
  DescribeStallTest() {
    members_.layout.hosts = {{Rank(0), Rank(1)}, {Rank(2), Rank(3)}};
    for (const char* name : {"h0", "h1"}) members_.roster.add_hosts()->set_name(name);
    members_.self = members_.leader = HostIndex(0);
  }

  peer::Entered& Answer(int host, uint64_t operation) {
    peer::Entered& entered = answers_.entered[HostIndex(host)];
    entered.set_operation(operation);
    return entered;
  }
  StalledOn Describe() const { return DescribeStall(members_, answers_); }

  Membership members_;
  HostAnswers answers_;
};

TEST_F(DescribeStallTest, EmptyWhenAllHaveEntered) {
  Answer(0, 7);
  Answer(1, 7);
  EXPECT_THAT(Describe().text, IsEmpty());
}

TEST_F(DescribeStallTest, EmptyWhenNoneHasEntered) {
  Answer(0, 7).add_not_entered(0);
  answers_.entered[HostIndex(0)].add_not_entered(1);
  Answer(1, 7).add_not_entered(2);
  answers_.entered[HostIndex(1)].add_not_entered(3);
  EXPECT_THAT(Describe().text, IsEmpty());
}

TEST_F(DescribeStallTest, UsesTheHostThatIsBehind) {
  Answer(0, 9).add_not_entered(0);  // has completed its part of #8 and not started #9
  Answer(1, 8).add_not_entered(3);
  const StalledOn stalled_on = Describe();
  EXPECT_EQ(stalled_on.operation, 8u);
  EXPECT_THAT(stalled_on.text, OneLineMentions("operation #8", "ranks 1, 2", "rank 3", "h1"));
}

TEST_F(DescribeStallTest, NamesHostWithoutAnswer) {
  Answer(0, 8);
  answers_.unanswered = {HostIndex(1)};
  const StalledOn stalled_on = Describe();
  EXPECT_THAT(stalled_on.text, HasSubstr("host h1, whose daemon has not answered"));
  EXPECT_THAT(stalled_on.hosts, ElementsAre(AwaitedHost{"h1", StallCause::kDaemon}));
  EXPECT_THAT(stalled_on.ranks, IsEmpty());
  EXPECT_FALSE(stalled_on.ranks_missing);
}

TEST_F(DescribeStallTest, HasTheRanksAndTheLongestWait) {
  Answer(0, 8).set_waited_ms(10'000);
  peer::Entered& behind = Answer(1, 8);
  behind.add_not_entered(3);
  behind.set_waited_ms(9'999);
  const StalledOn stalled_on = Describe();
  EXPECT_THAT(stalled_on.ranks, ElementsAre(AwaitedRank{3, "h1"}));
  EXPECT_THAT(stalled_on.hosts, IsEmpty());
  EXPECT_TRUE(stalled_on.ranks_missing);
  EXPECT_EQ(stalled_on.waited_ms, 10'000u);
}

TEST_F(DescribeStallTest, IgnoresRanksOfOtherHosts) {
  Answer(0, 8);
  peer::Entered& liar = Answer(1, 8);
  for (const int rank : {-1, 0, 3, 3, 1'000'000}) liar.add_not_entered(rank);
  liar.set_call("two\nlines");
  const StalledOn stalled_on = Describe();
  EXPECT_THAT(stalled_on.text,
              OneLineMentions("operation #8", "two lines", "ranks 0, 1, 2", "rank 3", "h1"));
}

TEST_F(DescribeStallTest, TruncatesLongRankLists) {
  members_.layout.hosts = {{}, {}};
  for (int r = 0; r < 50; ++r) members_.layout.hosts[0].push_back(Rank(r));
  members_.layout.hosts[1] = {Rank(50)};
  Answer(0, 1);
  Answer(1, 1).add_not_entered(50);
  EXPECT_THAT(Describe().text, HasSubstr("14, 15 and 34 more wait for rank 50 on h1"));
  EXPECT_THAT(Describe().text, Not(HasSubstr("16,")));
}

}  // namespace hang_watcher_test
}  // namespace mccs
