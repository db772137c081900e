// The agent and its client on this machine, without a virtual machine between them.
#include "lab/vm_agent.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "lab/child_processes.h"
#include "lab/network_tools.h"
#include "lab/spawn.h"
#include "tests/unit/eventually.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace vm_agent_test {

using testing::HasSubstr;

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class VmAgent : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(directory_.File("key")) << "secret\n";
    place_ = {.agent_port = FreePort("127.0.0.1").value(),
              .agent_key_file = directory_.File("key")};
    agent_ = fork();
    if (agent_ == 0) {
      RunVmAgent({.port = place_.agent_port,
                  .key_file = place_.agent_key_file,
                  .ready_file = directory_.File("ready")})
          .IgnoreError();
      _exit(1);
    }
    ASSERT_TRUE(Eventually([&] { return access(directory_.File("ready").c_str(), F_OK) == 0; }));
  }

  void TearDown() override {
    kill(agent_, SIGKILL);
    waitpid(agent_, nullptr, 0);
  }

  absl::StatusOr<pid_t> Start(const std::string& script, const std::string& input = "") {
    std::ofstream(directory_.File("input")) << input;
    const UniqueFd in(open(directory_.File("input").c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd out(open(directory_.File("output").c_str(), kForOutput, 0600));
    const UniqueFd err(open(directory_.File("error").c_str(), kForOutput, 0600));
    return Spawn({.file = "/bin/sh",
                  .argv = {"sh", "-c", script},
                  .environment = {"PATH=/usr/bin:/bin", absl::StrCat("DIR=", directory_.path())},
                  .input = in.get(),
                  .output = out.get(),
                  .error = err.get(),
                  .own_group = true,
                  .place = place_});
  }

  int Finish(absl::StatusOr<pid_t> program) {
    EXPECT_TRUE(program.ok()) << program.status();
    int status = 0;
    EXPECT_EQ(waitpid(program.value_or(-1), &status, 0), program.value_or(-1));
    return status;
  }

  // Waits until the script has created the file.
  void AwaitFile(const std::string& name) {
    ASSERT_TRUE(Eventually([&] { return access(directory_.File(name).c_str(), F_OK) == 0; }));
  }
  // Waits until all processes that have locked the file have ended. False: too long.
  bool BecomesUnlocked(const std::string& name) {
    return Eventually([&] {
      const absl::StatusOr<pid_t> probe =
          Spawn({.file = "/usr/bin/flock",
                 .argv = {"flock", "--nonblock", directory_.File(name), "true"}});
      return ExitStatusOf(Finish(probe)) == 0;
    });
  }

  std::string Output() const { return ReadFile(directory_.File("output")); }
  std::string Error() const { return ReadFile(directory_.File("error")); }

  static constexpr int kForOutput = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;

  TemporaryDirectory directory_;
  Place place_;
  pid_t agent_ = 0;
};

TEST_F(VmAgent, ForwardsOutputErrorAndExitStatus) {
  EXPECT_EQ(ExitStatusOf(Finish(Start("echo to output; echo to error >&2; exit 7"))), 7);
  EXPECT_EQ(Output(), "to output\n");
  EXPECT_EQ(Error(), "to error\n");
}

TEST_F(VmAgent, RunsTheProgramInTheCallersDirectoryWithItsEnvironmentOnly) {
  EXPECT_EQ(ExitStatusOf(Finish(Start("pwd; echo $DIR-$HOME"))), 0);
  EXPECT_EQ(Output(),
            absl::StrCat(std::filesystem::current_path().string(), "\n", directory_.path(), "-\n"));
}

TEST_F(VmAgent, ForwardsMuchInputToItsEnd) {
  const std::string input(3 << 20, 'x');
  EXPECT_EQ(ExitStatusOf(Finish(Start("cat", input))), 0);
  EXPECT_EQ(Output(), input);
}

TEST_F(VmAgent, DiscardsInputThatTheProgramDoesNotRead) {
  EXPECT_EQ(ExitStatusOf(Finish(Start("exec <&-; echo ready", std::string(3 << 20, 'x')))), 0);
  EXPECT_EQ(Output(), "ready\n");
}

TEST_F(VmAgent, ForwardsSignalsToTheProgram) {
  absl::StatusOr<pid_t> program = Start(
      "trap 'echo trapped; exit 3' TERM; touch $DIR/started; while true; do sleep 0.01; done");
  AwaitFile("started");
  kill(*program, SIGTERM);
  EXPECT_EQ(ExitStatusOf(Finish(program)), 3);
  EXPECT_EQ(Output(), "trapped\n");
}

TEST_F(VmAgent, AProgramThatASignalKilledKillsItsClientByTheSameSignal) {
  const int status = Finish(Start("kill -KILL $$"));
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(VmAgent, KillsAllProcessesOfAProgramWhoseClientWasKilled) {
  absl::StatusOr<pid_t> program =
      Start("exec 9>$DIR/lock; flock 9; setsid sleep 1000 & touch $DIR/started; sleep 1000");
  AwaitFile("started");
  kill(*program, SIGKILL);
  Finish(program);
  EXPECT_TRUE(BecomesUnlocked("lock"));
}

TEST_F(VmAgent, KillsWhatAProgramLeavesBehind) {
  absl::StatusOr<pid_t> program = Start("exec 9>$DIR/lock; flock 9; setsid sleep 1000 & exit 4");
  EXPECT_EQ(ExitStatusOf(Finish(program)), 4);
  EXPECT_TRUE(BecomesUnlocked("lock"));
}

TEST_F(VmAgent, ReportsAProgramThatItCannotStart) {
  const absl::StatusOr<pid_t> missing =
      Spawn({.file = "/no/program", .argv = {"program"}, .place = place_});
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/no/program"));
  const absl::StatusOr<pid_t> data =
      Spawn({.file = "/etc/passwd", .argv = {"passwd"}, .place = place_});
  EXPECT_EQ(data.status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(VmAgent, RejectsRequestsWithoutItsKey) {
  std::ofstream(directory_.File("other key")) << "guess\n";
  place_.agent_key_file = directory_.File("other key");
  const absl::StatusOr<pid_t> program = Start("touch $DIR/started");
  EXPECT_EQ(program.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_NE(access(directory_.File("started").c_str(), F_OK), 0);
}

TEST_F(VmAgent, ReportsAnAgentThatDoesNotReply) {
  place_.agent_port = FreePort("127.0.0.1").value();
  EXPECT_THAT(std::string(Start("true").status().message()),
              HasSubstr("/bin/sh: its virtual machine does not reply; restart the lab"));
}

TEST_F(VmAgent, RunsSeveralProgramsAtOnce) {
  absl::StatusOr<pid_t> first =
      Start("touch $DIR/first; until [ -e $DIR/second ]; do sleep 0.01; done");
  AwaitFile("first");
  EXPECT_EQ(ExitStatusOf(Finish(Start("touch $DIR/second"))), 0);
  EXPECT_EQ(ExitStatusOf(Finish(first)), 0);
}

}  // namespace vm_agent_test
}  // namespace mccs::lab
