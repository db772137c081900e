// Buffers that cannot be shared with the daemon: which data is copied, when, and through which
// memory.
#include <cstring>
#include <span>

#include "base/sealed_file.h"
#include "tests/unit/shim/shim_fixture.h"

extern "C" ncclResult_t ncclPutSignal(const void* from, size_t count, ncclDataType_t type, int peer,
                                      ncclWindow_t window, size_t offset, int signal, int context,
                                      unsigned flags, ncclComm_t comm, CUstream stream);
extern "C" ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
extern "C" ncclResult_t ncclCommResume(ncclComm_t comm);
extern "C" ncclResult_t ncclCommMemStats(ncclComm_t comm, int stat, uint64_t* value);

namespace mccs {
namespace staging_test {

using test_cuda::Enqueued;
using test_cuda::Synchronize;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Kinds = std::vector<Enqueued::Kind>;

constexpr int kSuspendMemory = 1;

class Staging : public ShimTest {
 protected:
  // Pool memory with these values.
  static int* Pool(const std::vector<int>& values) {
    auto* memory = static_cast<int*>(test_cuda::AllocPool(values.size() * sizeof(int)));
    std::copy(values.begin(), values.end(), memory);
    return memory;
  }
  static Kinds KindsOn(CUstream stream) {
    Kinds kinds;
    for (const Enqueued& queued : test_cuda::EnqueuedOn(stream)) kinds.push_back(queued.kind);
    return kinds;
  }
  uint64_t Held(int rank) {
    uint64_t bytes = 0;
    EXPECT_EQ(ncclCommMemStats(comms_[static_cast<size_t>(rank)], 0, &bytes), ncclSuccess);
    return bytes;
  }
  void Sum(int* data, size_t count, CUstream stream) {
    ASSERT_EQ(ncclAllReduce(data, data, count, ncclInt, ncclSum, comms_[0], stream), ncclSuccess)
        << LastError();
  }
};

TEST_F(Staging, ServesEveryKindOfMemory) {
  MakeRanks(4);
  constexpr size_t kBytes = 3 * sizeof(int);
  void* memory[] = {test_cuda::AllocPool(kBytes), test_cuda::AllocHost(kBytes),
                    test_cuda::AllocManaged(kBytes), test_cuda::Alloc(kBytes)};
  ncclGroupStart();
  for (int r = 0; r < 4; ++r) {
    auto* data = static_cast<int*>(memory[r]);
    std::iota(data, data + 3, 10 * r);
    ncclAllReduce(data, data, 3, ncclInt, ncclSum, comms_[static_cast<size_t>(r)], nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(nullptr));
  for (void* data : memory) EXPECT_THAT(Read(static_cast<int*>(data), 3), ElementsAre(60, 64, 68));
}

TEST_F(Staging, CopiesPrecedeReadyAndFollowDone) {
  MakeRanks(1);
  CUstream stream = Stream();
  daemon_.HoldRings(true);
  int* data = Pool({1, 2});
  Sum(data, 2, stream);
  EXPECT_EQ(KindsOn(stream), (Kinds{Enqueued::kCopy, Enqueued::kEvent, Enqueued::kWrite,
                                    Enqueued::kWait, Enqueued::kCopy, Enqueued::kEvent}));
  const std::vector<Enqueued> queue = test_cuda::EnqueuedOn(stream);
  EXPECT_EQ(queue[0].address, queue[4].source) << "in place: one piece";
  EXPECT_EQ(queue[0].value, 2 * sizeof(int));
  daemon_.HoldRings(false);
  EXPECT_TRUE(Synchronize(stream));
}

// Sends and receives, whatever their memory; and collectives in memory that cannot be shared.
TEST_F(Staging, UsesMemoryOfTheHostIfTheDaemonMapsNoGpuMemory) {
  daemon_.MapNoGpuMemory();
  MakeRanks(2);
  const size_t before = test_cuda::registered_host_ranges();
  int* pool = Pool({1, 2});
  int* device = Buffer<int>({3, 4});
  ncclGroupStart();
  ncclAllReduce(device, device, 2, ncclInt, ncclSum, comms_[0], nullptr);
  ncclAllReduce(pool, pool, 2, ncclInt, ncclSum, comms_[1], nullptr);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_THAT(Read(pool, 2), ElementsAre(4, 6));
  EXPECT_EQ(test_cuda::registered_host_ranges(), before + 1) << "only the pool's is staged";

  CUstream stream = Stream();
  daemon_.HoldRings(true);
  ASSERT_EQ(ncclSend(device, 2, ncclInt, 1, comms_[0], stream), ncclSuccess) << LastError();
  EXPECT_EQ(KindsOn(stream), (Kinds{Enqueued::kCopy, Enqueued::kEvent, Enqueued::kWrite,
                                    Enqueued::kWait, Enqueued::kEvent}));
  EXPECT_EQ(test_cuda::EnqueuedOn(stream)[0].source, reinterpret_cast<CUdeviceptr>(device));
  EXPECT_EQ(test_cuda::registered_host_ranges(), before + 2);
}

TEST_F(Staging, CollectivesUseMemoryOfTheHostIfProcessesCannotMapEachOthers) {
  daemon_.MapNoGpuMemory();
  daemon_.SetKernelUse(wire::KernelRole::kNone, "no access between the GPUs");
  MakeRanks(1);
  const size_t before = test_cuda::registered_host_ranges();
  CUstream stream = Stream();
  int* device = Buffer<int>({3, 4});
  Sum(device, 2, stream);
  EXPECT_EQ(KindsOn(stream), (Kinds{Enqueued::kCopy, Enqueued::kEvent, Enqueued::kWrite,
                                    Enqueued::kWait, Enqueued::kCopy, Enqueued::kEvent}));
  ASSERT_TRUE(Synchronize(stream));
  EXPECT_THAT(Read(device, 2), ElementsAre(3, 4));
  EXPECT_EQ(test_cuda::registered_host_ranges(), before + 1);
}

TEST_F(Staging, EachGpuRegistersItsProbeMemoryOnce) {
  daemon_.MapNoGpuMemory();
  MakeRanks(2);
  const uint32_t probe = daemon_.LastInit().probe_buffer;
  EXPECT_NE(probe, 0u);
  const int registered = daemon_.CountOf(wire::MessageKind::kRegisterBuffer);
  EXPECT_EQ(registered, 2) << "one per GPU";
  const std::vector<ncclComm_t> first = comms_;
  MakeRanks(2);
  EXPECT_EQ(daemon_.LastInit().probe_buffer, probe);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterBuffer), registered);
  comms_.insert(comms_.end(), first.begin(), first.end());
}

// The copies of a call that failed may still be enqueued: another stream gets other memory.
TEST_F(Staging, MemoryOfAFailedCallIsInUseUntilItsCopiesEnd) {
  MakeRanks(1);
  constexpr size_t kCount = 100'000;  // more than the smallest block
  CUstream failing = Stream(), other = Stream();
  int* held = Pool({1});
  test_cuda::HoldCopiesTo(held);
  Sum(held, 1, failing);
  int* first = Pool(std::vector<int>(kCount, 2));
  test_cuda::Fail("cuStreamWriteValue64", CUDA_ERROR_INVALID_HANDLE);
  EXPECT_NE(ncclAllReduce(first, first, kCount, ncclInt, ncclSum, comms_[0], failing), ncclSuccess);
  test_cuda::Fail("cuStreamWriteValue64", CUDA_SUCCESS);
  int* second = Pool(std::vector<int>(kCount, 3));
  Sum(second, kCount, other);
  const auto copy_in = [](CUstream stream) {
    for (const Enqueued& queued : test_cuda::EnqueuedOn(stream)) {
      if (queued.kind == Enqueued::kCopy && queued.value == kCount * sizeof(int))
        return queued.address;
    }
    return CUdeviceptr{0};
  };
  EXPECT_NE(copy_in(failing), CUdeviceptr{0});
  EXPECT_NE(copy_in(other), copy_in(failing));
  test_cuda::ReleaseCopies();
}

TEST_F(Staging, MemoryOfTheHostEndsWithItsCommunicator) {
  daemon_.MapNoGpuMemory();
  MakeRanks(1);
  const size_t pages = test_cuda::registered_host_ranges();  // of fences, kept for a while
  int* pool = Pool({1, 2});
  Sum(pool, 2, nullptr);
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(test_cuda::registered_host_ranges(), pages + 1);
  ASSERT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess) << LastError();
  comms_.clear();
  EXPECT_EQ(test_cuda::registered_host_ranges(), pages);
}

TEST_F(Staging, MemoryOfTheHostStaysMappedAfterAnAbort) {
  daemon_.MapNoGpuMemory();
  MakeRanks(1);
  CUstream stream = Stream();
  int* pool = Pool({1, 2});
  daemon_.HoldRings(true);
  Sum(pool, 2, stream);
  daemon_.IgnoreMessages(wire::MessageKind::kCommAbort);
  ASSERT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  comms_.clear();
  EXPECT_TRUE(Synchronize(stream)) << "the copy out reads the memory";
}

TEST_F(Staging, PutsUseMemoryOfTheHostIfTheDaemonMapsNoGpuMemory) {
  daemon_.MapNoGpuMemory();
  MakeRanks(2);
  int* device = Buffer<int>({3, 4});
  ncclWindow_t window = nullptr;
  ASSERT_EQ(ncclCommWindowRegister(comms_[0], device, 2 * sizeof(int), &window, 0), ncclSuccess);
  CUstream stream = Stream();
  ASSERT_EQ(ncclPutSignal(device, 2, ncclInt, 1, window, 0, 0, 0, 0, comms_[0], stream),
            ncclSuccess)
      << LastError(comms_[0]);
  EXPECT_EQ(KindsOn(stream)[0], Enqueued::kCopy);
}

TEST_F(Staging, MessagesOnOneHostAreCopiedByKernels) {
  daemon_.MapNoGpuMemory();
  constexpr char kImage[] = "an image of the fake daemon";
  daemon_.GiveKernelImage(*MakeSealedFile("test", std::as_bytes(std::span(kImage))), sizeof(kImage),
                          "sm_90");
  daemon_.PutOnOneHost({0, 1});
  MakeRanks(3);
  CUstream stream = Stream();
  int* device = Buffer<int>({3, 4});
  daemon_.HoldRings(true);
  ASSERT_EQ(ncclSend(device, 2, ncclInt, 1, comms_[0], stream), ncclSuccess);
  EXPECT_THAT(KindsOn(stream), testing::Not(testing::Contains(Enqueued::kCopy)));
  ASSERT_EQ(ncclSend(device, 2, ncclInt, 2, comms_[0], stream), ncclSuccess);
  EXPECT_THAT(KindsOn(stream), testing::Contains(Enqueued::kCopy)) << "to another host";
  daemon_.HoldRings(false);
}

TEST_F(Staging, MessagesOfARankWithoutKernelsAreStaged) {
  daemon_.MapNoGpuMemory();
  daemon_.SetKernelUse(wire::KernelRole::kSharesWithOther);
  daemon_.PutOnOneHost({0, 1});
  MakeRanks(2);
  CUstream stream = Stream();
  int* device = Buffer<int>({3, 4});
  daemon_.HoldRings(true);
  ASSERT_EQ(ncclSend(device, 2, ncclInt, 1, comms_[0], stream), ncclSuccess);
  EXPECT_THAT(KindsOn(stream), testing::Contains(Enqueued::kCopy));
  daemon_.HoldRings(false);
}

// A graph may be launched on any stream, concurrently with calls on the captured stream.
TEST_F(Staging, GraphCopiesInItsOwnMemory) {
  MakeRanks(1);
  CUstream stream = Stream();
  int* data = Pool({1, 2});
  test_cuda::BeginCapture(stream);
  Sum(data, 2, stream);
  CUgraph graph = test_cuda::EndCapture(stream);
  const std::vector<Enqueued> nodes = test_cuda::EnqueuedOn(stream);
  EXPECT_EQ(test_cuda::NodesOf(graph), nodes.size());
  EXPECT_EQ(KindsOn(stream), (Kinds{Enqueued::kCopy, Enqueued::kWrite32, Enqueued::kWrite32,
                                    Enqueued::kWait, Enqueued::kCopy}));
  daemon_.HoldRings(true);
  Sum(Pool({3, 4}), 2, stream);
  EXPECT_NE(test_cuda::EnqueuedOn(stream)[nodes.size()].address, nodes[0].address);
  daemon_.HoldRings(false);
  ASSERT_TRUE(Synchronize(stream));
  for (int i = 5; i < 8; ++i) {
    data[0] = i;
    std::memset(reinterpret_cast<void*>(nodes[0].address), 0xff, 2 * sizeof(int));
    test_cuda::Launch(graph, stream);
    ASSERT_TRUE(Synchronize(stream));
    EXPECT_THAT(Read(data, 2), ElementsAre(i, 2));
  }
  test_cuda::DestroyGraph(graph);
}

// All ranks of a process on one stream: no wait may precede another rank's ready.
TEST_F(Staging, RanksOfOneStreamDoNotDeadlock) {
  MakeRanksOnOneGpu(3);
  std::vector<int*> data;
  ncclGroupStart();
  for (int r = 0; r < 3; ++r) {
    data.push_back(Pool({r + 1}));
    ncclAllReduce(data.back(), data.back(), 1, ncclInt, ncclSum, comms_[static_cast<size_t>(r)],
                  nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(nullptr));
  for (int* sum : data) EXPECT_EQ(*sum, 6);
}

TEST_F(Staging, CopiesOnlyWhatACallReadsAndWrites) {
  MakeRanksOnOneGpu(2);
  CUstream streams[] = {Stream(), Stream()};
  int* data[] = {Pool({7, 8}), Pool({0, 0})};
  daemon_.HoldRings(true);
  ncclGroupStart();
  for (size_t r = 0; r < 2; ++r) {
    ncclBroadcast(data[r], data[r], 2, ncclInt, 0, comms_[r], streams[r]);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  EXPECT_EQ(KindsOn(streams[0]), (Kinds{Enqueued::kCopy, Enqueued::kEvent, Enqueued::kWrite,
                                        Enqueued::kWait, Enqueued::kEvent}))
      << "the root has its data already";
  EXPECT_EQ(KindsOn(streams[1]),
            (Kinds{Enqueued::kWrite, Enqueued::kWait, Enqueued::kCopy, Enqueued::kEvent}));
  daemon_.HoldRings(false);
  for (CUstream stream : streams) ASSERT_TRUE(Synchronize(stream));
  EXPECT_THAT(Read(data[1], 2), ElementsAre(7, 8));
}

TEST_F(Staging, GivesEachCallOfAGroupItsOwnPiece) {
  MakeRanks(1);
  int* send = Pool({1, 2, 3});
  int* recv = Pool({0, 0, 0});
  ncclGroupStart();
  for (int i = 0; i < 3; ++i) {
    ncclAllReduce(send + i, recv + i, 1, ncclInt, ncclSum, comms_[0], nullptr);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_THAT(Read(recv, 3), ElementsAre(1, 2, 3));
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kRegisterBuffer), 1);
}

// NULL and cudaStreamLegacy are one stream, and so share its memory.
TEST_F(Staging, TwoHandlesOfOneStreamHaveTheirOwnPieces) {
  MakeRanks(1);
  CUstream names[] = {nullptr, CU_STREAM_LEGACY};
  int* send = Pool({1, 2, 3, 4});
  int* recv = Pool({0, 0, 0, 0});
  ncclGroupStart();
  for (int i = 0; i < 4; ++i) {
    ncclAllReduce(send + i, recv + i, 1, ncclInt, ncclSum, comms_[0], names[i % 2]);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_THAT(Read(recv, 4), ElementsAre(1, 2, 3, 4));
}

TEST_F(Staging, EachStreamHasItsOwnMemory) {
  MakeRanks(1);
  CUstream streams[] = {Stream(), Stream()};
  int* data[] = {Pool({1}), Pool({2})};
  daemon_.HoldRings(true);
  for (int i = 0; i < 2; ++i) Sum(data[0], 1, streams[0]);
  const uint64_t of_one = Held(0);
  EXPECT_GT(of_one, 0u);
  Sum(data[1], 1, streams[1]);
  EXPECT_EQ(Held(0), 2 * of_one) << "the first stream's work is not complete";
  daemon_.HoldRings(false);
  for (CUstream stream : streams) ASSERT_TRUE(Synchronize(stream));
  CUstream third = Stream();
  Sum(data[1], 1, third);
  EXPECT_EQ(Held(0), 2 * of_one) << "idle memory is reused";
  ASSERT_TRUE(Synchronize(third));
}

TEST_F(Staging, GrowsWithoutWaitingForRunningWork) {
  MakeRanks(1);
  const size_t many = 1 << 20;
  int* small = Pool({1});
  int* large = Pool(std::vector<int>(many, 2));
  daemon_.HoldRings(true);
  Sum(small, 1, nullptr);
  Sum(large, many, nullptr);
  daemon_.HoldRings(false);
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(*small, 1);
  EXPECT_EQ(large[many - 1], 2);
}

TEST_F(Staging, FailedAllocationLeaksNothing) {
  MakeRanks(1);
  int* data = Pool({3});
  test_cuda::Fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr),
            ncclUnhandledCudaError);
  EXPECT_THAT(LastError(), HasSubstr("256 KiB"));
  EXPECT_THAT(LastError(), HasSubstr("ncclMemAlloc"));
  EXPECT_TRUE(test_cuda::EnqueuedOn(nullptr).empty());
  test_cuda::Fail("cuMemAlloc", CUDA_SUCCESS);
  Sum(data, 1, nullptr);
  EXPECT_TRUE(Synchronize(nullptr));
}

TEST_F(Staging, RejectsMemoryUnknownToCuda) {
  MakeRanks(1);
  int plain = 0;
  EXPECT_EQ(ncclAllReduce(&plain, &plain, 1, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("is not CUDA memory"));
  void* managed = test_cuda::AllocManaged(2 * sizeof(int));
  EXPECT_EQ(ncclAllReduce(managed, managed, 3, ncclInt, ncclSum, comms_[0], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("exceeds its allocation"));
}

TEST_F(Staging, SuspendFreesTheMemory) {
  MakeRanks(1);
  int* data = Pool({4});
  const size_t before = test_cuda::allocations();
  Sum(data, 1, nullptr);
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(test_cuda::allocations(), before + 1);
  ASSERT_EQ(ncclCommSuspend(comms_[0], kSuspendMemory), ncclSuccess);
  EXPECT_EQ(Held(0), 0u);
  EXPECT_EQ(test_cuda::allocations(), before);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kReleaseBuffer), 1)
      << "released at the daemon first";
  ASSERT_EQ(ncclCommResume(comms_[0]), ncclSuccess);
  Sum(data, 1, nullptr);
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(*data, 4);
}

TEST_F(Staging, MemoryInUseSurvivesASuspend) {
  MakeRanks(1);
  int* data = Pool({4});
  daemon_.HoldRings(true);
  Sum(data, 1, nullptr);
  ASSERT_EQ(ncclCommSuspend(comms_[0], kSuspendMemory), ncclSuccess);
  EXPECT_GT(Held(0), 0u);
  daemon_.HoldRings(false);
  EXPECT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(*data, 4);
}

// The daemon's work is complete, but the last copy is still pending.
TEST_F(Staging, MemoryWithPendingCopiesIsReusedAfterDestroy) {
  int* data = Pool({5});
  const size_t before = test_cuda::allocations();
  MakeRanks(1);
  test_cuda::HoldCopiesTo(data);
  Sum(data, 1, nullptr);
  ASSERT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
  EXPECT_EQ(test_cuda::allocations(), before + 1) << "it is in use";
  test_cuda::ReleaseCopies();
  ASSERT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(*data, 5);
  MakeRanks(1);
  Sum(data, 1, nullptr);
  EXPECT_EQ(test_cuda::allocations(), before + 1) << "it is reused";
  ASSERT_TRUE(Synchronize(nullptr));
  ASSERT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
  EXPECT_EQ(test_cuda::allocations(), before);
  comms_.clear();
}

TEST_F(Staging, MemoryOfAGraphIsFreedWithTheGraph) {
  int* data = Pool({5});
  const size_t before = test_cuda::allocations();
  for (const bool graph_first : {true, false}) {
    MakeRanks(1);
    CUstream stream = Stream();
    test_cuda::BeginCapture(stream);
    Sum(data, 1, stream);
    CUgraph graph = test_cuda::EndCapture(stream);
    test_cuda::Launch(graph, stream);
    ASSERT_TRUE(Synchronize(stream));
    EXPECT_EQ(test_cuda::allocations(), before + 1);
    if (graph_first) test_cuda::DestroyGraph(graph);
    ASSERT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
    if (!graph_first) {
      EXPECT_EQ(test_cuda::allocations(), before + 1) << "the graph may be launched";
      test_cuda::DestroyGraph(graph);
      MakeRanks(1);
      ASSERT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
    }
    EXPECT_EQ(test_cuda::allocations(), before);
  }
  comms_.clear();
}

TEST_F(Staging, MemoryOfADestroyedGraphIsReused) {
  MakeRanks(1);
  CUstream stream = Stream();
  int* data = Pool({5});
  test_cuda::BeginCapture(stream);
  Sum(data, 1, stream);
  test_cuda::DestroyGraph(test_cuda::EndCapture(stream));
  const uint64_t of_one = Held(0);
  Sum(Pool({6}), 1, stream);
  EXPECT_EQ(Held(0), of_one);
  ASSERT_TRUE(Synchronize(stream));
}

TEST_F(Staging, DestroyFreesAndAbortKeepsMemoryForReuse) {
  int* data = Pool({5});
  const size_t before = test_cuda::allocations();
  for (const bool orderly : {false, true}) {
    MakeRanks(1);
    Sum(data, 1, nullptr);
    ASSERT_TRUE(Synchronize(nullptr));
    EXPECT_EQ(test_cuda::allocations(), before + 1) << "memory that an abort left is reused";
    ASSERT_EQ(orderly ? ncclCommDestroy(comms_[0]) : ncclCommAbort(comms_[0]), ncclSuccess);
    EXPECT_EQ(test_cuda::allocations(), orderly ? before : before + 1);
  }
  comms_.clear();
}

}  // namespace staging_test
}  // namespace mccs
