// Ids from NCCL_COMM_ID, and configurations of other versions.
#include <cstring>

#include "shim/config/comm_config.h"
#include "shim/daemon/unique_id_env.h"
#include "tests/unit/shim/shim_fixture.h"

namespace mccs::shim {
namespace unique_id_test {

using ::testing::HasSubstr;

TEST(UniqueIdFromCommId, IsDeterministicAndMarkedAsGuessable) {
  const auto id = UniqueIdFromCommId("10.0.0.1:4000");
  const auto again = UniqueIdFromCommId("10.0.0.1:4000");
  ASSERT_TRUE(id.ok() && again.ok());
  EXPECT_EQ(std::memcmp(&*id, &*again, sizeof(*id)), 0);
  EXPECT_STREQ(id->host, "10.0.0.1");
  EXPECT_EQ(id->port, 4000);
  EXPECT_EQ(id->guessable, 1);
}

TEST(UniqueIdFromCommId, DiffersBetweenTexts) {
  const auto one = UniqueIdFromCommId("h:4000");
  const auto other = UniqueIdFromCommId("h:4001");
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->comm_id, other->comm_id);
  EXPECT_NE(std::memcmp(one->secret, other->secret, sizeof(one->secret)), 0);
}

TEST(UniqueIdFromCommId, RemovesBracketsOfAnAddress) {
  const auto id = UniqueIdFromCommId("[fe80::1]:80");
  ASSERT_TRUE(id.ok());
  EXPECT_STREQ(id->host, "fe80::1");
}

TEST(UniqueIdFromCommId, RejectsInvalidHostAndPort) {
  for (const char* text : {"", "host", "host:", ":80", "host:0", "host:65536", "host:x"}) {
    EXPECT_EQ(UniqueIdFromCommId(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(UniqueIdFromCommId(std::string(64, 'h') + ":80").ok());
}

TEST(UniqueIdFromCommId, KeepsAHostName) {
  EXPECT_STREQ(UniqueIdFromCommId("node-7.cluster:80")->host, "node-7.cluster");
}

TEST(ResolveRendezvous, ChangesOnlyTheAddress) {
  const wire::UniqueId derived = *UniqueIdFromCommId("localhost:4000");
  wire::UniqueId id = derived;
  ASSERT_TRUE(ResolveRendezvous(id).ok());
  EXPECT_STREQ(id.host, "127.0.0.1");
  EXPECT_EQ(id.resolved, 0);  // it means the local host on every host
  EXPECT_EQ(id.comm_id, derived.comm_id);
  EXPECT_EQ(id.port, derived.port);
  EXPECT_EQ(std::memcmp(id.secret, derived.secret, sizeof(id.secret)), 0);
}

TEST(ResolveRendezvous, NormalizesAnAddress) {
  wire::UniqueId id = *UniqueIdFromCommId("[0:0:0:0:0:0:0:1]:4000");
  ASSERT_TRUE(ResolveRendezvous(id).ok());
  EXPECT_STREQ(id.host, "::1");
  EXPECT_EQ(id.resolved, 0);
}

TEST(ResolveRendezvous, ErrorNamesTheVariableAndTheUnknownHost) {
  wire::UniqueId id = *UniqueIdFromCommId("no..such:4000");  // invalid in DNS: no server is asked
  const absl::Status status = ResolveRendezvous(id);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("NCCL_COMM_ID"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("no..such"));
}

TEST(OpenUniqueId, RejectsAnIdOfANewerRelease) {
  wire::UniqueId id = *UniqueIdFromCommId("h:1");
  id.version = wire::kWireVersion + 1;
  ncclUniqueId carried;
  std::memcpy(&carried, &id, sizeof(id));
  EXPECT_EQ(OpenUniqueId(carried).status().code(), absl::StatusCode::kFailedPrecondition);
}

using CommIdVariable = ShimTest;

TEST_F(CommIdVariable, YieldsTheIdWithoutTheDaemon) {
  setenv("NCCL_COMM_ID", "127.0.0.1:4321", 1);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  EXPECT_EQ(daemon_.CountOf(wire::MessageKind::kGetUniqueId), 0);
  comms_.resize(1);
  ASSERT_EQ(ncclCommInitRank(&comms_[0], 1, id, 0), ncclSuccess) << LastError();
  EXPECT_EQ(daemon_.LastInit().flags, uint32_t{wire::kIdFromEnvironment});
  unsetenv("NCCL_COMM_ID");
}

TEST_F(CommIdVariable, SendsAnAddressToTheDaemon) {
  setenv("NCCL_COMM_ID", "localhost:4321", 1);
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess) << LastError();
  comms_.resize(1);
  ASSERT_EQ(ncclCommInitRank(&comms_[0], 1, id, 0), ncclSuccess) << LastError();
  wire::UniqueId id_sent;
  std::memcpy(&id_sent, daemon_.LastInit().unique_id, sizeof(id_sent));
  EXPECT_STREQ(id_sent.host, "127.0.0.1");
  unsetenv("NCCL_COMM_ID");
}

TEST_F(CommIdVariable, RejectsAnUnknownNameAtOnce) {
  setenv("NCCL_COMM_ID", "no..such:4321", 1);
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclInvalidArgument);
  EXPECT_THAT(LastError(), HasSubstr("no..such"));
  unsetenv("NCCL_COMM_ID");
}

TEST(CommConfig, DefaultsWithoutAnyConfiguration) {
  const auto config = ReadCommConfig(nullptr);
  ASSERT_TRUE(config.ok());
  EXPECT_TRUE(config->blocking);
  EXPECT_EQ(config->hints.traffic_class, -1);
}

// A program built with NCCL 2.14 has a structure of 24 bytes; the memory after it is not ours.
TEST(CommConfig, ReadsOnlyTheCallersStructure) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.size = 24;
  config.version = NCCL_VERSION(2, 14, 0);
  config.blocking = 0;
  config.cgaClusterSize = 99;
  config.minCTAs = -5;
  const auto read = ReadCommConfig(&config);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_FALSE(read->blocking);
  EXPECT_EQ(read->hints.min_channels, 0u);
}

TEST(CommConfig, AcceptsANewerAndLargerStructure) {
  struct {
    ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
    int newer[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  } config;
  config.known.size = sizeof(config);
  config.known.version = NCCL_VERSION(2, 32, 3);
  config.known.maxCTAs = 3;
  const auto read = ReadCommConfig(&config.known);
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->hints.max_channels, 3u);
}

// No NCCL version has such a size; half of a pointer must not be dereferenced.
TEST(CommConfig, IgnoresAFieldThatTheSizeCuts) {
  const std::string network = "a network", name = "a name";
  for (size_t size = 24; size <= sizeof(ncclConfig_t); ++size) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.size = size;
    config.minCTAs = 0x01010102;
    config.netName = network.c_str();
    config.commName = name.c_str();
    const auto read = ReadCommConfig(&config);
    ASSERT_TRUE(read.ok()) << size << ": " << read.status().message();
    EXPECT_EQ(read->hints.min_channels, size >= 28 ? 0x01010102u : 0u) << size;
    EXPECT_EQ(read->name, size >= 56 ? name : "") << size;
  }
}

TEST(CommConfig, ErrorNamesTheInvalidField) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_THAT(std::string(ReadCommConfig(&config).status().message()), HasSubstr("blocking"));
  config.blocking = 1;
  config.minCTAs = 5;
  config.maxCTAs = 4;
  EXPECT_THAT(std::string(ReadCommConfig(&config).status().message()), HasSubstr("maxCTAs"));
}

TEST(CommConfig, EnvironmentOverridesBlocking) {
  setenv("NCCL_COMM_BLOCKING", "0", 1);
  EXPECT_FALSE(ReadCommConfig(nullptr)->blocking);
  unsetenv("NCCL_COMM_BLOCKING");
}

}  // namespace unique_id_test
}  // namespace mccs::shim
