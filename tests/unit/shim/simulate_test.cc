// ncclGroupSimulateEnd: how it sums the estimates, and that nothing runs. The fake daemon estimates
// one microsecond per element.
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace simulate_test {

using ::testing::HasSubstr;

class SimulateEnd : public ShimTest {
 protected:
  SimulateEnd() {
    MakeRanks(2);
    data_ = Buffer<int>({1, 2, 3, 4, 5, 6, 7, 8});
  }
  void AllReduce(int r, size_t count) {
    EXPECT_EQ(ncclAllReduce(data_, data_, count, ncclInt, ncclSum, comms_[r], nullptr),
              ncclSuccess);
  }

  int* data_;
  ncclSimInfo_t info_ = NCCL_SIM_INFO_INITIALIZER;
};

TEST_F(SimulateEnd, SumsPerCommunicatorAndReturnsTheMaximum) {
  ncclGroupStart();
  AllReduce(0, 3);
  AllReduce(1, 7);
  AllReduce(0, 5);
  ASSERT_EQ(ncclGroupSimulateEnd(&info_), ncclSuccess) << LastError();
  EXPECT_EQ(info_.estimatedTime, 8);
  EXPECT_TRUE(test_cuda::EnqueuedOn(nullptr).empty());
  EXPECT_TRUE(daemon_.RecordsOf(0).empty());
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "the group has ended";
}

TEST_F(SimulateEnd, InnerLevelEstimatesNothing) {
  ncclGroupStart();
  ncclGroupStart();
  AllReduce(0, 3);
  ncclSimInfo_t inner{};  // ignored
  ASSERT_EQ(ncclGroupSimulateEnd(&inner), ncclSuccess);
  EXPECT_EQ(inner.estimatedTime, 0);
  ASSERT_EQ(ncclGroupSimulateEnd(&info_), ncclSuccess);
  EXPECT_EQ(info_.estimatedTime, 3);
}

TEST_F(SimulateEnd, EndsTheGroupForAnyArgument) {
  ncclGroupStart();
  AllReduce(0, 3);
  EXPECT_EQ(ncclGroupSimulateEnd(nullptr), ncclSuccess);
  ncclGroupStart();
  AllReduce(0, 3);
  info_.magic = 0;
  EXPECT_EQ(ncclGroupSimulateEnd(&info_), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("NCCL_SIM_INFO_INITIALIZER"));
  EXPECT_EQ(ncclGroupSimulateEnd(&info_), ncclInvalidUsage);
  EXPECT_THAT(LastError(), HasSubstr("without ncclGroupStart"));
}

TEST_F(SimulateEnd, ReportsErrorsOfTheGroupAndOfTheDaemon) {
  ncclGroupStart();
  EXPECT_EQ(ncclBroadcast(data_, data_, 1, ncclInt, 9, comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupSimulateEnd(&info_), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("root 9"));
  ncclGroupStart();
  AllReduce(0, 3);
  daemon_.FailRequestsWith(wire::ErrorClass::kInvalidUsage);
  EXPECT_EQ(ncclGroupSimulateEnd(&info_), ncclInvalidUsage);
  daemon_.FailRequestsWith(wire::ErrorClass::kNone);
}

}  // namespace simulate_test
}  // namespace mccs
