#include "service/process_limits.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/physical_memory.h"
#include "service/config.h"

namespace mccs {
namespace process_limits_test {

TEST(ProcessLimits, BytesThatAreNotConfiguredFollowTheMachine) {
  const HostLimits limits = LimitsOfMachine(BytesByMachine());
  EXPECT_EQ(limits[Resource::kLaneMemory], PhysicalBytes() / 2);
  EXPECT_EQ(limits[Resource::kPlanMemory], PhysicalBytes() / 8);
  EXPECT_LE(limits[Resource::kPinnedMemory], PhysicalBytes() / 2);
  EXPECT_EQ(limits[Resource::kMappedBytes], HostLimits{}[Resource::kMappedBytes]);
}

TEST(ProcessLimits, ConfiguredBytesAreKept) {
  HostLimits configured = BytesByMachine();
  configured[Resource::kPinnedMemory] = 7;
  configured[Resource::kMappedBytes] = 8;
  const HostLimits limits = LimitsOfMachine(configured);
  EXPECT_EQ(limits[Resource::kPinnedMemory], 7u);
  EXPECT_EQ(limits[Resource::kMappedBytes], 8u);
}

// The other half is for slots, without which lanes fail.
TEST(ProcessLimits, TenantsPinHalfOfWhatTheProcessMayLock) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_max, 8192);
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  const HostLimits limits = LimitsOfMachine(BytesByMachine());
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &before), 0);
  EXPECT_EQ(limits[Resource::kPinnedMemory], low.rlim_cur / 2);
}

}  // namespace process_limits_test
}  // namespace mccs
