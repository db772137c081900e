// mccsd's YAML configuration: fields and errors.
#include "service/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/unit/mentions.h"

namespace mccs {
namespace config_test {

using testing::HasSubstr;

class ServiceConfigTest : public testing::Test {
 protected:
  absl::StatusOr<Config> Read(const std::string& text) {
    char path[] = "/tmp/mccs-config-XXXXXX";
    const int fd = mkstemp(path);
    close(fd);
    std::ofstream(path) << text;
    auto config = ReadConfig(path);
    unlink(path);
    return config;
  }
  std::string Rejection(const std::string& text) {
    const auto config = Read(text);
    return config.ok() ? "accepted" : std::string(config.status().message());
  }
};

TEST_F(ServiceConfigTest, ChecksKeysOfRdma) {
  EXPECT_EQ(Rejection("rdma: {timeout: 18, retries: 7}\n"), "accepted");
  EXPECT_THAT(Rejection("rdma: {timeout: 19, retries: 7}\n"),
              Mentions("timeout", "7 `retries`", "17.2 s", "10 s"));
  EXPECT_THAT(Rejection("rdma: {timeout: 0}\n"), Mentions("timeout", "1 to 31"));
  EXPECT_EQ(Rejection("rdma: {mtu: 1024}\n"), "accepted");
  for (const char* mtu : {"128", "1000", "8192"}) {
    EXPECT_THAT(Rejection(std::string("rdma: {mtu: ") + mtu + "}\n"), Mentions("mtu", "4096"));
  }
  EXPECT_THAT(Rejection("rdma: {retries: 8}\n"), Mentions("retries", "0 to 7"));
}

TEST_F(ServiceConfigTest, AnEmptyFileIsTheDefault) {
  const auto config = Read("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket, "/run/mccs/mccsd.sock");
}

TEST_F(ServiceConfigTest, ReadsAllFields) {
  const auto config = Read(
      "host: h7\nlisten: '10.0.0.7:7400'\nmetrics_listen: '127.0.0.1:7401'\ngpus: 4\nlog_level: "
      "warning\n"
      "position: {pod: p1, rack: r2}\ntopology: cluster-a\n"
      "sockets:\n  - {path: /run/blue.sock, tenant: blue, mode: '0660'}\n"
      "lanes: {channels: 4, slots: 16, slot_bytes: 1MiB, skew: 3}\n"
      "algorithms:\n  costs: {hop_us: 12.5, lane_rate: 20Gbit/s}\n"
      "  rules: [{calls: [all_reduce], algorithm: tree, max_bytes: 8KiB}]\n"
      "tenants_file: /var/lib/mccs/tenants.table\n"
      "limits: {buffers_per_tenant: 20000, mapped_bytes_per_tenant: 100GiB, communicators: 500, "
      "lane_memory: 3GiB, pinned_memory: 7GiB, mapped_bytes: 1TiB}\n"
      "dscp: {5: 40, 7: 46}\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->host, "h7");
  EXPECT_EQ(config->metrics_listen, "127.0.0.1:7401");
  EXPECT_EQ(config->rack, "r2");
  EXPECT_EQ(config->topology, "cluster-a");
  ASSERT_EQ(config->sockets.size(), 1u);
  EXPECT_EQ(config->sockets[0].tenant, "blue");
  EXPECT_EQ(config->sockets[0].mode, 0660u);
  EXPECT_EQ(config->lanes.slot_bytes, 1u << 20);
  EXPECT_EQ(config->channels, 4);
  EXPECT_EQ(config->algorithms.costs.hop_us, 12.5);
  EXPECT_EQ(config->algorithms.costs.lane_bytes_per_us, 2500);
  EXPECT_EQ(config->algorithms.costs.local_bytes_per_us, CostParameters().local_bytes_per_us);
  EXPECT_EQ(config->algorithms.costs.slice_us, CostParameters().slice_us);
  const AlgorithmRule rule{OpKind::kAllReduce, Algorithm::kTree, 0, 8 << 10};
  EXPECT_EQ(config->algorithms.rules, std::vector{rule});
  EXPECT_EQ(config->TenantsFile(), "/var/lib/mccs/tenants.table");
  EXPECT_EQ(config->buffers.buffers_per_tenant, 20000u);
  EXPECT_EQ(config->limits[Resource::kCommunicators], 500u);
  EXPECT_EQ(config->limits[Resource::kForming], HostLimits{}[Resource::kForming]);
  EXPECT_EQ(config->limits[Resource::kLaneMemory], 3 * kGiB);
  EXPECT_EQ(config->limits[Resource::kPlanMemory], 0u) << "by the machine";
  EXPECT_EQ(config->limits[Resource::kPinnedMemory], 7 * kGiB);
  EXPECT_EQ(config->limits[Resource::kMappedBytes], 1024 * kGiB);
  EXPECT_EQ(config->buffers.mapped_bytes_per_tenant, 100 * kGiB);
  EXPECT_EQ(config->dscp, (DscpMap{0, 0, 0, 0, 0, 40, 0, 46}));
}

TEST_F(ServiceConfigTest, AnUnknownKeyIsNamedWithItsPlace) {
  const std::string text = Rejection("host: h0\nlanes:\n  chanels: 4\n");
  EXPECT_THAT(text, HasSubstr(":3:3"));
  EXPECT_THAT(text, HasSubstr("chanels"));
}

TEST_F(ServiceConfigTest, AWrongTypeIsNamedWithItsPlace) {
  const std::string text = Rejection("host: h0\ngpus: many\n");
  EXPECT_THAT(text, HasSubstr(":2:"));
  EXPECT_THAT(text, HasSubstr("many"));
}

TEST_F(ServiceConfigTest, RejectsValuesOutOfRange) {
  EXPECT_THAT(Rejection("lanes: {channels: 0}"), HasSubstr("expected 1 to 32"));
  EXPECT_THAT(Rejection("lanes: {channels: 33}"), HasSubstr("expected 1 to 32"));
  EXPECT_THAT(Rejection("lanes: {slots: 1}"), HasSubstr("expected 2 to 64"));
  EXPECT_THAT(Rejection("lanes: {slots: 4, skew: 4}"), HasSubstr("less than `slots`"));
  EXPECT_THAT(Rejection("lanes: {slot_bytes: 1KiB}"), HasSubstr("expected 16384"));
  EXPECT_THAT(Rejection("limits: {buffers_per_tenant: 0}"), HasSubstr("expected 1 to 49152"));
  EXPECT_THAT(Rejection("limits: {buffers_per_tenant: 49153}"), HasSubstr("expected 1 to 49152"));
  EXPECT_THAT(Rejection("dscp: {5: 64}"), HasSubstr("'dscp.5' is 64: expected 0 to 63"));
  EXPECT_THAT(Rejection("dscp: {0: 8}"), HasSubstr("0"));
  EXPECT_THAT(Rejection("log_level: loud"), HasSubstr("loud"));
  EXPECT_THAT(Rejection("listen: nowhere"), HasSubstr("HOST:PORT"));
  EXPECT_THAT(Rejection("sockets: [{path: /a, tenant: t, mode: '0999'}]"), HasSubstr("octal"));
  EXPECT_THAT(Rejection("sockets: [{path: /a}]"), HasSubstr("tenant"));
  EXPECT_THAT(Rejection("unknown_tenants: maybe"), HasSubstr("expected allow or deny"));
  EXPECT_THAT(Rejection("limits: {processes: 1}"), HasSubstr("'processes': expected 2 or more"));
}

TEST_F(ServiceConfigTest, EncryptedLanesNeedACertificateAndTcp) {
  const std::string tls = "tls: {authority: /a, certificate: /b, key: /c}\n";
  const auto config = Read(tls + "lanes: {encryption: on}\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_TRUE(config->encrypts_lanes);
  EXPECT_FALSE(Read(tls)->encrypts_lanes);
  EXPECT_THAT(Rejection("lanes: {encryption: on}"), HasSubstr("set `tls`"));
  EXPECT_THAT(Rejection(tls + "transport: rdma\nlanes: {encryption: on}"),
              HasSubstr("set `transport: tcp`"));
  EXPECT_THAT(Rejection("lanes: {encryption: maybe}"), HasSubstr("expected on or off"));
}

TEST_F(ServiceConfigTest, RejectsInvalidAlgorithms) {
  EXPECT_THAT(Rejection("algorithms: {costs: {hop_us: -1}}"),
              HasSubstr("costs.hop_us is -1; expected a finite number of at least 0"));
  EXPECT_THAT(Rejection("algorithms: {costs: {lane_rate: 0}}"), HasSubstr("a rate above zero"));
  EXPECT_THAT(Rejection("algorithms: {costs: {lane_bytes_per_us: 2000}}"),
              HasSubstr("use 'lane_rate'"));
  EXPECT_THAT(Rejection("algorithms: {rules: [{kind: reduce, algorithm: tree}]}"),
              HasSubstr("use 'calls'"));
  EXPECT_THAT(Rejection("algorithms: {rules: [{calls: [all_reduce], algorithm: star}]}"),
              HasSubstr("ring, tree, direct, pat or grid"));
  EXPECT_THAT(Rejection("algorithms: {rules: [{calls: [reduce, all_gather], algorithm: tree}]}"),
              HasSubstr("'tree' does not support 'all_gather'"));
  EXPECT_THAT(Rejection("algorithms: {rules: [{calls: [reduce], algorithm: tree, min_bytes: 2, "
                        "max_bytes: 1}]}"),
              HasSubstr("is above max_bytes"));
  EXPECT_THAT(Rejection("algorithms: {rules: [{algorithm: tree}]}"), HasSubstr("calls"));
}

TEST_F(ServiceConfigTest, ResolvesPeerAddressesOnce) {
  const auto config = Read("listen: 'localhost:7400'\nadvertise: '[0:0:0:0:0:0:0:1]:7401'\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->listen, "127.0.0.1:7400");
  EXPECT_EQ(config->advertise, "[::1]:7401");
}

TEST_F(ServiceConfigTest, ReportsAnUnknownHostWithPosition) {
  const std::string text = Rejection("host: h0\nadvertise: 'no..such:7400'\n");
  EXPECT_THAT(text, HasSubstr(":2:"));
  EXPECT_THAT(text, HasSubstr("no..such"));
}

TEST_F(ServiceConfigTest, AMissingFileIsNamed) {
  EXPECT_THAT(std::string(ReadConfig("/nowhere/mccsd.yaml").status().message()),
              HasSubstr("/nowhere/mccsd.yaml"));
}

}  // namespace config_test
}  // namespace mccs
