#include "lab/node.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/fabric.h"
#include "lab/network_tools.h"
#include "lab/spawn.h"
#include "tests/unit/eventually.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace node_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kPath[] = "/usr/local/bin:/usr/bin:/bin";

class NodeTest : public testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<NetworkTools> tools =
        FindNetworkTools(std::string(kPath) + kAdministratorDirectories);
    if (!tools.ok()) GTEST_SKIP() << tools.status().message();
    tools_ = *tools;
    if (absl::Status status = CheckNetworkSupport(tools_); !status.ok())
      GTEST_SKIP() << status.message();
    hosts_file_ = directory_.File("hosts");
    std::ofstream(hosts_file_) << "10.0.0.7 elsewhere\n";
    absl::StatusOr<pid_t> node = StartNode({.identity = {.name = "h7", .hosts_file = hosts_file_},
                                            .sysctls = {{"net.ipv4.ip_forward", "1"}}});
    ASSERT_TRUE(node.ok()) << node.status();
    node_ = *node;
  }

  void TearDown() override {
    if (node_ == 0) return;
    kill(node_, SIGKILL);
    waitpid(node_, nullptr, 0);
  }

  // Output of a shell in the node.
  std::string OutputOf(const std::string& script) {
    const std::string path = directory_.File("output");
    UniqueFd output(open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    absl::StatusOr<pid_t> child = Spawn({.file = "/bin/sh",
                                         .argv = {"sh", "-c", script},
                                         .environment = {absl::StrCat("PATH=", kPath)},
                                         .output = output.get(),
                                         .error = output.get(),
                                         .place = {.node = node_}});
    EXPECT_TRUE(child.ok()) << child.status();
    int status = 0;
    waitpid(*child, &status, 0);
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TemporaryDirectory directory_;
  NetworkTools tools_;
  std::string hosts_file_;
  pid_t node_ = 0;
};

TEST_F(NodeTest, ProgramSeesTheNodesNameHostsAndDevices) {
  EXPECT_EQ(OutputOf("hostname; cat /etc/hosts; ls /sys/class/net"),
            "h7\n10.0.0.7 elsewhere\nlo\n");
}

TEST_F(NodeTest, ProgramKeepsItsDirectoryAndFiles) {
  const std::string before = std::filesystem::current_path();
  EXPECT_EQ(OutputOf("pwd; ls " + hosts_file_), before + "\n" + hosts_file_ + "\n");
}

TEST_F(NodeTest, DoesNotChangeTheMachine) {
  char name[256] = {};
  gethostname(name, sizeof(name));
  EXPECT_STRNE(name, "h7");
  std::ifstream hosts("/etc/hosts");
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(hosts), {}), Not(HasSubstr("elsewhere")));
  EXPECT_EQ(OutputOf("cat /proc/sys/net/ipv4/ip_forward"), "1\n");
}

TEST_F(NodeTest, CreatesSocketsInItsNetwork) {
  ASSERT_TRUE(
      RunBatch(tools_.ip, "link set dev lo up\naddress add 10.9.8.7/32 dev lo\n", node_).ok());
  sockaddr_in place{};
  place.sin_family = AF_INET;
  inet_pton(AF_INET, "10.9.8.7", &place.sin_addr);
  const auto can_bind = [&]() -> absl::Status {
    UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (bind(fd.get(), reinterpret_cast<sockaddr*>(&place), sizeof(place)) == 0)
      return absl::OkStatus();
    return absl::ErrnoToStatus(errno, "bind");
  };
  EXPECT_TRUE(RunInNetworkOf(node_, can_bind).ok());
  EXPECT_FALSE(can_bind().ok());
}

TEST_F(NodeTest, ErrorOfAToolHasItsLineAndOutput) {
  const absl::Status status =
      RunBatch(tools_.ip, "link set dev lo up\nlink set dev nothing up\n", node_);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("'link set dev nothing up'"), HasSubstr("Cannot find device"),
                    HasSubstr("Command failed -:2")));
}

TEST_F(NodeTest, ErrorNamesAnUnknownSysctl) {
  const absl::StatusOr<pid_t> node =
      StartNode({.identity = {.name = "h8"}, .sysctls = {{"net.ipv4.no_such_setting", "1"}}});
  EXPECT_EQ(node.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(node.status().message()), HasSubstr("net.ipv4.no_such_setting = 1"));
}

TEST_F(NodeTest, EndsWithItsParent) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]), writer(ends[1]);
  const pid_t parent = fork();
  if (parent == 0) {
    const absl::StatusOr<pid_t> node = StartNode({.identity = {.name = "h9"}, .sysctls = {}});
    const pid_t pid = node.value_or(0);
    (void)!write(writer.get(), &pid, sizeof(pid));
    _exit(0);
  }
  pid_t holder = 0;
  ASSERT_EQ(read(reader.get(), &holder, sizeof(holder)), static_cast<ssize_t>(sizeof(holder)));
  waitpid(parent, nullptr, 0);
  ASSERT_GT(holder, 0);
  // The subreaper adopts it and may reap it late.
  EXPECT_TRUE(Eventually([&] {
    std::ifstream file(absl::StrCat("/proc/", holder, "/stat"));
    std::string id, name, state;
    return !(file >> id >> name >> state) || state == "Z";
  }));
}

TEST(NetworkTools, ErrorNamesMissingToolAndPackage) {
  const absl::StatusOr<NetworkTools> tools = FindNetworkTools("/nowhere");
  EXPECT_EQ(tools.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(tools.status().message()), HasSubstr("iproute2"));
}

}  // namespace node_test
}  // namespace mccs::lab
