// Traces of a communicator's operations, as an operator requests them, while jobs run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "tests/sim/scenario.h"

namespace mccs {
namespace sim_operation_trace_test {

using testing::HasSubstr;

constexpr uint64_t kCount = 2;  // 8 B

CommId IdOf(SimWorld& world) { return world.host(0).controller().announced.front(); }

void Request(SimWorld& world, int host, uint64_t request_id, uint32_t operations) {
  world.host(host).controller().trace_orders.push_back(
      {.request_id = request_id, .id = IdOf(world), .operations = operations});
}

bool HasAnswer(SimWorld& world, int host, uint64_t request_id) {
  return world.host(host).controller().traces.contains(request_id);
}

trace::Host AnswerOf(SimWorld& world, int host, uint64_t request_id) {
  EXPECT_TRUE(world.RunUntil([&] { return HasAnswer(world, host, request_id); }));
  return world.host(host).controller().traces[request_id];
}

// A slice of the other host may land before this host sends one, so there are two orders.
std::vector<int64_t> StepsUntilSent(const trace::Operation& operation) {
  return {operation.first_posted_ns(), operation.all_posted_ns(), operation.started_ns(),
          operation.first_sent_ns(), operation.done_ns()};
}
std::vector<int64_t> StepsUntilLanded(const trace::Operation& operation) {
  return {operation.started_ns(), operation.first_landed_ns(), operation.last_landed_ns(),
          operation.device_done_ns(), operation.done_ns()};
}

TEST(SimOperationTrace, StampsAreMonotonicAndResultsAreUnchanged) {
  for (auto [seed, random] : Seeds(20)) {
    auto [world, job] = JobWorld({.seed = seed, .hosts = 2}, {0, 0, 1}, 1 << 16);
    const uint64_t before = random() % 3;
    for (uint64_t i = 0; i < before; ++i) ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
    for (const int host : {0, 1}) Request(world, host, 1, 5);
    world.RunFor(kNsPerMs);
    for (int i = 0; i < 6; ++i) ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
    for (const int host : {0, 1}) {
      SCOPED_TRACE(host);
      const trace::Host traced = AnswerOf(world, host, 1);
      EXPECT_EQ(traced.error(), "");
      ASSERT_EQ(traced.operations_size(), 5);
      int64_t last_done = 0;
      for (int i = 0; i < 5; ++i) {
        const trace::Operation& operation = traced.operations(i);
        EXPECT_EQ(operation.number(), before + static_cast<uint64_t>(i) + 1);
        EXPECT_EQ(operation.kind(), "all_reduce");
        EXPECT_EQ(operation.bytes(), kCount * sizeof(float));
        for (const auto& steps : {StepsUntilSent(operation), StepsUntilLanded(operation)}) {
          EXPECT_TRUE(std::ranges::is_sorted(steps)) << operation.ShortDebugString();
          EXPECT_GE(steps.front(), last_done) << operation.ShortDebugString();
        }
        last_done = operation.done_ns();
      }
    }
  }
}

// The same seed with and without a trace: the same messages at the same times.
TEST(SimOperationTrace, TracingChangesNoTiming) {
  for (auto [seed, random] : Seeds(10)) {
    std::vector<MonotonicNs> ends;
    for (const bool traces : {false, true}) {
      auto [world, job] = JobWorld({.seed = seed, .hosts = 2}, {0, 1, 1}, 1 << 16);
      if (traces) {
        for (const int host : {0, 1}) Request(world, host, 1, 1000);
      }
      world.RunFor(kNsPerMs);
      for (int i = 0; i < 10; ++i) ASSERT_EQ(job.Run(OpKind::kAllReduce, 1000), "");
      ends.push_back(world.clock().Now());
    }
    EXPECT_EQ(ends[0], ends[1]);
  }
}

TEST(SimOperationTrace, OneHostHasNoHopsOfLanes) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, {0, 0}, 1 << 16);
  Request(world, 0, 1, 2);
  world.RunFor(kNsPerMs);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
  const trace::Host traced = AnswerOf(world, 0, 1);
  ASSERT_EQ(traced.operations_size(), 2);
  for (const trace::Operation& operation : traced.operations()) {
    EXPECT_EQ(operation.first_sent_ns(), 0);
    EXPECT_EQ(operation.first_landed_ns(), 0);
    EXPECT_EQ(operation.last_landed_ns(), 0);
    EXPECT_LE(operation.started_ns(), operation.device_done_ns());
    EXPECT_LE(operation.device_done_ns(), operation.done_ns());
  }
}

// Rank 1 posts 3 ms after rank 0, so the first hop has this time.
TEST(SimOperationTrace, ShowsTheTimeForWhichRanksWaitForEachOther) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, {0, 0}, 1 << 16);
  Request(world, 0, 1, 1);
  world.RunFor(kNsPerMs);
  job.Post(0, OpKind::kAllReduce, kCount);
  world.RunFor(3 * kNsPerMs);
  job.Post(1, OpKind::kAllReduce, kCount);
  const trace::Host traced = AnswerOf(world, 0, 1);
  ASSERT_EQ(traced.operations_size(), 1);
  const trace::Operation& operation = traced.operations(0);
  EXPECT_NEAR(static_cast<double>(operation.all_posted_ns() - operation.first_posted_ns()),
              3 * kNsPerMs, 0.1 * kNsPerMs);
}

TEST(SimOperationTrace, LeavesOutAnOperationThatRanksHaveEnteredBefore) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, {0, 0}, 1 << 16);
  job.Post(0, OpKind::kAllReduce, kCount);
  world.RunFor(kNsPerMs);
  Request(world, 0, 1, 1);
  world.RunFor(kNsPerMs);
  job.Post(1, OpKind::kAllReduce, kCount);
  ASSERT_TRUE(job.Complete());
  ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
  const trace::Host traced = AnswerOf(world, 0, 1);
  ASSERT_EQ(traced.operations_size(), 1);
  EXPECT_EQ(traced.operations(0).number(), 2u);
}

TEST(SimOperationTrace, AnIdleCommunicatorTimesOut) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, {0, 0}, 1 << 16);
  const MonotonicNs start = world.clock().Now();
  Request(world, 0, 1, 3);
  world.RunFor(kNsPerMs);
  ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
  EXPECT_TRUE(
      world.RunUntil([&] { return HasAnswer(world, 0, 1); }, 2 * OperationTrace::kTimeoutNs));
  EXPECT_NEAR(static_cast<double>(world.clock().Now() - start),
              static_cast<double>(OperationTrace::kTimeoutNs), 0.1 * kNsPerSec)
      << "the engine wakes up for it";
  const trace::Host traced = AnswerOf(world, 0, 1);
  EXPECT_EQ(traced.operations_size(), 1);
  EXPECT_THAT(traced.error(), HasSubstr("traced 1 of 3 operations: timed out after 10 s"));
}

TEST(SimOperationTrace, RejectsWhatItCannotTrace) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, {0, 0}, 1 << 16);
  Request(world, 0, 1, 10);
  Request(world, 0, 2, 10);
  Request(world, 0, 3, 0);
  Request(world, 0, 4, OperationTrace::kMaxOperations + 1);
  world.host(0).controller().trace_orders.push_back(
      {.request_id = 5, .id = CommId(99), .operations = 10});
  EXPECT_THAT(AnswerOf(world, 0, 2).error(), HasSubstr("already running on this host"));
  EXPECT_THAT(AnswerOf(world, 0, 3).error(), HasSubstr("expected 1 to 1000"));
  EXPECT_THAT(AnswerOf(world, 0, 4).error(), HasSubstr("expected 1 to 1000"));
  EXPECT_THAT(AnswerOf(world, 0, 5).error(), HasSubstr("does not run on this host"));
  EXPECT_FALSE(HasAnswer(world, 0, 1)) << "it still runs";
}

TEST(SimOperationTrace, BoundsTracesPerDaemon) {
  SimWorld world({.seed = 1, .hosts = 1});
  std::deque<SimJob> jobs;
  for (size_t i = 0; i <= CommunicatorTable::kMaxTraces; ++i)
    ASSERT_TRUE(jobs.emplace_back(world, std::vector<int>{0}, 1 << 12).Form());
  SimController& controller = world.host(0).controller();
  for (size_t i = 0; i <= CommunicatorTable::kMaxTraces; ++i) {
    controller.trace_orders.push_back(
        {.request_id = i + 1, .id = controller.announced[i], .operations = 1});
  }
  EXPECT_THAT(AnswerOf(world, 0, CommunicatorTable::kMaxTraces + 1).error(),
              HasSubstr("4 traces are already running on this host"));
  EXPECT_EQ(controller.traces.size(), 1u) << "the others run";
  ASSERT_EQ(jobs[0].Run(OpKind::kAllReduce, kCount), "");
  EXPECT_EQ(AnswerOf(world, 0, 1).operations_size(), 1);
}

TEST(SimOperationTrace, StopsOnRequestAndCanStartAgain) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 1}, {0, 0}, 1 << 16);
  Request(world, 0, 1, 10);
  world.RunFor(kNsPerMs);
  ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
  world.host(0).controller().trace_orders.push_back(
      {.request_id = 1, .id = IdOf(world), .stop = true});
  EXPECT_EQ(AnswerOf(world, 0, 1).error(), "traced 1 of 10 operations: stopped");
  Request(world, 0, 2, 1);
  world.RunFor(kNsPerMs);
  ASSERT_EQ(job.Run(OpKind::kAllReduce, kCount), "");
  EXPECT_EQ(AnswerOf(world, 0, 2).operations_size(), 1);
}

TEST(SimOperationTrace, EndsWithItsCommunicator) {
  auto [world, job] = JobWorld({.seed = 1, .hosts = 2}, {0, 1}, 1 << 20);
  Request(world, 0, 1, 10);
  world.RunFor(kNsPerMs);
  job.Fill(100'000);
  job.PostAll(OpKind::kAllReduce, 100'000);
  world.RunFor(10 * kNsPerUs);
  world.Kill(1);
  EXPECT_THAT(AnswerOf(world, 0, 1).error(), HasSubstr("the communicator ended"));
}

}  // namespace sim_operation_trace_test
}  // namespace mccs
