// The daemons' counters while a job runs (calls, bytes on lanes, strategy changes), and what
// remains after all have ended.
#include <gtest/gtest.h>

#include "service/communicator/lanes/lane_meter.h"
#include "tests/sim/scenario.h"

namespace mccs {
namespace counters_test {

constexpr uint64_t kCount = 50'000;
constexpr uint64_t kBytes = kCount * sizeof(float);

const TenantCounters::Work& WorkOf(const TenantCounters& tenant, OpKind kind) {
  return tenant.work[static_cast<size_t>(kind)];
}

TEST(SimCounters, CountCallsAndLaneBytesOfTheJob) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2}, {0, 1}, 1 << 20);
  job.Fill(kCount);
  for (int i = 0; i < 3; ++i) job.PostAll(OpKind::kAllReduce, kCount);
  job.Post(0, SimJob::Message{.sends = true, .peer = 1, .count = 100});
  job.Post(1, SimJob::Message{.sends = false, .peer = 0, .count = 100});
  ASSERT_TRUE(job.Complete());
  world.RunFor(kNsPerSec);  // for the last acknowledgements
  for (int host : {0, 1}) {
    SCOPED_TRACE(host);
    const auto counters = world.host(host).daemon().counters()->Of("uid 1000");
    EXPECT_EQ(WorkOf(*counters, OpKind::kAllReduce).operations.value(), 3u);
    EXPECT_EQ(WorkOf(*counters, OpKind::kAllReduce).bytes.value(), 3 * kBytes);
    EXPECT_EQ(WorkOf(*counters, host == 0 ? OpKind::kSend : OpKind::kRecv).bytes.value(),
              100 * sizeof(float));
    // In a ring of two, each host sends half of the data to be reduced, and the reduced half.
    const uint64_t message = 100 * sizeof(float);
    EXPECT_EQ(counters->sent.bytes.value(), 3 * kBytes + (host == 0 ? message : 0));
    EXPECT_EQ(counters->received.bytes.value(), 3 * kBytes + (host == 1 ? message : 0));
    EXPECT_EQ(counters->active.value(), 1);
    EXPECT_EQ(counters->forming.value(), 0);
    EXPECT_EQ(counters->sessions.value(), 1);
    EXPECT_EQ(counters->buffers.value(), 2);
    EXPECT_GE(counters->buffer_bytes.value(), 2 << 20);
  }
}

TEST(SimCounters, ReportMeasuredRatesAndRoundTrips) {
  constexpr uint64_t kLarge = 2u << 20;
  const SimNetworkOptions network;
  auto [world, job] = JobWorld(
      {.seed = 5, .hosts = 2, .lanes = {.slots = 16, .slot_bytes = 16u << 10}, .network = network},
      {0, 1}, kLarge * sizeof(float));
  job.Fill(kLarge);
  // One acknowledgement for half a window.
  for (int i = 0; i < 16 * LaneMeter::kMinSamples; ++i) {
    job.PostAll(OpKind::kAllReduce, 8);
    ASSERT_TRUE(job.Complete());
  }
  // Slices stay in flight long enough for a measurement of the rate.
  for (int i = 0; i < 4; ++i) job.PostAll(OpKind::kAllReduce, kLarge);
  ASSERT_TRUE(job.Complete());
  world.RunFor(kNsPerSec);  // for the next report
  for (int host : {0, 1}) {
    SCOPED_TRACE(host);
    const agent::v1::Report& report = world.host(host).controller().reports.begin()->second;
    EXPECT_GT(report.sent_bps(), 0u);
    ASSERT_EQ(report.lanes_size(), 1);
    EXPECT_GE(report.lanes(0).round_trip_ns(), 2 * network.min_delay_ns);
    EXPECT_LE(report.lanes(0).round_trip_ns(), 2 * network.max_delay_ns);
  }
}

TEST(SimCounters, CountStrategyChangesAndBytesAcrossThem) {
  auto [world, job] = JobWorld({.seed = 2, .hosts = 2}, {0, 1}, 1 << 20);
  const auto counters = world.host(1).daemon().counters()->Of("uid 1000");
  EXPECT_EQ(counters->highest_epoch.value(), 1);
  job.Fill(kCount);
  job.PostAll(OpKind::kAllReduce, kCount);
  ASSERT_TRUE(job.Complete());
  SimController& controller = world.host(0).controller();
  const Strategy next = MakeRingStrategy(Epoch(6), {HostIndex(1), HostIndex(0)}, 2);
  controller.proposals.push_back({controller.announced.front(), next});
  ASSERT_TRUE(world.RunUntil([&] { return counters->changes_done.value() == 1; }));
  EXPECT_EQ(counters->highest_epoch.value(), 6);
  EXPECT_EQ(counters->changes_rejected.value(), 0u);
  job.PostAll(OpKind::kAllReduce, kCount);
  ASSERT_TRUE(job.Complete());
  world.RunFor(kNsPerSec);
  EXPECT_EQ(counters->sent.bytes.value(), 2 * kBytes) << "over both sets of lanes";
}

// A Tenant is applied while its job runs: no byte is lost or counted twice.
TEST(SimCounters, UseTheNamesOfTenants) {
  auto [world, job] = JobWorld({.seed = 4, .hosts = 2}, {0, 1}, 1 << 20);
  job.Fill(kCount);
  const auto run = [&] {
    job.PostAll(OpKind::kAllReduce, kCount);
    ASSERT_TRUE(job.Complete());
    world.RunFor(kNsPerSec);
  };
  run();
  for (int host : {0, 1}) {
    world.host(host).controller().tenants = {
        {.name = "team-a",
         .selector = {.uids = {1000}, .sockets = {}, .cgroups = {}},
         .quotas = {}}};
  }
  run();
  run();
  for (int host : {0, 1}) {
    SCOPED_TRACE(host);
    const auto tenants = world.host(host).daemon().counters()->Tenants();
    EXPECT_EQ(WorkOf(*tenants.at("uid 1000"), OpKind::kAllReduce).bytes.value(), kBytes);
    EXPECT_EQ(WorkOf(*tenants.at("team-a"), OpKind::kAllReduce).bytes.value(), 2 * kBytes);
    EXPECT_EQ(tenants.at("uid 1000")->sent.bytes.value(), kBytes);
    EXPECT_EQ(tenants.at("team-a")->sent.bytes.value(), 2 * kBytes);
    EXPECT_EQ(tenants.at("uid 1000")->sessions.value(), 0);
    EXPECT_EQ(tenants.at("uid 1000")->buffers.value(), 0);
    EXPECT_EQ(tenants.at("team-a")->sessions.value(), 1);
    EXPECT_EQ(tenants.at("team-a")->buffers.value(), 2);
    EXPECT_EQ(tenants.at("team-a")->active.value(), 1);
  }
}

TEST(SimCounters, CountFailuresAndReturnToZero) {
  auto [world, job] = JobWorld({.seed = 3, .hosts = 2}, {0, 1}, 1 << 20);
  const auto counters = world.host(0).daemon().counters()->Of("uid 1000");
  job.Fill(kCount);
  job.Post(0, OpKind::kAllReduce, kCount);
  world.RunFor(kNsPerMs);
  world.Kill(1);
  ASSERT_TRUE(world.RunUntil([&] { return counters->failed.value() == 1; }));
  EXPECT_EQ(counters->failures[FailureClassOf(absl::UnavailableError(""))].value(), 1u);
  EXPECT_EQ(counters->active.value(), 0);
  EXPECT_EQ(counters->highest_epoch.value(), 0);
  job.tenant(0).Kill();
  ASSERT_TRUE(world.RunUntil([&] { return counters->sessions.value() == 0; }));
  EXPECT_EQ(counters->failed.value(), 0);
  EXPECT_EQ(counters->buffers.value(), 0);
  EXPECT_EQ(counters->buffer_bytes.value(), 0);
}

// The options of one call are recorded with it.
TEST(SimCallOptions, AreReportedToTheController) {
  auto [world, job] = JobWorld({.seed = 31}, {0, 1}, 1 << 12);
  const CallOptions urgent{
      .deadline_us = 2000, .priority = 7, .criticality = Criticality::kCritical};
  for (const CallOptions& options :
       {CallOptions{}, CallOptions{.priority = 1}, urgent, CallOptions{}}) {
    for (int r = 0; r < 2; ++r) {
      job.tenant(r).Post(job.rank(r),
                         {.count = 10, .send = {1, 0, 0}, .recv = {2, 0, 0}, .options = options});
    }
  }
  ASSERT_TRUE(job.Complete());
  world.RunFor(kNsPerSec);
  for (int h = 0; h < 2; ++h) {
    const auto& reports = world.host(h).controller().reports;
    ASSERT_EQ(reports.size(), 1u);
    const agent::v1::Report& report = reports.begin()->second;
    const agent::v1::CallsWithOptions& reported = report.with_options();
    EXPECT_EQ(reported.calls(), 2u);
    EXPECT_EQ(reported.last_number(), 3u);
    EXPECT_EQ(reported.deadline_us(), urgent.deadline_us);
    EXPECT_EQ(reported.priority(), urgent.priority);
    EXPECT_EQ(reported.criticality(), agent::v1::CRITICAL);
    ASSERT_EQ(report.work_size(), 1);
    EXPECT_EQ(report.work(0).kind(), "all_reduce");
    EXPECT_EQ(report.work(0).operations(), 4u);
    EXPECT_EQ(report.work(0).bytes(), 4u * 10 * sizeof(float));
    EXPECT_GT(report.measured_ns(), 0);
  }
}

}  // namespace counters_test
}  // namespace mccs
