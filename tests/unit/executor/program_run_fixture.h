// One program, run by an Executor: the interpreter, the feeds, and lanes and a device that the test
// controls.
#ifndef MCCS_TESTS_UNIT_EXECUTOR_PROGRAM_RUN_FIXTURE_H_
#define MCCS_TESTS_UNIT_EXECUTOR_PROGRAM_RUN_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/plan.h"
#include "service/executor/executor.h"
#include "tests/unit/device/process_memory.h"
#include "tests/unit/executor/fake_lanes.h"

namespace mccs {

inline constexpr LaneShape kShape = kFakeLaneShape;
inline constexpr uint64_t kPerSlice = kShape.slot_bytes / sizeof(int32_t);
inline constexpr uint32_t kSkew = 1;
// Two groups of kSkew + 1 rounds keep the lanes busy (issue_order.h).
inline constexpr size_t kRoundsInFlight = 2 * (kSkew + 1);

// ---- Steps of the short programs ----------------------------------------------------------------

inline constexpr Place kFirstInput{Space::kInput, 0, 0, 0};
inline constexpr Place kSecondInput{Space::kInput, 1, 0, 0};
inline constexpr Place kFirstOutput{Space::kOutput, 0, 0, 0};
inline constexpr Place kSecondOutput{Space::kOutput, 1, 0, 0};

// The host at the other end, where only one is needed.
inline constexpr HostIndex kPeer{1};

inline Step Sends(Place from, std::vector<uint16_t> after = {}, HostIndex to = kPeer) {
  return {.kind = StepKind::kSend,
          .combines = {},
          .pieces = {from},
          .peer = to,
          .after = std::move(after)};
}
inline Step Receives(Place to, HostIndex from = kPeer) {
  return {.kind = StepKind::kReceive, .combines = {}, .pieces = {to}, .peer = from, .after = {}};
}
inline Step Sums(PlaceList sources, Place to, std::vector<uint16_t> after = {}) {
  return {.kind = StepKind::kCombine,
          .combines = {{std::move(sources), {to}}},
          .pieces = {},
          .after = std::move(after)};
}
// The only piece of the slice that step `step` sends or receives.
inline Place StagedFor(uint16_t step) { return {Space::kStaged, step, 0, 0}; }
inline Place ReceivedBy(uint16_t step) { return {Space::kReceived, step, 0, 0}; }

// Both inputs are summed into the staging slot and sent.
inline std::vector<Step> SendsTheSum() {
  return {Sums({kFirstInput, kSecondInput}, StagedFor(1)), Sends(StagedFor(1), {0})};
}
// The received slice is added to the first input; the sum is the first output.
inline std::vector<Step> AddsWhatComes() {
  return {Receives(ReceivedBy(0)), Sums({ReceivedBy(0), kFirstInput}, kFirstOutput, {0})};
}

// ---- The executor -------------------------------------------------------------------------------

inline SliceTag TagOf(int call) {
  SliceTag tag{};
  tag[0] = static_cast<std::byte>(call);
  return tag;
}

class ProgramRunFixture : public testing::Test {
 protected:
  void Start(std::vector<Step> steps, uint64_t rounds) {
    StartCount(std::move(steps), rounds * kPerSlice);
  }

  void StartCount(std::vector<Step> steps, uint64_t count) {
    Plan plan;
    plan.key.kind = OpKind::kAllReduce;
    plan.crosses_hosts = true;
    plan.programs = {{.channel = ChannelId(0), .steps = std::move(steps)}};
    StartPlan(std::move(plan), count);
  }

  void StartPlan(Plan plan_of_test, uint64_t count) {
    plan_ = std::make_shared<const Plan>(std::move(plan_of_test));
    geometry_.emplace(*plan_, DataType::kInt32, count, kShape.slot_bytes);
    for (int r : {0, 1}) {
      inputs_[r].resize(count);
      std::iota(inputs_[r].begin(), inputs_[r].end(), r * 1'000'000);
      outputs_[r].assign(count, -1);
      ranks_[r] = {.input = SpanOf(inputs_[r]), .output = SpanOf(outputs_[r])};
    }
    operation_ = {.plan = plan_,
                  .skew = kSkew,
                  .binding = {.geometry = &*geometry_,
                              .ranks = ranks_,
                              .bytes = count * sizeof(int32_t),
                              .type = DataType::kInt32},
                  .tag = TagOf(kOurCall)};
    const absl::StatusOr<bool> prepared = executor_.Prepare(operation_);
    start_status_ = prepared.status();
    if (prepared.ok() && *prepared) start_status_ = executor_.Start(operation_);
  }
  bool done() const { return !executor_.running(); }

  // Polls until nothing moves.
  void Turn() {
    for (int i = 0; i < 1000; ++i) {
      const auto moved = executor_.Poll();
      ASSERT_TRUE(moved.ok()) << moved.status();
      if (!*moved) return;
    }
    FAIL() << "reports progress forever";
  }
  void FinishAll() {
    while (device_.held() > 0) device_.Finish();
  }
  void FinishAllAndTurn() {
    FinishAll();
    Turn();
  }
  // The slice of `round`, with values that count upwards from `first`.
  static std::vector<int32_t> Slice(uint64_t round, int32_t first = 0) {
    std::vector<int32_t> values(kPerSlice);
    std::iota(values.begin(), values.end(), first + static_cast<int32_t>(round * kPerSlice));
    return values;
  }
  // The sum of both inputs.
  static std::vector<int32_t> Sum(uint64_t round) {
    std::vector<int32_t> values = Slice(round);
    for (int32_t& value : values) value = 2 * value + 1'000'000;
    return values;
  }
  std::vector<int32_t> Output(uint64_t round) const {
    const auto first = outputs_[0].begin() + static_cast<ptrdiff_t>(round * kPerSlice);
    return {first, first + kPerSlice};
  }

  static constexpr int kOurCall = 1;
  ManualDevice device_;
  FakeDirectory lanes_;
  FakeSendLane& send_ = lanes_.to(kPeer.value());
  FakeRecvLane& receive_ = lanes_.from(kPeer.value());
  Executor executor_{device_, lanes_, kShape, /*channels=*/1};
  Operation operation_;
  absl::Status start_status_;  // also OK if it is not prepared yet
  std::shared_ptr<const Plan> plan_;
  std::optional<Geometry> geometry_;
  std::vector<int32_t> inputs_[2], outputs_[2];
  RankMemory ranks_[2];
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_EXECUTOR_PROGRAM_RUN_FIXTURE_H_
