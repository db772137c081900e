// The sources of variables, the log lines about them, and the destination of the log.
#include "shim/config/variables.h"

#include "shim/config/comm_config.h"
#include "tests/unit/mentions.h"
#include "tests/unit/shim/environment_fixture.h"

namespace mccs::shim {
namespace variables_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class SettingsTest : public EnvironmentTest {};

TEST_F(SettingsTest, FileSetsWhatTheEnvironmentDoesNot) {
  Write(".nccl.conf", "# a comment\nNCCL_ALGO=ring\nNCCL_PROTO=simple\r\n\nnonsense\n=x\n");
  Set("NCCL_PROTO", "ll");
  Reload();
  EXPECT_EQ(ValueOf("NCCL_ALGO"), "ring");
  EXPECT_EQ(ValueOf("NCCL_PROTO"), "ll");
  EXPECT_EQ(FindSetting("NCCL_ALGO")->source, directory_.File(".nccl.conf"));
  EXPECT_EQ(FindSetting("NCCL_PROTO")->source, "environment");
  EXPECT_EQ(FindSetting("nonsense"), std::nullopt);
}

TEST_F(SettingsTest, ConfFileReplacesTheOneInTheHomeDirectory) {
  Write(".nccl.conf", "NCCL_ALGO=ring\nNCCL_PROTO=simple\n");
  Set("NCCL_CONF_FILE", Write("other.conf", "NCCL_ALGO=tree\nNCCL_ALGO=later\n"));
  Reload();
  EXPECT_EQ(ValueOf("NCCL_ALGO"), "tree");
  EXPECT_EQ(ValueOf("NCCL_PROTO"), std::nullopt);
}

TEST_F(SettingsTest, EmptyVariableHidesTheFile) {
  Write(".nccl.conf", "NCCL_ALGO=ring\n");
  Set("NCCL_ALGO", "");
  Reload();
  EXPECT_EQ(ValueOf("NCCL_ALGO"), std::nullopt);
}

TEST_F(SettingsTest, MissingFileIsIgnored) {
  Set("NCCL_CONF_FILE", "/nowhere/nccl.conf");
  Reload();
  EXPECT_EQ(ValueOf("NCCL_ALGO"), std::nullopt);
}

TEST(VariableTable, FindsTheOwnEntryElseTheFamily) {
  ASSERT_NE(FindVariable("NCCL_DEBUG"), nullptr);
  EXPECT_STREQ(FindVariable("NCCL_IB_TC")->name, "NCCL_IB_TC");
  EXPECT_EQ(FindVariable("NCCL_IB_TC")->treatment, Treatment::kHint);
  EXPECT_STREQ(FindVariable("NCCL_IB_TIMEOUT")->name, "NCCL_IB_*");
  EXPECT_STREQ(FindVariable("NCCL_NET_PLUGIN")->name, "NCCL_NET_PLUGIN");
  EXPECT_STREQ(FindVariable("NCCL_LL128_BUFFSIZE")->name, "NCCL_LL128_*");
  EXPECT_EQ(FindVariable("NCCL_DEBUGG"), nullptr);
  EXPECT_EQ(FindVariable(""), nullptr);
}

// The reference is section 4 of nccl-semantics.md.
TEST(VariableTable, TreatsVariablesAsTheReferenceRequires) {
  const auto expect = [](Treatment treatment, std::initializer_list<const char*> names) {
    for (const char* name : names) {
      ASSERT_NE(FindVariable(name), nullptr) << name;
      EXPECT_EQ(FindVariable(name)->treatment, treatment) << name;
    }
  };
  expect(Treatment::kHonoured,
         {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_COMM_ID",
          "NCCL_COMM_BLOCKING", "NCCL_CHECK_POINTERS", "NCCL_CONF_FILE",
          "NCCL_MULTI_RANK_GPU_ENABLE", "CUDA_LAUNCH_BLOCKING", "MCCS_WARN_AFTER"});
  expect(Treatment::kHint, {"NCCL_ALGO", "NCCL_PROTO", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS",
                            "NCCL_BUFFSIZE", "NCCL_IB_TC", "NCCL_IB_SL"});
  expect(Treatment::kIgnored,
         {"NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_IB_GID_INDEX", "NCCL_TOPO_FILE",
          "NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_NVLS_ENABLE", "NCCL_CUMEM_ENABLE"});
  expect(Treatment::kWarned, {"NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN"});
}

class ReportTest : public EnvironmentTest {
 protected:
  std::string Report(const char* level) {
    Set("NCCL_DEBUG", level);
    Reload();
    testing::internal::CaptureStdout();
    ReportVariables();
    return testing::internal::GetCapturedStdout();
  }
};

TEST_F(ReportTest, InfoLogsEachVariableAndItsTreatment) {
  Set("NCCL_ALGO", "ring");
  Set("NCCL_SOCKET_IFNAME", "eth0");
  Write(".nccl.conf", "NCCL_IB_HCA=mlx5_0\n");
  EXPECT_THAT(Report("INFO"),
              AllOf(Mentions("MCCS INFO NCCL_ALGO (environment, 'ring')", "hint"),
                    HasSubstr("NCCL_SOCKET_IFNAME (environment, 'eth0') is ignored: "),
                    HasSubstr("NCCL_DEBUG (environment, 'INFO') is honoured"),
                    HasSubstr("NCCL_IB_HCA (" + directory_.File(".nccl.conf"))));
}

TEST_F(ReportTest, WarnLogsOnlyUnknownAndUnavailableVariables) {
  Set("NCCL_SOCKET_IFNAME", "eth0");
  Set("NCCL_NET_PLUGIN", "aws");
  Set("NCCL_SOKET_IFNAME", "eth0");
  EXPECT_THAT(Report("WARN"),
              AllOf(Mentions("MCCS WARN NCCL_NET_PLUGIN (environment, 'aws')", "no effect"),
                    Mentions("MCCS WARN NCCL_SOKET_IFNAME (environment, 'eth0')", "unknown"),
                    Not(HasSubstr("NCCL_SOCKET_IFNAME"))));
  EXPECT_THAT(Report("VERSION"), IsEmpty());
}

class DebugOutputTest : public ReportTest {};

TEST_F(DebugOutputTest, TheFileIsNamedAfterHostAndProcess) {
  EXPECT_EQ(ExpandFileName("/tmp/a.%h.%p.log", "node1", 42), "/tmp/a.node1.42.log");
  EXPECT_EQ(ExpandFileName("100%% %x %", "h", 1), "100% %x %");
}

TEST_F(DebugOutputTest, LinesGoToTheFile) {
  Set("NCCL_DEBUG_FILE", directory_.File("log.%p"));
  Set("NCCL_ALGO", "ring");
  EXPECT_THAT(Report("INFO"), IsEmpty());
  const std::string file = directory_.File("log." + std::to_string(getpid()));
  EXPECT_THAT(Contents(file), HasSubstr("MCCS INFO NCCL_ALGO"));
}

TEST_F(DebugOutputTest, UsesStdoutIfTheFileCannotBeOpened) {
  Set("NCCL_DEBUG_FILE", "/nowhere/at/all");
  Set("NCCL_DEBUG", "WARN");
  testing::internal::CaptureStdout();
  Reload();
  LogLine(Verbosity::kWarn, "something");
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("cannot open NCCL_DEBUG_FILE '/nowhere/at/all'"),
                    HasSubstr("MCCS WARN something")));
}

TEST_F(DebugOutputTest, SubsystemsSelectInfoLines) {
  const auto bit = [](Subsystem subsystem) { return static_cast<uint32_t>(subsystem); };
  EXPECT_EQ(SubsystemsOf("init, coll"), bit(Subsystem::kInit) | bit(Subsystem::kCollective));
  EXPECT_EQ(SubsystemsOf("ALL"), 0xffffffff);
  EXPECT_EQ(SubsystemsOf("^ENV"), ~bit(Subsystem::kEnv));
  EXPECT_EQ(SubsystemsOf("GRAPH,SHM"), 0u);
  Set("NCCL_ALGO", "ring");
  Set("NCCL_DEBUG_SUBSYS", "INIT");
  EXPECT_THAT(Report("INFO"), Not(HasSubstr("NCCL_ALGO")));
  EXPECT_TRUE(IsLogged(Verbosity::kInfo, Subsystem::kInit));
  EXPECT_FALSE(IsLogged(Verbosity::kInfo, Subsystem::kCollective));
  EXPECT_TRUE(IsLogged(Verbosity::kWarn, Subsystem::kCollective));
}

class HintsTest : public EnvironmentTest {};

TEST_F(HintsTest, AreReadFromEnvironmentAndFile) {
  Set("NCCL_MIN_NCHANNELS", "2");
  Set("NCCL_MAX_NCHANNELS", "4");
  Set("NCCL_MAX_CTAS", "8");
  Set("NCCL_BUFFSIZE", "4194304");
  Set("NCCL_IB_TC", "106");
  Write(".nccl.conf", "NCCL_ALGO=^NVLS\nNCCL_IB_SL=3\n");
  Reload();
  const Hints hints = HintsOfEnvironment();
  EXPECT_EQ(hints.min_channels, 2u);
  EXPECT_EQ(hints.max_channels, 8u);
  EXPECT_EQ(hints.buffer_bytes, 4194304u);
  EXPECT_EQ(hints.traffic_class, 106);
  EXPECT_EQ(hints.service_level, 3);
  EXPECT_EQ(hints.algorithms, "^NVLS");
  EXPECT_EQ(hints.protocols, "");
}

TEST_F(HintsTest, InvalidHintsAreLoggedAndIgnored) {
  Set("NCCL_DEBUG", "WARN");
  Set("NCCL_IB_TC", "1000");
  Set("NCCL_MIN_NCHANNELS", "many");
  Reload();
  testing::internal::CaptureStdout();
  const Hints hints = HintsOfEnvironment();
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              AllOf(HasSubstr("NCCL_IB_TC='1000'"), HasSubstr("NCCL_MIN_NCHANNELS='many'")));
  EXPECT_EQ(hints.traffic_class, -1);
  EXPECT_EQ(hints.min_channels, 0u);
}

}  // namespace variables_test
}  // namespace mccs::shim
