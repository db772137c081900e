// Which calls one group can combine.
#include "tests/unit/shim/shim_fixture.h"

namespace mccs {
namespace group_test {

using ::testing::HasSubstr;

using Groups = ShimTest;

TEST_F(Groups, BlockingAndNonBlockingInitsDoNotMix) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t waited_for;
  ncclComm_t other;
  ncclGroupStart();
  EXPECT_EQ(ncclCommInitRank(&waited_for, 1, ids[0], 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRankConfig(&other, 1, ids[1], 0, &config), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("blocking and non-blocking"));
  EXPECT_EQ(waited_for, nullptr);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kCommInit), 0);
}

// A group can contain work of both kinds, because submission does not wait.
TEST_F(Groups, WorkOnBlockingAndNonBlockingCommunicatorsMixes) {
  MakeRanks(1);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t other;
  ASSERT_EQ(ncclCommInitRankConfig(&other, 1, id, 0, &config), ncclInProgress);
  comms_.push_back(other);
  for (ncclResult_t state = ncclInProgress; state != ncclSuccess;) {
    ASSERT_EQ(ncclCommGetAsyncError(other, &state), ncclSuccess);
  }
  int* data = Buffer<int>({1});
  ncclGroupStart();
  for (ncclComm_t comm : comms_) {
    EXPECT_EQ(ncclAllReduce(data, data, 1, ncclInt, ncclSum, comm, nullptr), ncclSuccess);
  }
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess) << LastError();
  EXPECT_TRUE(test_cuda::Synchronize(nullptr));
}

}  // namespace group_test
}  // namespace mccs
