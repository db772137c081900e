// The visible state of a failed communicator: its streams stay blocked until the program ends the
// communicator, and ncclGetLastError returns the reason.
#include <thread>
#include <utility>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace failure_test {

using test_cuda::Synchronize;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Failure : public ShimTest {
 protected:
  static ncclResult_t Reduce(ncclComm_t comm, CUstream stream) {
    int* data = Buffer<int>({1});
    return ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, stream);
  }
  static bool Blocked(CUstream stream) { return test_cuda::IsBusy(stream); }
  ncclComm_t Taken(size_t rank) { return std::exchange(comms_[rank], nullptr); }
  // Rank 0 waits on `stream_` for a call that fails.
  void FailACall() {
    MakeRanks(2);
    ASSERT_EQ(Reduce(comms_[0], stream_), ncclSuccess);
    daemon_.FailRank(0, wire::ErrorClass::kRemote, kWhy);
    ASSERT_EQ(AsyncError(comms_[0]), ncclRemoteError);
    ASSERT_TRUE(Blocked(stream_));
  }

  static constexpr char kWhy[] = "rank 1 left: its process 4711 has ended";
  CUstream stream_ = Stream();
};

TEST_F(Failure, AsyncErrorReportsItPermanently) {
  MakeRanks(2);
  CUstream stream = Stream();
  ASSERT_EQ(Reduce(comms_[0], stream), ncclSuccess);
  daemon_.FailRank(0, wire::ErrorClass::kRemote, "rank 1 (host h1) was killed");
  EXPECT_EQ(AsyncError(comms_[0]), ncclRemoteError);
  EXPECT_THAT(LastError(comms_[0]), HasSubstr("rank 1 (host h1)"));
  EXPECT_EQ(Reduce(comms_[0], stream), ncclRemoteError);
  EXPECT_EQ(AsyncError(comms_[1]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(Taken(0)), ncclRemoteError)
      << "it is destroyed, and its call did not complete";
}

// ---- Streams ------------------------------------------------------------------------------------

TEST_F(Failure, AbortReleasesTheStream) {
  FailACall();
  EXPECT_EQ(ncclCommAbort(Taken(0)), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream_));
}

TEST_F(Failure, DestroyReportsTheIncompleteCallAndReleasesTheStream) {
  FailACall();
  EXPECT_EQ(ncclCommDestroy(Taken(0)), ncclRemoteError);
  EXPECT_TRUE(Synchronize(stream_));
}

TEST_F(Failure, RevokeReleasesTheStream) {
  FailACall();
  EXPECT_EQ(ncclCommRevoke(comms_[0], 0), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream_));
}

TEST_F(Failure, ShrinkWithAbortFlagReleasesTheStream) {
  FailACall();
  int excluded[] = {1};
  ncclComm_t child = nullptr;
  EXPECT_EQ(ncclCommShrink(comms_[0], excluded, 1, &child, nullptr, NCCL_SHRINK_ABORT), ncclSuccess)
      << LastError();
  EXPECT_TRUE(Synchronize(stream_));
  EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
}

TEST_F(Failure, FinalizeReleasesNoStream) {
  FailACall();
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclRemoteError);
  EXPECT_TRUE(Blocked(stream_));
}

TEST_F(Failure, LaterCallFailsAndEnqueuesNothing) {
  FailACall();
  CUstream other = Stream();
  EXPECT_EQ(Reduce(comms_[0], other), ncclRemoteError);
  EXPECT_FALSE(Blocked(other));
  EXPECT_TRUE(Blocked(stream_));
}

TEST_F(Failure, GroupWithOneFailedCommunicatorEnqueuesNothing) {
  FailACall();
  CUstream other = Stream();
  ncclGroupStart();
  EXPECT_EQ(Reduce(comms_[1], other), ncclSuccess);
  EXPECT_EQ(Reduce(comms_[0], other), ncclRemoteError);
  EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  EXPECT_FALSE(Blocked(other));
}

// Only a part of the group was posted. Even if that part completes, the group does not.
TEST_F(Failure, GroupThatFailsDuringSubmissionBlocksTheStream) {
  MakeRanks(1);
  daemon_.HoldRings(true);
  std::thread poster([&] {
    ncclGroupStart();
    for (uint32_t i = 0; i < 2 * wire::kRingRecords; ++i) Reduce(comms_[0], stream_);
    EXPECT_EQ(ncclGroupEnd(), ncclRemoteError);
  });
  while (test_cuda::EnqueuedOn(stream_).empty()) std::this_thread::yield();
  daemon_.FailRank(0, wire::ErrorClass::kRemote, kWhy);
  poster.join();
  ASSERT_TRUE(Blocked(stream_));
  EXPECT_GT(test_cuda::EnqueuedOn(stream_).back().value, uint64_t{wire::kRingRecords});
  EXPECT_EQ(ncclCommAbort(Taken(0)), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream_));
}

TEST_F(Failure, ReportedDeathIsAnAsyncErrorAndCallsAreAccepted) {
  MakeRanks(2);
  daemon_.ReportDeath(0, kWhy);
  EXPECT_EQ(AsyncError(comms_[0]), ncclRemoteError);
  EXPECT_THAT(LastError(comms_[0]), HasSubstr(kWhy));
  EXPECT_EQ(Reduce(comms_[0], stream_), ncclSuccess);
  EXPECT_TRUE(Blocked(stream_));
  daemon_.FailRank(0, wire::ErrorClass::kRemote, kWhy);
  EXPECT_TRUE(Blocked(stream_));
  EXPECT_EQ(Reduce(comms_[0], stream_), ncclRemoteError);
  EXPECT_EQ(ncclCommAbort(Taken(0)), ncclSuccess);
  EXPECT_TRUE(Synchronize(stream_));
}

TEST_F(Failure, FinalizesAfterADeathWithoutPendingCalls) {
  MakeRanks(2);
  daemon_.ReportDeath(0, kWhy);
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(Taken(0)), ncclSuccess);
}

// ---- ncclGetLastError ---------------------------------------------------------------------------

TEST_F(Failure, ProcessErrorIsTheFailureThatNoCallReturned) {
  MakeRanks(2);
  ASSERT_EQ(Reduce(comms_[0], stream_), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclInt, ncclSum, comms_[1], nullptr),
            ncclInvalidArgument);
  daemon_.FailRank(0, wire::ErrorClass::kRemote, kWhy);
  EXPECT_THAT(LastError(), AllOf(HasSubstr("rank 0 of 2"), HasSubstr(kWhy)));
}

TEST_F(Failure, ProcessErrorIsTheSameInEveryThread) {
  FailACall();
  std::thread([&] { EXPECT_THAT(LastError(), HasSubstr(kWhy)); }).join();
  std::thread([&] {
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclInt, ncclSum, comms_[1], nullptr),
              ncclInvalidArgument);
  }).join();
  EXPECT_THAT(LastError(), HasSubstr("sendbuff is NULL"));
}

TEST_F(Failure, CallErrorReplacesAnEarlierUnseenFailure) {
  MakeRanks(2);
  daemon_.FailRank(0, wire::ErrorClass::kRemote, kWhy);
  EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclInt, ncclSum, comms_[1], nullptr),
            ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("sendbuff is NULL"));
}

TEST_F(Failure, LastErrorOutlivesItsCommunicator) {
  MakeRanks(2);
  ASSERT_EQ(Reduce(comms_[0], stream_), ncclSuccess);
  daemon_.FailRank(0, wire::ErrorClass::kRemote, kWhy);
  EXPECT_EQ(ncclCommAbort(Taken(0)), ncclSuccess);
  EXPECT_THAT(LastError(), AllOf(HasSubstr(kWhy), Not(HasSubstr("aborted"))));
}

TEST_F(Failure, DeadDaemonIsTheProcessError) {
  MakeRanks(1);
  daemon_.Die();
  while (AsyncError(comms_[0]) == ncclSuccess) std::this_thread::yield();
  EXPECT_THAT(LastError(), HasSubstr(daemon_.socket_path()));
}

// A returned message stays readable while other threads get errors and read theirs.
TEST_F(Failure, ErrorMessageBelongsToTheThread) {
  FailACall();
  const char* answer = ncclGetLastError(nullptr);
  std::thread([&] {
    EXPECT_EQ(ncclAllReduce(nullptr, nullptr, 1, ncclInt, ncclSum, comms_[1], nullptr),
              ncclInvalidArgument);
    EXPECT_NE(ncclGetLastError(nullptr), answer);
  }).join();
  EXPECT_THAT(answer, HasSubstr(kWhy));
}

}  // namespace failure_test
}  // namespace mccs
