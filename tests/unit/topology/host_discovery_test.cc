#include "topology/host_discovery.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace mccs {
namespace host_discovery_test {

using testing::Contains;

TEST(HostDiscovery, FindsLoopbackLast) {
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

// A /sys with only the loopback device, which every machine has.
class SysfsTest : public testing::Test {
 protected:
  SysfsTest() { std::filesystem::create_directories(nic); }
  ~SysfsTest() override { std::filesystem::remove_all(sysfs); }

  NicInfo Loopback() const {
    const absl::StatusOr<HostInventory> host =
        DiscoverHost({.name = "h", .gpu_count = 0, .sysfs = sysfs.string()});
    EXPECT_TRUE(host.ok()) << host.status();
    return host->nics.back();
  }

  const std::filesystem::path sysfs = std::filesystem::path(testing::TempDir()) / "mccs-sysfs";
  const std::filesystem::path nic = sysfs / "class/net/lo";
};

TEST_F(SysfsTest, ReadsSpeedAndMtuFromTheKernel) {
  std::filesystem::create_directories(nic / "device");
  for (const auto& [text, bps] :
       {std::pair<const char*, uint64_t>{"25000\n", 25'000'000'000u},
        std::pair<const char*, uint64_t>{"-1\n", 0u}, std::pair<const char*, uint64_t>{"", 0u}}) {
    std::ofstream(nic / "speed") << text;
    std::ofstream(nic / "mtu") << "9000\n";
    EXPECT_EQ(Loopback().speed_bps, bps);
    EXPECT_EQ(Loopback().mtu_bytes, 9000);
  }
}

TEST_F(SysfsTest, IgnoresAnInventedSpeed) {
  std::ofstream(nic / "speed") << "10000\n";
  std::ofstream(nic / "uevent") << "INTERFACE=nic0\nIFINDEX=2\n";
  EXPECT_EQ(Loopback().speed_bps, 0u) << "a veth device";
  std::ofstream(nic / "uevent") << "DEVTYPE=bond\nINTERFACE=nic0\nIFINDEX=2\n";
  EXPECT_EQ(Loopback().speed_bps, 10'000'000'000u);
}

TEST(HostDiscovery, RetainsOnlyListeningAddresses) {
  const auto kept = [](const std::string& listen) {
    HostInventory host;
    host.nics = {{.name = "nic0", .addresses = {"10.0.0.1", "fd00::1"}},
                 {.name = "nic1", .addresses = {"10.0.0.2"}}};
    RetainAddressesFor(listen, &host);
    std::vector<std::string> addresses;
    for (const NicInfo& nic : host.nics)
      addresses.insert(addresses.end(), nic.addresses.begin(), nic.addresses.end());
    return addresses;
  };
  using Addresses = std::vector<std::string>;
  EXPECT_EQ(kept("10.0.0.2"), Addresses({"10.0.0.2"}));
  EXPECT_EQ(kept("0.0.0.0"), Addresses({"10.0.0.1", "10.0.0.2"}));
  EXPECT_EQ(kept("::"), Addresses({"10.0.0.1", "fd00::1", "10.0.0.2"}));
}

}  // namespace host_discovery_test
}  // namespace mccs
