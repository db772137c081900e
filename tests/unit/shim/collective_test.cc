// Collectives through the whole shim: results, order on streams, groups.
#include "tests/unit/shim/shim_fixture.h"

// Of the device API; some headers lack it, and it ignores its arguments.
extern "C" ncclResult_t ncclGetLsaDevicePointer();

namespace mccs {
namespace collective_test {

using test_cuda::Enqueued;
using test_cuda::Synchronize;
using ::testing::ElementsAre;

using Collectives = ShimTest;

TEST_F(Collectives, AllReduceSumsOverTheRanksOfOneProcess) {
  MakeRanks(2);
  CUstream streams[] = {Stream(), Stream()};
  float* data[] = {Buffer<float>({1, 2, 3}), Buffer<float>({10, 20, 30})};
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) {
    ASSERT_EQ(ncclAllReduce(data[r], data[r], 3, ncclFloat, ncclSum, comms_[r], streams[r]),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  for (int r = 0; r < 2; ++r) {
    ASSERT_TRUE(Synchronize(streams[r]));
    EXPECT_THAT(Read(data[r], 3), ElementsAre(11, 22, 33));
  }
}

TEST_F(Collectives, MaxAndMinAreDistinct) {
  MakeRanks(2);
  int* data[] = {Buffer<int>({1, 5}), Buffer<int>({4, 2})};
  int* max[] = {Buffer<int>({0, 0}), Buffer<int>({0, 0})};
  int* min[] = {Buffer<int>({0, 0}), Buffer<int>({0, 0})};
  for (auto [op, out] : {std::pair(ncclMax, max), std::pair(ncclMin, min)}) {
    ncclGroupStart();
    for (int r = 0; r < 2; ++r) ncclAllReduce(data[r], out[r], 2, ncclInt, op, comms_[r], nullptr);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  }
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_THAT(Read(max[1], 2), ElementsAre(4, 5));
  EXPECT_THAT(Read(min[0], 2), ElementsAre(1, 2));
}

TEST_F(Collectives, GatherScatterAndBroadcastMoveTheRightBlocks) {
  MakeRanks(2);
  CUstream stream = Stream();
  int* send[] = {Buffer<int>({1, 2}), Buffer<int>({3, 4})};
  int* gathered[] = {Buffer<int>({0, 0, 0, 0}), Buffer<int>({0, 0, 0, 0})};
  int* scattered[] = {Buffer<int>({0}), Buffer<int>({0})};
  int* received[] = {Buffer<int>({0, 0}), Buffer<int>({0, 0})};
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    ncclAllGather(send[r], gathered[r], 2, ncclInt, comms_[r], stream);
    ncclReduceScatter(send[r], scattered[r], 1, ncclInt, ncclSum, comms_[r], stream);
    // Only the root's send buffer counts.
    ncclBroadcast(r == 1 ? send[r] : nullptr, received[r], 2, ncclInt, 1, comms_[r], stream);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(stream));
  for (int r = 0; r < 2; ++r) {
    EXPECT_THAT(Read(gathered[r], 4), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(Read(received[r], 2), ElementsAre(3, 4));
  }
  EXPECT_EQ(*scattered[0], 4);
  EXPECT_EQ(*scattered[1], 6);

  ncclGroupStart();
  for (int r = 0; r < 2; ++r) ncclBcast(received[r], 1, ncclInt, 0, comms_[r], stream);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_TRUE(Synchronize(stream));
}

TEST_F(Collectives, RecordContainsAllocationAndOffset) {
  MakeRanks(1);
  int* data = Buffer<int>({0, 0, 7, 8});
  ASSERT_EQ(ncclAllReduce(data + 2, data, 2, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_THAT(Read(data, 4), ElementsAre(7, 8, 7, 8));
  const auto records = daemon_.RecordsOf(0);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].send.offset, 2 * sizeof(int));
  EXPECT_EQ(records[0].recv.offset, 0u);
  EXPECT_EQ(records[0].send.id, records[0].recv.id);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterBuffer), 1);
}

// Two ranks on one stream: every "ready" must precede any wait.
TEST_F(Collectives, AllRanksOfAGroupMayShareOneStream) {
  MakeRanksOnOneGpu(4);
  const CUstream stream = Stream();
  daemon_.HoldRings(true);
  std::vector<int*> data;
  ncclGroupStart();
  for (int r = 0; r < 4; ++r) {
    data.push_back(Buffer<int>({r}));
    ncclAllReduce(data[r], data[r], 1, ncclInt, ncclSum, comms_[r], stream);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  const std::vector<Enqueued> queue = test_cuda::EnqueuedOn(stream);
  ASSERT_EQ(queue.size(), 8u);
  for (size_t i = 0; i < 8; ++i)
    EXPECT_EQ(queue[i].kind, i < 4 ? Enqueued::kWrite : Enqueued::kWait);
  daemon_.HoldRings(false);
  ASSERT_TRUE(Synchronize(stream));
  for (int r = 0; r < 4; ++r) EXPECT_EQ(*data[r], 6);
}

TEST_F(Collectives, CallReturnsBeforeTheWorkCompletes) {
  MakeRanks(1);
  CUstream stream = Stream();
  int* data = Buffer<int>({5});
  daemon_.HoldRings(true);
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess);
  EXPECT_TRUE(test_cuda::IsBusy(stream)) << "the stream waits for the daemon";
  daemon_.HoldRings(false);
  EXPECT_TRUE(Synchronize(stream));
}

TEST_F(Collectives, AllStreamsOfAGroupWaitAndAreAwaited) {
  MakeRanks(1);
  CUstream streams[] = {Stream(), Stream(), Stream()};
  int* data = Buffer<int>({1, 2, 3});
  ncclGroupStart();
  for (int i = 0; i < 3; ++i) {
    ncclAllReduce(data + i, data + i, 1, ncclInt, ncclSum, comms_[0], streams[i]);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  for (CUstream stream : streams) {
    const std::vector<Enqueued> queue = test_cuda::EnqueuedOn(stream);
    ASSERT_EQ(queue.size(), 2u);
    EXPECT_EQ(queue[0].kind, Enqueued::kWrite);
    EXPECT_EQ(queue[1].kind, Enqueued::kWait);
    EXPECT_EQ(queue[1].value, 3u) << "each waits for the last operation";
  }
  for (CUstream stream : streams) ASSERT_TRUE(Synchronize(stream));
  const auto records = daemon_.RecordsOf(0);
  ASSERT_EQ(records.size(), 5u) << "two fences, three operations";
  EXPECT_EQ(records[0].record, wire::RecordKind::kFence);
  EXPECT_EQ(records[1].record, wire::RecordKind::kFence);
  EXPECT_EQ(records[0].sequence, 1u) << "a fence has the number of the operation after it";
  for (size_t i = 2; i < 5; ++i) {
    EXPECT_EQ(records[i].record, wire::RecordKind::kOperation);
    EXPECT_EQ(records[i].sequence, i - 1);
    EXPECT_EQ(records[i].flags, i < 4 ? wire::kMoreInGroup : wire::kNoFlags);
  }
  EXPECT_NE(records[0].ready_slot, records[1].ready_slot);
  EXPECT_NE(records[0].ready_slot, records[2].ready_slot);
}

TEST_F(Collectives, GroupMayBeLargerThanTheRing) {
  MakeRanks(2);
  constexpr int kOperations = 3 * wire::kRingRecords + 5;
  int* data[] = {Buffer<int>({1}), Buffer<int>({1})};
  int* other[] = {Buffer<int>({1}), Buffer<int>({2})};
  ncclGroupStart();
  // All calls of rank 0 first: its ring is full before rank 1's work is pushed.
  for (int r = 0; r < 2; ++r) {
    for (int i = 0; i < kOperations; ++i) {
      ncclAllReduce(other[r], data[r], 1, ncclInt, ncclSum, comms_[r], nullptr);
    }
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(*data[0], 3);
  EXPECT_EQ(daemon_.RecordsOf(1).size(), static_cast<size_t>(kOperations));
}

TEST_F(Collectives, NestedGroupsActAtTheOutermostEnd) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  ncclGroupStart();
  ncclGroupStart();
  ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_TRUE(test_cuda::EnqueuedOn(nullptr).empty());
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(test_cuda::EnqueuedOn(nullptr).size(), 2u);
  EXPECT_TRUE(Synchronize(nullptr));
}

TEST_F(Collectives, ErrorDropsTheWholeGroup) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  ncclGroupStart();
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclBroadcast(data, data, 1, ncclInt, 9, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_THAT(LastError(), ::testing::HasSubstr("root 9"));
  EXPECT_TRUE(test_cuda::EnqueuedOn(nullptr).empty());
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess)
      << "the next group is independent of the failed one";
  EXPECT_TRUE(Synchronize(nullptr));
}

TEST_F(Collectives, UnsupportedFunctionFailsItsGroup) {
  MakeRanks(1);
  ncclGroupStart();
  EXPECT_EQ(ncclGetLsaDevicePointer(), ncclInvalidUsage);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_THAT(LastError(), ::testing::HasSubstr("ncclGetLsaDevicePointer"));
}

TEST_F(Collectives, GroupEndWithoutStartIsInvalidUsage) {
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST_F(Collectives, ZeroElementsReturnAtOnce) {
  MakeRanks(1);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 0, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
  EXPECT_TRUE(test_cuda::EnqueuedOn(nullptr).empty());
}

TEST_F(Collectives, AcceptsMemoryOfMemAlloc) {
  MakeRanks(2);
  void* data[2] = {};
  for (int r = 0; r < 2; ++r) {
    ASSERT_EQ(ncclMemAlloc(&data[r], 2 * sizeof(int)), ncclSuccess) << LastError();
    static_cast<int*>(data[r])[0] = r + 1;
    static_cast<int*>(data[r])[1] = 10 * (r + 1);
  }
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    ncclAllReduce(data[r], data[r], 2, ncclInt, ncclSum, comms_[r], nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(nullptr));
  for (void* memory : data) {
    EXPECT_THAT(Read(static_cast<int*>(memory), 2), ElementsAre(3, 30));
    EXPECT_EQ(ncclMemFree(memory), ncclSuccess);
  }
  EXPECT_EQ(ncclMemFree(nullptr), ncclSuccess);
  EXPECT_EQ(ncclMemAlloc(nullptr, 8), ncclInvalidArgument);
  EXPECT_EQ(ncclMemAlloc(&data[0], 0), ncclInvalidArgument);
}

TEST_F(Collectives, RestoresTheCurrentDevice) {
  MakeRanks(3);
  EXPECT_EQ(test_cuda::GetDevice(), 0);
  test_cuda::SetDevice(5);
  ncclGroupStart();
  for (int r = 0; r < 3; ++r) {
    int* data = Buffer<int>({r});
    ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[r], nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_EQ(test_cuda::GetDevice(), 5);
  EXPECT_TRUE(Synchronize(nullptr));
}

TEST_F(Collectives, ReusedAddressIsExportedAgain) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  auto reduce = [&] {
    ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
    ASSERT_TRUE(Synchronize(nullptr));
  };
  reduce();
  reduce();
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterBuffer), 1);
  test_cuda::Reallocate(data);
  reduce();
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterBuffer), 2);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kReleaseBuffer), 1);
  const auto records = daemon_.RecordsOf(0);
  EXPECT_EQ(records[0].send.id, records[1].send.id);
  EXPECT_NE(records[1].send.id, records[2].send.id);
}

TEST_F(Collectives, ManyBuffersAreExportedOnceEach) {
  MakeRanks(1);
  std::vector<int*> buffers;
  for (int i = 0; i < 20; ++i) buffers.push_back(Buffer<int>({i}));
  for (int round = 0; round < 3; ++round) {
    for (int* data : buffers) {
      ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclSuccess);
    }
  }
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterBuffer), 20);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(*buffers[i], i);
}

// More streams than slots, one after the other: slots of streams without pending work are reused.
TEST_F(Collectives, MoreStreamsThanReadySlots) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  for (uint32_t i = 0; i < 2 * wire::kReadySlots; ++i) {
    CUstream stream = Stream();
    ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess);
    ASSERT_TRUE(Synchronize(stream));
  }
  for (const wire::WorkRecord& record : daemon_.RecordsOf(0)) {
    EXPECT_LT(record.ready_slot, wire::kReadySlots);
  }
}

// The handle of a destroyed stream is reused while the old stream's work is still queued.
TEST_F(Collectives, ReusedStreamHandleIsAnotherStream) {
  MakeRanks(1);
  daemon_.HoldRings(true);
  int* data = Buffer<int>({5});
  CUstream stream = Stream();
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess);
  test_cuda::RenewStreamId(stream);
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess);
  daemon_.HoldRings(false);
  ASSERT_TRUE(Synchronize(stream));
  const auto records = daemon_.RecordsOf(0);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_NE(records[0].ready_slot, records[1].ready_slot);
}

}  // namespace collective_test
}  // namespace mccs
