// One channel's program over lanes and a device controlled by the test.
#ifndef MCCS_TESTS_UNIT_EXECUTOR_CHANNEL_RUNNER_FIXTURE_H_
#define MCCS_TESTS_UNIT_EXECUTOR_CHANNEL_RUNNER_FIXTURE_H_

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "service/executor/channel_runner.h"
#include "tests/unit/executor/fake_lanes.h"
#include "tests/unit/executor/written_steps.h"

namespace mccs {

inline constexpr LaneShape kShape = kFakeLaneShape;
inline constexpr uint64_t kPerSlice = kShape.slot_bytes / sizeof(int32_t);
inline constexpr uint32_t kSkew = 1;
// Two groups of kSkew + 1 rounds keep the lanes busy (issue_order.h).
inline constexpr size_t kRoundsInFlight = 2 * (kSkew + 1);

inline SliceTag TagOf(int call) {
  SliceTag tag{};
  tag[0] = static_cast<std::byte>(call);
  return tag;
}

class ChannelRunnerFixture : public testing::Test {
 protected:
  void Start(std::vector<Step> steps, uint64_t rounds) {
    StartCount(std::move(steps), rounds * kPerSlice);
  }

  void StartCount(std::vector<Step> steps, uint64_t count) {
    Plan& plan = plans_.emplace_back();
    plan.key.kind = OpKind::kAllReduce;
    plan.crosses_hosts = true;
    plan.programs = {{.channel = ChannelId(0), .steps = std::move(steps)}};
    StartPlan(plan, count);
  }

  void StartPlan(const Plan& plan, uint64_t count) {
    geometry_.emplace(plan, DataType::kInt32, count, kShape.slot_bytes);
    for (int r : {0, 1}) {
      inputs_[r].resize(count);
      std::iota(inputs_[r].begin(), inputs_[r].end(), r * 1'000'000);
      outputs_[r].assign(count, -1);
      ranks_[r] = {.input = reinterpret_cast<const std::byte*>(inputs_[r].data()),
                   .output = reinterpret_cast<std::byte*>(outputs_[r].data())};
    }
    binding_ = {.plan = &plan,
                .geometry = &*geometry_,
                .ranks = ranks_,
                .bytes = count * sizeof(int32_t),
                .type = DataType::kInt32,
                .tag = TagOf(kOurCall),
                .skew = kSkew};
    start_status_ = runner_.Start(binding_, plan.programs[0]);
  }

  // Polls until nothing moves.
  void Turn() {
    for (int i = 0; i < 1000; ++i) {
      const auto moved = runner_.Poll();
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
  ChannelRunner runner_{device_, lanes_, kShape, ChannelId(0)};
  absl::Status start_status_;
  std::deque<Plan> plans_;
  std::optional<Geometry> geometry_;
  std::vector<int32_t> inputs_[2], outputs_[2];
  RankMemory ranks_[2];
  OperationBinding binding_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_EXECUTOR_CHANNEL_RUNNER_FIXTURE_H_
