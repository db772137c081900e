// The limits of registrations. tests/contract/transport_registration_contract.h has the rest.
#include "service/transport/registration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/device/process_memory.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace registration_test {

const NicDomain kNic{.nic = {"10.0.0.1"}, .tenant = "a"};
const NicDomain kOtherNic{.nic = {"10.0.1.1"}, .tenant = "a"};

OwnedMemory Memory(size_t bytes) { return OwnedMemory(std::vector<std::byte>(bytes)); }

class RegistrationLimitsTest : public ::testing::Test {
 protected:
  NoRegistrar registrar_;
  RegistrationTable table_{registrar_, {.regions_per_nic = 3, .bytes_per_nic = 10'000}};
};

TEST_F(RegistrationLimitsTest, BytesPerNicAreLimited) {
  const OwnedMemory large = Memory(9'000), small = Memory(1'001), least = Memory(1'000);
  std::unique_ptr<RegionRegistration> first = table_.Register(large, kNic);
  EXPECT_TRUE(first->ready());
  const std::unique_ptr<RegionRegistration> second = table_.Register(small, kNic);
  EXPECT_TRUE(absl::IsResourceExhausted(second->status()));
  EXPECT_THAT(second->status().message(), Mentions("10.0.0.1", "1 regions"));
  EXPECT_TRUE(table_.Register(least, kNic)->ready());
  EXPECT_TRUE(table_.Register(small, kOtherNic)->ready()) << "each NIC has its own limit";
  first.reset();
  EXPECT_TRUE(table_.Register(small, kNic)->ready());
  EXPECT_EQ(table_.UsageOf(kNic.nic).bytes, 0u);
}

TEST_F(RegistrationLimitsTest, RegionsPerNicAreLimited) {
  std::vector<std::unique_ptr<OwnedMemory>> memory;
  std::vector<std::unique_ptr<RegionRegistration>> holds;
  for (int i = 0; i < 4; ++i) {
    memory.push_back(std::make_unique<OwnedMemory>(std::vector<std::byte>(10)));
    holds.push_back(table_.Register(*memory.back(), kNic));
    EXPECT_EQ(holds.back()->ready(), i < 3) << i;
  }
  EXPECT_EQ(table_.UsageOf(kNic.nic).regions, 3u);
  EXPECT_EQ(table_.Find(*memory[3], kNic), std::nullopt);
  holds.clear();
  EXPECT_EQ(table_.UsageOf(kNic.nic).regions, 0u);
  EXPECT_EQ(table_.UsageOf(kNic.nic).bytes, 0u);
}

TEST_F(RegistrationLimitsTest, AHugeRegionDoesNotOverflowTheLimit) {
  const OwnedMemory small = Memory(1);
  const std::unique_ptr<RegionRegistration> hold = table_.Register(small, kNic);
  const std::unique_ptr<RegionRegistration> huge = table_.Register(ProcessMemory::Get(), kNic);
  EXPECT_TRUE(absl::IsResourceExhausted(huge->status())) << huge->status();
}

}  // namespace registration_test
}  // namespace mccs
