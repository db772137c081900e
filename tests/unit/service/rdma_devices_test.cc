// Which RDMA ports a host uses, and the reasons for the others.
#include "service/rdma_devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/units.h"
#include "tests/unit/mentions.h"

namespace mccs {
namespace rdma_devices_test {

using testing::IsEmpty;

HostInventory Host() {
  return {.name = "h1",
          .nics = {{.name = "eth0", .addresses = {"10.0.0.1"}},
                   {.name = "ib0", .addresses = {"10.9.0.1"}}},
          .gpus = {}};
}

IbPortInfo Roce(const std::string& device, const std::string& address) {
  return {.device = device,
          .active = true,
          .state = "PORT_ACTIVE",
          .mtu_bytes = 4096,
          .gids = {{.index = 0, .routable = false, .text = "fe80::1", .address = ""},
                   {.index = 3, .routable = true, .text = "::ffff:a00:1", .address = address}},
          .nics = {"eth0"},
          .source_port_means = SourcePortMeans::kModify};
}

RdmaSurvey Survey(const std::vector<IbPortInfo>& ports, const RdmaConfig& config = {},
                  uint64_t locked = kUnlimitedBytes) {
  return ChooseRdmaPorts(config, {"0.0.0.0", 7400}, Host(), ports, locked);
}

TEST(RdmaDevices, APortWithAnAddressOfTheHostIsUsed) {
  const RdmaSurvey survey = Survey({Roce("mlx5_0", "10.0.0.1")});
  ASSERT_TRUE(survey.ports[0].use.has_value());
  EXPECT_EQ(survey.ports[0].use->gid.index, 3);
  EXPECT_EQ(survey.ports[0].use->address, "10.0.0.1");
  EXPECT_THAT(WhyNoRdma(survey), IsEmpty());
  EXPECT_THAT(RenderSurvey(survey), Mentions("mlx5_0 port 1", "RoCE v2 10.0.0.1", "any (mlx5)",
                                             "GID 3 at 10.0.0.1", "RDMA can be used"));
}

TEST(RdmaDevices, AnInfiniBandPortHasTheAddressOfItsInterface) {
  IbPortInfo port = Roce("mlx5_1", "");
  port.infiniband = true;
  port.nics = {"ib0"};
  const RdmaSurvey survey = Survey({port});
  ASSERT_TRUE(survey.ports[0].use.has_value());
  EXPECT_EQ(survey.ports[0].use->address, "10.9.0.1");
  port.nics = {"ib7"};
  EXPECT_THAT(WhyNoRdma(Survey({port})), Mentions("mlx5_1", "ib7", "IP over InfiniBand"));
}

TEST(RdmaDevices, ReasonsNameTheDeviceTheValueAndTheRemedy) {
  IbPortInfo down = Roce("mlx5_0", "10.0.0.1");
  down.active = false;
  down.state = "PORT_DOWN";
  EXPECT_THAT(WhyNoRdma(Survey({down})),
              Mentions("mlx5_0 port 1", "PORT_DOWN", "bring its link up"));
  IbPortInfo closed{.device = "mlx5_1", .problem = "cannot open it: Permission denied"};
  EXPECT_THAT(WhyNoRdma(Survey({closed})), Mentions("mlx5_1 port 1", "cannot open it"));
  EXPECT_THAT(WhyNoRdma(Survey({Roce("mlx5_0", "10.0.0.1")}, {.subnet = "10.1.0.0/16"})),
              Mentions("mlx5_0", "none of its 2 GIDs", "10.1.0.0/16", "eth0"));
  EXPECT_THAT(WhyNoRdma(Survey({Roce("mlx5_0", "10.5.0.9")})), Mentions("address of this host"));
  EXPECT_THAT(WhyNoRdma(Survey({Roce("mlx5_0", "10.0.0.1")}, {.devices = {"mlx5_7"}})),
              Mentions("rdma.devices", "mlx5_7", "not there"));
  EXPECT_THAT(WhyNoRdma(Survey({Roce("mlx5_0", "10.0.0.1")}, {.devices = {"mlx5_0/2"}})),
              Mentions("rdma.devices", "mlx5_0/2", "not there"));
  EXPECT_THAT(WhyNoRdma(Survey({Roce("mlx5_0", "10.0.0.1")}, {.devices = {"mlx5_0/1"}})),
              IsEmpty());
  EXPECT_THAT(WhyNoRdma(Survey({Roce("mlx5_0", "10.0.0.1")}, {}, 8 * kMiB)),
              Mentions("locked memory", "8 MiB", "LimitMEMLOCK"));
  EXPECT_THAT(WhyNoRdma(Survey({})), Mentions("no RDMA device"));
  const RdmaSurvey no_library =
      ChooseRdmaPorts({}, {"0.0.0.0", 7400}, Host(),
                      absl::NotFoundError("libibverbs.so.1 is missing; install it"), 0);
  EXPECT_THAT(WhyNoRdma(no_library), Mentions("libibverbs.so.1", "install"));
  EXPECT_THAT(WhyNoRdma(ChooseRdmaPorts({}, {"10.9.0.1", 7400}, Host(),
                                        {{Roce("mlx5_0", "10.0.0.1")}}, kUnlimitedBytes)),
              Mentions("mlx5_0", "does not listen", "10.0.0.1", "`listen`", "0.0.0.0:7400"));
}

TEST(RdmaDevices, ASubnetIsCheckedAsItIsRead) {
  EXPECT_TRUE(CheckSubnet("").ok());
  EXPECT_TRUE(CheckSubnet("10.0.0.0/8").ok());
  for (const char* text : {"10.0.0.0", "10.0.0/8", "10.0.0.0/33", "10.0.0.0/", "x/8"}) {
    EXPECT_THAT(CheckSubnet(text).message(), Mentions(text, "expected an IPv4 network"));
  }
}

}  // namespace rdma_devices_test
}  // namespace mccs
