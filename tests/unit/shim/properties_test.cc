// ncclCommQueryProperties (NCCL 2.29 and later).
#include <cstring>

#include "shim/api/comm_properties.h"
#include "shim/config/comm_config.h"
#include "tests/unit/shim/shim_fixture.h"

extern "C" ncclResult_t ncclCommQueryProperties(ncclComm_t, mccs::shim::CommProperties*);

namespace mccs {
namespace properties_test {

using shim::CommProperties;
using ::testing::HasSubstr;

class PropertiesTest : public ShimTest {
 protected:
  PropertiesTest() {
    MakeRanks(2);
    std::memset(&properties_, 0x55, sizeof(properties_));
    properties_.size = sizeof(properties_);
    properties_.magic = shim::kConfigMagic;
    properties_.version = 23203;
  }

  CommProperties properties_;
};

TEST_F(PropertiesTest, ReportsRankAndNoDeviceApi) {
  ASSERT_EQ(ncclCommQueryProperties(comms_[1], &properties_), ncclSuccess) << LastError();
  EXPECT_EQ(properties_.rank, 1);
  EXPECT_EQ(properties_.ranks, 2);
  EXPECT_EQ(properties_.cuda_device, 1);
  EXPECT_FALSE(properties_.device_api);
  EXPECT_FALSE(properties_.multimem);
  EXPECT_FALSE(properties_.host_rma);
  EXPECT_EQ(properties_.version, 23203u) << "the program's own field is unchanged";
  CommProperties other = properties_;
  ASSERT_EQ(ncclCommQueryProperties(comms_[0], &other), ncclSuccess);
  EXPECT_EQ(other.comm_hash, properties_.comm_hash) << "equal on all ranks";
}

// A program built with 2.29 has a smaller structure than one built with 2.32.
TEST_F(PropertiesTest, FillsOnlyFieldsOfTheCallersVersion) {
  properties_.size = offsetof(CommProperties, comm_hash);
  ASSERT_EQ(ncclCommQueryProperties(comms_[0], &properties_), ncclSuccess) << LastError();
  EXPECT_EQ(properties_.ranks, 2);
  EXPECT_EQ(properties_.comm_hash, 0x5555555555555555u);
}

TEST_F(PropertiesTest, RejectsInvalidArguments) {
  EXPECT_EQ(ncclCommQueryProperties(comms_[0], nullptr), ncclInvalidArgument);
  EXPECT_EQ(ncclCommQueryProperties(nullptr, &properties_), ncclInvalidArgument);
  properties_.magic = 0;
  EXPECT_EQ(ncclCommQueryProperties(comms_[0], &properties_), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("NCCL_COMM_PROPERTIES_INITIALIZER"));
  properties_.magic = shim::kConfigMagic;
  properties_.size = sizeof(size_t);
  EXPECT_EQ(ncclCommQueryProperties(comms_[0], &properties_), ncclInvalidArgument);
}

}  // namespace properties_test
}  // namespace mccs
