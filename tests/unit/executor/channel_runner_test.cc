// One channel's program over lanes and a device that the test holds in its hands: what starts when, and what waits for
// what. The programs are a few steps long and written out.
#include "service/executor/channel_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "service/device/mem_op_kernels.h"

namespace mccs {
namespace {

using testing::ElementsAre;

constexpr LaneShape kShape{.slots = 2, .slot_bytes = 256};
constexpr uint64_t kPerSlice = kShape.slot_bytes / sizeof(int32_t);
constexpr SliceNumber kNoLimit = std::numeric_limits<SliceNumber>::max();
constexpr uint32_t kSkew = 1;
// Two groups of kSkew + 1 rounds keep the lanes busy (issue_order.h).
constexpr size_t kRoundsInFlight = 2 * (kSkew + 1);

SliceTag TagOf(int call) {
  SliceTag tag{};
  tag[0] = static_cast<std::byte>(call);
  return tag;
}

// Takes operations while it has room, and does each when the test says so.
class HeldDevice final : public Device {
 public:
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Import(const BufferExport&) override {
    return absl::UnimplementedError("not asked for here");
  }
  absl::StatusOr<std::unique_ptr<DeviceMemory>> Allocate(size_t) override {
    return absl::UnimplementedError("not asked for here");
  }
  bool Submit(const MemOp& op, MemToken token) override {
    if (held_.size() >= room) return false;
    held_.push_back({op, token});
    ++submitted;
    return true;
  }
  size_t Poll(std::span<MemToken>) override { return 0; }
  std::string Description() const override { return "held"; }

  size_t held() const { return held_.size(); }
  void Finish(size_t index = 0) {
    const Held done = held_[index];
    held_.erase(held_.begin() + static_cast<ptrdiff_t>(index));
    RunMemOp(done.op);
    ChannelRunner::Finished(done.token);
  }

  size_t room = 1000;
  size_t submitted = 0;

 private:
  struct Held {
    MemOp op;
    MemToken token;
  };
  std::vector<Held> held_;
};

// What was posted is read from its sources only when asked for: as late as the acknowledgement allows.
class FakeSendLane final : public SendLane {
 public:
  absl::StatusOr<std::optional<SliceNumber>> Post(std::span<const ConstMemRef> pieces, const SliceTag& tag) override {
    if (!failure.ok()) return failure;
    if (next() >= credit) return std::nullopt;
    posted_.push_back({{pieces.begin(), pieces.end()}, tag});
    return next() - 1;
  }
  SliceNumber acknowledged() const override { return acknowledged_; }
  SliceNumber source_free() const override { return std::min(next(), std::max(acknowledged_, copied)); }
  SliceNumber next() const override { return posted_.size(); }
  bool Poll() override { return false; }
  void Attach(std::unique_ptr<Connection>) override {}
  absl::Status status() const override { return failure; }
  LaneCounters counters() const override { return {}; }
  Endpoint local() const override { return {}; }
  Endpoint remote() const override { return {}; }

  std::vector<int32_t> Read(SliceNumber n) const {
    std::vector<int32_t> values;
    for (const ConstMemRef& piece : posted_[n].pieces) {
      const auto* first = reinterpret_cast<const int32_t*>(piece.data);
      values.insert(values.end(), first, first + piece.bytes / sizeof(int32_t));
    }
    return values;
  }
  const SliceTag& TagAt(SliceNumber n) const { return posted_[n].tag; }
  // The next slice has been delivered: what it carried.
  std::vector<int32_t> Acknowledge() { return Read(acknowledged_++); }

  SliceNumber credit = kNoLimit;
  SliceNumber copied = 0;  // slices below have been copied by the lane
  absl::Status failure;

 private:
  struct Slice {
    std::vector<ConstMemRef> pieces;
    SliceTag tag;
  };
  std::vector<Slice> posted_;
  SliceNumber acknowledged_ = 0;
};

class FakeRecvLane final : public RecvLane {
 public:
  bool Expect(SliceNumber n, std::span<const MemRef> pieces, const SliceTag& tag) override {
    if (n < landed_.size() || n >= released_ + kShape.slots) return false;
    expected_[n % kShape.slots] = {n, {pieces.begin(), pieces.end()}, tag};
    return true;
  }
  Landing Landed(SliceNumber n) const override {
    EXPECT_FALSE(IsReleased(n)) << "asked for slice " << n << " after its release";
    return n < landed_.size() ? landed_[n].where : Landing::kNotYet;
  }
  const SliceTag& Tag(SliceNumber n) const override { return landed_[n].tag; }
  uint32_t Bytes(SliceNumber n) const override { return landed_[n].bytes; }
  std::byte* Slot(SliceNumber n) const override {
    EXPECT_FALSE(IsReleased(n)) << "looked at the slot of slice " << n << " after its release";
    return slots_[n % kShape.slots];
  }
  void Release(SliceNumber n) override {
    ASSERT_LT(n, landed_.size()) << "released before it landed";
    ASSERT_FALSE(landed_[n].released) << "released twice";
    landed_[n].released = true;
    while (released_ < landed_.size() && landed_[released_].released) ++released_;
  }
  bool Poll() override { return false; }
  void Attach(std::unique_ptr<Connection>) override {}
  absl::Status status() const override { return absl::OkStatus(); }
  LaneCounters counters() const override { return {}; }
  Endpoint local() const override { return {}; }
  Endpoint remote() const override { return {}; }

  // The next slice comes; false when its slot is not free yet, as the sender would know.
  bool Arrive(const std::vector<int32_t>& values, const SliceTag& tag) {
    const SliceNumber n = landed_.size();
    if (n >= released_ + kShape.slots) return false;
    const auto* from = reinterpret_cast<const std::byte*>(values.data());
    const auto bytes = static_cast<uint32_t>(values.size() * sizeof(int32_t));
    const Expected& expected = expected_[n % kShape.slots];
    size_t room = 0;
    for (const MemRef& piece : expected.pieces) room += piece.bytes;
    if (expected.number == n && expected.tag == tag && room == bytes) {
      for (const MemRef& piece : expected.pieces) {
        std::copy_n(from, piece.bytes, piece.data);
        from += piece.bytes;
      }
      landed_.push_back({Landing::kDirect, tag, bytes});
    } else {
      std::copy_n(from, bytes, slots_[n % kShape.slots]);
      landed_.push_back({Landing::kInSlot, tag, bytes});
    }
    return true;
  }
  size_t landed() const { return landed_.size(); }
  SliceNumber released() const { return released_; }  // all below
  Landing WhereWas(SliceNumber n) const { return landed_[n].where; }

 private:
  struct Expected {
    SliceNumber number = kNoLimit;
    std::vector<MemRef> pieces;
    SliceTag tag{};
  };
  struct Slice {
    Landing where;
    SliceTag tag;
    uint32_t bytes;
    bool released = false;
  };
  bool IsReleased(SliceNumber n) const { return n < landed_.size() && landed_[n].released; }

  alignas(64) mutable std::byte slots_[kShape.slots][kShape.slot_bytes];
  Expected expected_[kShape.slots];
  std::vector<Slice> landed_;
  SliceNumber released_ = 0;
};

// ---- Programs -----------------------------------------------------------------------------------

constexpr Place kFirstInput{Space::kInput, 0, 0, 0};
constexpr Place kSecondInput{Space::kInput, 1, 0, 0};
constexpr Place kFirstOutput{Space::kOutput, 0, 0, 0};
constexpr Place kSecondOutput{Space::kOutput, 1, 0, 0};

Step Sends(Place from, std::vector<uint16_t> after = {}) {
  return {.kind = StepKind::kSend, .combines = {}, .pieces = {from}, .after = std::move(after)};
}
Step Receives(Place to) { return {.kind = StepKind::kReceive, .combines = {}, .pieces = {to}, .after = {}}; }
Step Sums(std::vector<Place> sources, Place to, std::vector<uint16_t> after = {}) {
  return {.kind = StepKind::kCombine,
          .combines = {{std::move(sources), {to}}},
          .pieces = {},
          .after = std::move(after)};
}
// The only piece of the slice that step `step` sends or receives.
Place StagedFor(uint16_t step) { return {Space::kStaged, step, 0, 0}; }
Place ReceivedBy(uint16_t step) { return {Space::kReceived, step, 0, 0}; }

// Both inputs are summed up in the staging slot and sent.
std::vector<Step> SendsTheSum() {
  return {Sums({kFirstInput, kSecondInput}, StagedFor(1)), Sends(StagedFor(1), {0})};
}
// What comes is added to the first input; the sum is the first output.
std::vector<Step> AddsWhatComes() {
  return {Receives(ReceivedBy(0)), Sums({ReceivedBy(0), kFirstInput}, kFirstOutput, {0})};
}

class ChannelRunnerTest : public testing::Test {
 protected:
  void Start(std::vector<Step> steps, uint64_t rounds) { StartCount(std::move(steps), rounds * kPerSlice); }

  void StartCount(std::vector<Step> steps, uint64_t count) {
    Plan& plan = plans_.emplace_back();
    plan.key.kind = OpKind::kAllReduce;
    plan.crosses_hosts = true;
    plan.programs = {{.channel = ChannelId(0),
                      .next = HostIndex(1),
                      .previous = HostIndex(1),
                      .steps = std::move(steps)}};
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
    runner_.Start(binding_, plan.programs[0]);
  }

  // Turns until nothing moves any more.
  void Turn() {
    for (int i = 0; i < 1000; ++i) {
      const auto moved = runner_.Poll();
      ASSERT_TRUE(moved.ok()) << moved.status();
      if (!*moved) return;
    }
    FAIL() << "says that it moves for ever";
  }
  void FinishAll() {
    while (device_.held() > 0) device_.Finish();
  }
  // `round`'s slice of values that count upwards from `first`.
  static std::vector<int32_t> Slice(uint64_t round, int32_t first = 0) {
    std::vector<int32_t> values(kPerSlice);
    std::iota(values.begin(), values.end(), first + static_cast<int32_t>(round * kPerSlice));
    return values;
  }
  // Of both inputs.
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
  HeldDevice device_;
  FakeSendLane send_;
  FakeRecvLane receive_;
  alignas(64) std::byte staging_[kShape.slots * kShape.slot_bytes];
  ChannelRunner runner_{device_,
                        {.send = &send_,
                         .receive = &receive_,
                         .staging = {staging_, sizeof(staging_)},
                         .shape = kShape}};
  std::deque<Plan> plans_;
  std::optional<Geometry> geometry_;
  std::vector<int32_t> inputs_[2], outputs_[2];
  RankMemory ranks_[2];
  OperationBinding binding_;
};

// ---- Sends --------------------------------------------------------------------------------------

TEST_F(ChannelRunnerTest, WithNothingToDoItIsDoneAtOnce) {
  Start({Sends(kFirstInput)}, 0);
  EXPECT_TRUE(runner_.done());
  Turn();
  EXPECT_EQ(send_.next(), 0u);
}

TEST_F(ChannelRunnerTest, SendsEveryRoundInOrderAndIsDoneWhenTheSourcesAreFree) {
  Start({Sends(kFirstInput)}, 3);
  Turn();
  ASSERT_EQ(send_.next(), 3u);
  for (SliceNumber n = 0; n < 3; ++n) {
    EXPECT_FALSE(runner_.done()) << "slice " << n << " may still be read";
    EXPECT_EQ(send_.TagAt(n), TagOf(kOurCall));
    EXPECT_EQ(send_.Acknowledge(), Slice(n));
    Turn();
  }
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, ASourceThatTheLaneHasCopiedNeedsNoAcknowledgement) {
  Start({Sends(kFirstInput)}, 3);
  send_.copied = kNoLimit;
  Turn();
  EXPECT_EQ(send_.acknowledged(), 0u);
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, WithoutCreditItWaitsAndGoesOnWhereItStopped) {
  send_.copied = kNoLimit;
  send_.credit = 0;
  Start({Sends(kFirstInput)}, 5);
  for (SliceNumber credit = 0; credit <= 5; ++credit) {
    send_.credit = credit;
    Turn();
    EXPECT_EQ(send_.next(), credit);
    EXPECT_EQ(runner_.done(), credit == 5);
  }
  for (SliceNumber n = 0; n < 5; ++n) EXPECT_EQ(send_.Read(n), Slice(n));
}

TEST_F(ChannelRunnerTest, RoundsInFlightAreBounded) {
  Start({Sends(kFirstInput)}, 100);
  for (SliceNumber acknowledged = 0; acknowledged < 100; ++acknowledged) {
    Turn();
    EXPECT_EQ(send_.next(), std::min<SliceNumber>(100, acknowledged + kRoundsInFlight));
    EXPECT_EQ(send_.Acknowledge(), Slice(acknowledged));
  }
  Turn();
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, ASliceWithoutElementsIsSentAllTheSame) {
  Plan& plan = plans_.emplace_back();
  plan.key.kind = OpKind::kAllReduce;
  plan.crosses_hosts = true;
  plan.blocks = 2;
  plan.count_spans_blocks = plan.input_blocked = plan.output_blocked = true;
  plan.programs = {{.channel = ChannelId(0),
                    .next = HostIndex(1),
                    .previous = HostIndex(1),
                    .steps = {Sends({Space::kInput, 0, 0, 1})}}};
  StartPlan(plan, 16);  // all in block 0
  Turn();
  ASSERT_EQ(send_.next(), 1u);
  EXPECT_THAT(send_.Acknowledge(), ElementsAre());
  Turn();
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, AFailedLaneStopsTheRunAndNothingElse) {
  send_.failure = absl::DataLossError("the peer broke the protocol");
  Start({Sends(kFirstInput)}, 3);
  Turn();
  EXPECT_FALSE(runner_.done());
  EXPECT_TRUE(runner_.quiescent());
}

TEST_F(ChannelRunnerTest, TheNextOperationGoesOnInTheLanesNumbers) {
  for (int operation = 0; operation < 3; ++operation) {
    Start({Sends(kFirstInput), Receives(kFirstOutput)}, 2);
    for (uint64_t round = 0; round < 2; ++round) {
      Turn();
      ASSERT_TRUE(receive_.Arrive(Slice(round, 7), TagOf(kOurCall)));
      Turn();
      EXPECT_EQ(send_.Acknowledge(), Slice(round));
    }
    Turn();
    EXPECT_TRUE(runner_.done());
    for (uint64_t round = 0; round < 2; ++round) EXPECT_EQ(Output(round), Slice(round, 7));
  }
  EXPECT_EQ(send_.next(), 6u);
  EXPECT_EQ(receive_.released(), 6u);
}

// ---- Combines, and what is composed in staging slots --------------------------------------------

TEST_F(ChannelRunnerTest, ASendWaitsForTheCombineThatComposesIt) {
  Start(SendsTheSum(), 1);
  Turn();
  ASSERT_EQ(device_.held(), 1u);
  EXPECT_EQ(send_.next(), 0u);
  EXPECT_FALSE(runner_.quiescent());
  device_.Finish();
  EXPECT_TRUE(runner_.quiescent());
  Turn();
  ASSERT_EQ(send_.next(), 1u);
  EXPECT_TRUE(runner_.done()) << "the staging slot is the channel's, the tenant's buffers are free";
  EXPECT_EQ(send_.Acknowledge(), Sum(0));
}

TEST_F(ChannelRunnerTest, AStagingSlotIsNotWrittenBeforeItsFormerSliceIsAcknowledged) {
  send_.copied = kNoLimit;  // a free source is not enough: the slot is guarded by its number
  Start(SendsTheSum(), 10);
  for (uint64_t round = 0; round < 10; ++round) {
    Turn();
    FinishAll();
    Turn();
    EXPECT_EQ(device_.submitted, std::min<size_t>(10, round + kShape.slots));
    EXPECT_EQ(send_.Acknowledge(), Sum(round)) << "overwritten before it was delivered";
  }
  Turn();
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, NorByTheNextOperation) {
  Start(SendsTheSum(), kShape.slots);
  Turn();
  FinishAll();
  Turn();
  ASSERT_TRUE(runner_.done());
  Start(SendsTheSum(), 1);
  Turn();
  EXPECT_EQ(device_.held(), 0u);
  EXPECT_EQ(send_.Acknowledge(), Sum(0));
  Turn();
  EXPECT_EQ(device_.held(), 1u);
  FinishAll();
  Turn();
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, WhatTheDeviceFinishesOutOfOrderIsSentInOrder) {
  Start(SendsTheSum(), 2);
  Turn();
  ASSERT_EQ(device_.held(), 2u);
  device_.Finish(1);
  Turn();
  EXPECT_EQ(send_.next(), 0u);
  device_.Finish();
  Turn();
  ASSERT_EQ(send_.next(), 2u);
  EXPECT_EQ(send_.Acknowledge(), Sum(0));
  EXPECT_EQ(send_.Acknowledge(), Sum(1));
}

TEST_F(ChannelRunnerTest, AFullDeviceIsAskedAgainAndNothingIsDoneTwice) {
  device_.room = 0;
  Start({Sums({kFirstInput, kSecondInput}, kFirstOutput)}, 20);
  Turn();
  EXPECT_TRUE(runner_.quiescent());
  device_.room = 1;
  for (size_t finished = 0; finished < 20; ++finished) {
    Turn();
    ASSERT_EQ(device_.held(), 1u);
    EXPECT_FALSE(runner_.done());
    device_.Finish();
  }
  Turn();
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(device_.submitted, 20u);
  for (uint64_t round = 0; round < 20; ++round) EXPECT_EQ(Output(round), Sum(round));
}

TEST_F(ChannelRunnerTest, AStepOfSeveralCombinesIsDoneWhenAllAre) {
  Step both = Sums({kFirstInput, kSecondInput}, kFirstOutput);
  both.combines.push_back({{kSecondInput}, {kSecondOutput}});
  device_.room = 1;  // and goes on with the second where the first was taken
  Start({both, Sends(kSecondOutput, {0})}, 1);
  Turn();
  device_.Finish();
  Turn();
  EXPECT_EQ(send_.next(), 0u);
  device_.Finish();
  Turn();
  ASSERT_EQ(send_.next(), 1u);
  EXPECT_EQ(device_.submitted, 2u);
  EXPECT_EQ(send_.Acknowledge(), Slice(0, 1'000'000));
  EXPECT_EQ(Output(0), Sum(0));
}

TEST_F(ChannelRunnerTest, ACopyOntoItselfIsLeftOut) {
  Plan& plan = plans_.emplace_back();
  plan.key.kind = OpKind::kAllGather;
  plan.crosses_hosts = true;
  plan.programs = {{.channel = ChannelId(0),
                    .next = HostIndex(1),
                    .previous = HostIndex(1),
                    .steps = {Sums({kFirstOutput}, kFirstOutput)}}};
  StartPlan(plan, 3 * kPerSlice);
  Turn();
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(device_.submitted, 0u);
}

// ---- Receives -----------------------------------------------------------------------------------

TEST_F(ChannelRunnerTest, ACombineWaitsForItsSliceAndItsSlotForTheCombine) {
  Start(AddsWhatComes(), 1);
  Turn();
  EXPECT_EQ(device_.held(), 0u);
  ASSERT_TRUE(receive_.Arrive(Slice(0, 1'000'000), TagOf(kOurCall)));
  Turn();
  ASSERT_EQ(device_.held(), 1u);
  EXPECT_EQ(receive_.released(), 0u) << "the device still reads the slot";
  device_.Finish();
  Turn();
  EXPECT_EQ(receive_.released(), 1u);
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(Output(0), Sum(0));
}

TEST_F(ChannelRunnerTest, ASlotIsGivenBackWhenTheLastOfItsReadersIsDone) {
  std::vector<Step> steps = AddsWhatComes();
  steps.push_back(Sums({ReceivedBy(0), kSecondInput}, kSecondOutput, {0}));
  Start(steps, 1);
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(kOurCall)));
  Turn();
  ASSERT_EQ(device_.held(), 2u);
  device_.Finish(1);
  Turn();
  EXPECT_EQ(receive_.released(), 0u);
  device_.Finish();
  Turn();
  EXPECT_EQ(receive_.released(), 1u);
  EXPECT_TRUE(runner_.done());
}

TEST_F(ChannelRunnerTest, ASliceThatIsExpectedLandsInPlaceWithoutTheDevice) {
  Start({Receives(kFirstOutput)}, 10);
  for (uint64_t round = 0; round < 10; ++round) {
    Turn();
    ASSERT_TRUE(receive_.Arrive(Slice(round, 5), TagOf(kOurCall)));
    EXPECT_EQ(receive_.WhereWas(round), Landing::kDirect) << "round " << round;
    Turn();
    EXPECT_EQ(Output(round), Slice(round, 5));
  }
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(device_.submitted, 0u);
  EXPECT_EQ(receive_.released(), 10u);
}

TEST_F(ChannelRunnerTest, SlicesThatCameEarlyAreCopiedFromTheirSlots) {
  for (uint64_t n = 0; n < kShape.slots; ++n) ASSERT_TRUE(receive_.Arrive(Slice(n, 5), TagOf(kOurCall)));
  Start({Receives(kFirstOutput)}, kShape.slots);
  Turn();
  ASSERT_EQ(device_.held(), kShape.slots);
  EXPECT_EQ(receive_.released(), 0u) << "the device still reads the slots";
  EXPECT_FALSE(runner_.done());
  FinishAll();
  Turn();
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(receive_.released(), kShape.slots);
  for (uint64_t n = 0; n < kShape.slots; ++n) EXPECT_EQ(Output(n), Slice(n, 5));
}

TEST_F(ChannelRunnerTest, AnEarlySliceKeepsItsSlotWhileTheDeviceIsFull) {
  ASSERT_TRUE(receive_.Arrive(Slice(0, 5), TagOf(kOurCall)));
  device_.room = 0;
  Start({Receives(kFirstOutput)}, 1);
  Turn();
  EXPECT_EQ(receive_.released(), 0u);
  EXPECT_TRUE(runner_.quiescent());
  device_.room = 1;
  Turn();
  FinishAll();
  Turn();
  EXPECT_TRUE(runner_.done());
  EXPECT_EQ(device_.submitted, 1u);
  EXPECT_EQ(Output(0), Slice(0, 5));
}

TEST_F(ChannelRunnerTest, WhatIsSentOnIsWhatCame) {
  for (const bool early : {false, true}) {
    const SliceNumber n = send_.next();
    if (early) {
      ASSERT_TRUE(receive_.Arrive(Slice(0, 5), TagOf(kOurCall)));
    }
    Start({Receives(kFirstOutput), Sends(kFirstOutput, {0})}, 1);
    Turn();
    EXPECT_EQ(send_.next(), n);
    if (!early) {
      ASSERT_TRUE(receive_.Arrive(Slice(0, 5), TagOf(kOurCall)));
    }
    FinishAll();
    Turn();
    ASSERT_EQ(send_.next(), n + 1);
    EXPECT_EQ(send_.Acknowledge(), Slice(0, 5));
    Turn();
    EXPECT_TRUE(runner_.done());
  }
}

// ---- Slices of another call ---------------------------------------------------------------------

TEST_F(ChannelRunnerTest, ASliceOfAnotherCallEndsTheRunForGood) {
  Start(AddsWhatComes(), 3);
  Turn();
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(kOurCall)));
  Turn();
  ASSERT_EQ(device_.held(), 1u);
  ASSERT_TRUE(receive_.Arrive(Slice(1), TagOf(9)));
  EXPECT_FALSE(runner_.foreign_tag().has_value());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(absl::IsInvalidArgument(runner_.Poll().status())) << "it sticks";
  ASSERT_TRUE(runner_.foreign_tag().has_value());
  EXPECT_EQ(*runner_.foreign_tag(), TagOf(9));
  EXPECT_EQ(device_.submitted, 1u) << "a stranger's bytes were used";
  EXPECT_FALSE(runner_.quiescent()) << "the device still works for this run";
  FinishAll();
  EXPECT_TRUE(runner_.quiescent());
  EXPECT_FALSE(runner_.done());
}

TEST_F(ChannelRunnerTest, ABufferThatExpectedASliceIsNotTouchedByAnotherCalls) {
  Start({Receives(kFirstOutput)}, 1);
  Turn();
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(9)));
  EXPECT_TRUE(absl::IsInvalidArgument(runner_.Poll().status()));
  EXPECT_EQ(runner_.foreign_tag(), TagOf(9));
  EXPECT_THAT(outputs_[0], testing::Each(-1));
}

TEST_F(ChannelRunnerTest, NorByOneThatCameEarly) {
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(9)));
  Start({Receives(kFirstOutput)}, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(runner_.Poll().status()));
  EXPECT_EQ(runner_.foreign_tag(), TagOf(9));
  EXPECT_EQ(device_.submitted, 0u);
  EXPECT_THAT(outputs_[0], testing::Each(-1));
}

}  // namespace
}  // namespace mccs
