// The contract of DevicePlan, as tests: a plan on a device and the counters at which it meets its
// lanes. The test takes the place of the engine and of the peer.
#ifndef MCCS_TESTS_CONTRACT_DEVICE_PLAN_CONTRACT_H_
#define MCCS_TESTS_CONTRACT_DEVICE_PLAN_CONTRACT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "algorithms/geometry.h"
#include "algorithms/plan.h"
#include "service/device/device_plan.h"
#include "tests/contract/device_contract.h"

namespace mccs {

// Two local ranks, and one lane in each direction to one peer.
class DevicePlanContract : public DeviceContract {
 protected:
  static constexpr LaneShape kShape{.slots = 4, .slot_bytes = 256};
  static constexpr size_t kPerSlice = kShape.slot_bytes / sizeof(float);
  static constexpr Place kFirstInput{Space::kInput, 0, 0, 0};
  static constexpr Place kSecondInput{Space::kInput, 1, 0, 0};
  static constexpr Place kFirstOutput{Space::kOutput, 0, 0, 0};
  static constexpr HostIndex kPeer{1};

  static Step Sends(Place from, std::vector<uint16_t> after = {}) {
    return {.kind = StepKind::kSend,
            .combines = {},
            .pieces = {from},
            .peer = kPeer,
            .after = std::move(after)};
  }
  static Step Receives(Place to, std::vector<uint16_t> after = {}) {
    return {.kind = StepKind::kReceive,
            .combines = {},
            .pieces = {to},
            .peer = kPeer,
            .after = std::move(after)};
  }
  static Step Sums(PlaceList sources, Place to, std::vector<uint16_t> after = {}) {
    return {.kind = StepKind::kCombine,
            .combines = {{std::move(sources), {to}}},
            .pieces = {},
            .after = std::move(after)};
  }

  // The memory and values of one operation.
  struct Call {
    std::optional<Geometry> geometry;
    std::unique_ptr<Region> inputs[2], outputs[2];
    RankMemory ranks[2];
    OperationBinding binding;
  };

  std::unique_ptr<DevicePlan> Load(std::vector<Step> steps) {
    return Load(std::move(steps), send_);
  }
  // With counters of its own for the lane out of this host.
  std::unique_ptr<DevicePlan> Load(std::vector<Step> steps, SendCounters& send) {
    auto plan = std::make_shared<Plan>();
    plan->key.kind = OpKind::kAllReduce;
    plan->crosses_hosts = true;
    ProgramPorts ports;
    for (const Step& step : steps) {
      if (step.kind == StepKind::kSend && ports.sends.empty()) {
        ports.sends.push_back({.counters = &send, .staging = WholeOf(*staging_)});
      }
      if (step.kind == StepKind::kReceive && ports.receives.empty()) {
        ports.receives.push_back({.counters = &receive_, .slots = WholeOf(*slots_)});
      }
    }
    plan->programs = {{.channel = ChannelId(0), .steps = std::move(steps)}};
    plan_ = plan;
    absl::StatusOr<std::unique_ptr<DevicePlan>> loaded = device().Load(
        {.plan = std::move(plan), .ports = {std::move(ports)}, .shape = kShape, .skew = 1});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    return *std::move(loaded);
  }

  // Starts an operation over that many slices, on new memory.
  void Start(DevicePlan& loaded, uint64_t slices) {
    const uint64_t count = slices * kPerSlice;
    Call& call = calls_.emplace_back();
    call.geometry.emplace(*plan_, DataType::kFloat32, count, kShape.slot_bytes);
    for (size_t r : {0, 1}) {
      call.inputs[r] = Numbers(count, r == 0 ? 1 : 100);
      call.outputs[r] = Allocate(count * sizeof(float));
      call.ranks[r] = {.input = WholeOf(*call.inputs[r]), .output = WholeOf(*call.outputs[r])};
    }
    call.binding = {.geometry = &*call.geometry,
                    .ranks = call.ranks,
                    .kernels = world_->kernels(),
                    .bytes = count * sizeof(float),
                    .type = DataType::kFloat32};
    loaded.Start(call.binding);
  }

  // Polls plan and device until neither moves and nothing is in the device.
  void Settle(DevicePlan& loaded) {
    for (int64_t i = 0; i < kMaxPolls; ++i) {
      const bool finished = DispatchFinished(device());
      const absl::StatusOr<bool> moved = loaded.Poll();
      ASSERT_TRUE(moved.ok()) << moved.status();
      if (!finished && !*moved && world_->Settled(loaded)) return;
    }
    FAIL() << "moves forever";
  }

  // The slices as floats: of the sum of both inputs, in a staging slot, in the first output.
  static std::vector<float> SumOf(uint64_t slice) {
    std::vector<float> sums(kPerSlice);
    for (size_t i = 0; i < kPerSlice; ++i) {
      sums[i] = 101 + 2 * static_cast<float>((slice * kPerSlice + i) % 1000);
    }
    return sums;
  }
  std::vector<float> ReadSlice(const std::byte* at) {
    std::vector<float> values(kPerSlice);
    world_->Read(std::as_writable_bytes(std::span(values)), at);
    return values;
  }
  std::vector<float> Staged(uint64_t number) {
    return ReadSlice(staging_->address() + number % kShape.staging_slots() * kShape.slot_bytes);
  }
  std::vector<float> Output(uint64_t slice) {
    return ReadSlice(calls_.back().outputs[0]->address() + slice * kShape.slot_bytes);
  }
  std::vector<float> Input(uint64_t slice) {
    return ReadSlice(calls_.back().inputs[0]->address() + slice * kShape.slot_bytes);
  }
  // The slice has arrived, in its slot.
  void Land(uint64_t number, const std::vector<float>& values) {
    world_->Write(slots_->address() + number % kShape.slots * kShape.slot_bytes,
                  std::as_bytes(std::span(values)));
    receive_.in_slot[number % kShape.slots] = 1;
    receive_.landed.Store(number + 1);
  }
  void Acknowledge(uint64_t count) {
    send_.source_free.Store(count);
    send_.acknowledged.Store(count);
  }

  SendCounters send_;
  ReceiveCounters receive_{kShape.slots};
  std::unique_ptr<Region> staging_ = Allocate(kShape.staging_bytes());
  std::unique_ptr<Region> slots_ = Allocate(kShape.receive_bytes());
  std::shared_ptr<const Plan> plan_;
  std::deque<Call> calls_;  // addresses are stable
};

TEST_P(DevicePlanContract, LocalPlanNeedsNoLanes) {
  const auto loaded = Load({Sums({kFirstInput, kSecondInput}, kFirstOutput)});
  Start(*loaded, 20);
  Settle(*loaded);
  EXPECT_TRUE(loaded->done());
  for (uint64_t slice = 0; slice < 20; ++slice) EXPECT_EQ(Output(slice), SumOf(slice));
}

TEST_P(DevicePlanContract, PostsWhatItHasComposedAsStagingAllows) {
  const auto loaded = Load({Sums({kFirstInput, kSecondInput}, {Space::kStaged, 1, 0, 0}),
                            Sends({Space::kStaged, 1}, {0})});
  constexpr uint64_t kStaging = kShape.staging_slots();
  static_assert(kStaging < kShape.slots);
  Start(*loaded, 4 + kStaging);
  for (uint64_t acknowledged = 0; acknowledged <= 4; ++acknowledged) {
    Acknowledge(acknowledged);
    Settle(*loaded);
    ASSERT_EQ(send_.posted.Load(), acknowledged + kStaging);
    for (uint64_t n = acknowledged; n < acknowledged + kStaging; ++n) {
      EXPECT_EQ(Staged(n), SumOf(n)) << "overwritten before it was delivered";
    }
  }
  EXPECT_TRUE(loaded->done()) << "staging memory is not the tenant's";
}

TEST_P(DevicePlanContract, IsNotDoneWhileALaneReadsItsBuffers) {
  const auto loaded = Load({Sends(kFirstInput)});
  Start(*loaded, 2);
  Settle(*loaded);
  EXPECT_EQ(send_.posted.Load(), 2u);
  EXPECT_FALSE(loaded->done());
  send_.source_free.Store(2);  // the lane has copied the slices
  Settle(*loaded);
  EXPECT_TRUE(loaded->done());
}

TEST_P(DevicePlanContract, ReleasesSlotsThatItHasRead) {
  const auto loaded = Load({Receives({Space::kReceived, 0, 0, 0}),
                            Sums({{Space::kReceived, 0, 0, 0}, kFirstInput}, kFirstOutput, {0})});
  Start(*loaded, 5);
  const std::vector<float> zeros(kPerSlice, 0);
  for (uint64_t slice = 0; slice < 5; ++slice) {
    Settle(*loaded);
    EXPECT_EQ(receive_.released.Load(), slice);
    EXPECT_FALSE(loaded->done());
    Land(slice, zeros);
  }
  Settle(*loaded);
  EXPECT_EQ(receive_.released.Load(), 5u);
  EXPECT_TRUE(loaded->done());
  for (uint64_t slice = 0; slice < 5; ++slice) {
    EXPECT_EQ(Output(slice), Input(slice));
  }
}

TEST_P(DevicePlanContract, CopiesASliceThatLandedBeforeItsOutputWasFree) {
  const auto loaded = Load({Receives(kFirstOutput)});
  const std::vector<float> sevens(kPerSlice, 7);
  Start(*loaded, 1);
  Land(0, sevens);
  Settle(*loaded);
  EXPECT_EQ(Output(0), sevens);
  EXPECT_EQ(receive_.released.Load(), 1u);
  EXPECT_TRUE(loaded->done());
}

TEST_P(DevicePlanContract, OutputIsWritableAfterItsReaders) {
  // The output is read by the send of an earlier value.
  const auto loaded = Load({Sends(kFirstOutput), Receives(kFirstOutput, {0})});
  Start(*loaded, 1);
  Settle(*loaded);
  ASSERT_EQ(send_.posted.Load(), 1u);
  EXPECT_EQ(receive_.writable.Load(), 0u);
  Acknowledge(1);
  Settle(*loaded);
  EXPECT_EQ(receive_.writable.Load(), 1u);
  EXPECT_FALSE(loaded->done());
  receive_.landed.Store(1);  // in place
  Settle(*loaded);
  EXPECT_EQ(receive_.released.Load(), 1u);
  EXPECT_TRUE(loaded->done());
}

TEST_P(DevicePlanContract, RejectsAPlanThatNeedsTooMuchMemory) {
  constexpr size_t kSteps = 3'000;
  auto plan = std::make_shared<Plan>();
  plan->key.kind = OpKind::kAllReduce;
  plan->programs = {{.channel = ChannelId(0),
                     .steps = std::vector<Step>(kSteps, Sums({kFirstInput}, kFirstOutput))}};
  PlanToLoad load{.plan = std::move(plan), .ports = {ProgramPorts{}}, .shape = kShape, .skew = 1};
  EXPECT_TRUE(device().Load(load).ok());
  load.most_bytes = 64 << 10;
  const absl::Status refused = device().Load(std::move(load)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
}

TEST_P(DevicePlanContract, PlansTakeTurnsOnTheSameLanes) {
  const auto composes = Load({Sums({kFirstInput, kSecondInput}, {Space::kStaged, 1, 0, 0}),
                              Sends({Space::kStaged, 1}, {0})});
  const auto sends = Load({Sends(kFirstInput)});
  for (uint64_t turn = 0; turn < 6; ++turn) {
    DevicePlan& loaded = turn % 2 == 0 ? *composes : *sends;
    Start(loaded, 2);
    Settle(loaded);
    EXPECT_EQ(send_.posted.Load(), 2 * turn + 2);
    Acknowledge(2 * turn + 2);
    Settle(loaded);
    EXPECT_TRUE(loaded.done());
  }
}

// The second operation starts at the number after the first one's slices, before those are sent.
TEST_P(DevicePlanContract, PlansOfTheSameLanesOverlap) {
  const std::vector<Step> composes = {Sums({kFirstInput, kSecondInput}, {Space::kStaged, 1, 0, 0}),
                                      Sends({Space::kStaged, 1}, {0})};
  const auto older = Load(composes);
  Start(*older, 1);
  SendCounters own;
  own.posted.Store(1);
  const auto younger = Load(composes, own);
  Start(*younger, 1);
  Settle(*older);
  EXPECT_EQ(send_.posted.Load(), 1u);
  EXPECT_EQ(Staged(0), SumOf(0));
  EXPECT_TRUE(older->done());
  Settle(*younger);
  EXPECT_EQ(own.posted.Load(), 2u);
  EXPECT_EQ(Staged(1), SumOf(0));
  EXPECT_TRUE(younger->done());
}

}  // namespace mccs

#endif  // MCCS_TESTS_CONTRACT_DEVICE_PLAN_CONTRACT_H_
