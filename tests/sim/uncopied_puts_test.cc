// Puts of another host into windows on GPUs, whose process is late to copy them or never does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace uncopied_puts_test {

using testing::AllOf;
using testing::HasSubstr;

constexpr size_t kBytes = 64 << 10;
constexpr uint64_t kCount = 1000;
constexpr int64_t kWarnNs = 13 * kNsPerSec;
constexpr int64_t kEndNs = 5 * kNsPerSec;  // more than a communicator waits for processes that copy

// Rank 0 is alone on its host and puts into the window of rank 1, whose process does not copy. Rank
// 2 is another process beside it.
class SimUncopiedPuts : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(job_.Form());
    job_.Fill(kCount);
    job_.OpenWindow(1, kCount);
    job_.tenant(1).HoldCopies();
    job_.Post(0, SimJob::Put{.peer = 1, .count = kCount});
    ASSERT_TRUE(world_.RunUntil([&] { return job_.tenant(1).held_copies() > 0; }));
  }
  std::string StalledOn() {
    const auto& reports = world_.host(1).controller().reports;
    return reports.empty() ? "" : reports.begin()->second.stalled_on();
  }
  bool Ends(int r) {
    return world_.RunUntil([&] { return job_.rank(r).ended; }, kEndNs);
  }

  SimWorld world_{{.seed = 1, .hosts = 2, .kernels = true}};
  SimJob job_{world_, {0, 1, 1}, kBytes};
};

TEST_F(SimUncopiedPuts, TheProcessIsNamed) {
  world_.RunFor(kWarnNs);
  EXPECT_THAT(StalledOn(), AllOf(HasSubstr("process "),
                                 HasSubstr(" of rank 1 on h1 has not copied a "
                                           "put of rank 0 into window #1"),
                                 HasSubstr("cudaFree")));
  EXPECT_EQ(world_.host(1).log().Count("has not copied a put"), 1u);
  EXPECT_EQ(world_.host(0).log().Count("has not copied a put"), 0u);
  job_.tenant(1).AnswerHeldCopies();
  world_.RunFor(kNsPerSec);
  EXPECT_EQ(StalledOn(), "");
}

TEST_F(SimUncopiedPuts, ARankOfAnotherProcessLeaves) {
  job_.tenant(2).Destroy(job_.rank(2));
  EXPECT_TRUE(Ends(2));
  EXPECT_FALSE(job_.rank(1).ended);
}

// The copy may still write into the window of the process that did not answer, and nowhere else.
TEST_F(SimUncopiedPuts, AFailedCommunicatorEndsOnTheHost) {
  for (int r : {1, 2}) job_.Post(r, OpKind::kAllReduce, kCount);
  job_.tenant(0).Kill();
  ASSERT_TRUE(world_.RunUntil([&] { return job_.rank(1).failed(); }, kNsPerSec));
  for (int r : {1, 2}) job_.Abort(r);
  for (int r : {1, 2}) EXPECT_TRUE(Ends(r)) << "rank " << r;
  job_.tenant(1).AnswerHeldCopies();  // late, and legal
  world_.RunFor(kNsPerSec);
  EXPECT_EQ(world_.host(1).log().Count("closing the session"), 0u);
}

// The other ranks go on.
TEST_F(SimUncopiedPuts, TheRankOfTheWindowLeavesAHealthyCommunicator) {
  job_.Destroy(1);
  EXPECT_TRUE(Ends(1));
  for (int r : {0, 2}) EXPECT_FALSE(job_.rank(r).failed()) << job_.rank(r).failure();
  job_.tenant(1).AnswerHeldCopies();  // late, and legal
  world_.RunFor(kNsPerSec);
  EXPECT_EQ(world_.host(1).log().Count("closing the session"), 0u);
}

// A process that copies as usual does so before its rank has left.
TEST_F(SimUncopiedPuts, ARankThatLeavesWaitsForACopyThatIsLate) {
  job_.Abort(1);
  world_.RunFor(kNsPerSec / 2);
  EXPECT_FALSE(job_.rank(1).ended) << "the copy may write into its window";
  job_.tenant(1).AnswerHeldCopies();
  EXPECT_TRUE(world_.RunUntil([&] { return job_.rank(1).ended; }, kNsPerSec / 2));
}

// The put counts at its sender, which dies before the put's signal counts at the waiting rank.
TEST_F(SimUncopiedPuts, AWaitForMoreThanADeadRankHasSentFails) {
  job_.Post(1, SimJob::Wait{.peer = 0, .signals = 2});
  world_.RunFor(kNsPerSec);  // until the put is complete at rank 0
  ASSERT_EQ(job_.rank(0).done(), 1u);
  job_.tenant(0).Kill();
  EXPECT_TRUE(job_.RunUntilFailed({1}, kNsPerSec));
}

TEST_F(SimUncopiedPuts, AWaitForWhatADeadRankHasSentWaitsForTheCopy) {
  job_.Post(1, SimJob::Wait{.peer = 0});
  world_.RunFor(kNsPerSec);
  job_.tenant(0).Kill();
  EXPECT_FALSE(job_.RunUntilFailed({1}, kNsPerSec));
  job_.tenant(1).AnswerHeldCopies();
  EXPECT_TRUE(world_.RunUntil([&] { return job_.rank(1).done() == 1; }, kNsPerSec));
}

// The other communicators of the process get no turns from its answers.
TEST_F(SimUncopiedPuts, AnAnswerWakesNoOtherCommunicator) {
  SimRank& alone = job_.tenant(1).Split(job_.rank(1), 0, 0);
  for (int r : {0, 2}) job_.tenant(r).Split(job_.rank(r), 1, r);
  ASSERT_TRUE(world_.RunUntil([&] { return alone.answered; }));
  world_.RunFor(20 * kNsPerSec);  // until it has nothing more to report
  const uint64_t before = world_.host(1).daemon().TurnsOf(alone.id);
  job_.tenant(1).AnswerHeldCopies();
  job_.Post(1, SimJob::Wait{.peer = 0});
  ASSERT_TRUE(world_.RunUntil([&] { return job_.rank(1).done() > 0; }));
  EXPECT_EQ(world_.host(1).daemon().TurnsOf(alone.id), before);
}

// One host, whose processes cannot map each other's memory. Rank 0 puts into the window of rank 1,
// which does not copy; rank 2 is another process.
class SimUncopiedLocalPuts : public testing::Test {
 protected:
  void SetUp() override {
    for (int r = 0; r < 3; ++r) job_.tenant(r).Register(ProbeOf(r), kBytes);
    ASSERT_TRUE(world_.RunUntil([&] {
      return std::ranges::all_of(std::vector{0, 1, 2},
                                 [&](int r) { return job_.tenant(r).BufferAt(ProbeOf(r)) != 0; });
    }));
    for (int r = 0; r < 3; ++r) {
      job_.tenant(r).SetProbe(ProbeOf(r));
      job_.tenant(r).AnswerMapsWith(SimTenant::MapAnswer::kError);
    }
    ASSERT_TRUE(job_.Form());
    ASSERT_TRUE(job_.rank(0).stages_collectives);
    for (int r = 0; r < 3; ++r) job_.tenant(r).AnswerMapsWith(SimTenant::MapAnswer::kAddress);
    job_.Fill(kCount);
    job_.OpenWindow(1, kCount);
    job_.tenant(1).HoldCopies();
    job_.Post(0, SimJob::Put{.peer = 1, .count = kCount});
    ASSERT_TRUE(world_.RunUntil([&] { return job_.tenant(1).held_copies() > 0; }));
  }
  std::byte* ProbeOf(int r) { return probes_.data() + static_cast<size_t>(r) * kBytes; }
  bool Ends(int r) {
    return world_.RunUntil([&] { return job_.rank(r).ended; }, kEndNs);
  }

  SimWorld world_{{.seed = 1, .hosts = 1, .kernels = true}};
  SimJob job_{world_, {0, 0, 0}, kBytes};
  std::vector<std::byte> probes_ = std::vector<std::byte>(3 * kBytes);
};

TEST_F(SimUncopiedLocalPuts, ARankOfAnotherProcessLeaves) {
  job_.Destroy(2);
  EXPECT_TRUE(Ends(2));
}

// The copy reads memory of the one and writes into that of the other.
TEST_F(SimUncopiedLocalPuts, TheTwoRanksOfThePutLeaveAfterTheCopy) {
  for (int r : {0, 1}) job_.Abort(r);
  world_.RunFor(kNsPerSec / 2);
  for (int r : {0, 1}) EXPECT_FALSE(job_.rank(r).ended) << "rank " << r;
  job_.tenant(1).AnswerHeldCopies();
  for (int r : {0, 1}) EXPECT_TRUE(Ends(r)) << "rank " << r;
}

// The process may still read the source: it has to unmap it before that is released.
TEST_F(SimUncopiedLocalPuts, AFailedCommunicatorEnds) {
  job_.Post(1, OpKind::kAllReduce, kCount);
  job_.tenant(2).Kill();
  ASSERT_TRUE(job_.RunUntilFailed({0, 1}));
  for (int r : {0, 1}) job_.Abort(r);
  for (int r : {0, 1}) EXPECT_TRUE(Ends(r)) << "rank " << r;
}

}  // namespace uncopied_puts_test
}  // namespace mccs
