// An operation that some ranks have not entered is named in the log and the reports of every host;
// it completes after they enter it. One that all have entered and that makes no progress is named
// by the hosts that wait. The metrics have both, after a time that the tenant does not choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace hang_watcher_test {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr uint64_t kCount = 1000;
constexpr int64_t kHangTimeoutNs = 10 * kNsPerSec;
constexpr int64_t kOneSecondNs = kNsPerSec;

// The last report of host h's communicator.
std::string StalledOn(SimWorld& world, int h) {
  const auto& reports = world.host(h).controller().reports;
  return reports.empty() ? "" : reports.begin()->second.stalled_on();
}

// In the metrics of host h.
Stalls::OfCommunicator Stalled(SimWorld& world, int h) {
  Stalls::OfCommunicator stalled;
  for (const auto& [id, of] : world.host(h).daemon().counters()->stalls.All()) {
    EXPECT_FALSE(of.tenant.empty());
    stalled.ranks.insert(stalled.ranks.end(), of.ranks.begin(), of.ranks.end());
    stalled.hosts.insert(stalled.hosts.end(), of.hosts.begin(), of.hosts.end());
  }
  return stalled;
}
std::vector<AwaitedRank> Awaited(SimWorld& world, int h) { return Stalled(world, h).ranks; }
std::vector<AwaitedHost> AwaitedHosts(SimWorld& world, int h) { return Stalled(world, h).hosts; }

testing::Matcher<AwaitedHost> Is(const std::string& host) {
  return Field(&AwaitedHost::host, host);
}

// All-reduces use the lanes of the ring h0 → h1 → h2 → h0.
SimWorldOptions Ring(uint64_t seed, int hosts = 3) {
  SimWorldOptions options{.seed = seed, .hosts = hosts};
  options.algorithms.rules = {{OpKind::kAllReduce, Algorithm::kRing}};
  return options;
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
    world.RunFor(4 * kOneSecondNs);
    for (int h = 0; h < 3; ++h) {
      EXPECT_THAT(AwaitedHosts(world, h), IsEmpty()) << "host " << h << " waits for the rank";
      EXPECT_EQ(world.host(h).log().Count("makes no progress"), 0u);
    }
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
  EXPECT_THAT(Awaited(world, 0), ElementsAre(AwaitedRank{2, "h2"})) << "the leader is ahead";
  world.RunFor(kHangTimeoutNs);
  for (int h = 0; h < 3; ++h) EXPECT_THAT(AwaitedHosts(world, h), IsEmpty()) << "host " << h;
  job.Post(2, OpKind::kBroadcast, kCount, /*root=*/0);
  job.Post(2, OpKind::kAllReduce, kCount);
  ASSERT_TRUE(job.Complete());
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_THAT(Awaited(world, 0), IsEmpty());
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

// ---- The tenant's MCCS_WARN_AFTER ---------------------------------------------------------------

class SimWarnAfter : public testing::Test {
 protected:
  // Rank 1 does not call.
  void Begin(uint32_t warn_after_ms) {
    for (int r : {0, 1}) job_.tenant(r).SetWarnAfter(warn_after_ms);
    ASSERT_TRUE(job_.Form());
    job_.Fill(kCount);
    job_.Post(0, OpKind::kAllReduce, kCount);
  }
  size_t Logged(int h) { return world_.host(h).log().Count("rank 0 waits for rank 1 on h1"); }

  SimWorld world_{{.seed = 1, .hosts = 2}};
  SimJob job_{world_, {0, 1}, 64 << 10};
};

TEST_F(SimWarnAfter, ALongOneDelaysOnlyTheLog) {
  Begin(60'000);
  world_.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_THAT(Awaited(world_, 0), ElementsAre(AwaitedRank{1, "h1"}));
  for (int h : {0, 1}) {
    EXPECT_THAT(StalledOn(world_, h), HasSubstr("rank 0 waits for rank 1 on h1"));
    EXPECT_EQ(Logged(h), 0u);
  }
  world_.RunFor(50 * kOneSecondNs);
  for (int h : {0, 1}) EXPECT_EQ(Logged(h), 1u);
}

TEST_F(SimWarnAfter, AShortOneDoesNotCountEarlier) {
  Begin(1000);
  world_.RunFor(3 * kOneSecondNs);
  for (int h : {0, 1}) EXPECT_EQ(Logged(h), 1u);
  EXPECT_THAT(StalledOn(world_, 0), HasSubstr("rank 0 waits for rank 1 on h1"));
  EXPECT_THAT(Awaited(world_, 0), IsEmpty());
  world_.RunFor(kHangTimeoutNs - 2 * kOneSecondNs);
  EXPECT_THAT(Awaited(world_, 0), ElementsAre(AwaitedRank{1, "h1"}));
}

// ---- Operations without progress ----------------------------------------------------------------

constexpr uint64_t kMany = 200'000;

TEST(SimHangWatcher, NamesTheHostsOfLanesThatDeliverNothing) {
  auto [world, job] = JobWorld(Ring(7), {0, 1, 2}, 1 << 20);
  world.network().Partition(SimAddress(1), SimAddress(2));
  job.Fill(kMany);
  job.PostAll(OpKind::kAllReduce, kMany);
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  for (int h = 0; h < 3; ++h) EXPECT_THAT(AwaitedHosts(world, h), IsEmpty());
  world.RunFor(4 * kOneSecondNs);
  EXPECT_THAT(AwaitedHosts(world, 2), Contains(AwaitedHost{"h1", StallCause::kData}));
  EXPECT_THAT(AwaitedHosts(world, 1), Contains(Is("h2")));
  EXPECT_THAT(StalledOn(world, 2),
              AllOf(HasSubstr("operation #1 (all_reduce #1 count 200000"),
                    HasSubstr("makes no progress: "), HasSubstr("h1 sends no data")));
  EXPECT_GE(world.host(2).log().Count("h1 sends no data"), 1u);
  for (int h = 0; h < 3; ++h) EXPECT_THAT(Awaited(world, h), IsEmpty()) << "all have entered";
  world.network().Heal(SimAddress(1), SimAddress(2));
  ASSERT_TRUE(job.Complete());
  world.RunFor(kOneSecondNs);
  for (int h = 0; h < 3; ++h) {
    EXPECT_THAT(AwaitedHosts(world, h), IsEmpty());
    EXPECT_EQ(StalledOn(world, h), "");
  }
  EXPECT_EQ(job.Wrong(OpKind::kAllReduce, kMany), 0u);
}

TEST(SimHangWatcher, ALateRankDoesNotHideAStalledNetwork) {
  auto [world, job] = JobWorld(Ring(8), {0, 1, 2}, 1 << 20);
  job.Fill(kMany);
  for (const int r : {0, 1}) job.Post(r, OpKind::kAllReduce, kMany);
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_THAT(Awaited(world, 0), ElementsAre(AwaitedRank{2, "h2"}));
  world.network().Partition(SimAddress(1), SimAddress(2));
  job.Post(2, OpKind::kAllReduce, kMany);
  world.RunFor(kHangTimeoutNs + kOneSecondNs);
  EXPECT_THAT(Awaited(world, 0), IsEmpty()) << "the rank has entered";
  for (int h = 0; h < 3; ++h) EXPECT_THAT(StalledOn(world, h), Not(HasSubstr("not called")));
  world.RunFor(kHangTimeoutNs + 4 * kOneSecondNs);
  EXPECT_THAT(AwaitedHosts(world, 2), Contains(AwaitedHost{"h1", StallCause::kData}));
}

TEST(SimHangWatcher, NamesADaemonThatDoesNotAnswer) {
  auto [world, job] = JobWorld(Ring(9), {0, 1, 2}, 1 << 20);
  world.network().Partition(SimAddress(0), SimAddress(1));
  world.network().Partition(SimAddress(0), SimAddress(2));
  job.Fill(kMany);
  job.PostAll(OpKind::kAllReduce, kMany);
  world.RunFor(kHangTimeoutNs + 5 * kOneSecondNs);
  for (const int h : {1, 2}) {
    const std::string name = "h" + std::to_string(h);
    EXPECT_THAT(AwaitedHosts(world, 0), Contains(AwaitedHost{name, StallCause::kDaemon}));
    EXPECT_THAT(AwaitedHosts(world, h), Contains(AwaitedHost{"h0", StallCause::kDaemon}))
        << "the leader does not answer " << name;
    EXPECT_THAT(StalledOn(world, h), HasSubstr("host h0, whose daemon has not answered"));
  }
  for (const int h : {1, 2}) world.network().Heal(SimAddress(0), SimAddress(h));
  ASSERT_TRUE(job.Complete());
  world.RunFor(kOneSecondNs);
  for (int h = 0; h < 3; ++h) {
    EXPECT_THAT(AwaitedHosts(world, h), IsEmpty());
    EXPECT_EQ(StalledOn(world, h), "");
  }
}

TEST(SimHangWatcher, NamesARateThatStopsAnOperation) {
  auto [world, job] = JobWorld(Ring(10, /*hosts=*/2), {0, 1}, 1 << 20);
  RateLimits limits;
  const auto limit = [&, &world = world](uint64_t rate_bps) {
    ++limits.revision;
    limits.lanes = {{ChannelId(0), HostIndex(0), HostIndex(1), rate_bps}};
    for (int h : {0, 1}) {
      SimController& controller = world.host(h).controller();
      controller.rate_updates.push_back({world.host(0).controller().announced.front(), limits});
    }
    world.RunFor(kOneSecondNs);
  };
  limit(1000);
  job.Fill(kMany);
  job.PostAll(OpKind::kAllReduce, kMany);
  world.RunFor(2 * kHangTimeoutNs);
  for (int h : {0, 1})
    EXPECT_THAT(AwaitedHosts(world, h), IsEmpty()) << "each slice takes long, but bytes move";
  limit(1);
  world.RunFor(2 * kHangTimeoutNs);
  EXPECT_THAT(AwaitedHosts(world, 0), Contains(AwaitedHost{"h1", StallCause::kRate}));
  EXPECT_THAT(AwaitedHosts(world, 1), Contains(AwaitedHost{"h0", StallCause::kData}));
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

TEST(SimHangWatcher, NamesTheHostsOfAMessageThatStopsHalfway) {
  auto [world, job] = JobWorld({.seed = 7, .hosts = 2, .network = kSlowNetwork}, {0, 1}, 1 << 20);
  job.Fill(kMany);
  job.Post(0, {.sends = true, .peer = 1, .at = 0, .count = kMany});
  job.Post(1, {.sends = false, .peer = 0, .at = 0, .count = kMany});
  const uint64_t before = world.network().bytes_arrived();
  ASSERT_TRUE(
      world.RunUntil([&] { return world.network().bytes_arrived() > before + (100 << 10); }));
  world.network().Partition(SimAddress(0), SimAddress(1));
  world.RunFor(kHangTimeoutNs + 6 * kOneSecondNs);
  EXPECT_THAT(AwaitedHosts(world, 1), ElementsAre(AwaitedHost{"h0", StallCause::kData}));
  EXPECT_THAT(AwaitedHosts(world, 0), ElementsAre(Is("h1")));
  EXPECT_THAT(StalledOn(world, 1),
              AllOf(HasSubstr("rank 1 has received only "),
                    HasSubstr(" of 800000 bytes from rank 0 on h0: recv #1 of rank 1")));
  EXPECT_THAT(StalledOn(world, 0), HasSubstr("message lane 0 to h1 makes no progress: "));
  for (int h = 0; h < 2; ++h) EXPECT_THAT(Awaited(world, h), IsEmpty()) << "both have called";
  world.network().Heal(SimAddress(0), SimAddress(1));
  ASSERT_TRUE(job.Complete());
  world.RunFor(kOneSecondNs);
  for (int h = 0; h < 2; ++h) {
    EXPECT_THAT(AwaitedHosts(world, h), IsEmpty());
    EXPECT_EQ(StalledOn(world, h), "");
  }
}

}  // namespace hang_watcher_test
}  // namespace mccs
