#include "lab/host_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace host_identity_test {

using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name));
  return name;
}

// Runs `work` in a child process, so that changes of namespaces and capabilities are temporary, and
// returns its result.
std::string InChild(const TemporaryDirectory& directory, absl::FunctionRef<std::string()> work) {
  const std::string path = directory.File("result");
  const pid_t child = fork();
  if (child == 0) {
    std::ofstream(path) << work() << std::flush;
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return ReadFile(path);
}

bool DropSysAdmin() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct capabilities[2] = {};
  if (syscall(SYS_capget, &header, capabilities) != 0) return false;
  capabilities[0].effective &= ~(1U << CAP_SYS_ADMIN);
  return syscall(SYS_capset, &header, capabilities) == 0;
}

// Forbids new user namespaces below that of the calling process, as on machines where they are
// disabled.
bool ForbidUserNamespaces() {
  const std::string map = absl::StrCat(geteuid(), " ", geteuid(), " 1");
  if (unshare(CLONE_NEWUSER) != 0) return false;
  std::ofstream("/proc/self/uid_map") << map << std::flush;
  std::ofstream most("/proc/sys/user/max_user_namespaces");
  return static_cast<bool>(most << "0" << std::flush);
}

class HostIdentityTest : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(identity_.hosts_file) << "127.0.0.9 h8\n";
    if (absl::Status status = CheckBecomeHost(identity_); !status.ok())
      GTEST_SKIP() << status.message();
  }

  // Host name and /etc/hosts after BecomeHost.
  std::string Seen() const {
    const absl::Status status = BecomeHost(identity_);
    return absl::StrCat(status.message(), HostName(), ":", ReadFile("/etc/hosts"));
  }

  TemporaryDirectory directory_;
  HostIdentity identity_{.name = "h8", .hosts_file = directory_.File("hosts")};
};

TEST_F(HostIdentityTest, AProcessSeesTheNameAndTheHostsOfItsLab) {
  EXPECT_EQ(InChild(directory_, [&] { return Seen(); }), "h8:127.0.0.9 h8\n");
}

TEST_F(HostIdentityTest, AProcessWithoutPrivilegeUsesAUserNamespace) {
  EXPECT_EQ(InChild(directory_, [&] { return DropSysAdmin() ? Seen() : "capset failed"; }),
            "h8:127.0.0.9 h8\n");
}

TEST_F(HostIdentityTest, TheMachineKeepsItsNameAndItsHosts) {
  const std::string name = HostName(), hosts = ReadFile("/etc/hosts");
  InChild(directory_, [&] { return Seen(); });
  EXPECT_EQ(HostName(), name);
  EXPECT_EQ(ReadFile("/etc/hosts"), hosts);
}

TEST_F(HostIdentityTest, TheErrorNamesWhatIsMissing) {
  const std::string error = InChild(directory_, [&]() -> std::string {
    if (!ForbidUserNamespaces() || !DropSysAdmin()) return "skipped";
    return std::string(CheckBecomeHost(identity_).message());
  });
  if (error == "skipped") GTEST_SKIP() << "this machine does not allow user namespaces";
  EXPECT_THAT(error, HasSubstr("namespaces need root (CAP_SYS_ADMIN) or user namespaces"));
}

TEST_F(HostIdentityTest, AMissingHostsFileIsAnError) {
  EXPECT_THAT(
      std::string(CheckBecomeHost({.name = "h8", .hosts_file = "/nowhere/hosts"}).message()),
      HasSubstr("cannot mount /nowhere/hosts over /etc/hosts"));
}

TEST(PlainHostsFile, PutsTheLabsHostsBeforeTheMachines) {
  EXPECT_EQ(PlainHostsFile(PlainHosts(2, 1), "127.0.0.1 localhost"),
            "127.0.0.1 h0\n127.0.0.2 h1\n127.0.0.1 localhost\n");
}

}  // namespace host_identity_test
}  // namespace mccs::lab
