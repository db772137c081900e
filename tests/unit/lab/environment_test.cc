#include "lab/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mccs::lab {
namespace environment_test {

using testing::_;
using testing::Contains;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

const HostFacts kFacts{.host = "h1",
                       .socket = "/x/mccsd.sock",
                       .controller_endpoint = "127.0.0.1:9",
                       .operator_certificate = "/x/admin",
                       .gpus = 3,
                       .has_network = false};

TEST(Environment, KeepsTheCallersVariables) {
  EXPECT_THAT(With({"A=1", "B=2"}, {{"C", "3"}}), UnorderedElementsAre("A=1", "B=2", "C=3"));
}

TEST(Environment, AChangeReplacesTheCallersValueOnce) {
  EXPECT_THAT(With({"A=1", "AB=2", "A=old"}, {{"A", "new"}}),
              UnorderedElementsAre("AB=2", "A=new"));
}

TEST(Environment, DoesNotMatchPrefixesOfNames) {
  EXPECT_EQ(Get({"RANKS=4", "RANK=1"}, "RANK"), "1");
  EXPECT_EQ(Get({"RANKS=4"}, "RANK"), "");
}

TEST(HostVariables, PreloadOurLibrariesFirst) {
  EXPECT_THAT(HostVariables(kFacts, {"/l/a.so", "/l/b.so"}, {"LD_PRELOAD=/other.so"}),
              Contains(Pair("LD_PRELOAD", "/l/a.so:/l/b.so:/other.so")));
  EXPECT_THAT(HostVariables(kFacts, {"/l/a.so"}, {}), Contains(Pair("LD_PRELOAD", "/l/a.so")));
}

TEST(HostVariables, SetSocketControllerAndGpus) {
  EXPECT_THAT(
      HostVariables(kFacts, {}, {}),
      UnorderedElementsAre(Pair("LD_PRELOAD", ""), Pair("MCCS_SOCKET", "/x/mccsd.sock"),
                           Pair("MCCS_CONTROLLER", "127.0.0.1:9"), Pair("MCCS_TLS", "/x/admin"),
                           Pair("MCCS_EMULATED_GPUS", "3"), Pair("MCCS_EMULATED_HOST", "h1"),
                           Pair("GLOO_SOCKET_IFNAME", "lo")));
}

TEST(HostVariables, KeepTheCallersGlooInterface) {
  EXPECT_THAT(HostVariables(kFacts, {}, {"GLOO_SOCKET_IFNAME=eth0"}),
              Not(Contains(Pair("GLOO_SOCKET_IFNAME", _))));
}

TEST(HostVariables, DoNotSetGlooInterfaceOnHostsWithNetwork) {
  HostFacts facts = kFacts;
  facts.has_network = true;
  EXPECT_THAT(HostVariables(facts, {}, {}), Not(Contains(Pair("GLOO_SOCKET_IFNAME", _))));
}

TEST(RankVariables, AreTorchruns) {
  EXPECT_THAT(RankVariables({.rank = 3,
                             .world_size = 4,
                             .host_index = 1,
                             .local_rank = 1,
                             .local_world_size = 2,
                             .master_address = "127.0.0.1",
                             .master_port = 29500},
                            {}),
              UnorderedElementsAre(Pair("OMP_NUM_THREADS", "1"), Pair("RANK", "3"),
                                   Pair("WORLD_SIZE", "4"), Pair("GROUP_RANK", "1"),
                                   Pair("LOCAL_RANK", "1"), Pair("LOCAL_WORLD_SIZE", "2"),
                                   Pair("MASTER_ADDR", "127.0.0.1"), Pair("MASTER_PORT", "29500")));
}

TEST(RankVariables, LimitThreadsUnlessTheCallerDoes) {
  RankPlace place;
  EXPECT_THAT(RankVariables(place, {}), Not(Contains(Pair("OMP_NUM_THREADS", _))));
  place.world_size = 2;
  EXPECT_THAT(RankVariables(place, {"OMP_NUM_THREADS=3"}),
              Not(Contains(Pair("OMP_NUM_THREADS", _))));
  EXPECT_THAT(RankVariables(place, {}), Contains(Pair("OMP_NUM_THREADS", "1")));
}

TEST(ExportLines, ShellParsesTheOriginalValues) {
  EXPECT_EQ(ExportLines({{"A", "it's"}, {"B", "$x y"}}), "export A='it'\\''s'\nexport B='$x y'\n");
}

}  // namespace environment_test
}  // namespace mccs::lab
