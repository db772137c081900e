#include "lab/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/unit/eventually.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace supervisor_test {

using testing::EndsWith;
using testing::HasSubstr;

// True if the process has ended, reaped or not.
bool HasEnded(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string id, name, state;
  return !(file >> id >> name >> state) || state == "Z" || state == "X";
}

pid_t ParentOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string id, name, state;
  pid_t parent = 0;
  file >> id >> name >> state >> parent;
  return parent;
}

class SupervisorTest : public testing::Test {
 protected:
  LabPlan Plan(Environment environment = {}) {
    return {.name = "t",
            .hosts = PlainHosts(2, 2),
            .products = {.lab = "",
                         .mccsd = FAKE_DAEMON,
                         .controller = FAKE_DAEMON,
                         .mccsctl = "",
                         .preload = {}},
            .environment = std::move(environment),
            .network = {},
            .stop_grace_ns = 200 * kNsPerMs};
  }

  // Starts a lab and returns the pids of all its processes.
  std::vector<pid_t> Start(Environment environment = {}) {
    absl::Status status = StartLab(Plan(std::move(environment)), directories_);
    EXPECT_TRUE(status.ok()) << status;
    absl::StatusOr<LabState> state = ReadState(paths_);
    EXPECT_TRUE(state.ok()) << state.status();
    EXPECT_TRUE(state->ready);
    supervisor_ = state->supervisor_pid;
    launcher_ = ParentOf(state->daemons.front().pid);
    std::vector<pid_t> processes = {supervisor_, launcher_};
    for (const DaemonState& daemon : state->daemons) processes.push_back(daemon.pid);
    return processes;
  }

  void ExpectNothingLeft(const std::vector<pid_t>& processes) {
    for (pid_t process : processes) {
      EXPECT_TRUE(Eventually([&] { return HasEnded(process); })) << process;
    }
    EXPECT_FALSE(directories_.IsLocked("t").value());
    EXPECT_TRUE(std::filesystem::is_empty(directory_.path()));
  }

  TemporaryDirectory directory_;
  LabDirectories directories_{directory_.path()};
  LabPaths paths_ = directories_.PathsOf("t");
  pid_t supervisor_ = 0;
  pid_t launcher_ = 0;
};

TEST_F(SupervisorTest, ALabThatIsStartingEndsWithTheProgramThatStartsIt) {
  const pid_t up = fork();
  if (up == 0) {
    StartLab(Plan({"FAKE_NEVER_READY=h0"}), directories_).IgnoreError();
    _exit(0);
  }
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(paths_.Log("h0")); }));
  kill(up, SIGKILL);
  waitpid(up, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(paths_.root); }));
}

TEST_F(SupervisorTest, DownLeavesNothing) {
  std::vector<pid_t> processes = Start();
  EXPECT_EQ(processes.size(), 5u);
  EXPECT_TRUE(StopLab("t", directories_).ok());
  ExpectNothingLeft(processes);
  EXPECT_EQ(StopLab("t", directories_).code(), absl::StatusCode::kNotFound);
}

TEST_F(SupervisorTest, AppendsMccsdConfigToEachConfiguration) {
  LabPlan plan = Plan();
  plan.mccsd_config = "lanes:\n  channels: 3\n";
  ASSERT_TRUE(StartLab(plan, directories_).ok());
  for (const char* host : {"h0", "h1"}) {
    std::ifstream file(paths_.Config(host));
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(text, EndsWith("\nlanes:\n  channels: 3\n"));
  }
  EXPECT_TRUE(StopLab("t", directories_).ok());
}

TEST_F(SupervisorTest, ADaemonThatIgnoresSigtermIsKilled) {
  std::vector<pid_t> processes = Start({"FAKE_IGNORES_SIGTERM=h1"});
  EXPECT_TRUE(StopLab("t", directories_).ok());
  ExpectNothingLeft(processes);
}

TEST_F(SupervisorTest, KillingTheSupervisorLeavesNothing) {
  std::vector<pid_t> processes = Start();
  kill(supervisor_, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(paths_.root); }));
  ExpectNothingLeft(processes);
}

TEST_F(SupervisorTest, KillingTheLauncherLeavesNothing) {
  std::vector<pid_t> processes = Start();
  kill(launcher_, SIGKILL);
  EXPECT_TRUE(Eventually([&] { return !std::filesystem::exists(paths_.root); }));
  ExpectNothingLeft(processes);
}

TEST_F(SupervisorTest, KillingBothProcessesLeavesNoProcess) {
  std::vector<pid_t> processes = Start();
  kill(supervisor_, SIGSTOP);  // so that it cannot clean up before it is killed
  kill(launcher_, SIGKILL);
  kill(supervisor_, SIGKILL);
  ExpectNothingLeft(processes);
}

TEST_F(SupervisorTest, ReportsADaemonThatFailsToStart) {
  absl::Status status = StartLab(Plan({"FAKE_FAILS=h1"}), directories_);
  EXPECT_THAT(std::string(status.message()), HasSubstr("h1 exited with status 3"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("the fake h1"));
  ExpectNothingLeft({});
}

TEST_F(SupervisorTest, RecordsTheEndOfADaemonAndContinues) {
  std::vector<pid_t> processes = Start();
  absl::StatusOr<LabState> state = ReadState(paths_);
  ASSERT_TRUE(state.ok());
  kill(state->daemons[2].pid, SIGKILL);
  EXPECT_TRUE(
      Eventually([&] { return ReadState(paths_)->daemons[2].condition == "killed by signal 9"; }));
  EXPECT_EQ(ReadState(paths_)->daemons[1].condition, "ready");
  EXPECT_TRUE(StopLab("t", directories_).ok());
  ExpectNothingLeft(processes);
}

TEST_F(SupervisorTest, ASecondLabOfTheSameNameIsRejected) {
  std::vector<pid_t> processes = Start();
  EXPECT_THAT(std::string(StartLab(Plan(), directories_).message()), HasSubstr("already running"));
  EXPECT_TRUE(StopLab("t", directories_).ok());
  ExpectNothingLeft(processes);
}

}  // namespace supervisor_test
}  // namespace mccs::lab
