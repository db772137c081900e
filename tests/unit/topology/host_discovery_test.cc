#include "topology/host_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace mccs {
namespace {

using testing::Contains;

TEST(HostDiscovery, LoopbackIsThereAndLast) {
  const absl::StatusOr<HostInventory> host = DiscoverHost({});
  ASSERT_TRUE(host.ok()) << host.status();
  ASSERT_FALSE(host->nics.empty());
  EXPECT_TRUE(host->nics.back().loopback);
  EXPECT_THAT(host->nics.back().addresses, Contains("127.0.0.1"));
  EXPECT_FALSE(host->name.empty());
}

TEST(HostDiscovery, ConfigurationOverridesNameAndCountsGpus) {
  const absl::StatusOr<HostInventory> host = DiscoverHost({.name = "h7", .gpu_count = 3});
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(host->name, "h7");
  ASSERT_EQ(host->gpus.size(), 3u);
  EXPECT_EQ(host->gpus[2].index, 2);
}

TEST(HostDiscovery, SpeedIsWhatTheKernelSays) {
  const std::filesystem::path sysfs = std::filesystem::path(testing::TempDir()) / "mccs-sysfs";
  const std::filesystem::path nic = sysfs / "class/net/lo";
  std::filesystem::create_directories(nic);
  for (const auto& [text, bps] :
       {std::pair<const char*, uint64_t>{"25000\n", 25'000'000'000u},
        std::pair<const char*, uint64_t>{"-1\n", 0u}, std::pair<const char*, uint64_t>{"", 0u}}) {
    std::ofstream(nic / "speed") << text;
    const absl::StatusOr<HostInventory> host =
        DiscoverHost({.name = "h", .gpu_count = 0, .sysfs = sysfs.string()});
    ASSERT_TRUE(host.ok()) << host.status();
    EXPECT_EQ(host->nics.back().speed_bps, bps);
  }
  std::filesystem::remove_all(sysfs);
}

}  // namespace
}  // namespace mccs
