// Ranks that abort during an operation, followed by other failures before the other ranks know.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/sim_job.h"

namespace mccs {
namespace aborts_test {

using testing::HasSubstr;

// One or two ranks on each of three hosts; host 0 leads.
class SimAborts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(job_.Form());
    job_.PostAll(OpKind::kAllReduce, 200'000);
    world_.RunFor(100 * kNsPerUs);
    ASSERT_FALSE(job_.Done());
  }
  void Abort(int r) {
    job_.Abort(r);
    ASSERT_TRUE(job_.RunUntilEnded(r, kNsPerSec)) << "rank " << r;
    world_.RunFor(kNsPerSec);
  }
  void ExpectNoneFailed(std::initializer_list<int> ranks) {
    for (int r : ranks) EXPECT_FALSE(job_.rank(r).failed()) << r << ": " << job_.rank(r).failure();
  }
  // At once, with all causes.
  void ExpectAllFail(std::initializer_list<int> ranks, const char* cause) {
    for (int r : ranks) {
      EXPECT_TRUE(job_.RunUntilFailed({r}, kNsPerSec)) << "rank " << r;
      EXPECT_THAT(job_.rank(r).failure(), HasSubstr("was aborted in the middle of operation #1"));
      EXPECT_THAT(job_.rank(r).failure(), HasSubstr(cause));
      EXPECT_EQ(job_.rank(r).done(), 0u) << "the stream of rank " << r << " must stay blocked";
    }
  }

  SimWorld world_{{.seed = 7, .hosts = 3}};
  SimJob job_{world_, {0, 1, 1, 2, 2}, 1 << 20};
};

// Only the leader can report it to the others.
TEST_F(SimAborts, LeaderWithoutRanksForwardsADeath) {
  Abort(0);
  ExpectNoneFailed({1, 2, 3, 4});
  job_.tenant(1).Kill();
  ExpectAllFail({2, 3, 4}, "rank 1 left: its process");
}

TEST_F(SimAborts, DeathOfHostIsReportedAtOnce) {
  Abort(1);
  ExpectNoneFailed({0, 2, 3, 4});
  world_.Kill(2);
  ExpectAllFail({0, 2}, "connection to host h2 lost: ");
}

TEST_F(SimAborts, DeathOfLeaderIsReportedAtOnce) {
  Abort(1);
  world_.Kill(0);
  ExpectAllFail({2, 3, 4}, "connection to host h0 lost: ");
}

// Their daemons close what no rank there needs; that is not a failure.
TEST_F(SimAborts, HostsWithOnlyAbortedRanksCauseNoFailure) {
  job_.Destroy(1);  // returns after the operation
  for (int r : {3, 0, 2}) Abort(r);
  EXPECT_TRUE(job_.rank(1).ended);
  world_.RunFor(5 * kNsPerSec);
  EXPECT_EQ(world_.host(1).daemon().communicators(), 0u);
  ExpectNoneFailed({4});
  Abort(4);
  for (int h : {0, 2}) EXPECT_EQ(world_.host(h).daemon().communicators(), 0u) << "host " << h;
}

TEST_F(SimAborts, OnlyTheFirstDeathAfterAnAbortIsReported) {
  Abort(3);
  ExpectNoneFailed({0, 1, 2, 4});
  job_.tenant(1).Kill();
  ExpectAllFail({0, 2, 4}, "rank 1 left: its process");
  job_.tenant(2).Kill();
  world_.RunFor(35 * kNsPerSec);
  EXPECT_THAT(job_.rank(0).failure(), Not(HasSubstr("rank 2 left")));
}

}  // namespace aborts_test
}  // namespace mccs
