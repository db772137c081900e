// Calls on streams that are captured into a CUDA graph: the graph's nodes, the messages to the
// daemon, and the release of both.
#include <utility>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace capture_test {

using ::testing::HasSubstr;

// Both ranks of a communicator are in this process, each with a stream of its own.
class CaptureTest : public ShimTest {
 protected:
  CaptureTest() {
    MakeRanks(2);
    for (int r = 0; r < 2; ++r) {
      streams_.push_back(Stream());
      data_.push_back(Buffer<int>({r + 1, 10 * (r + 1)}));
    }
  }
  // The ranks' streams are empty when a test ends, and its graphs are destroyed.
  ~CaptureTest() override {
    for (CUgraph graph : graphs_) test_cuda::DestroyGraph(graph);
  }

  ncclResult_t AllReduce(int rank, CUstream stream) {
    const auto r = static_cast<size_t>(rank);
    return ncclAllReduce(data_[r], data_[r], 2, ncclInt, ncclSum, comms_[r], stream);
  }
  void SetInputs() {
    for (int r = 0; r < 2; ++r) data_[static_cast<size_t>(r)][0] = r + 1;
  }
  // One all-reduce per rank, each captured by a graph of its own.
  void CaptureBoth() {
    for (int r = 0; r < 2; ++r) {
      const CUstream stream = streams_[static_cast<size_t>(r)];
      test_cuda::BeginCapture(stream);
      ASSERT_EQ(AllReduce(r, stream), ncclSuccess) << LastError();
      graphs_.push_back(test_cuda::EndCapture(stream));
    }
  }
  bool Replay() {
    for (size_t r = 0; r < 2; ++r) test_cuda::Launch(graphs_[r], streams_[r]);
    return test_cuda::Synchronize(streams_[0]) && test_cuda::Synchronize(streams_[1]);
  }
  void DestroyGraphs() {
    for (CUgraph graph : graphs_) test_cuda::DestroyGraph(graph);
    graphs_.clear();
  }

  std::vector<CUstream> streams_;
  std::vector<int*> data_;
  std::vector<CUgraph> graphs_;
};

TEST_F(CaptureTest, ReplaysRunWithoutACall) {
  CaptureBoth();
  EXPECT_EQ(data_[0][0], 1) << "the capture itself ran the call";
  for (int i = 0; i < 5; ++i) {
    SetInputs();
    ASSERT_TRUE(Replay());
    EXPECT_EQ(data_[0][0], 3);
    EXPECT_EQ(data_[1][0], 3);
  }
  EXPECT_TRUE(daemon_.RecordsOf(0).empty()) << "the replay used the ring";
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCaptureWork), 2);
}

TEST_F(CaptureTest, ConsecutiveLaunchesNeedNoWait) {
  CaptureBoth();
  data_[0][0] = data_[1][0] = 1;
  for (int i = 0; i < 5; ++i) {
    for (size_t r = 0; r < 2; ++r) test_cuda::Launch(graphs_[r], streams_[r]);
  }
  ASSERT_TRUE(test_cuda::Synchronize(streams_[0]) && test_cuda::Synchronize(streams_[1]));
  EXPECT_EQ(data_[0][0], 32);
}

TEST_F(CaptureTest, CallsAndReplaysShareTheCommunicator) {
  CaptureBoth();
  for (int i = 0; i < 3; ++i) {
    SetInputs();
    ASSERT_TRUE(Replay());
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < 2; ++r) {
      ASSERT_EQ(AllReduce(r, streams_[static_cast<size_t>(r)]), ncclSuccess);
    }
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    ASSERT_TRUE(test_cuda::Synchronize(streams_[0]));
    EXPECT_EQ(data_[0][0], 6);
  }
}

// Otherwise two ranks on one stream, or on one hardware queue, deadlock.
TEST_F(CaptureTest, ReadyWordsOfAGroupPrecedeItsWaits) {
  test_cuda::BeginCapture(streams_[0]);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < 2; ++r) ASSERT_EQ(AllReduce(r, streams_[0]), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  graphs_.push_back(test_cuda::EndCapture(streams_[0]));
  const auto nodes = test_cuda::EnqueuedOn(streams_[0]);
  ASSERT_EQ(nodes.size(), 6u);
  EXPECT_EQ(test_cuda::NodesOf(graphs_[0]), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(nodes[i].kind == test_cuda::Enqueued::kWait, i >= 4) << i;
  }
  test_cuda::Launch(graphs_[0], streams_[0]);
  ASSERT_TRUE(test_cuda::Synchronize(streams_[0]));
  EXPECT_EQ(data_[1][0], 3);
}

TEST_F(CaptureTest, GroupOverTwoCapturedStreamsWaitsForBoth) {
  const CUstream side = Stream();
  test_cuda::BeginCapture(streams_[0]);
  test_cuda::JoinCapture(side, streams_[0]);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (CUstream stream : {streams_[0], side}) ASSERT_EQ(AllReduce(0, stream), ncclSuccess);
  for (int i = 0; i < 2; ++i) ASSERT_EQ(AllReduce(1, side), ncclSuccess);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  test_cuda::JoinCapture(streams_[0], side);
  graphs_.push_back(test_cuda::EndCapture(streams_[0]));
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCaptureWork), 3 + 2)
      << "one fence for the second stream";
  int waits = 0;
  for (CUstream stream : {streams_[0], side}) {
    for (const auto& node : test_cuda::EnqueuedOn(stream)) {
      if (node.kind == test_cuda::Enqueued::kWait) ++waits;
    }
  }
  EXPECT_EQ(waits, 3);
}

TEST_F(CaptureTest, DestroyedGraphReleasesEverything) {
  CUdeviceptr last_slot = 0;
  for (int i = 0; i < 3; ++i) {
    CaptureBoth();
    ASSERT_TRUE(Replay());
    EXPECT_EQ(daemon_.CapturedGroupsOf(0), 1u);
    const size_t second = 3 * static_cast<size_t>(i) + 1;  // each capture has three nodes
    const CUdeviceptr slot = test_cuda::EnqueuedOn(streams_[0])[second].address;
    EXPECT_TRUE(i == 0 || slot == last_slot) << "the slot was not reused";
    last_slot = slot;
    DestroyGraphs();
    // The messages are on the socket; the reply to a later one shows that they were read.
    ncclUniqueId id;
    ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    EXPECT_EQ(daemon_.CapturedGroupsOf(0), 0u);
  }
}

TEST_F(CaptureTest, RejectsMoreGraphsThanSlots) {
  for (uint32_t i = 0; i <= wire::kCapturedSlots; ++i) {
    test_cuda::BeginCapture(streams_[0]);
    const ncclResult_t result = AllReduce(0, streams_[0]);
    graphs_.push_back(test_cuda::EndCapture(streams_[0]));
    ASSERT_EQ(result, i < wire::kCapturedSlots ? ncclSuccess : ncclSystemError);
  }
  EXPECT_THAT(LastError(comms_[0]), HasSubstr("destroy unused graphs"));
}

TEST_F(CaptureTest, RejectsCapturedAndUncapturedStreamsOfOneCommunicator) {
  test_cuda::BeginCapture(streams_[0]);
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(AllReduce(0, streams_[0]), ncclSuccess);
  EXPECT_EQ(AllReduce(0, streams_[1]), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("a group uses captured and uncaptured streams"));
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  graphs_.push_back(test_cuda::EndCapture(streams_[0]));
  EXPECT_EQ(test_cuda::NodesOf(graphs_[0]), 0u);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCaptureWork), 0);
}

TEST_F(CaptureTest, RejectsACaptureThatBeginsWithinAGroup) {
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  ASSERT_EQ(AllReduce(0, streams_[0]), ncclSuccess);
  test_cuda::BeginCapture(streams_[0]);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
  graphs_.push_back(test_cuda::EndCapture(streams_[0]));
  EXPECT_TRUE(daemon_.RecordsOf(0).empty());
}

TEST_F(CaptureTest, RejectedWorkIsNotCaptured) {
  CaptureBoth();  // registers the buffer, so that only the captured group is rejected
  ASSERT_TRUE(Replay());
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidArgument);
  test_cuda::BeginCapture(streams_[0]);
  EXPECT_EQ(AllReduce(0, streams_[0]), ncclInvalidArgument);
  graphs_.push_back(test_cuda::EndCapture(streams_[0]));
  EXPECT_EQ(test_cuda::NodesOf(graphs_.back()), 0u);
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
}

TEST_F(CaptureTest, DeadDaemonReleasesNoReplay) {
  CaptureBoth();
  test_cuda::Launch(graphs_[0], streams_[0]);  // the other rank never launches
  daemon_.Die();
  for (size_t r : {0, 1}) {
    ncclResult_t error = ncclSuccess;
    while (error == ncclSuccess) ncclCommGetAsyncError(comms_[r], &error);
  }
  test_cuda::Launch(graphs_[1], streams_[1]);  // of a failed communicator
  for (CUstream stream : {streams_[0], streams_[1]}) {
    EXPECT_TRUE(test_cuda::IsBusy(stream));
  }
  for (ncclComm_t comm : std::exchange(comms_, {})) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  for (CUstream stream : {streams_[0], streams_[1]}) EXPECT_TRUE(test_cuda::Synchronize(stream));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Replay()) << "a later replay did not complete";
}

TEST_F(CaptureTest, FinalizeAndDestroyReportAnIncompleteReplay) {
  CaptureBoth();
  test_cuda::Launch(graphs_[0], streams_[0]);  // the other rank never launches
  daemon_.FailRank(0, wire::ErrorClass::kRemote, "rank 1 left");
  EXPECT_EQ(ncclCommFinalize(comms_[0]), ncclRemoteError);
  EXPECT_TRUE(test_cuda::IsBusy(streams_[0]));
  EXPECT_EQ(ncclCommDestroy(comms_[0]), ncclRemoteError);
  comms_.erase(comms_.begin());
  EXPECT_TRUE(test_cuda::Synchronize(streams_[0]));
}

TEST_F(CaptureTest, DestroyReleasesLaterReplays) {
  CaptureBoth();
  ASSERT_TRUE(Replay());
  for (ncclComm_t comm : std::exchange(comms_, {})) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  EXPECT_TRUE(Replay());
}

TEST_F(CaptureTest, AbortReleasesCurrentAndLaterReplays) {
  CaptureBoth();
  test_cuda::Launch(graphs_[0], streams_[0]);
  ASSERT_EQ(ncclCommAbort(comms_[0]), ncclSuccess);
  comms_.erase(comms_.begin());
  EXPECT_TRUE(test_cuda::Synchronize(streams_[0]));
  test_cuda::Launch(graphs_[0], streams_[0]);
  EXPECT_TRUE(test_cuda::Synchronize(streams_[0]));
}

}  // namespace capture_test
}  // namespace mccs
