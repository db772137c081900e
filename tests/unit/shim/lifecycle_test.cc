// The life of communicators: init, destruction, abort, and failures of a peer, the daemon or the
// caller.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/unit/open_descriptors.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace lifecycle_test {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using test_cuda::Synchronize;
using ::testing::AllOf;
using ::testing::HasSubstr;

class Lifecycle : public ShimTest {
 protected:
  static ncclUniqueId UniqueId() {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << LastError();
    return id;
  }

  static ncclResult_t Reduce(ncclComm_t comm, CUstream stream) {
    int* data = Buffer<int>({1});
    return ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream);
  }
};

// ---- Init ------------------------------------------------------------------------------------

TEST_F(Lifecycle, QueriesReturnRankSizeAndDevice) {
  test_cuda::SetDevice(3);
  const ncclUniqueId id = UniqueId();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess) << LastError();
  int answer = -1;
  EXPECT_EQ(ncclCommCount(comm, &answer), ncclSuccess);
  EXPECT_EQ(answer, 1);
  EXPECT_EQ(ncclCommUserRank(comm, &answer), ncclSuccess);
  EXPECT_EQ(answer, 0);
  EXPECT_EQ(ncclCommCuDevice(comm, &answer), ncclSuccess);
  EXPECT_EQ(answer, 3);
  EXPECT_EQ(AsyncError(comm), ncclSuccess);
  EXPECT_EQ(ncclCommCount(comm, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST_F(Lifecycle, RanksOfOneProcessJoinInOneGroup) {
  const ncclUniqueId id = UniqueId();
  comms_.resize(3);
  ncclGroupStart();
  for (int r = 0; r < 3; ++r) {
    test_cuda::SetDevice(r);
    EXPECT_EQ(ncclCommInitRank(&comms_[r], 3, id, r), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  int rank = -1;
  EXPECT_EQ(ncclCommUserRank(comms_[2], &rank), ncclSuccess);
  EXPECT_EQ(rank, 2);
}

TEST_F(Lifecycle, RanksJoinFromSeveralThreads) {
  const ncclUniqueId id = UniqueId();
  comms_.resize(4);
  std::vector<std::thread> threads;
  for (int r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      test_cuda::SetDevice(r);
      EXPECT_EQ(ncclCommInitRank(&comms_[r], 4, id, r), ncclSuccess) << LastError();
      CUstream stream = Stream();
      EXPECT_EQ(Reduce(comms_[r], stream), ncclSuccess);
      EXPECT_TRUE(Synchronize(stream));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(Lifecycle, InitSendsConfigAndDeviceToTheDaemon) {
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  setenv("MCCS_INIT_TIMEOUT", "1.5", 1);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.minCTAs = 2;
  config.maxCTAs = 4;
  config.trafficClass = 7;
  config.commName = "dense";
  test_cuda::SetDevice(2);
  comms_.resize(1);
  ASSERT_EQ(ncclCommInitRankConfig(&comms_[0], 1, UniqueId(), 0, &config), ncclSuccess);
  const wire::CommInit init = daemon_.LastInit();
  EXPECT_EQ(init.device, 2);
  CUuuid uuid;
  ASSERT_EQ(cuDeviceGetUuid(&uuid, 2), CUDA_SUCCESS);
  EXPECT_EQ(std::memcmp(init.device_uuid, &uuid, sizeof(uuid)), 0);
  char bus_id[64];
  ASSERT_EQ(cuDeviceGetPCIBusId(bus_id, sizeof(bus_id), 2), CUDA_SUCCESS);
  EXPECT_STREQ(init.device_bus_id, bus_id);
  EXPECT_EQ(init.flags, uint32_t{wire::kMultiRankGpu});
  EXPECT_EQ(init.options.init_timeout_ms, 1500u);
  EXPECT_EQ(init.options.min_channels, 2u);
  EXPECT_EQ(init.options.max_channels, 4u);
  EXPECT_EQ(init.options.traffic_class, 7);
  EXPECT_STREQ(init.options.name, "dense");
}

TEST_F(Lifecycle, InitRejectsInvalidArgumentsAtOnce) {
  const ncclUniqueId id = UniqueId();
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(nullptr, 1, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, -1), ncclInvalidArgument);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  const int twice[] = {1, 1};
  ncclComm_t comms[2];
  EXPECT_EQ(ncclCommInitAll(comms, 2, twice), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("Duplicate GPU"));
  EXPECT_EQ(ncclCommInitAll(comms, 9, nullptr), ncclInvalidArgument);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommInit), 0);
}

TEST_F(Lifecycle, InitRejectsAUniqueIdOfTheRealLibrary) {
  ncclUniqueId foreign = {};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, foreign, 0), ncclInvalidArgument);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("real NCCL"), HasSubstr("LD_PRELOAD")));
}

TEST_F(Lifecycle, DaemonErrorIsReportedAndLeavesNoHandle) {
  const ncclUniqueId id = UniqueId();
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidUsage);
  ncclComm_t comm = reinterpret_cast<ncclComm_t>(1);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclInvalidUsage);
  EXPECT_EQ(comm, nullptr);
  EXPECT_THAT(LastError(), HasSubstr("rejected by the fake"));
}

TEST_F(Lifecycle, NonBlockingInitReturnsAtOnce) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId id = UniqueId();
  comms_.resize(2);
  ASSERT_EQ(ncclCommInitRankConfig(&comms_[0], 2, id, 0, &config), ncclInProgress);
  ASSERT_NE(comms_[0], nullptr);
  EXPECT_EQ(AsyncError(comms_[0]), ncclInProgress);
  EXPECT_EQ(Reduce(comms_[0], nullptr), ncclInvalidArgument) << "not ready";
  ASSERT_EQ(ncclCommInitRankConfig(&comms_[1], 2, id, 1, &config), ncclInProgress);
  EXPECT_EQ(Settle(comms_[0]), ncclSuccess);
  EXPECT_EQ(Settle(comms_[1]), ncclSuccess);
  ncclGroupStart();
  EXPECT_EQ(Reduce(comms_[0], nullptr), ncclSuccess);
  EXPECT_EQ(Reduce(comms_[1], nullptr), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclInProgress);
  EXPECT_EQ(Settle(comms_[0]), ncclSuccess);
}

TEST_F(Lifecycle, AsyncErrorReportsAFailedNonBlockingInit) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const ncclUniqueId id = UniqueId();
  daemon_.FailRequestsWith(wire::ErrorClass::kRemote);
  comms_.resize(1);
  ASSERT_EQ(ncclCommInitRankConfig(&comms_[0], 2, id, 0, &config), ncclInProgress);
  EXPECT_EQ(Settle(comms_[0]), ncclRemoteError);
  EXPECT_THAT(LastError(comms_[0]), HasSubstr("rejected by the fake"));
}

// ---- Destruction -----------------------------------------------------------------------------

TEST_F(Lifecycle, DestroyWaitsForPostedWork) {
  MakeRanks(1);
  CUstream stream = Stream();
  daemon_.HoldRings(true);
  ASSERT_EQ(Reduce(comms_[0], stream), ncclSuccess);
  std::atomic<bool> destroyed{false};
  std::thread destroyer([&] {
    EXPECT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
    destroyed = true;
  });
  WaitFor(wire::MessageKind::kCommDestroy, 1);
  EXPECT_FALSE(destroyed);
  daemon_.HoldRings(false);
  EXPECT_TRUE(Synchronize(stream));
  destroyer.join();
  comms_.clear();
}

TEST_F(Lifecycle, RejectsStaleAndForeignHandles) {
  MakeRanks(2);
  const ncclComm_t ended = comms_[0];
  EXPECT_EQ(ncclCommDestroy(ended), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(ended), ncclInvalidArgument);
  EXPECT_EQ(ncclCommAbort(ended), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(ended), ncclInvalidArgument);
  EXPECT_EQ(Reduce(ended, nullptr), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("ncclAllReduce"));
  int on_the_stack = 0;
  const uintptr_t odd[] = {1, reinterpret_cast<uintptr_t>(&on_the_stack), ~uintptr_t{0},
                           reinterpret_cast<uintptr_t>(comms_[1]) + 1,
                           reinterpret_cast<uintptr_t>(comms_[1]) + 8};
  for (const uintptr_t bits : odd) {
    int answer;
    EXPECT_EQ(ncclCommCount(reinterpret_cast<ncclComm_t>(bits), &answer), ncclInvalidArgument);
  }
  int ranks = 0;
  EXPECT_EQ(ncclCommCount(comms_[1], &ranks), ncclSuccess) << "the program continues";
  comms_.erase(comms_.begin());
}

TEST_F(Lifecycle, HandleDoesNotStartWithNcclsMagic) {
  MakeRanks(1);
  constexpr uint64_t kNcclMagic = 0x0280028002800280;
  EXPECT_NE(*reinterpret_cast<uint64_t*>(comms_[0]), kNcclMagic);
}

TEST_F(Lifecycle, DestroyAndAbortAcceptNull) {
  EXPECT_EQ(ncclCommFinalize(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(nullptr, 0), ncclSuccess);
}

TEST_F(Lifecycle, FinalizeTwiceIsAnInvalidArgument) {
  MakeRanks(1);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(Reduce(comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommDestroy), 1);
  comms_.clear();
}

TEST_F(Lifecycle, DestroyInAGroupFollowsItsWork) {
  MakeRanks(2);
  ncclGroupStart();
  for (ncclComm_t comm : comms_) EXPECT_EQ(Reduce(comm, nullptr), ncclSuccess);
  for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  EXPECT_TRUE(Synchronize(nullptr));
  comms_.clear();
}

TEST_F(Lifecycle, CreatesAndDestroysHundredsOfCommunicators) {
  for (int i = 0; i < 300; ++i) {
    MakeRanks(1);
    EXPECT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
  }
  comms_.clear();
}

// ---- Aborting --------------------------------------------------------------------------------

// Elastic jobs abort and create communicators for weeks, with a limit of 1024 descriptors.
TEST_F(Lifecycle, CommunicatorUsesNoDescriptor) {
  MakeRanks(1);
  ASSERT_EQ(ncclCommAbort(std::exchange(comms_, {})[0]), ncclSuccess);
  const auto before = OpenDescriptors();
  constexpr int kRounds = 50;
  for (int i = 0; i < kRounds; ++i) {
    MakeRanks(1);
    ASSERT_EQ(ncclCommAbort(std::exchange(comms_, {})[0]), ncclSuccess);
  }
  EXPECT_LE(OpenDescriptors(), before + kRounds);  // the fake daemon holds its ends in this process
}

TEST_F(Lifecycle, AbortReleasesWaitingStreams) {
  MakeRanks(2);
  CUstream stream = Stream();
  ASSERT_EQ(Reduce(comms_[0], stream), ncclSuccess);  // rank 1 never calls
  EXPECT_TRUE(test_cuda::IsBusy(stream));
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream));
  comms_.erase(comms_.begin());
}

TEST_F(Lifecycle, AbortReleasesStreamsEvenIfTheDaemonIsStuck) {
  MakeRanks(2);
  CUstream stream = Stream();
  ASSERT_EQ(Reduce(comms_[0], stream), ncclSuccess);
  daemon_.IgnoreMessages(wire::MessageKind::kCommAbort);
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream));
  daemon_.IgnoreMessages(wire::MessageKind{});
  comms_.erase(comms_.begin());
}

TEST_F(Lifecycle, AbortFromAnotherThreadEndsABlockedInit) {
  const ncclUniqueId id = UniqueId();
  ncclComm_t comm = nullptr;
  std::thread joiner([&] {
    EXPECT_NE(ncclCommInitRank(&comm, 2, id, 0), ncclSuccess);
    EXPECT_THAT(LastError(), HasSubstr("aborted"));
  });
  WaitFor(wire::MessageKind::kCommInit, 1);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  joiner.join();
}

TEST_F(Lifecycle, AbortFromAnotherThreadEndsAWaitForRingSpace) {
  MakeRanks(1);
  daemon_.HoldRings(true);
  int* data = Buffer<int>({1});
  std::atomic<bool> ended{false};
  std::thread poster([&] {
    ncclGroupStart();
    for (uint32_t i = 0; i < 2 * wire::kRingRecords; ++i) {
      ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr);
    }
    EXPECT_NE(ncclGroupEnd(), ncclSuccess);
    ended = true;
  });
  while (test_cuda::EnqueuedOn(nullptr).empty()) std::this_thread::yield();
  EXPECT_FALSE(ended);
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  poster.join();
  EXPECT_TRUE(Synchronize(nullptr));
  comms_.clear();
}

// ---- Failures of others ----------------------------------------------------------------------

// A rank whose work is complete is finalized normally: other ranks may have failed meanwhile.
TEST_F(Lifecycle, FinalizeSucceedsIfAPeerFailedLater) {
  MakeRanks(2);
  CUstream stream = Stream();
  ncclGroupStart();
  for (ncclComm_t comm : comms_) EXPECT_EQ(Reduce(comm, stream), ncclSuccess);
  ncclGroupEnd();
  EXPECT_TRUE(Synchronize(stream));
  daemon_.FailRank(0, wire::ErrorClass::kRemote, "rank 1 was aborted");
  EXPECT_EQ(AsyncError(comms_[0]), ncclRemoteError);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(comms_[0]), ncclSuccess);
  comms_.erase(comms_.begin());
}

TEST_F(Lifecycle, FinalizeReportsIncompleteWork) {
  MakeRanks(2);
  ASSERT_EQ(Reduce(comms_[0], Stream()), ncclSuccess);
  daemon_.FailRank(0, wire::ErrorClass::kRemote, "rank 1 was aborted");
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclRemoteError);
}

TEST_F(Lifecycle, DaemonDeathReleasesCallersButNotStreams) {
  MakeRanks(2);
  CUstream stream = Stream();
  ASSERT_EQ(Reduce(comms_[0], stream), ncclSuccess);
  const ncclUniqueId id = UniqueId();
  std::thread joiner([&] {
    ncclComm_t comm = nullptr;
    EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 0), ncclSystemError);
  });
  WaitFor(wire::MessageKind::kCommInit, 3);
  daemon_.Die();
  joiner.join();
  EXPECT_EQ(AsyncError(comms_[0]), ncclSystemError);
  EXPECT_EQ(AsyncError(comms_[1]), ncclSystemError);
  EXPECT_TRUE(test_cuda::IsBusy(stream));
  EXPECT_EQ(ncclCommAbort(std::exchange(comms_[0], nullptr)), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream));
  EXPECT_THAT(LastError(comms_[1]), HasSubstr(daemon_.socket_path()));
}

TEST_F(Lifecycle, ProgramContinuesWithANewDaemon) {
  MakeRanks(1);
  daemon_.Die();
  while (AsyncError(comms_[0]) == ncclSuccess) std::this_thread::yield();
  FakeDaemon second;
  setenv("MCCS_SOCKET", second.socket_path().c_str(), 1);
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitAll(&comm, 1, nullptr), ncclSuccess) << LastError();
  EXPECT_EQ(Reduce(comm, nullptr), ncclSuccess);
  EXPECT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  second.Die();
}

TEST_F(Lifecycle, MissingDaemonIsASystemErrorWithTheSocket) {
  daemon_.Die();
  const auto start = steady_clock::now();
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSystemError);
  EXPECT_LT(steady_clock::now() - start, seconds(1));
  EXPECT_THAT(LastError(), AllOf(HasSubstr(daemon_.socket_path()), HasSubstr("systemctl start")));
}

TEST_F(Lifecycle, SilentDaemonIsASystemErrorWithinASecond) {
  daemon_.IgnoreMessages(wire::MessageKind::kHello);
  const auto start = steady_clock::now();
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSystemError);
  EXPECT_LT(steady_clock::now() - start, seconds(1));
  EXPECT_THAT(LastError(), HasSubstr(daemon_.socket_path()));
}

// ---- Processes -------------------------------------------------------------------------------

// Runs `work` in a forked child; true if it returns true there.
template <typename Work>
bool HoldsInAChild(Work work) {
  const pid_t child = fork();
  if (child == 0) _exit(work() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

// A launcher makes the id and forks the ranks, which then use CUDA.
TEST_F(Lifecycle, ForkedChildJoinsWithItsOwnSession) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer forbids threads in a forked child";
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a new process, which has not used CUDA
  const auto launch = [this] {
    const ncclUniqueId id = UniqueId();
    const bool joined = HoldsInAChild([&id] {
      ncclComm_t comm = nullptr;
      return ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess &&
             ncclCommDestroy(comm) == ncclSuccess;
    });
    return joined && daemon_.CountOf(wire::MessageKind::kHello) == 2;
  };
  EXPECT_EXIT(_exit(launch() ? 0 : 1), testing::ExitedWithCode(0), "");
}

TEST_F(Lifecycle, ForkedChildHasItsOwnSessionAndNoCommunicators) {
  if (kThreadSanitizer) GTEST_SKIP() << "the thread sanitizer forbids threads in a forked child";
  MakeRanks(1);
  EXPECT_TRUE(HoldsInAChild([this] {
    int ranks = 0;
    ncclUniqueId id;
    return ncclCommCount(comms_[0], &ranks) == ncclInvalidArgument &&
           ncclGetUniqueId(&id) == ncclSuccess;
  }));
  EXPECT_EQ(AsyncError(comms_[0]), ncclSuccess) << "the parent's session is untouched";
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kHello), 2);
}

TEST_F(Lifecycle, ExitWithoutDestroyDoesNotHang) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto exit = [this] {
    MakeRanks(1);
    daemon_.IgnoreMessages(wire::MessageKind::kCommDestroy);
    std::quick_exit(HasFailure() ? 1 : 0);
  };
  EXPECT_EXIT(exit(), testing::ExitedWithCode(0), "");
}

TEST_F(Lifecycle, WatchdogMayQueryDuringWork) {
  MakeRanks(1);
  std::atomic<bool> stop{false};
  std::thread watchdog([&] {
    while (!stop) EXPECT_EQ(AsyncError(comms_[0]), ncclSuccess);
  });
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(Reduce(comms_[0], nullptr), ncclSuccess);
  }
  EXPECT_TRUE(Synchronize(nullptr));
  stop = true;
  watchdog.join();
}

}  // namespace lifecycle_test
}  // namespace mccs
