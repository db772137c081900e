// Derived communicators: when each handle appears, what the child inherits from its parent, and how
// a blocking call ends.
#include <atomic>
#include <climits>
#include <thread>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace derived_communicators_test {

using test_cuda::Synchronize;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class DerivedCommunicators : public ShimTest {
 protected:
  ~DerivedCommunicators() override {
    for (ncclComm_t child : children_) ncclCommAbort(child);
  }

  // `ranks` ranks of this process with non-blocking communicators.
  void MakeNonBlockingRanks(int ranks) {
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    comms_.resize(static_cast<size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      test_cuda::SetDevice(r);
      ASSERT_EQ(ncclCommInitRankConfig(&comms_[r], ranks, id, r, &config), ncclInProgress);
    }
    for (ncclComm_t comm : comms_) ASSERT_EQ(Settle(comm), ncclSuccess);
  }

  static int RankOf(ncclComm_t comm) {
    int rank = -1;
    EXPECT_EQ(ncclCommUserRank(comm, &rank), ncclSuccess) << LastError();
    return rank;
  }
  static int CountOf(ncclComm_t comm) {
    int count = -1;
    EXPECT_EQ(ncclCommCount(comm, &count), ncclSuccess) << LastError();
    return count;
  }

  // Sums rank + 1 over `comms`, the ranks of one communicator in this process.
  static void ExpectSum(const std::vector<ncclComm_t>& comms, int expected) {
    std::vector<int*> data;
    ncclGroupStart();
    for (ncclComm_t comm : comms) {
      data.push_back(Buffer<int>({RankOf(comm) + 1}));
      EXPECT_EQ(ncclAllReduce(data.back(), data.back(), 1, ncclInt, ncclSum, comm, nullptr),
                ncclSuccess);
    }
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_TRUE(Synchronize(nullptr));
    for (int* sum : data) EXPECT_EQ(*sum, expected);
  }

  std::vector<ncclComm_t> children_;
};

TEST_F(DerivedCommunicators, SplitCreatesOneCommunicatorPerColorInKeyOrder) {
  MakeRanks(5);
  children_.resize(5);
  const int colors[] = {1, 0, 1, NCCL_SPLIT_NOCOLOR, 1};
  const int keys[] = {5, 0, -3, 0, 5};
  children_[3] = reinterpret_cast<ncclComm_t>(1);
  ncclGroupStart();
  for (int r = 0; r < 5; ++r) {
    EXPECT_EQ(ncclCommSplit(comms_[r], colors[r], keys[r], &children_[r], nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  EXPECT_EQ(children_[3], nullptr);
  EXPECT_EQ(CountOf(children_[1]), 1);
  EXPECT_EQ(CountOf(children_[0]), 3);
  EXPECT_EQ(RankOf(children_[2]), 0);
  EXPECT_EQ(RankOf(children_[0]), 1);
  EXPECT_EQ(RankOf(children_[4]), 2);
  int device = -1;
  EXPECT_EQ(ncclCommCuDevice(children_[4], &device), ncclSuccess);
  EXPECT_EQ(device, 4) << "the parent's device, not the current one";
  ExpectSum({children_[0], children_[2], children_[4]}, 6);
  ExpectSum(comms_, 15);
}

TEST_F(DerivedCommunicators, BlockingSplitSetsTheHandleWhenReady) {
  MakeRanks(2);
  children_.resize(2);
  std::thread first(
      [&] { EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &children_[0], nullptr), ncclSuccess); });
  WaitFor(wire::MessageKind::kCommSplit, 1);
  EXPECT_EQ(children_[0], nullptr);
  EXPECT_EQ(ncclCommSplit(comms_[1], 0, 0, &children_[1], nullptr), ncclSuccess);
  first.join();
  ExpectSum(children_, 3);
}

TEST_F(DerivedCommunicators, NonBlockingSplitReturnsAtOnce) {
  MakeNonBlockingRanks(3);
  children_.resize(3);
  ASSERT_EQ(ncclCommSplit(comms_[0], 7, 1, &children_[0], nullptr), ncclInProgress);
  ASSERT_NE(children_[0], nullptr);
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(children_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  int answer = 0;
  EXPECT_EQ(ncclCommUserRank(children_[0], &answer), ncclInvalidArgument) << "not known yet";
  EXPECT_EQ(ncclCommCount(children_[0], &answer), ncclInvalidArgument);
  ncclComm_t grandchild = nullptr;
  EXPECT_EQ(ncclCommSplit(children_[0], 0, 0, &grandchild, nullptr), ncclInvalidArgument);
  ASSERT_EQ(ncclCommSplit(comms_[1], 7, 0, &children_[1], nullptr), ncclInProgress);
  ASSERT_EQ(ncclCommSplit(comms_[2], NCCL_SPLIT_NOCOLOR, 0, &children_[2], nullptr),
            ncclInProgress);
  EXPECT_EQ(children_[2], nullptr);
  EXPECT_EQ(Settle(children_[0]), ncclSuccess);
  EXPECT_EQ(Settle(children_[1]), ncclSuccess);
  EXPECT_EQ(RankOf(children_[0]), 1);
  ExpectSum({children_[0], children_[1]}, 3);
}

// Programs poll the parent before they use the child, and may destroy either first.
TEST_F(DerivedCommunicators, ParentIsInProgressUntilANonBlockingChildHasJoined) {
  MakeNonBlockingRanks(3);
  children_.resize(2);
  int excluded[] = {2};
  const auto shrink = [&](int rank) {
    return ncclCommShrink(comms_[rank], excluded, 1, &children_[rank], nullptr,
                          NCCL_SHRINK_DEFAULT);
  };
  ncclResult_t state = ncclSuccess;
  ASSERT_EQ(shrink(0), ncclInProgress);
  EXPECT_EQ(ncclCommGetAsyncError(comms_[0], &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress);
  EXPECT_EQ(Settle(comms_[2]), ncclSuccess);
  ASSERT_EQ(shrink(1), ncclInProgress);
  for (int r : {0, 1}) {
    EXPECT_EQ(Settle(comms_[r]), ncclSuccess);
    EXPECT_EQ(RankOf(children_[r]), r);
  }
  ExpectSum(children_, 3);
  ncclComm_t given_up = nullptr;
  ASSERT_EQ(ncclCommSplit(comms_[0], 0, 0, &given_up, nullptr), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(given_up), ncclSuccess);
  EXPECT_EQ(Settle(comms_[0]), ncclSuccess);
  ASSERT_EQ(ncclCommSplit(comms_[1], 0, 0, &given_up, nullptr), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(comms_[1]), ncclSuccess);
  EXPECT_EQ(ncclCommAbort(given_up), ncclSuccess);
  comms_.erase(comms_.begin() + 1);
}

TEST_F(DerivedCommunicators, ChildInheritsTheConfig) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.commName = "dense";
  config.maxCTAs = 4;
  config.trafficClass = 3;
  setenv("MCCS_INIT_TIMEOUT", "1.5s", 1);
  comms_.resize(1);
  ASSERT_EQ(ncclCommInitRankConfig(&comms_[0], 1, id, 0, &config), ncclSuccess);
  children_.resize(2);
  ASSERT_EQ(ncclCommSplit(comms_[0], 0, INT_MIN, &children_[0], nullptr), ncclSuccess);
  wire::CommSplit split = daemon_.LastSplit();
  EXPECT_STREQ(split.options.name, "dense");
  EXPECT_EQ(split.options.max_channels, 4u);
  EXPECT_EQ(split.options.traffic_class, 3);
  EXPECT_EQ(split.options.init_timeout_ms, 1500u);
  EXPECT_EQ(split.key, INT_MIN);
  config = NCCL_CONFIG_INITIALIZER;
  config.commName = "experts";
  ASSERT_EQ(ncclCommSplit(children_[0], INT_MAX, 0, &children_[1], &config), ncclSuccess);
  split = daemon_.LastSplit();
  EXPECT_STREQ(split.options.name, "experts");
  EXPECT_EQ(split.options.max_channels, 0u);
  EXPECT_EQ(split.color, INT_MAX);
}

TEST_F(DerivedCommunicators, SplitRejectsInvalidArgumentsAtOnce) {
  MakeRanks(1);
  ncclComm_t child = reinterpret_cast<ncclComm_t>(1);
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, nullptr, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSplit(nullptr, 0, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(ncclCommSplit(comms_[0], -2, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("color is -2"));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &child, &config), ncclInvalidArgument);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommSplit), 0);
}

TEST_F(DerivedCommunicators, FailedSplitLeavesNoHandle) {
  MakeRanks(1);
  daemon_.FailRequestsWith(wire::ErrorClass::kRemote);
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &child, nullptr), ncclRemoteError);
  EXPECT_EQ(child, nullptr);
  EXPECT_THAT(LastError(), HasSubstr("rejected by the fake"));
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
  ExpectSum(comms_, 1);
}

TEST_F(DerivedCommunicators, AbortOfTheParentEndsABlockedSplit) {
  MakeRanks(2);
  ncclComm_t child = nullptr;
  std::thread splitter([&] {
    EXPECT_NE(ncclCommSplit(comms_[0], 0, 0, &child, nullptr), ncclSuccess);
    EXPECT_THAT(LastError(), HasSubstr("aborted"));
  });
  WaitFor(wire::MessageKind::kCommSplit, 1);
  EXPECT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  splitter.join();
  EXPECT_EQ(child, nullptr);
  comms_.erase(comms_.begin());
}

TEST_F(DerivedCommunicators, AbortOfANonBlockingChildEndsItsJoin) {
  MakeNonBlockingRanks(2);
  ncclComm_t child = nullptr;
  ASSERT_EQ(ncclCommSplit(comms_[0], 0, 0, &child, nullptr), ncclInProgress);
  EXPECT_EQ(ncclCommAbort(child), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommAbort), 1);
  ExpectSum(comms_, 3);
}

// The order in a group: inits first, then work, then destruction.
TEST_F(DerivedCommunicators, GroupSplitsThenWorksThenDestroys) {
  MakeRanks(2);
  children_.resize(2);
  std::vector<int*> data;
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    data.push_back(Buffer<int>({r + 1}));
    EXPECT_EQ(ncclAllReduce(data[r], data[r], 1, ncclInt, ncclSum, comms_[r], nullptr),
              ncclSuccess);
    EXPECT_EQ(ncclCommSplit(comms_[r], r, 0, &children_[r], nullptr), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(comms_[r]), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  comms_.clear();
  EXPECT_TRUE(Synchronize(nullptr));
  EXPECT_EQ(*data[0], 3);
  ExpectSum({children_[1]}, 1);
}

TEST_F(DerivedCommunicators, GroupErrorDropsItsSplits) {
  MakeRanks(1);
  ncclComm_t child = nullptr;
  ncclGroupStart();
  EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &child, nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommSplit(comms_[0], -7, 0, &child, nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(child, nullptr);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommSplit), 0);
}

TEST_F(DerivedCommunicators, DaemonDeathEndsABlockedSplit) {
  MakeRanks(2);
  ncclComm_t child = nullptr;
  std::thread splitter(
      [&] { EXPECT_EQ(ncclCommSplit(comms_[0], 0, 0, &child, nullptr), ncclSystemError); });
  WaitFor(wire::MessageKind::kCommSplit, 1);
  daemon_.Die();
  splitter.join();
  EXPECT_EQ(child, nullptr);
}

// ---- Shrink -------------------------------------------------------------------------------------

TEST_F(DerivedCommunicators, ShrinkOmitsExcludedRanks) {
  MakeRanks(4);
  children_.resize(4);
  int excluded[] = {2, 0};
  ncclGroupStart();
  for (int r : {1, 3}) {
    EXPECT_EQ(ncclCommShrink(comms_[r], excluded, 2, &children_[r], nullptr, NCCL_SHRINK_DEFAULT),
              ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  EXPECT_EQ(RankOf(children_[1]), 0);
  EXPECT_EQ(RankOf(children_[3]), 1);
  ExpectSum({children_[1], children_[3]}, 3);
  ExpectSum(comms_, 10);
  std::erase(children_, nullptr);
}

TEST_F(DerivedCommunicators, ShrinkRejectsInvalidArgumentsAtOnce) {
  MakeRanks(2);
  ncclComm_t child = nullptr;
  int own[] = {0}, twice_too_many[] = {1, 1}, beyond[] = {2}, fine[] = {1};
  const auto shrink = [&](int* list, int count, int flags) {
    return ncclCommShrink(comms_[0], list, count, &child, nullptr, flags);
  };
  EXPECT_EQ(shrink(nullptr, 1, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(shrink(fine, 0, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(shrink(own, 1, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(shrink(beyond, 1, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(shrink(twice_too_many, 2, NCCL_SHRINK_DEFAULT), ncclInvalidArgument);
  EXPECT_EQ(shrink(fine, 1, 2), ncclInvalidArgument);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommShrink), 0);
}

TEST_F(DerivedCommunicators, FailedCommunicatorShrinksOnlyWithTheAbortFlag) {
  MakeRanks(2);
  daemon_.FailRank(0, wire::ErrorClass::kRemote, "rank 1 died");
  children_.resize(1);
  int excluded[] = {1};
  EXPECT_EQ(ncclCommShrink(comms_[0], excluded, 1, &children_[0], nullptr, NCCL_SHRINK_DEFAULT),
            ncclRemoteError);
  EXPECT_EQ(ncclCommShrink(comms_[0], excluded, 1, &children_[0], nullptr, NCCL_SHRINK_ABORT),
            ncclSuccess)
      << LastError();
  ExpectSum(children_, 1);
}

// As after a revoke: a rank that ended the work itself gets no async error.
TEST_F(DerivedCommunicators, ShrinkWithTheAbortFlagSetsNoAsyncError) {
  MakeRanks(2);
  daemon_.FailRank(1, wire::ErrorClass::kRemote, "rank 0 left");
  EXPECT_EQ(Settle(comms_[1]), ncclRemoteError);
  children_.resize(2);
  int excluded[] = {0};
  ASSERT_EQ(ncclCommShrink(comms_[1], excluded, 1, &children_[1], nullptr, NCCL_SHRINK_ABORT),
            ncclSuccess);
  EXPECT_EQ(Settle(comms_[1]), ncclSuccess);
  int* data = Buffer<int>({1});
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[1], nullptr), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("NCCL_SHRINK_ABORT"));
  EXPECT_EQ(ncclCommFinalize(comms_[1]), ncclSuccess) << "there is nothing to flush";
  ExpectSum({children_[1]}, 1);
  std::erase(children_, nullptr);
}

// ---- Revoke and suspend -------------------------------------------------------------------------

TEST_F(DerivedCommunicators, RevokedCommunicatorOnlyDerivesOthers) {
  MakeRanks(2);
  CUstream stream = Stream();
  int* data = Buffer<int>({1});
  ASSERT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], stream), ncclSuccess);
  EXPECT_EQ(ncclCommRevoke(comms_[0], 1), ncclInvalidArgument);
  for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommRevoke(comm, 0), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream)) << "a waiting stream is released";
  EXPECT_EQ(Settle(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], stream), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("ncclCommRevoke"));
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclInvalidArgument);
  children_.resize(2);
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclCommSplit(comms_[r], 0, 0, &children_[r], nullptr), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ExpectSum(children_, 3);
  for (ncclComm_t comm : comms_) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  comms_.clear();
}

extern "C" ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags);
extern "C" ncclResult_t ncclCommResume(ncclComm_t comm);
extern "C" ncclResult_t ncclCommMemStats(ncclComm_t comm, int stat, uint64_t* value);

TEST_F(DerivedCommunicators, SuspendedCommunicatorRejectsCalls) {
  MakeRanks(1);
  constexpr int kSuspendMemory = 1;
  EXPECT_EQ(ncclCommSuspend(comms_[0], 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommResume(comms_[0]), ncclInvalidArgument);
  EXPECT_EQ(ncclCommSuspend(comms_[0], kSuspendMemory), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommSuspend), 1);
  uint64_t suspended = 7;
  EXPECT_EQ(ncclCommMemStats(comms_[0], 1, &suspended), ncclSuccess);
  EXPECT_EQ(suspended, 1u);
  int* data = Buffer<int>({1});
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comms_[0], nullptr), ncclInvalidUsage);
  EXPECT_EQ(ncclCommResume(comms_[0]), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommSuspend), 2);
  ExpectSum(comms_, 1);
}

TEST_F(DerivedCommunicators, FailedSuspendOrResumeChangesNothing) {
  MakeRanks(1);
  constexpr int kSuspendMemory = 1;
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidUsage);
  EXPECT_EQ(ncclCommSuspend(comms_[0], kSuspendMemory), ncclInvalidUsage);
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
  ExpectSum(comms_, 1);
  EXPECT_EQ(ncclCommSuspend(comms_[0], kSuspendMemory), ncclSuccess) << LastError();
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidUsage);
  EXPECT_EQ(ncclCommResume(comms_[0]), ncclInvalidUsage);
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
  EXPECT_EQ(ncclCommResume(comms_[0]), ncclSuccess) << LastError();
  ExpectSum(comms_, 1);
}

// ---- Grow and several ids -----------------------------------------------------------------------

extern "C" ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId* id);
extern "C" ncclResult_t ncclCommGrow(ncclComm_t comm, int ranks, const ncclUniqueId* id, int rank,
                                     ncclComm_t* newcomm, ncclConfig_t* config);

TEST_F(DerivedCommunicators, GrowJoinsOldAndNewRanks) {
  MakeRanks(2);
  children_.resize(3);
  ncclUniqueId id;
  ASSERT_EQ(ncclCommGetUniqueId(comms_[1], &id), ncclSuccess) << LastError();
  EXPECT_EQ(ncclCommGrow(comms_[0], 2, nullptr, -1, &children_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(comms_[0], 3, nullptr, 0, &children_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommGrow(nullptr, 3, nullptr, 2, &children_[2], nullptr), ncclInvalidArgument);
  test_cuda::SetDevice(5);
  ncclGroupStart();
  EXPECT_EQ(ncclCommGrow(nullptr, 3, &id, 2, &children_[2], nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommGrow(comms_[0], 3, nullptr, -1, &children_[0], nullptr), ncclSuccess);
  EXPECT_EQ(ncclCommGrow(comms_[1], 3, &id, -1, &children_[1], nullptr), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  EXPECT_EQ(RankOf(children_[2]), 2);
  ExpectSum(children_, 6);
}

TEST_F(DerivedCommunicators, ScalableInitAcceptsSeveralIds) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  comms_.resize(2);
  ncclComm_t none = reinterpret_cast<ncclComm_t>(1);
  EXPECT_EQ(ncclCommInitRankScalable(&none, 2, 0, 0, ids, nullptr), ncclInvalidArgument);
  EXPECT_EQ(none, nullptr);
  EXPECT_EQ(ncclCommInitRankScalable(&none, 2, 0, 3, ids, nullptr), ncclInvalidArgument);
  ncclGroupStart();
  for (int r = 0; r < 2; ++r) {
    test_cuda::SetDevice(r);
    EXPECT_EQ(ncclCommInitRankScalable(&comms_[r], 2, r, 2, ids, nullptr), ncclSuccess);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  ExpectSum(comms_, 3);
}

}  // namespace derived_communicators_test
}  // namespace mccs
