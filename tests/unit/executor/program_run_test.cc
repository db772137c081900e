// One program, run by an Executor: when each step starts and what it waits for. The programs are a
// few steps long and written out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "service/executor/executor.h"
#include "tests/unit/executor/program_run_fixture.h"

namespace mccs {
namespace program_run_test {

using testing::ElementsAre;
using testing::IsEmpty;

using ProgramRun = ProgramRunFixture;

// ---- Sends --------------------------------------------------------------------------------------

TEST_F(ProgramRun, EmptyRunIsDoneAtOnce) {
  Start({Sends(kFirstInput)}, 0);
  Turn();
  EXPECT_TRUE(done());
  EXPECT_EQ(send_.next(), 0u);
}

TEST_F(ProgramRun, SendsInOrderUntilSourcesAreFree) {
  Start({Sends(kFirstInput)}, 3);
  Turn();
  ASSERT_EQ(send_.next(), 3u);
  for (SliceNumber n = 0; n < 3; ++n) {
    EXPECT_FALSE(done()) << "slice " << n << " may still be read";
    EXPECT_EQ(send_.TagAt(n), TagOf(kOurCall));
    EXPECT_EQ(send_.Acknowledge(), Slice(n));
    Turn();
  }
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, CopiedSourceNeedsNoAcknowledgement) {
  Start({Sends(kFirstInput)}, 3);
  send_.copied = kNoLimit;
  Turn();
  EXPECT_EQ(send_.acknowledged(), 0u);
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, ResumesAfterMissingCredit) {
  send_.copied = kNoLimit;
  send_.credit = 0;
  Start({Sends(kFirstInput)}, 5);
  for (SliceNumber credit = 0; credit <= 5; ++credit) {
    send_.credit = credit;
    Turn();
    EXPECT_EQ(send_.next(), credit);
    EXPECT_EQ(done(), credit == 5);
  }
  for (SliceNumber n = 0; n < 5; ++n) EXPECT_EQ(send_.Read(n), Slice(n));
}

TEST_F(ProgramRun, RoundsInFlightAreBounded) {
  Start({Sends(kFirstInput)}, 100);
  for (SliceNumber acknowledged = 0; acknowledged < 100; ++acknowledged) {
    Turn();
    EXPECT_EQ(send_.next(), std::min<SliceNumber>(100, acknowledged + kRoundsInFlight));
    EXPECT_EQ(send_.Acknowledge(), Slice(acknowledged));
  }
  Turn();
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, SendsEmptySlices) {
  Plan plan;
  plan.key.kind = OpKind::kAllReduce;
  plan.crosses_hosts = true;
  plan.blocks = 2;
  plan.count_spans_blocks = plan.input_blocked = plan.output_blocked = true;
  plan.programs = {{.channel = ChannelId(0), .steps = {Sends({Space::kInput, 0, 0, 1})}}};
  StartPlan(std::move(plan), 16);  // all in block 0
  Turn();
  ASSERT_EQ(send_.next(), 1u);
  EXPECT_THAT(send_.Acknowledge(), testing::ElementsAre());
  Turn();
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, FailedLaneStopsOnlyTheRun) {
  send_.failure = absl::DataLossError("the peer broke the protocol");
  Start({Sends(kFirstInput)}, 3);
  Turn();
  EXPECT_FALSE(done());
  EXPECT_TRUE(executor_.quiescent());
}

TEST_F(ProgramRun, NextOperationContinuesSliceNumbers) {
  for (int operation = 0; operation < 3; ++operation) {
    Start({Sends(kFirstInput), Receives(kFirstOutput)}, 2);
    for (uint64_t round = 0; round < 2; ++round) {
      Turn();
      ASSERT_TRUE(receive_.Arrive(Slice(round, 7), TagOf(kOurCall)));
      Turn();
      EXPECT_EQ(send_.Acknowledge(), Slice(round));
    }
    Turn();
    EXPECT_TRUE(done());
    for (uint64_t round = 0; round < 2; ++round) EXPECT_EQ(Output(round), Slice(round, 7));
  }
  EXPECT_EQ(send_.next(), 6u);
  EXPECT_EQ(receive_.released(), 6u);
}

// ---- What the oldest operation waits for --------------------------------------------------------

class AwaitedPeers : public ProgramRunFixture {
 protected:
  std::vector<StalledPeer> Awaited() {
    std::vector<StalledPeer> found;
    size_t next = 0;
    uint64_t moved = 0;
    EXPECT_FALSE(executor_.FindAwaited(&next, 100, &found, &moved)) << "all lanes were looked at";
    return found;
  }
};

TEST_F(AwaitedPeers, NoneWithoutAnOperation) { EXPECT_THAT(Awaited(), IsEmpty()); }

TEST_F(AwaitedPeers, TheReceiverThatDoesNotAcknowledge) {
  Start({Sends(kFirstInput)}, 1);
  Turn();
  EXPECT_THAT(Awaited(), ElementsAre(StalledPeer{kPeer, StallCause::kAcknowledgement}));
}

TEST_F(AwaitedPeers, TheReceiverThatGivesNoCredit) {
  send_.credit = 0;
  send_.wait = LaneWait::kCredit;
  Start({Sends(kFirstInput)}, 1);
  Turn();
  EXPECT_THAT(Awaited(), ElementsAre(StalledPeer{kPeer, StallCause::kCredit}));
}

TEST_F(AwaitedPeers, TheSenderOfTheNextSlice) {
  Start({Receives(kFirstOutput)}, 2);
  Turn();
  EXPECT_THAT(Awaited(), ElementsAre(StalledPeer{kPeer, StallCause::kData}));
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(kOurCall)));
  Turn();
  EXPECT_THAT(Awaited(), ElementsAre(StalledPeer{kPeer, StallCause::kData}));
}

TEST_F(AwaitedPeers, NoneWhileTheDeviceWorks) {
  Start(AddsWhatComes(), 1);
  Turn();
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(kOurCall)));
  Turn();
  ASSERT_EQ(device_.held(), 1u);
  EXPECT_THAT(Awaited(), IsEmpty());
  const uint64_t before = executor_.progress();
  Turn();
  EXPECT_EQ(executor_.progress(), before) << "nothing has moved";
  FinishAllAndTurn();
  EXPECT_TRUE(done());
  EXPECT_NE(executor_.progress(), before);
}

TEST_F(AwaitedPeers, OnlyThoseThatAreAwaited) {
  Start({Sends(kFirstInput), Receives(kFirstOutput, HostIndex(2)),
         Receives(kSecondOutput, HostIndex(3))},
        1);
  send_.copied = kNoLimit;
  Turn();
  send_.Acknowledge();
  ASSERT_TRUE(lanes_.from(2).Arrive(Slice(0), TagOf(kOurCall)));
  Turn();
  EXPECT_THAT(Awaited(), ElementsAre(StalledPeer{HostIndex(3), StallCause::kData}));
}

TEST_F(AwaitedPeers, AreFoundInParts) {
  Start({Sends(kFirstInput), Receives(kFirstOutput, HostIndex(2))}, 1);
  Turn();
  std::vector<StalledPeer> found;
  size_t next = 0;
  uint64_t moved = 0;
  EXPECT_TRUE(executor_.FindAwaited(&next, 1, &found, &moved));
  EXPECT_THAT(found, ElementsAre(StalledPeer{kPeer, StallCause::kAcknowledgement}));
  EXPECT_FALSE(executor_.FindAwaited(&next, 1, &found, &moved));
  EXPECT_THAT(found, ElementsAre(StalledPeer{kPeer, StallCause::kAcknowledgement},
                                 StalledPeer{HostIndex(2), StallCause::kData}));
}

// ---- Combines and staging slots -----------------------------------------------------------------

TEST_F(ProgramRun, SendWaitsForItsCombine) {
  Start(SendsTheSum(), 1);
  Turn();
  ASSERT_EQ(device_.held(), 1u);
  EXPECT_EQ(send_.next(), 0u);
  EXPECT_FALSE(executor_.quiescent());
  device_.Finish();
  EXPECT_TRUE(executor_.quiescent());
  Turn();
  ASSERT_EQ(send_.next(), 1u);
  EXPECT_TRUE(done()) << "the staging slot is the channel's, the tenant's buffers are free";
  EXPECT_EQ(send_.Acknowledge(), Sum(0));
}

TEST_F(ProgramRun, StagingSlotWaitsForAcknowledgement) {
  send_.copied = kNoLimit;  // a free source is not enough: the slice number guards the slot
  Start(SendsTheSum(), 10);
  for (uint64_t round = 0; round < 10; ++round) {
    Turn();
    FinishAllAndTurn();
    EXPECT_EQ(device_.submitted, std::min<size_t>(10, round + kShape.slots));
    EXPECT_EQ(send_.Acknowledge(), Sum(round)) << "overwritten before it was delivered";
  }
  Turn();
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, StagingSlotWaitsAlsoInNextOperation) {
  Start(SendsTheSum(), kShape.slots);
  Turn();
  FinishAllAndTurn();
  ASSERT_TRUE(done());
  Start(SendsTheSum(), 1);
  Turn();
  EXPECT_EQ(device_.held(), 0u);
  EXPECT_EQ(send_.Acknowledge(), Sum(0));
  Turn();
  EXPECT_EQ(device_.held(), 1u);
  FinishAllAndTurn();
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, SendsInOrderDespiteDeviceOrder) {
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

TEST_F(ProgramRun, RetriesFullDeviceWithoutDuplicates) {
  device_.room = 0;
  Start({Sums({kFirstInput, kSecondInput}, kFirstOutput)}, 20);
  Turn();
  EXPECT_TRUE(executor_.quiescent());
  device_.room = 1;
  for (size_t finished = 0; finished < 20; ++finished) {
    Turn();
    ASSERT_EQ(device_.held(), 1u);
    EXPECT_FALSE(done());
    device_.Finish();
  }
  Turn();
  EXPECT_TRUE(done());
  EXPECT_EQ(device_.submitted, 20u);
  for (uint64_t round = 0; round < 20; ++round) EXPECT_EQ(Output(round), Sum(round));
}

TEST_F(ProgramRun, StepWaitsForAllItsCombines) {
  Step both = Sums({kFirstInput, kSecondInput}, kFirstOutput);
  both.combines.push_back({{kSecondInput}, {kSecondOutput}});
  device_.room = 1;  // and continues with the second one
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

// Four blocks of 16 elements; the combines copy them in this order.
class ProgramRunBlocks : public ProgramRunFixture {
 protected:
  static constexpr int kBlocks = 4;
  static constexpr uint64_t kCount = 16 * kBlocks;

  size_t MemOpsOf(const std::vector<int32_t>& order) {
    Plan plan;
    plan.key.kind = OpKind::kAllReduce;
    plan.blocks = kBlocks;
    plan.count_spans_blocks = plan.input_blocked = plan.output_blocked = true;
    plan.crosses_hosts = true;
    Step step;
    for (int32_t block : order) {
      step.combines.push_back({.sources = {{Space::kInput, 0, 0, block}},
                               .destinations = {{Space::kOutput, 0, 0, block}}});
    }
    plan.programs = {{.channel = ChannelId(0), .steps = {step}}};
    const size_t before = device_.submitted;
    StartPlan(std::move(plan), kCount);
    Turn();
    FinishAllAndTurn();
    EXPECT_TRUE(done());
    EXPECT_EQ(outputs_[0], inputs_[0]);
    return device_.submitted - before;
  }
};

TEST_F(ProgramRunBlocks, AdjacentCombinesAreOneMemOp) {
  EXPECT_EQ(MemOpsOf({0, 1, 2, 3}), 1u);
  EXPECT_EQ(MemOpsOf({2, 3, 0, 1}), 2u);
  EXPECT_EQ(MemOpsOf({3, 2, 1, 0}), 4u);
}

TEST_F(ProgramRun, SkipsCopyOntoItself) {
  Plan plan;
  plan.key.kind = OpKind::kAllGather;
  plan.crosses_hosts = true;
  plan.programs = {{.channel = ChannelId(0), .steps = {Sums({kFirstOutput}, kFirstOutput)}}};
  StartPlan(std::move(plan), 3 * kPerSlice);
  Turn();
  EXPECT_TRUE(done());
  EXPECT_EQ(device_.submitted, 0u);
}

// ---- Receives -----------------------------------------------------------------------------------

TEST_F(ProgramRun, CombineWaitsForSliceAndSlotForCombine) {
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
  EXPECT_TRUE(done());
  EXPECT_EQ(Output(0), Sum(0));
}

TEST_F(ProgramRun, ReleasesSlotAfterLastReader) {
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
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, ExpectedSliceLandsInPlace) {
  Start({Receives(kFirstOutput)}, 10);
  for (uint64_t round = 0; round < 10; ++round) {
    Turn();
    ASSERT_TRUE(receive_.Arrive(Slice(round, 5), TagOf(kOurCall)));
    EXPECT_EQ(receive_.WhereWas(round), Landing::kDirect) << "round " << round;
    Turn();
    EXPECT_EQ(Output(round), Slice(round, 5));
  }
  EXPECT_TRUE(done());
  EXPECT_EQ(device_.submitted, 0u);
  EXPECT_EQ(receive_.released(), 10u);
}

TEST_F(ProgramRun, ExpectsReceiveWhenCreditAllows) {
  std::vector<Step> steps = AddsWhatComes();
  steps.push_back(Receives(kSecondOutput));
  Start(steps, 2);
  for (uint64_t round : {0, 1}) {
    Turn();
    ASSERT_TRUE(receive_.Arrive(Slice(round), TagOf(kOurCall)));
    ASSERT_TRUE(receive_.Arrive(Slice(round, 5), TagOf(kOurCall)));
    EXPECT_EQ(receive_.WhereWas(2 * round + 1), Landing::kDirect) << "round " << round;
    Turn();  // While the device reads the slot, its credit is not returned.
    FinishAll();
  }
  Turn();
  EXPECT_TRUE(done());
}

TEST_F(ProgramRun, CopiesEarlySlicesFromSlots) {
  for (uint64_t n = 0; n < kShape.slots; ++n)
    ASSERT_TRUE(receive_.Arrive(Slice(n, 5), TagOf(kOurCall)));
  Start({Receives(kFirstOutput)}, kShape.slots);
  Turn();
  ASSERT_EQ(device_.held(), kShape.slots);
  EXPECT_EQ(receive_.released(), 0u) << "the device still reads the slots";
  EXPECT_FALSE(done());
  FinishAllAndTurn();
  EXPECT_TRUE(done());
  EXPECT_EQ(receive_.released(), kShape.slots);
  for (uint64_t n = 0; n < kShape.slots; ++n) EXPECT_EQ(Output(n), Slice(n, 5));
}

TEST_F(ProgramRun, EarlySliceKeepsSlotWhileDeviceIsFull) {
  ASSERT_TRUE(receive_.Arrive(Slice(0, 5), TagOf(kOurCall)));
  device_.room = 0;
  Start({Receives(kFirstOutput)}, 1);
  Turn();
  EXPECT_EQ(receive_.released(), 0u);
  EXPECT_TRUE(executor_.quiescent());
  device_.room = 1;
  Turn();
  FinishAllAndTurn();
  EXPECT_TRUE(done());
  EXPECT_EQ(device_.submitted, 1u);
  EXPECT_EQ(Output(0), Slice(0, 5));
}

TEST_F(ProgramRun, ForwardsReceivedData) {
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
    FinishAllAndTurn();
    ASSERT_EQ(send_.next(), n + 1);
    EXPECT_EQ(send_.Acknowledge(), Slice(0, 5));
    Turn();
    EXPECT_TRUE(done());
  }
}

// ---- Errors of the device
// ------------------------------------------------------------------------

TEST_F(ProgramRun, FailedMemOpEndsTheRun) {
  Start(SendsTheSum(), 2);
  Turn();
  ASSERT_EQ(device_.held(), 2u);
  device_.Fail(absl::InternalError("GPU 0 was lost"));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(executor_.Poll().status(), absl::InternalError("GPU 0 was lost"));
  EXPECT_EQ(send_.next(), 0u) << "an undefined slice was sent";
  EXPECT_FALSE(executor_.quiescent()) << "the device still works for this run";
  FinishAll();
  EXPECT_TRUE(executor_.quiescent());
  EXPECT_FALSE(done());
}

// ---- Slices of another call ---------------------------------------------------------------------

TEST_F(ProgramRun, MismatchedSliceEndsTheRun) {
  Start(AddsWhatComes(), 3);
  Turn();
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(kOurCall)));
  Turn();
  ASSERT_EQ(device_.held(), 1u);
  ASSERT_TRUE(receive_.Arrive(Slice(1), TagOf(9)));
  EXPECT_FALSE(executor_.mismatched_tag().has_value());
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(absl::IsInvalidArgument(executor_.Poll().status())) << "the error is permanent";
  ASSERT_TRUE(executor_.mismatched_tag().has_value());
  EXPECT_EQ(*executor_.mismatched_tag(), TagOf(9));
  EXPECT_EQ(device_.submitted, 1u) << "bytes of another call were used";
  EXPECT_FALSE(executor_.quiescent()) << "the device still works for this run";
  FinishAll();
  EXPECT_TRUE(executor_.quiescent());
  EXPECT_FALSE(done());
}

TEST_F(ProgramRun, MismatchedSliceDoesNotTouchExpectedBuffer) {
  Start({Receives(kFirstOutput)}, 1);
  Turn();
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(9)));
  EXPECT_TRUE(absl::IsInvalidArgument(executor_.Poll().status()));
  ASSERT_TRUE(executor_.mismatched_tag().has_value());
  EXPECT_EQ(*executor_.mismatched_tag(), TagOf(9));
  EXPECT_THAT(outputs_[0], testing::Each(-1));
}

TEST_F(ProgramRun, EarlyMismatchedSliceDoesNotTouchBuffer) {
  ASSERT_TRUE(receive_.Arrive(Slice(0), TagOf(9)));
  Start({Receives(kFirstOutput)}, 1);
  EXPECT_TRUE(absl::IsInvalidArgument(executor_.Poll().status()));
  ASSERT_TRUE(executor_.mismatched_tag().has_value());
  EXPECT_EQ(*executor_.mismatched_tag(), TagOf(9));
  EXPECT_EQ(device_.submitted, 0u);
  EXPECT_THAT(outputs_[0], testing::Each(-1));
}

// ---- Lanes to and from several hosts ------------------------------------------------------------

using ProgramRunPeers = ProgramRunFixture;

TEST_F(ProgramRunPeers, LaneWithoutCreditDoesNotBlockOthers) {
  Start({Sends(kFirstInput, {}, HostIndex(1)), Sends(kSecondInput, {}, HostIndex(2))}, 3);
  lanes_.to(1).credit = 0;
  Turn();
  EXPECT_EQ(lanes_.to(1).next(), 0u);
  ASSERT_EQ(lanes_.to(2).next(), 3u);
  for (uint64_t round = 0; round < 3; ++round)
    EXPECT_EQ(lanes_.to(2).Acknowledge(), Slice(round, 1'000'000));
  lanes_.to(1).credit = kNoLimit;
  Turn();
  ASSERT_EQ(lanes_.to(1).next(), 3u);
  EXPECT_FALSE(done());
  for (uint64_t round = 0; round < 3; ++round) EXPECT_EQ(lanes_.to(1).Acknowledge(), Slice(round));
  Turn();
  EXPECT_TRUE(done());
}

TEST_F(ProgramRunPeers, LateSlicesDoNotBlockOtherLanes) {
  Start({Receives(kFirstOutput, HostIndex(1)), Receives(kSecondOutput, HostIndex(3))}, 6);
  for (uint64_t round = 0; round < kRoundsInFlight; ++round) {
    Turn();
    ASSERT_TRUE(lanes_.from(3).Arrive(Slice(round, 5), TagOf(kOurCall)));
    EXPECT_EQ(lanes_.from(3).WhereWas(round), Landing::kDirect);
  }
  Turn();
  EXPECT_EQ(lanes_.from(3).released(), kRoundsInFlight) << "as far as rounds go";
  for (uint64_t round = 0; round < 6; ++round) {
    Turn();
    ASSERT_TRUE(lanes_.from(1).Arrive(Slice(round, 7), TagOf(kOurCall)));
    Turn();
    if (round + kRoundsInFlight >= 6) continue;
    ASSERT_TRUE(lanes_.from(3).Arrive(Slice(round + kRoundsInFlight, 5), TagOf(kOurCall)));
  }
  Turn();
  EXPECT_TRUE(done());
  for (uint64_t round = 0; round < 6; ++round) EXPECT_EQ(Output(round), Slice(round, 7));
}

TEST_F(ProgramRunPeers, EachLaneCountsItsOwnSlices) {
  const auto to_both = [&](HostIndex first, HostIndex second) {
    Start({Sends(kFirstInput, {}, first), Receives(kFirstOutput, second)}, 2);
    for (uint64_t round = 0; round < 2; ++round) {
      Turn();
      ASSERT_TRUE(lanes_.from(second.value()).Arrive(Slice(round, 7), TagOf(kOurCall)));
      Turn();
      EXPECT_EQ(lanes_.to(first.value()).Acknowledge(), Slice(round));
    }
    Turn();
    EXPECT_TRUE(done());
    for (uint64_t round = 0; round < 2; ++round) EXPECT_EQ(Output(round), Slice(round, 7));
  };
  to_both(HostIndex(1), HostIndex(1));
  to_both(HostIndex(2), HostIndex(3));
  to_both(HostIndex(1), HostIndex(3));
  to_both(HostIndex(3), HostIndex(1));
  EXPECT_EQ(lanes_.to(1).next(), 4u);
  EXPECT_EQ(lanes_.to(2).next(), 2u);
  EXPECT_EQ(lanes_.to(3).next(), 2u);
  EXPECT_EQ(lanes_.from(1).released(), 4u);
  EXPECT_EQ(lanes_.from(3).released(), 4u);
}

TEST_F(ProgramRunPeers, StagingSlotsBelongToTheirLane) {
  lanes_.to(1).copied = lanes_.to(2).copied = kNoLimit;
  Start({Sums({kFirstInput, kSecondInput}, StagedFor(1)), Sends(StagedFor(1), {0}, HostIndex(1)),
         Sums({kFirstInput}, StagedFor(3)), Sends(StagedFor(3), {2}, HostIndex(2))},
        4);
  Turn();
  FinishAllAndTurn();
  EXPECT_EQ(device_.submitted, 2 * kShape.slots) << "both lanes have their own slots";
  for (uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(lanes_.to(2).Acknowledge(), Slice(round));
    Turn();
    FinishAllAndTurn();
    EXPECT_EQ(lanes_.to(2).next(), std::min<uint64_t>(4, round + 1 + kShape.slots));
    EXPECT_EQ(lanes_.to(1).next(), kShape.slots) << "the other lane's acknowledgements are not its";
  }
  for (uint64_t round = 0; round < 4; ++round) {
    EXPECT_EQ(lanes_.to(1).Acknowledge(), Sum(round));
    Turn();
    FinishAllAndTurn();
  }
  EXPECT_TRUE(done());
  EXPECT_EQ(lanes_.stagings, 2);
}

TEST_F(ProgramRunPeers, AllocatesStagingOnlyForComposedSlices) {
  Start({Sends(kFirstInput)}, 1);
  EXPECT_EQ(lanes_.stagings, 0);
}

TEST_F(ProgramRunPeers, FailsWithoutMemoryForLane) {
  lanes_.memory = absl::ResourceExhaustedError("no memory");
  for (const std::vector<Step>& steps : {AddsWhatComes(), SendsTheSum()}) {
    Start(steps, 3);
    EXPECT_TRUE(absl::IsResourceExhausted(start_status_)) << start_status_;
    EXPECT_TRUE(done());
    EXPECT_TRUE(executor_.quiescent());
  }
}

// ---- Memory that lanes may not reach ------------------------------------------------------------

class ProgramRunForms : public ProgramRunFixture {
 protected:
  ProgramRunForms() { device_.lanes_reach = false; }
  static std::vector<Step> SendsTheInput() { return {Sends(kFirstInput)}; }
  // Runs one operation, whose slice is the first input.
  void RunOne(bool staged) {
    const size_t copies = device_.submitted;
    Turn();
    FinishAllAndTurn();
    EXPECT_EQ(device_.submitted - copies, staged ? 1u : 0u);
    EXPECT_EQ(send_.Acknowledge(), Slice(0));
    Turn();
    EXPECT_TRUE(done());
  }
};

TEST_F(ProgramRunForms, SlicesLeaveFromBuffersThatLanesReach) {
  Start(SendsTheInput(), 1);
  const long held = send_.held.use_count();
  EXPECT_GT(held, 1) << "while the operation runs";
  RunOne(/*staged=*/false);
  EXPECT_EQ(send_.held.use_count(), held - 1);
  EXPECT_EQ(executor_.staged(), "");
  EXPECT_EQ(lanes_.stagings, 0);
}

TEST_F(ProgramRunForms, OtherOperationsRunStagedWithTheReason) {
  send_.reach = absl::FailedPreconditionError("no dma-buf");
  Start(SendsTheInput(), 1);
  RunOne(/*staged=*/true);
  EXPECT_EQ(executor_.staged(), "no dma-buf");
  send_.reach = absl::UnimplementedError("a stream");
  ASSERT_TRUE(*executor_.Prepare(operation_));
  ASSERT_TRUE(executor_.Start(operation_).ok());
  RunOne(/*staged=*/true);
  EXPECT_EQ(executor_.staged(), "") << "as expected of streams";
}

// Thousands of lanes may share a NIC.
TEST_F(ProgramRunForms, LanesOfOneNicAreAskedOnceForABuffer) {
  lanes_.to(2).domain = send_.domain;
  Start({Sends(kFirstInput), Sends(kFirstInput, {}, HostIndex(2)), Sends(kSecondInput)}, 1);
  // Both inputs are memory of the test's process: one region.
  EXPECT_EQ(send_.asked + lanes_.to(2).asked, 1);
  lanes_.to(2).domain = &lanes_.to(2);
  ASSERT_TRUE(*executor_.Prepare(operation_));
  EXPECT_EQ(lanes_.to(2).asked, 1) << "on another NIC now";
}

TEST_F(ProgramRunForms, EachOperationHasItsForm) {
  Start(SendsTheInput(), 1);
  RunOne(/*staged=*/false);
  for (const bool staged : {true, false, true}) {
    send_.reach = staged ? absl::FailedPreconditionError("no dma-buf") : absl::OkStatus();
    ASSERT_TRUE(*executor_.Prepare(operation_));
    ASSERT_TRUE(executor_.Start(operation_).ok());
    RunOne(staged);
  }
}

TEST_F(ProgramRunForms, AnOperationWaitsUntilItsLanesKnow) {
  send_.reach = absl::UnavailableError("the registration is in progress");
  Start(SendsTheInput(), 1);
  EXPECT_TRUE(done()) << "not started";
  EXPECT_FALSE(*executor_.Prepare(operation_));
  send_.reach = absl::OkStatus();
  EXPECT_TRUE(*executor_.Prepare(operation_));
  ASSERT_TRUE(executor_.Start(operation_).ok());
  RunOne(/*staged=*/false);
}

TEST_F(ProgramRunPeers, AProgramWithoutStepsIsDoneAtOnce) {
  Start({}, 3);
  EXPECT_TRUE(start_status_.ok());
  Turn();
  EXPECT_TRUE(done());
}

}  // namespace program_run_test
}  // namespace mccs
