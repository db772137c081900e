// The daemon's side of one work ring, against a tenant that writes arbitrary records.
#include "service/frontend/rank_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <vector>

#include "service/device/gpu/gpu_importer.h"
#include "tests/fuzz/fuzz_run.h"
#include "tests/unit/frontend/rank_endpoint_fixture.h"

namespace mccs {
namespace rank_endpoint_test {

using testing::HasSubstr;

// Each page that is written at once costs the engine's turn some microseconds.
TEST_F(RankEndpointTest, ANewRegionOccupiesOnePage) {
  const UniqueFd region = MakeForming()->TakeRegionFd();
  struct stat file {};
  ASSERT_EQ(fstat(region.get(), &file), 0);
  constexpr int64_t kBlockBytes = 512;  // of st_blocks, see inode(7)
  EXPECT_EQ(file.st_blocks * kBlockBytes, sysconf(_SC_PAGESIZE));
}

TEST_F(RankEndpointTest, AnEmptyRingHasNoFront) {
  const auto front = endpoint_->Front();
  ASSERT_TRUE(front.ok());
  EXPECT_EQ(*front, nullptr);
}

TEST_F(RankEndpointTest, CallsComeInOrderOverManyTurnsOfTheRing) {
  for (uint64_t n = 1; n <= 3 * wire::kRingRecords; ++n) {
    Push(Call(n, n % 1000));
    const auto front = endpoint_->Front();
    ASSERT_TRUE(front.ok()) << front.status();
    ASSERT_NE(*front, nullptr);
    EXPECT_EQ((*front)->count, n % 1000);
    EXPECT_TRUE(endpoint_->FrontReady());
    endpoint_->Complete();
    EXPECT_EQ(page().done.value.load(), n);
    EXPECT_EQ(page().head.load(), n);
  }
}

TEST_F(RankEndpointTest, AFullRingIsTakenWhole) {
  for (uint64_t n = 1; n <= wire::kRingRecords; ++n) Push(Call(n));
  for (uint64_t n = 1; n <= wire::kRingRecords; ++n) {
    ASSERT_NE(*endpoint_->Front(), nullptr);
    endpoint_->Complete();
  }
  EXPECT_EQ(*endpoint_->Front(), nullptr);
}

TEST_F(RankEndpointTest, RejectsATailBeyondTheRing) {
  page().tail.store(wire::kRingRecords + 1);
  EXPECT_THAT(Rejection(), HasSubstr("work ring is corrupt"));
}

TEST_F(RankEndpointTest, RejectsADecreasingTail) {
  Push(Call(1));
  ASSERT_TRUE(endpoint_->Front().ok());
  endpoint_->Complete();
  page().tail.store(0);
  EXPECT_THAT(Rejection(), HasSubstr("work ring is corrupt"));
}

TEST_F(RankEndpointTest, IgnoresACorruptHead) {
  Push(Call(1));
  page().head.store(999);
  ASSERT_NE(*endpoint_->Front(), nullptr);
  EXPECT_EQ(page().head.load(), 1u);
}

TEST_F(RankEndpointTest, RejectsASkippedSequence) {
  Push(Call(2));
  EXPECT_THAT(Rejection(), HasSubstr("expected call #1"));
}

TEST_F(RankEndpointTest, WhatIsWrittenAfterARecordWasTakenChangesNothing) {
  Push(Call(1, 16));
  const auto front = endpoint_->Front();
  ASSERT_NE(*front, nullptr);
  page().records[0] = Call(1, 1 << 20);
  EXPECT_EQ((*endpoint_->Front())->count, 16u);
}

TEST_F(RankEndpointTest, RecordsOutOfRangeAreRejected) {
  std::vector<wire::WorkRecord> bad;
  const auto add = [&]() -> wire::WorkRecord& { return bad.emplace_back(Call(1)); };
  for (int kind : {0, kOpKinds, 255}) add().op = static_cast<OpKind>(kind);
  for (int type : {12, 255}) add().type = static_cast<DataType>(type);
  for (int op : {6, 7, 255}) add().redop = static_cast<ReduceOp>(op);
  for (OpKind kind : {OpKind::kBroadcast, OpKind::kReduce, OpKind::kSend, OpKind::kRecv}) {
    for (int root : {-1, kRanks, std::numeric_limits<int>::min()}) {
      wire::WorkRecord& call = add();
      call.op = kind;
      call.root_or_peer = root;
    }
  }
  for (uint64_t count : {kBytes / 4 + 1, uint64_t{1} << 54, ~uint64_t{0}, ~uint64_t{0} / 4 + 1}) {
    bad.push_back(Call(1, count));
  }
  for (OpKind kind : {OpKind::kAllGather, OpKind::kReduceScatter}) {  // four times the buffer
    bad.push_back(Call(1, kBytes / 4));
    bad.back().op = kind;
  }
  add().send.id = buffer_ + 1;
  add().recv.offset = 2;  // not aligned
  add().recv.offset = ~uint64_t{0} - 63;
  add().ready_slot = wire::kReadySlots;
  add().priority = kHighestPriority + 1;
  add().criticality = static_cast<Criticality>(4);
  for (const wire::BufferRef& scalar :
       {wire::BufferRef{buffer_ + 1, 0, 0}, wire::BufferRef{buffer_, 0, kBytes - 3},
        wire::BufferRef{buffer_, 0, ~uint64_t{0} - 1}}) {
    wire::WorkRecord& call = add();
    call.redop = ReduceOp::kPreMulSum;
    call.scalar_buffer = scalar;
  }
  for (OpKind kind : {OpKind::kPut, OpKind::kSignal, OpKind::kWaitSignal}) {
    wire::WorkRecord& unknown_signal = add();
    unknown_signal.op = kind;
    unknown_signal.signal = kSignals;
    wire::WorkRecord& unknown_peer = add();
    unknown_peer.op = kind;
    unknown_peer.root_or_peer = kRanks;
  }
  add().record = static_cast<wire::RecordKind>(9);
  for (size_t i = 0; i < bad.size(); ++i) {
    Renew();
    Push(bad[i]);
    EXPECT_TRUE(absl::IsInvalidArgument(endpoint_->Front().status())) << "record " << i;
  }
}

TEST_F(RankEndpointTest, OptionsOfACallArriveWithIt) {
  wire::WorkRecord call = Call(1);
  call.deadline_us = 1500;
  call.priority = kHighestPriority;
  call.criticality = Criticality::kCritical;
  Push(call);
  const auto front = endpoint_->Front();
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_EQ((*front)->options, (CallOptions{1500, kHighestPriority, Criticality::kCritical}));
}

TEST_F(RankEndpointTest, AFactorIsInTheRecordOrInABuffer) {
  wire::WorkRecord call = Call(1);
  call.redop = ReduceOp::kPreMulSum;
  call.scalar = 0x40400000;
  Push(call);
  auto front = endpoint_->Front();
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_EQ((*front)->scalar, 0x40400000u);
  EXPECT_EQ((*front)->scalar_memory.bytes, 0u);
  endpoint_->Complete();
  call = Call(2);
  call.redop = ReduceOp::kPreMulSum;
  call.scalar_buffer = {.id = buffer_, .reserved = 0, .offset = kBytes - 5};  // not aligned
  Push(call);
  front = endpoint_->Front();
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_EQ((*front)->scalar_memory.address() - (*front)->input.address(),
            static_cast<ptrdiff_t>(kBytes - 5));
  const auto released = buffers_->Release(BufferId(buffer_));
  EXPECT_FALSE(released->expired());
  endpoint_->Complete();
  EXPECT_TRUE(released->expired());
}

// Other operators ignore the factor's fields.
TEST_F(RankEndpointTest, OnlyAFactorsOperatorHasAFactor) {
  wire::WorkRecord call = Call(1);
  call.scalar_buffer = {.id = 999, .reserved = 0, .offset = 0};
  Push(call);
  const auto front = endpoint_->Front();
  ASSERT_TRUE(front.ok()) << front.status();
  EXPECT_EQ((*front)->scalar_memory.bytes, 0u);
}

TEST_F(RankEndpointTest, ACallWaitsForEveryFenceBeforeIt) {
  Push(Fence(3, 10));
  Push(Fence(5, 20));
  wire::WorkRecord call = Call(1);
  call.ready_slot = 7;
  call.ready_value = 30;
  Push(call);
  ASSERT_NE(*endpoint_->Front(), nullptr);
  for (const auto& [slot, value] : {std::pair{7, 30}, {3, 11}, {5, 19}}) {
    EXPECT_FALSE(endpoint_->FrontReady());
    page().ready[slot].value.store(static_cast<uint64_t>(value));
  }
  EXPECT_FALSE(endpoint_->FrontReady());
  page().ready[5].value.store(20);
  EXPECT_TRUE(endpoint_->FrontReady());
  endpoint_->Complete();
  Push(Call(2));  // without fences
  ASSERT_NE(*endpoint_->Front(), nullptr);
  EXPECT_TRUE(endpoint_->FrontReady());
}

TEST_F(RankEndpointTest, AsManyFencesAsSlotsAreTakenAndNoMore) {
  for (uint32_t slot = 0; slot < wire::kReadySlots; ++slot) Push(Fence(slot, 1));
  Push(Fence(0, 1));
  EXPECT_THAT(Rejection(), HasSubstr("ready slot"));
}

// A tenant could post fences faster than the engine takes them, and the engine would never leave
// the loop.
TEST_F(RankEndpointTest, RejectsAFenceWithoutASlot) {
  Push(Fence(wire::kNoReadySlot, 0));
  EXPECT_FALSE(endpoint_->Front().ok());
}

// The record's stream waits for the fence even if the first caller ignores the error.
TEST_F(RankEndpointTest, ReturnsARecordsErrorToEveryCaller) {
  Push(Call(1));
  ASSERT_NE(*endpoint_->Front(), nullptr);
  Push(Call(2, kBytes));
  Push(Call(3));
  EXPECT_EQ((*endpoint_->Front())->count, 16u);
  endpoint_->Complete();
  const std::string rejection = Rejection();
  EXPECT_THAT(rejection, HasSubstr("call #2"));
  EXPECT_EQ(Rejection(), rejection);
  EXPECT_EQ(endpoint_->TakeMessage().status().message(), rejection);
  EXPECT_EQ(page().done.value.load(), 1u);
}

TEST_F(RankEndpointTest, AFailureIsWrittenOnceAndReleasesNoStream) {
  endpoint_->Fail(absl::UnavailableError(std::string(5000, 'x')));
  endpoint_->Fail(absl::InvalidArgumentError("second"));
  EXPECT_EQ(page().failure.error.load(), static_cast<uint32_t>(wire::ErrorClass::kRemote));
  EXPECT_EQ(strnlen(page().failure.text, sizeof(page().failure.text)),
            sizeof(page().failure.text) - 1);
  EXPECT_EQ(page().failure.accepts_calls.load(), 0u);
  EXPECT_EQ(page().done.value.load(), 0u);
}

TEST_F(RankEndpointTest, ADeathIsReportedAndCallsAreStillTaken) {
  endpoint_->ReportDeath(absl::UnavailableError("rank 1 left"));
  EXPECT_EQ(page().failure.error.load(), static_cast<uint32_t>(wire::ErrorClass::kRemote));
  EXPECT_STREQ(page().failure.text, "rank 1 left");
  EXPECT_EQ(page().failure.accepts_calls.load(), 1u);
  Push(Call(1));
  ASSERT_NE(*endpoint_->Front(), nullptr);
  endpoint_->Complete();
  EXPECT_EQ(page().done.value.load(), 1u);
}

TEST_F(RankEndpointTest, AFailureAfterADeathKeepsItsMessageAndTakesNoCalls) {
  endpoint_->ReportDeath(absl::UnavailableError("rank 1 left"));
  endpoint_->Fail(absl::InvalidArgumentError("call #1 cannot complete"));
  endpoint_->ReportDeath(absl::UnavailableError("rank 2 left"));
  EXPECT_STREQ(page().failure.text, "rank 1 left");
  EXPECT_EQ(page().failure.accepts_calls.load(), 0u);
}

TEST_F(RankEndpointTest, AFailureDoesNotAdvanceTheDoneWord) {
  for (uint64_t n = 1; n <= 3; ++n) Push(Call(n));
  for (int i = 0; i < 2; ++i) {
    ASSERT_NE(*endpoint_->Front(), nullptr);
    endpoint_->Complete();
  }
  endpoint_->Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(page().done.value.load(), 2u);
}

// The shim ends a communicator itself if the daemon does not answer in time.
TEST_F(RankEndpointTest, ADaemonThatWasLateLeavesTheStreamsReleased) {
  Push(Call(1));
  ASSERT_NE(*endpoint_->Front(), nullptr);
  page().failure.error.store(static_cast<uint32_t>(wire::ErrorClass::kAborted));
  page().done.value.store(wire::kFencePoison);
  endpoint_->Complete();
  endpoint_->Fail(absl::UnavailableError("gone"));
  EXPECT_EQ(page().done.value.load(), wire::kFencePoison);
  EXPECT_EQ(page().failure.error.load(), static_cast<uint32_t>(wire::ErrorClass::kAborted));
}

TEST_F(RankEndpointTest, ReleaseDropsTheBuffers) {
  Push(Call(1));
  ASSERT_NE(*endpoint_->Front(), nullptr);
  const auto released = buffers_->Release(BufferId(buffer_));
  EXPECT_FALSE(released->expired());
  endpoint_->OnReleased();
  EXPECT_TRUE(released->expired());
  EXPECT_EQ(let_go_, 1);
}

// Mostly valid records with some random bytes, for collectives and point-to-point calls, in groups
// and alone.
TEST_F(RankEndpointTest, RandomRecordsAreRejectedOrHarmless) {
  FuzzRun run("records", "MCCS_FUZZ_RECORDS", 20'000);
  const OpKind kinds[] = {OpKind::kAllReduce, OpKind::kAllGather, OpKind::kAllToAll,
                          OpKind::kBroadcast, OpKind::kSend,      OpKind::kRecv,
                          OpKind::kPut,       OpKind::kSignal,    OpKind::kWaitSignal};
  bool rejected = false;
  while (run.Next()) {
    if (run.done() % 50 == 0 || rejected) {  // final
      Renew();
    }
    wire::WorkRecord record =
        run.Below(8) == 0 ? Fence(static_cast<uint32_t>(run.Below(wire::kReadySlots)), run.Below(2))
                          : Call(page().tail.load() + 1, run.Below(64));
    record.op = kinds[run.Below(std::size(kinds))];
    if (run.Below(4) == 0) record.flags = wire::kMoreInGroup;
    auto* bytes = reinterpret_cast<std::byte*>(&record);
    for (uint64_t n = run.Below(4); n > 0; --n) {
      bytes[run.Below(sizeof(record))] = static_cast<std::byte>(run.random()());
    }
    Push(record);
    auto message = endpoint_->TakeMessage();
    for (; message.ok() && *message != nullptr; message = endpoint_->TakeMessage()) {
      EXPECT_LE((*message)->bytes(), kBytes);
      endpoint_->CompleteMessage(**message);
    }
    const auto front = endpoint_->Front();
    rejected = !front.ok();
    if (rejected || *front == nullptr) continue;
    const uint64_t most = kBytes / SizeOf((*front)->type);
    EXPECT_LE((*front)->count, most);
    if (endpoint_->FrontReady()) endpoint_->Complete();
  }
}

// ---- Groups: which calls run concurrently, and when streams are released ------------------------

class RankEndpointGroupsTest : public RankEndpointTest {
 protected:
  wire::WorkRecord Send(uint64_t sequence, int peer, bool more = true) {
    wire::WorkRecord record = Call(sequence);
    record.op = OpKind::kSend;
    record.root_or_peer = peer;
    record.flags = more ? wire::kMoreInGroup : wire::kNoFlags;
    return record;
  }
  const PostedMessage* Take() {
    const auto message = endpoint_->TakeMessage();
    EXPECT_TRUE(message.ok()) << message.status();
    return message.ok() ? *message : nullptr;
  }
  const PostedOperation* Front() {
    const auto front = endpoint_->Front();
    EXPECT_TRUE(front.ok()) << front.status();
    return front.ok() ? *front : nullptr;
  }
  uint64_t done() { return page().done.value.load(); }
};

TEST_F(RankEndpointGroupsTest, MessagesOfAGroupAreTakenTogetherAndEachOnce) {
  Push(Send(1, 2));
  wire::WorkRecord receive = Send(2, 3, /*more=*/false);
  receive.op = OpKind::kRecv;
  receive.recv.offset = 64;
  Push(receive);
  const PostedMessage* first = Take();
  const PostedMessage* second = Take();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->kind, OpKind::kSend);
  EXPECT_EQ(first->peer, Rank(2));
  EXPECT_EQ(first->memory.address(), memory_.data());
  EXPECT_EQ(second->kind, OpKind::kRecv);
  EXPECT_EQ(second->memory.address(), memory_.data() + 64);
  EXPECT_EQ(second->bytes(), 64u);
  EXPECT_EQ(Take(), nullptr);
}

TEST_F(RankEndpointGroupsTest, TheDoneWordMovesWhenTheWholeGroupIsDone) {
  Push(Send(1, 2));
  Push(Send(2, 3, /*more=*/false));
  const PostedMessage* first = Take();
  const PostedMessage* second = Take();
  endpoint_->CompleteMessage(*second);
  EXPECT_EQ(done(), 0u);
  EXPECT_TRUE(endpoint_->HasMessages());
  endpoint_->CompleteMessage(*first);
  EXPECT_EQ(done(), 2u);
  EXPECT_FALSE(endpoint_->HasMessages());
}

TEST_F(RankEndpointGroupsTest, ALargeGroupIsFreedInParts) {
  constexpr uint64_t kMessages = 600;
  std::vector<const PostedMessage*> taken;
  for (uint64_t i = 1; i <= kMessages; ++i) {
    Push(Send(i, 2, /*more=*/i < kMessages));
    taken.push_back(Take());
    ASSERT_NE(taken.back(), nullptr);
  }
  for (const PostedMessage* message : taken) endpoint_->CompleteMessage(*message);
  EXPECT_EQ(done(), kMessages);
  EXPECT_FALSE(endpoint_->HasMessages());
  int turns = 1;
  while (true) {
    CapturedBudget budget(400);
    const auto more = endpoint_->PollCaptured(&budget);
    ASSERT_TRUE(more.ok());
    if (!*more) break;
    Push(Send(kMessages + static_cast<uint64_t>(turns++), 2, /*more=*/false));
    const PostedMessage* next = Take();
    ASSERT_NE(next, nullptr) << "the next group waits for it";
    endpoint_->CompleteMessage(*next);
  }
  EXPECT_EQ(turns, 7);
}

TEST_F(RankEndpointGroupsTest, TheNextGroupWaitsForTheMessagesOfTheOneBefore) {
  Push(Send(1, 2, /*more=*/false));
  Push(Call(2));
  Push(Send(3, 2, /*more=*/false));
  const PostedMessage* first = Take();
  EXPECT_EQ(Front(), nullptr);
  EXPECT_EQ(Take(), nullptr);
  endpoint_->CompleteMessage(*first);
  ASSERT_NE(Front(), nullptr);
  EXPECT_EQ(Take(), nullptr) << "the collective is another group, and incomplete";
  endpoint_->Complete();
  EXPECT_NE(Take(), nullptr);
}

// Otherwise {send, all-reduce} on one rank and {all-reduce, receive} on another would deadlock.
TEST_F(RankEndpointGroupsTest, ACollectiveRunsBesideTheMessagesOfItsGroup) {
  Push(Send(1, 2));
  wire::WorkRecord collective = Call(2);
  collective.flags = wire::kMoreInGroup;
  Push(collective);
  Push(Send(3, 2, /*more=*/false));
  const PostedMessage* first = Take();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(Front(), nullptr);
  EXPECT_EQ(Take(), nullptr) << "after the collective";
  endpoint_->Complete();
  EXPECT_EQ(done(), 0u) << "the first message is incomplete";
  const PostedMessage* last = Take();
  ASSERT_NE(last, nullptr);
  endpoint_->CompleteMessage(*first);
  endpoint_->CompleteMessage(*last);
  EXPECT_EQ(done(), 3u);
}

TEST_F(RankEndpointGroupsTest, MessagesWaitForTheirStreamsAndShareAFence) {
  std::vector<wire::WorkRecord> calls;
  for (uint64_t sequence = 1; sequence <= wire::kReadySlots + 6; ++sequence) {
    calls.push_back(Send(sequence, 2, sequence != wire::kReadySlots + 6));
    calls.back().ready_slot = 5;
    calls.back().ready_value = 9;
    Push(calls.back());
  }
  EXPECT_EQ(Take(), nullptr);
  EXPECT_TRUE(endpoint_->AwaitsStreams());
  page().ready[5].value.store(9);
  for (size_t i = 0; i < calls.size(); ++i) ASSERT_NE(Take(), nullptr);
  EXPECT_FALSE(endpoint_->AwaitsStreams());
}

TEST_F(RankEndpointGroupsTest, AMessageWithoutElementsNeedsNoBuffer) {
  wire::WorkRecord record = Send(1, 0, /*more=*/false);
  record.count = 0;
  record.send = {};
  Push(record);
  const PostedMessage* message = Take();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->memory.address(), nullptr);
  endpoint_->CompleteMessage(*message);
  EXPECT_EQ(done(), 1u);
}

TEST_F(RankEndpointGroupsTest, RejectsMessagesWithInvalidPeerOrBuffer) {
  for (int peer : {-1, kRanks}) {
    Renew();
    Push(Send(1, peer));
    EXPECT_FALSE(endpoint_->TakeMessage().ok());
  }
  Renew();
  wire::WorkRecord record = Send(1, 2);
  record.send.offset = kBytes - 32;
  Push(record);
  EXPECT_FALSE(endpoint_->TakeMessage().ok());
}

TEST_F(RankEndpointGroupsTest, ReleaseDropsTheMessagesBuffers) {
  Push(Send(1, 2));
  ASSERT_NE(Take(), nullptr);
  const auto released = buffers_->Release(BufferId(buffer_));
  EXPECT_FALSE(released->expired());
  endpoint_->OnReleased();
  EXPECT_TRUE(released->expired());
}

}  // namespace rank_endpoint_test
}  // namespace mccs
