#include "lab/spawn.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace spawn_test {

using testing::HasSubstr;

// Output of a shell that runs `script`.
std::string OutputOf(const std::string& script, Environment environment = {}) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  UniqueFd reader(ends[0]);
  UniqueFd writer(ends[1]);
  absl::StatusOr<pid_t> child = Spawn({.file = "/bin/sh",
                                       .argv = {"sh", "-c", script},
                                       .environment = std::move(environment),
                                       .output = writer.get()});
  EXPECT_TRUE(child.ok()) << child.status();
  writer.Reset();
  std::string output;
  char piece[256];
  ssize_t got;
  while ((got = read(reader.get(), piece, sizeof(piece))) > 0) output.append(piece, got);
  int status = 0;
  EXPECT_EQ(waitpid(*child, &status, 0), *child);
  EXPECT_EQ(ExitStatusOf(status), 0);
  return output;
}

TEST(Spawn, TheProgramHasItsEnvironmentAndNothingElse) {
  EXPECT_EQ(OutputOf("echo $A-$HOME", {"A=b c"}), "b c-\n");
}

TEST(Spawn, TheProgramStartsWithNoSignalBlocked) {
  sigset_t blocked;
  sigset_t before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  std::string output = OutputOf("exec /bin/grep -E 'Sig(Blk|Ign)' /proc/self/status");
  sigprocmask(SIG_SETMASK, &before, nullptr);
  EXPECT_EQ(output, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST(Spawn, RejectsAFileThatIsNotAProgram) {
  TemporaryDirectory directory;
  std::string path = directory.File("data");
  std::ofstream(path) << "\x7f no program";
  ASSERT_EQ(chmod(path.c_str(), 0700), 0);
  absl::StatusOr<pid_t> child = Spawn({.file = path, .argv = {path}});
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(std::string(child.status().message()), HasSubstr(path));
}

TEST(FindProgram, SearchesPathInOrder) {
  EXPECT_EQ(FindProgram("sh", "/nowhere:/bin:/usr/bin").value(), "/bin/sh");
  EXPECT_EQ(FindProgram("/bin/sh", "").value(), "/bin/sh");
}

TEST(FindProgram, DistinguishesMissingFromNotExecutable) {
  EXPECT_EQ(FindProgram("no-such-program", "/bin").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindProgram("/etc/passwd", "").status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(FindProgram("/etc", "").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace spawn_test
}  // namespace mccs::lab
