// Identification of the process that connected to a Unix socket, on real processes.
#include "service/frontend/peer_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace mccs {
namespace peer_process_test {

class IdentifiesPeers : public testing::TestWithParam<PeerSource> {};

// The peer of a pair of sockets is the process that made it.
TEST_P(IdentifiesPeers, NamesTheProcessItsUserAndItsControlGroup) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd own(ends[0]), other(ends[1]);
  const auto identified = IdentifyPeer(own.get(), GetParam());
  ASSERT_TRUE(identified.ok()) << identified.status();
  EXPECT_EQ(identified->process, getpid());
  EXPECT_EQ(identified->uid, getuid());
  EXPECT_EQ(identified->cgroup, CgroupOf(getpid()));
  pollfd polled{.fd = identified->pidfd.get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, 0), 0) << "it still runs";
}

// A process that connects and ends, while its child keeps the connection open. The child has both
// ends, and judges when the test has seen the end of the process.
TEST_P(IdentifiesPeers, RejectsAProcessThatHasEnded) {
  int ended[2], answer[2];
  ASSERT_EQ(pipe(ended), 0);
  ASSERT_EQ(pipe(answer), 0);
  const pid_t connector = fork();
  if (connector == 0) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) _exit(1);
    if (fork() > 0) _exit(0);
    char told = 0;
    if (read(ended[0], &told, 1) != 1) _exit(1);
    const bool rejects = absl::IsNotFound(IdentifyPeer(ends[0], GetParam()).status());
    const char result = rejects ? 'r' : 'a';
    _exit(write(answer[1], &result, 1) == 1 ? 0 : 1);
  }
  waitpid(connector, nullptr, 0);
  char result = 0;
  EXPECT_EQ(write(ended[1], "e", 1), 1);
  EXPECT_EQ(read(answer[0], &result, 1), 1);
  EXPECT_EQ(result, 'r');
  for (const int fd : {ended[0], ended[1], answer[0], answer[1]}) close(fd);
}

INSTANTIATE_TEST_SUITE_P(Sources, IdentifiesPeers,
                         testing::Values(PeerSource::kKernel, PeerSource::kProcessId));

// Without the kernel's pidfd: the other end is closed, so the process may be another one.
TEST(PeerByProcessId, RejectsAConnectionThatIsClosed) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd own(ends[0]);
  close(ends[1]);
  EXPECT_TRUE(absl::IsNotFound(IdentifyPeer(own.get(), PeerSource::kProcessId).status()));
}

TEST(PeerByProcessId, ComparesTheUserOfTheProcess) {
  const std::string status = "Name:\tx\nUid:\t10\t11\t12\t13\nGid:\t7\t7\t7\t7\n";
  for (const uint32_t uid : {10, 11, 12, 13}) EXPECT_TRUE(RunsAs(status, uid)) << uid;
  for (const uint32_t uid : {1, 7, 0, 1011}) EXPECT_FALSE(RunsAs(status, uid)) << uid;
  for (const char* text : {"", "Uid:", "\nUid:\n", "\nUid:\tx\n"})
    EXPECT_FALSE(RunsAs(text, 0)) << text;
}

// ---- The control group of a process -------------------------------------------------------------

TEST(ProcessCgroup, IsThePathOfTheUnifiedHierarchy) {
  EXPECT_EQ(CgroupIn("0::/jobs/team-a\n"), "/jobs/team-a");
  EXPECT_EQ(CgroupIn("0::/a:b\n"), "/a:b");
  EXPECT_EQ(CgroupIn("0::/\n"), "/");
  EXPECT_EQ(CgroupIn("12:cpu,cpuacct:/x\n1:name=systemd:/y\n0::/z\n"), "/z");
}

TEST(ProcessCgroup, IsSystemdsWhereVersionOneIsInUse) {
  EXPECT_EQ(CgroupIn("12:cpu,cpuacct:/x\n1:name=systemd:/user.slice\n0::/\n"), "/user.slice");
  EXPECT_EQ(CgroupIn("1:name=systemd:/user.slice\n"), "/user.slice");
}

// The name is sent to the controller, and protobuf would reject a message with other bytes.
TEST(ProcessCgroup, IsAlwaysUtf8) {
  EXPECT_EQ(CgroupIn("0::/jobs/a/\xff\xe4x\n"), "/jobs/a/??x");
  EXPECT_EQ(CgroupIn("1:name=systemd:/jobs/\xff\n"), "/jobs/?");
  EXPECT_EQ(CgroupIn("0::/jobs/\u00e4\n"), "/jobs/\u00e4");
}

TEST(ProcessCgroup, IsUnknownForOtherText) {
  for (const char* text : {"", "\n", "0", "0:", "nonsense", "12:cpu:/x\n"})
    EXPECT_EQ(CgroupIn(text), "") << text;
}

TEST(ProcessCgroup, IsUnknownForAMissingProcess) {
  EXPECT_EQ(CgroupOf(0), "");
  const std::string own = CgroupOf(getpid());
  EXPECT_TRUE(own.empty() || own.front() == '/') << own;
}

// Otherwise the id would be looked up, and the process that has it now would be taken for the peer.
TEST(PeerPidfd, AnEndedPeerIsNoReasonToUseItsId) {
  EXPECT_TRUE(StatusOfPeerPidfd(ENOPROTOOPT).ok()) << "before Linux 6.5";
  for (const int error : {EINVAL, ESRCH}) EXPECT_TRUE(absl::IsNotFound(StatusOfPeerPidfd(error)));
  EXPECT_TRUE(absl::IsResourceExhausted(StatusOfPeerPidfd(EMFILE)));
}

}  // namespace peer_process_test
}  // namespace mccs
