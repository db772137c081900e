// Sockets that Tenants declare, on real sockets: which exist, who they identify, and what happens
// to those that cannot be opened.
#include "service/frontend/declared_sockets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/reactor.h"
#include "base/unique_fd.h"
#include "service/frontend/unix_socket_directory.h"
#include "tests/unit/controller/manual_clock.h"
#include "tests/unit/recording_log.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {
namespace declared_sockets_test {

using testing::HasSubstr;

TenantEntry Tenant(const std::string& name, std::vector<DeclaredSocket> sockets) {
  return {.name = name, .selector = {}, .quotas = {}, .sockets = std::move(sockets)};
}

class DeclaredSocketsTest : public testing::Test {
 protected:
  std::string File(const std::string& path) const {
    return absl::StrCat(directory_.path(), "/tenants/", path);
  }
  mode_t ModeOf(const std::string& path) const {
    struct stat info {};
    return stat(File(path).c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  // Connects to the socket; not valid: impossible.
  UniqueFd Connect(const std::string& path) const {
    UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, File(path).c_str(), sizeof(address.sun_path) - 1);
    if (connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      fd.Reset();
    return fd;
  }
  void Set(const std::vector<TenantEntry>& tenants) { sockets_.SetTenants(tenants); }

  const TemporaryDirectory directory_;
  ManualClock clock_;
  RecordingLog log_;
  std::unique_ptr<Reactor> reactor_ = std::move(*Reactor::Create());
  UnixSocketDirectory allowed_{directory_.File("tenants"), *reactor_};
  SessionEnvironment environment_;
  Frontend frontend_{environment_};
  DaemonCounters counters_;
  DeclaredSockets sockets_{&allowed_, frontend_, clock_, log_, counters_};
};

TEST_F(DeclaredSocketsTest, SocketsComeAndGoWithTheirTenants) {
  Set({Tenant("a", {{.path = "a.sock"}, {.path = "deep/er/a.sock", .mode = 0600}}),
       Tenant("b", {{.path = "b.sock"}})});
  EXPECT_EQ(ModeOf("a.sock"), 0660u);
  EXPECT_EQ(ModeOf("deep/er/a.sock"), 0600u);
  EXPECT_EQ(ModeOf("deep"), 0755u);
  EXPECT_TRUE(Connect("b.sock").valid());
  Set({Tenant("b", {{.path = "b.sock"}})});
  EXPECT_FALSE(std::filesystem::exists(File("a.sock")));
  EXPECT_FALSE(std::filesystem::exists(File("deep/er/a.sock")));
  EXPECT_TRUE(Connect("b.sock").valid());
  Set({});
  EXPECT_FALSE(std::filesystem::exists(File("b.sock")));
  EXPECT_EQ(sockets_.NextDeadline(), kNever);
}

TEST_F(DeclaredSocketsTest, AnUnchangedSocketStaysOpen) {
  Set({Tenant("a", {{.path = "a.sock"}})});
  const UniqueFd waiting = Connect("a.sock");
  Set({Tenant("a", {{.path = "a.sock"}}), Tenant("b", {{.path = "b.sock"}})});
  // A listener that closes resets the connections that it has not accepted.
  char byte = 0;
  EXPECT_EQ(recv(waiting.get(), &byte, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
}

TEST_F(DeclaredSocketsTest, AChangedSocketIsOpenedAgain) {
  Set({Tenant("a", {{.path = "a.sock", .mode = 0600}})});
  Set({Tenant("a", {{.path = "a.sock", .mode = 0666}})});
  EXPECT_EQ(ModeOf("a.sock"), 0666u);
  Set({Tenant("b", {{.path = "a.sock", .mode = 0666}})});
  EXPECT_TRUE(Connect("a.sock").valid());
  EXPECT_TRUE(log_.Contains("opened socket a.sock of Tenant b"));
}

TEST_F(DeclaredSocketsTest, GivesTheSocketItsOwner) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  Set({Tenant("a", {{.path = "a.sock", .uid = 12, .gid = 34}})});
  struct stat info {};
  ASSERT_EQ(stat(File("a.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_uid, 12u);
  EXPECT_EQ(info.st_gid, 34u);
}

TEST_F(DeclaredSocketsTest, APathInUseIsReportedOnceAndTriedAgain) {
  std::filesystem::create_directory(File(""));
  std::ofstream(File("a.sock")) << "a file";
  Set({Tenant("a", {{.path = "a.sock"}}), Tenant("b", {{.path = "b.sock"}})});
  EXPECT_TRUE(Connect("b.sock").valid()) << "others are not affected";
  EXPECT_EQ(counters_.open_sockets.value(), 1);
  EXPECT_EQ(counters_.failed_sockets.value(), 1);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(sockets_.Poll());
    EXPECT_EQ(sockets_.NextDeadline(), clock_.now + DeclaredSockets::kRetryNs);
    clock_.now += DeclaredSockets::kRetryNs;
    EXPECT_TRUE(sockets_.Poll());
  }
  ASSERT_EQ(log_.Count("cannot open socket a.sock of Tenant a"), 1u);
  EXPECT_TRUE(log_.Contains("is not a socket; choose another path, or move it away"));
  std::filesystem::remove(File("a.sock"));
  clock_.now += DeclaredSockets::kRetryNs;
  EXPECT_TRUE(sockets_.Poll());
  EXPECT_TRUE(Connect("a.sock").valid());
  EXPECT_EQ(sockets_.NextDeadline(), kNever);
  EXPECT_EQ(counters_.open_sockets.value(), 2);
  EXPECT_EQ(counters_.failed_sockets.value(), 0);
}

TEST_F(DeclaredSocketsTest, TheSocketOfAnotherProgramStays) {
  UnixSocketDirectory same(directory_.File("tenants"), *reactor_);
  const auto other = same.Open("other", {.path = "a.sock"});
  ASSERT_TRUE(other.ok()) << other.status();
  Set({Tenant("a", {{.path = "a.sock"}})});
  EXPECT_TRUE(log_.Contains("another process listens on socket")) << log_.lines.back();
  Set({});
  EXPECT_TRUE(Connect("a.sock").valid());
}

TEST_F(DeclaredSocketsTest, OpensNoSocketWhereOthersCouldChangeIt) {
  std::filesystem::create_directory(File(""));
  std::filesystem::create_directory(File("open"));
  std::filesystem::permissions(File("open"), std::filesystem::perms::all);
  std::filesystem::create_directory_symlink("/tmp", File("link"));
  Set({Tenant("a", {{.path = "open/a.sock"}, {.path = "link/a.sock"}})});
  EXPECT_FALSE(std::filesystem::exists(File("open/a.sock")));
  EXPECT_FALSE(std::filesystem::exists("/tmp/a.sock"));
  EXPECT_TRUE(log_.Contains("others could change directory"));
  EXPECT_TRUE(log_.Contains("link is in use and not a directory"));
}

TEST_F(DeclaredSocketsTest, AHostMayAllowNone) {
  DeclaredSockets none(nullptr, frontend_, clock_, log_, counters_);
  none.SetTenants({Tenant("a", {{.path = "a.sock"}})});
  EXPECT_TRUE(log_.Contains("set `socket_dir` in mccsd's configuration"));
}

TEST_F(DeclaredSocketsTest, ATableWithAPathOutsideIsNotFollowed) {
  Set({Tenant("a", {{.path = "../a.sock"}})});
  EXPECT_FALSE(std::filesystem::exists(directory_.File("a.sock")));
  EXPECT_TRUE(log_.Contains("expected a path within `socket_dir`"));
}

}  // namespace declared_sockets_test
}  // namespace mccs
