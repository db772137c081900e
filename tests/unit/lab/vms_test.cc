#include "lab/vms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace vms_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

VmOptions Options(int32_t index) {
  return {.qemu = {"qemu", "-kernel", "k"},
          .paths = LabPaths{"/tmp/a,b"},
          .index = index,
          .host = VmHosts(3, 2)[index],
          .agent_port = 40001,
          .agent = "/it's/mccs-lab"};
}

std::string CommandLine(const VmOptions& options) { return absl::StrJoin(QemuWords(options), " "); }

TEST(VmHosts, HaveAnAddressEachAndFixedPorts) {
  const std::vector<LabHost> hosts = VmHosts(2, 3);
  ASSERT_EQ(hosts.size(), 2u);
  EXPECT_EQ(hosts[1].name, "h1");
  EXPECT_EQ(hosts[1].address, "10.77.0.2");
  EXPECT_NE(hosts[1].port, 0);
  EXPECT_EQ(hosts[1].gpus, 3);
}

TEST(VmSocket, IsOneForEachTenant) {
  EXPECT_EQ(VmSocket(), "/run/mccsd.sock");
  EXPECT_EQ(VmSocket("a"), "/run/tenant-a.sock");
}

TEST(QemuWords, ShareTheFileSystemsAndTheAgentsPort) {
  const std::string words = CommandLine(Options(0));
  EXPECT_THAT(words, testing::StartsWith("qemu -kernel k -name h0 "));
  EXPECT_THAT(words, HasSubstr("LAB_DIRECTORY=/tmp/a,b LAB_HOST=h0 "));
  EXPECT_THAT(words, HasSubstr("local,path=/,mount_tag=root,security_model=none,readonly=on"));
  EXPECT_THAT(words, HasSubstr("local,path=/tmp/a,,b,mount_tag=lab"));
  EXPECT_THAT(words, HasSubstr("hostfwd=tcp:127.0.0.1:40001-"));
}

TEST(QemuWords, ConnectAllCablesToTheNic) {
  VmOptions options = Options(0);
  EXPECT_THAT(CommandLine(options), Not(HasSubstr("socket,")));
  options.cables = {7, 9};
  const std::string words = CommandLine(options);
  EXPECT_THAT(words, HasSubstr("-netdev socket,id=cable7,fd=7 "
                               "-netdev hubport,id=port7,hubid=0,netdev=cable7"));
  EXPECT_THAT(words, HasSubstr("socket,id=cable9,fd=9"));
}

TEST(QemuWords, HaveDifferentHardwareAddresses) {
  EXPECT_THAT(CommandLine(Options(0)), HasSubstr("mac=52:54:00:77:00:01"));
  EXPECT_THAT(CommandLine(Options(2)), HasSubstr("mac=52:54:00:77:00:03"));
}

TEST(VmStartScript, SetsTheAddressAndStartsTheAgent) {
  const std::string script = VmStartScript(Options(1));
  EXPECT_THAT(script, HasSubstr("ip address add 10.77.0.2/24 dev eth0\n"));
  EXPECT_THAT(script, HasSubstr("rdma link add rxe0 type rxe netdev eth0\n"));
  EXPECT_THAT(script, HasSubstr("exec '/it'\\''s/mccs-lab' vm-agent "));
  EXPECT_THAT(script, HasSubstr("--key-file '/tmp/a,b/agent.key'"));
  EXPECT_THAT(script, HasSubstr("--ready-file '/tmp/a,b/vm-h1/ready'"));
}

class PrepareVmsTest : public testing::Test {
 protected:
  absl::StatusOr<std::vector<std::string>> Prepare(const std::string& script) {
    const std::string path = directory_.File("prepare.py");
    std::ofstream(path) << script;
    return PrepareVms(path, {absl::StrCat("PATH=", getenv("PATH"))});
  }

  TemporaryDirectory directory_;
};

TEST_F(PrepareVmsTest, ReturnsOneWordPerLine) {
  EXPECT_THAT(Prepare("print('qemu\\n-kernel\\na b')").value(),
              ElementsAre("qemu", "-kernel", "a b"));
}

TEST_F(PrepareVmsTest, ReportsWhatIsMissing) {
  const absl::Status status = Prepare("print('install it'); raise SystemExit(77)").status();
  EXPECT_EQ(status, absl::UnimplementedError("install it"));
}

TEST_F(PrepareVmsTest, ReportsAnError) {
  EXPECT_EQ(Prepare("print('disk full'); raise SystemExit(1)").status(),
            absl::UnavailableError("disk full"));
  EXPECT_THAT(std::string(Prepare("raise SystemExit(3)").status().message()),
              HasSubstr("prepare.py exited with status 3"));
}

TEST_F(PrepareVmsTest, NeedsPython) {
  EXPECT_EQ(PrepareVms("prepare.py", {"PATH=/nowhere"}).status().code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace vms_test
}  // namespace mccs::lab
