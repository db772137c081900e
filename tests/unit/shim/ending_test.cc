// Ends that nobody planned: a group that fails with communicators on their way out.
#include <thread>

#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace {

class Ending : public ShimTest {
 protected:
  // The communicator's handle, which is about to end.
  ncclComm_t Leaving(size_t rank) {
    const ncclComm_t comm = comms_[rank];
    comms_[rank] = nullptr;
    return comm;
  }
  static ncclResult_t Sum(int* data, ncclComm_t comm) {
    return ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr);
  }
  int Destroyed() { return daemon_.CountOf(wire::MessageKind::kCommDestroy); }
  int Aborted() { return daemon_.CountOf(wire::MessageKind::kCommAbort); }
};

// ---- Groups that do not come to their end ----

TEST_F(Ending, ADestroyInAGroupThatFailsAborts) {
  MakeRanks(2);
  int* data = Buffer<int>({1});
  ASSERT_EQ(Sum(data, comms_[1]), ncclSuccess);  // waits for rank 0
  ncclGroupStart();
  EXPECT_EQ(ncclCommDestroy(Leaving(0)), ncclSuccess);
  EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclNumOps, comms_[1], nullptr),
            ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_EQ(Aborted(), 1);
  EXPECT_EQ(Destroyed(), 0);
}

TEST_F(Ending, ADestroyInASimulatedGroupLeaves) {
  MakeRanks(1);
  int* data = Buffer<int>({5});
  daemon_.HoldRings(true);
  ASSERT_EQ(Sum(data, comms_[0]), ncclSuccess);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  EXPECT_EQ(ncclCommDestroy(Leaving(0)), ncclSuccess);
  daemon_.HoldRings(false);
  std::thread stream([] { EXPECT_TRUE(fake_cuda::Synchronize(nullptr)); });
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclSuccess) << LastError();
  stream.join();
  EXPECT_EQ(Destroyed(), 1);
  EXPECT_EQ(Aborted(), 0);
}

TEST_F(Ending, ADestroyInASimulatedGroupThatFailsAborts) {
  MakeRanks(1);
  ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
  ncclGroupStart();
  EXPECT_EQ(ncclCommDestroy(Leaving(0)), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(reinterpret_cast<ncclComm_t>(8)), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupSimulateEnd(&info), ncclInvalidArgument);
  EXPECT_EQ(Aborted(), 1);
}

}  // namespace
}  // namespace mccs
