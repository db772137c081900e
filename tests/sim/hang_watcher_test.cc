// An operation that some ranks have not entered is named in the log and the reports of every host;
// it completes after they enter it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace hang_watcher_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr uint64_t kCount = 1000;
constexpr int64_t kHangTimeoutNs = 10 * kNsPerSec;
constexpr int64_t kOneSecondNs = kNsPerSec;

// The last report of host h's communicator.
std::string StalledOn(SimWorld& world, int h) {
  const auto& reports = world.host(h).controller().reports;
  return reports.empty() ? "" : reports.begin()->second.stalled_on();
}

// In the metrics of host h.
std::vector<AwaitedRank> Awaited(SimWorld& world, int h) {
  std::vector<AwaitedRank> ranks;
  for (const auto& [id, of] : world.host(h).daemon().counters()->awaited_ranks.All()) {
    EXPECT_FALSE(of.tenant.empty());
    ranks.insert(ranks.end(), of.ranks.begin(), of.ranks.end());
  }
  return ranks;
}

TEST(SimHangWatcher, NamesMissingRanksOnEveryHost) {
  for (const int missing : {0, 1, 3, 4}) {
    SCOPED_TRACE(testing::Message() << "rank " << missing << " is missing");
    auto [world, job] = JobWorld({.seed = 1, .hosts = 3}, {0, 0, 1, 1, 2}, 64 << 10);
    job.Fill(kCount);
    job.PostAll(OpKind::kAllReduce, kCount);
    ASSERT_TRUE(job.Complete());
    job.Fill(kCount);
    for (int r = 0; r < job.ranks(); ++r) {
      if (r != missing) job.Post(r, OpKind::kAllReduce, kCount);
    }
    world.RunFor(kHangTimeoutNs - kOneSecondNs);
    for (int h = 0; h < 3; ++h) EXPECT_EQ(world.host(h).log().Count("wait for"), 0u);
    world.RunFor(2 * kOneSecondNs);
    const std::string host = missing == 4 ? "h2" : missing == 3 ? "h1" : "h0";
    const std::string expected =
        "wait for rank " + std::to_string(missing) + " on " + host + ", which has not called it";
    for (int h = 0; h < 3; ++h) {
      EXPECT_EQ(world.host(h).log().Count(expected), 1u) << "host " << h;
      EXPECT_THAT(StalledOn(world, h),
                  AllOf(HasSubstr("operation #2 (all_reduce #2 count 1000"), HasSubstr(expected)));
    }
    EXPECT_THAT(Awaited(world, 0), ElementsAre(AwaitedRank{missing, host}));
    EXPECT_THAT(Awaited(world, 1), IsEmpty()) << "the leader has it";
    job.Post(missing, OpKind::kAllReduce, kCount);
    ASSERT_TRUE(job.Complete());
    world.RunFor(kOneSecondNs);
    for (int h = 0; h < 3; ++h) EXPECT_EQ(StalledOn(world, h), "") << "host " << h;
    EXPECT_THAT(Awaited(world, 0), IsEmpty());
    EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kCount), 0u);
  }
}

TEST(SimHangWatcher, DistinguishesLateStreamFromMissingCall) {
  auto [world, job] = JobWorld({.seed = 2, .hosts = 2}, {0, 1, 1}, 64 << 10);
  job.Fill(kCount);
  job.Post(0, OpKind::kAllReduce, kCount);
  job.Post(1, OpKind::kAllReduce, kCount);
  job.rank(1).region().ready[0].value.store(0);  // its stream has not reached the call
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_THAT(StalledOn(world, 0),
              AllOf(HasSubstr("rank 0 waits for rank 2 on h1, which has not called it"),
                    HasSubstr("; and for rank 1 on h1, whose stream has not reached it")));
}

TEST(SimHangWatcher, RepeatsAReportAtMostOncePerMinute) {
  auto [world, job] = JobWorld({.seed = 3, .hosts = 2}, {0, 1}, 64 << 10);
  job.Fill(kCount);
  job.Post(1, OpKind::kAllReduce, kCount);
  world.RunFor(6 * kHangTimeoutNs);
  EXPECT_EQ(world.host(0).log().Count("rank 1 waits for rank 0 on h0"), 1u);
  world.RunFor(6 * kHangTimeoutNs);
  EXPECT_EQ(world.host(0).log().Count("rank 1 waits for rank 0 on h0"), 2u);
}

// A broadcast's root may be several operations ahead.
TEST(SimHangWatcher, NamesTheOldestPendingOperation) {
  auto [world, job] = JobWorld({.seed = 4, .hosts = 3}, {0, 1, 2}, 64 << 10);
  job.Fill(kCount);
  for (const int r : {0, 1}) {
    job.Post(r, OpKind::kBroadcast, kCount, /*root=*/0);
    job.Post(r, OpKind::kAllReduce, kCount);
  }
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_GE(world.host(0).log().Count("operation #1"), 1u);
  EXPECT_GE(world.host(0).log().Count("wait for rank 2 on h2, which has not called it"), 1u);
}

TEST(SimHangWatcher, DoesNotReportASlowOperation) {
  const SimNetworkOptions slow{.min_delay_ns = 200 * kNsPerMs,
                               .max_delay_ns = 200 * kNsPerMs,
                               .max_portion_bytes = 16 << 10,
                               .buffer_bytes = 64 << 10};
  constexpr uint64_t kMany = 1 << 20;
  auto [world, job] =
      JobWorld({.seed = 5, .hosts = 2, .network = slow}, {0, 1}, kMany * sizeof(float));
  job.Fill(kMany);
  job.PostAll(OpKind::kAllReduce, kMany);
  ASSERT_FALSE(job.Complete(kHangTimeoutNs + kOneSecondNs));
  ASSERT_TRUE(job.Complete(20 * kHangTimeoutNs));
  for (int h = 0; h < 2; ++h) EXPECT_EQ(world.host(h).log().Count("wait"), 0u);
}

TEST(SimHangWatcher, WorksOnASingleHost) {
  auto [world, job] = JobWorld({.seed = 6, .hosts = 1}, {0, 0, 0}, 64 << 10);
  job.Fill(kCount);
  job.Post(1, OpKind::kAllReduce, kCount);
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_THAT(StalledOn(world, 0),
              HasSubstr("rank 1 waits for ranks 0, 2 on h0, which have not called it"));
}

// ---- Sends and receives -------------------------------------------------------------------------

TEST(SimHangWatcher, NamesRanksWithoutSendOrReceive) {
  auto [world, job] = JobWorld({.seed = 4, .hosts = 2}, {0, 1, 1}, 64 << 10);
  job.Fill(kCount);
  job.Post(0, {.sends = false, .peer = 1, .at = 0, .count = 10});
  job.Post(2, {.sends = true, .peer = 1, .at = 0, .count = 20});
  world.RunFor(kHangTimeoutNs - kOneSecondNs);
  for (int h = 0; h < 2; ++h) EXPECT_EQ(StalledOn(world, h), "");
  world.RunFor(4 * kOneSecondNs);
  const std::string receives =
      "rank 0 waits for rank 1 on h1, which has not sent the data of recv #1 of rank 0 from rank 1 "
      "count 10 type float32";
  const std::string sends =
      "rank 2 waits for rank 1 on h1, which has not posted a receive for send #1 of rank 2 to rank "
      "1 count 20 type float32";
  EXPECT_EQ(StalledOn(world, 0), receives);
  EXPECT_EQ(StalledOn(world, 1), sends);
  EXPECT_EQ(world.host(0).log().Count(receives), 1u);
  EXPECT_EQ(world.host(1).log().Count(sends), 1u);
  for (int h = 0; h < 2; ++h) EXPECT_THAT(Awaited(world, h), ElementsAre(AwaitedRank{1, "h1"}));
  job.Post(1, {.sends = true, .peer = 0, .at = 0, .count = 10, .more = true});
  job.Post(1, {.sends = false, .peer = 2, .at = 0, .count = 20});
  ASSERT_TRUE(job.Complete());
  world.RunFor(kOneSecondNs);
  for (int h = 0; h < 2; ++h) {
    EXPECT_EQ(StalledOn(world, h), "");
    EXPECT_THAT(Awaited(world, h), IsEmpty());
    EXPECT_EQ(world.host(h).log().Count("progress again"), 1u);
  }
}

// Other messages between the same hosts continue meanwhile.
TEST(SimHangWatcher, ReportsOneStalledMessageAmongProgressingOnes) {
  auto [world, job] = JobWorld({.seed = 5, .hosts = 2}, {0, 0, 1, 1}, 64 << 10);
  job.Fill(kCount);
  job.Post(0, {.sends = true, .peer = 2, .at = 0, .count = 5});
  for (int64_t second = 0; second < 14; ++second) {
    job.Post(1, {.sends = true, .peer = 3, .at = 0, .count = kCount});
    job.Post(3, {.sends = false, .peer = 1, .at = 0, .count = kCount});
    world.RunFor(kOneSecondNs);
  }
  EXPECT_THAT(StalledOn(world, 0), HasSubstr("rank 0 waits for rank 2 on h1"));
  EXPECT_EQ(StalledOn(world, 1), "");
}

TEST(SimHangWatcher, ReportsStalledMessageWithinAHost) {
  auto [world, job] = JobWorld({.seed = 6, .hosts = 1}, {0, 0}, 64 << 10);
  job.Fill(kCount);
  job.Post(1, {.sends = false, .peer = 0, .at = 0, .count = 5});
  world.RunFor(kHangTimeoutNs + 4 * kOneSecondNs);
  EXPECT_THAT(StalledOn(world, 0), HasSubstr("rank 1 waits for rank 0 on h0, which has not sent"));
}

}  // namespace hang_watcher_test
}  // namespace mccs
