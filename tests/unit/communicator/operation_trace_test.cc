#include "service/communicator/schedule/operation_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/sim_network.h"

namespace mccs {
namespace operation_trace_test {

constexpr uint64_t kPostedKey = 0;
constexpr char kWhy[] = "stopped";

class OperationTraceTest : public testing::Test {
 protected:
  void Advance(int64_t ns) { clock_.Set(clock_.Now() + ns); }
  // An operation that takes 10 ns from each step to the next.
  void Run(OperationTrace& trace, uint64_t number, bool has_lanes) {
    trace.OnPosted(kPostedKey, /*by_all=*/false);
    Advance(10);
    trace.OnPosted(kPostedKey, /*by_all=*/true);
    Advance(10);
    TracedOperation operation{.number = number,
                              .kind = OpKind::kAllReduce,
                              .bytes = 8,
                              .stamps = trace.TakeStamps(kPostedKey)};
    for (int slice = 0; has_lanes && slice < 2; ++slice) {
      Advance(10);
      operation.stamps.OnSent();
      Advance(10);
      operation.stamps.OnLanded();
    }
    Advance(10);
    operation.stamps.OnDeviceDone();
    Advance(10);
    operation.stamps.OnDeviceDone();
    trace.Add(operation);
  }
  static trace::Host ResultOf(const OperationTrace& trace) {
    trace::Host result;
    trace.WriteTo(kWhy, &result);
    return result;
  }

  SimClock clock_;
};

TEST_F(OperationTraceTest, RecordsStepsInOrder) {
  OperationTrace trace(1, clock_);
  const MonotonicNs start = clock_.Now();
  Run(trace, 7, /*has_lanes=*/true);
  const trace::Host result = ResultOf(trace);
  EXPECT_EQ(result.error(), "");
  EXPECT_EQ(result.requested(), 1u);
  ASSERT_EQ(result.operations_size(), 1);
  const trace::Operation& operation = result.operations(0);
  EXPECT_EQ(operation.number(), 7u);
  EXPECT_EQ(operation.kind(), "all_reduce");
  EXPECT_EQ(operation.bytes(), 8u);
  EXPECT_EQ(operation.first_posted_ns(), start);
  EXPECT_EQ(operation.all_posted_ns(), start + 10);
  EXPECT_EQ(operation.started_ns(), start + 20);
  EXPECT_EQ(operation.first_sent_ns(), start + 30) << "of the first slice";
  EXPECT_EQ(operation.first_landed_ns(), start + 40);
  EXPECT_EQ(operation.last_landed_ns(), start + 60) << "of the last slice";
  EXPECT_EQ(operation.device_done_ns(), start + 70);
  EXPECT_EQ(operation.done_ns(), start + 80);
}

TEST_F(OperationTraceTest, LeavesOutStepsThatAnOperationDoesNotHave) {
  OperationTrace trace(1, clock_);
  Run(trace, 1, /*has_lanes=*/false);
  const trace::Operation operation = ResultOf(trace).operations(0);
  EXPECT_EQ(operation.first_sent_ns(), 0);
  EXPECT_EQ(operation.first_landed_ns(), 0);
  EXPECT_EQ(operation.last_landed_ns(), 0);
  EXPECT_GT(operation.device_done_ns(), operation.started_ns());
}

TEST_F(OperationTraceTest, HoldsTheRequestedNumberAtMost) {
  OperationTrace trace(OperationTrace::kMaxOperations, clock_);
  for (uint64_t number = 1; number <= OperationTrace::kMaxOperations + 5; ++number) {
    EXPECT_EQ(trace.HasEnded(), number > OperationTrace::kMaxOperations);
    Run(trace, number, /*has_lanes=*/false);
  }
  const trace::Host result = ResultOf(trace);
  ASSERT_EQ(result.operations_size(), static_cast<int>(OperationTrace::kMaxOperations));
  EXPECT_EQ(result.operations().rbegin()->number(), OperationTrace::kMaxOperations);
  // Far below the limit of a message between daemon and controller.
  EXPECT_LT(result.ByteSizeLong(), OperationTrace::kMaxOperations * 150);
}

TEST_F(OperationTraceTest, EndsByTimeout) {
  OperationTrace trace(3, clock_);
  Run(trace, 1, /*has_lanes=*/false);
  clock_.Set(trace.deadline() - 1);
  EXPECT_FALSE(trace.HasEnded());
  clock_.Set(trace.deadline());
  EXPECT_TRUE(trace.HasEnded());
  EXPECT_FALSE(trace.full());
  EXPECT_EQ(ResultOf(trace).error(), "traced 1 of 3 operations: stopped");
}

TEST_F(OperationTraceTest, CallsThatSomeRanksHavePostedAreBounded) {
  OperationTrace trace(1, clock_);
  const MonotonicNs start = clock_.Now();
  for (uint64_t key = 1; key <= OperationTrace::kMaxCandidates + 1; ++key)
    trace.OnPosted(key, /*by_all=*/false);
  Advance(10);
  EXPECT_EQ(trace.TakeStamps(OperationTrace::kMaxCandidates + 1).first_posted, start + 10)
      << "it had no room: its first time is that of its start";
  EXPECT_EQ(trace.TakeStamps(2).first_posted, start);
  trace.OnPosted(100, /*by_all=*/true);
  Advance(10);
  const OperationStamps reused = trace.TakeStamps(100);
  EXPECT_EQ(reused.first_posted, start + 10) << "in the entry of call 2";
  EXPECT_EQ(reused.all_posted, start + 10);
  EXPECT_EQ(reused.started, start + 20);
}

}  // namespace operation_trace_test
}  // namespace mccs
