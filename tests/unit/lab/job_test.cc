#include "lab/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "absl/strings/str_cat.h"
#include "lab/child_processes.h"
#include "tests/unit/temporary_directory.h"

namespace mccs::lab {
namespace job_test {

using testing::HasSubstr;

constexpr int64_t kShortGraceNs = 50 * kNsPerMs;
constexpr int64_t kTimeoutNs = 60 * kNsPerSec;

// Collects a job's output.
class Transcript {
 public:
  Transcript() : fd_(memfd_create("transcript", MFD_CLOEXEC)) {}
  int fd() const { return fd_.get(); }
  std::string Text() const {
    std::string text(lseek(fd_.get(), 0, SEEK_END), '\0');
    EXPECT_EQ(pread(fd_.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return text;
  }

 private:
  UniqueFd fd_;
};

struct Outcome {
  int exit_status;
  std::string output;
  std::string error;
};

// One shell script per rank.
Outcome RunScripts(const std::vector<std::string>& scripts, JobOptions options) {
  std::vector<JobProcess> processes;
  for (size_t rank = 0; rank < scripts.size(); ++rank) {
    processes.push_back({.label = absl::StrCat("rank ", rank),
                         .prefix = absl::StrCat("[", rank, "] "),
                         .spawn = {.file = "/bin/sh",
                                   .argv = {"sh", "-c", scripts[rank]},
                                   .environment = {"PATH=/bin:/usr/bin"}}});
  }
  Transcript output;
  Transcript error;
  options.output = output.fd();
  options.error = error.fd();
  absl::StatusOr<int> status = Job(options).Run(processes);
  EXPECT_TRUE(status.ok()) << status.status();
  return {status.value_or(-1), output.Text(), error.Text()};
}

TEST(Job, ReturnsZeroAndPrefixesLines) {
  Outcome outcome = RunScripts({"echo zero; echo oops >&2", "printf one"}, {});
  EXPECT_EQ(outcome.exit_status, 0);
  EXPECT_THAT(outcome.output, HasSubstr("[0] zero\n"));
  EXPECT_THAT(outcome.output, HasSubstr("[1] one\n"));
  EXPECT_EQ(outcome.error, "[0] oops\n");
}

TEST(Job, ReturnsTheFirstFailureAndLetsOthersFinish) {
  TemporaryDirectory directory;
  std::string fifo = directory.File("first-failed");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // Rank 1 continues only after rank 0 has ended.
  Outcome outcome = RunScripts({absl::StrCat("exec 3>", fifo, "; exit 7"),
                                absl::StrCat("read x <", fifo, "; sleep 0.1; echo done; exit 9")},
                               {.grace_ns = kTimeoutNs});
  EXPECT_EQ(outcome.exit_status, 7);
  EXPECT_EQ(outcome.output, "[1] done\n");
}

TEST(Job, TerminatesThenKillsProcessesAfterAFailure) {
  Outcome outcome = RunScripts({"exit 3", "trap 'echo told' TERM; while :; do sleep 0.01; done"},
                               {.grace_ns = kShortGraceNs});
  EXPECT_EQ(outcome.exit_status, 3);
  EXPECT_THAT(outcome.output, HasSubstr("[1] told\n"));
}

TEST(Job, DeathBySignalIsAStatusAbove128) {
  EXPECT_EQ(RunScripts({"kill -9 $$"}, {}).exit_status, 128 + SIGKILL);
}

TEST(Job, KillsRemainingDescendants) {
  TemporaryDirectory directory;
  std::string pid_file = directory.File("pid");
  Outcome outcome = RunScripts({absl::StrCat("setsid sleep 1000 & echo $! >", pid_file)}, {});
  EXPECT_EQ(outcome.exit_status, 0);
  pid_t left = 0;
  std::ifstream(pid_file) >> left;
  ASSERT_GT(left, 0);
  EXPECT_EQ(kill(left, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Job, ForwardsSignalsAndReturnsTheirStatus) {
  Outcome outcome = RunScripts(
      {"trap 'echo interrupted; exit 0' INT; kill -INT $PPID; while :; do sleep 0.01; done"},
      {.grace_ns = kTimeoutNs});
  EXPECT_EQ(outcome.exit_status, 128 + SIGINT);
  EXPECT_THAT(outcome.output, HasSubstr("[0] interrupted\n"));
}

TEST(Job, EndsWithTheLab) {
  absl::StatusOr<pid_t> supervisor = Spawn({.file = "/bin/sleep", .argv = {"sleep", "0.1"}});
  ASSERT_TRUE(supervisor.ok());
  Outcome outcome = RunScripts({"sleep 1000"}, {.grace_ns = kTimeoutNs, .supervisor = *supervisor});
  EXPECT_EQ(outcome.exit_status, 1);
}

TEST(Job, FailureToStartKillsStartedProcesses) {
  SpawnOptions good{.file = "/bin/sleep", .argv = {"sleep", "1000"}};
  SpawnOptions bad{.file = "/nowhere", .argv = {"nowhere"}};
  absl::StatusOr<int> status = Job({}).Run({{"rank 0", "", good}, {"rank 1", "", bad}});
  EXPECT_FALSE(status.ok());
  EXPECT_TRUE(ReapChildren().empty());
}

TEST(LinePrefixer, EachLineHasThePrefix) {
  LinePrefixer lines("[3] ");
  EXPECT_EQ(lines.Take("one\ntwo\n"), "[3] one\n[3] two\n");
  EXPECT_EQ(lines.Finish(), "");
}

TEST(LinePrefixer, JoinsPiecesOfALine) {
  LinePrefixer lines("[0] ");
  EXPECT_EQ(lines.Take("a"), "");
  EXPECT_EQ(lines.Take("b\n\nc"), "[0] ab\n[0] \n");
  EXPECT_EQ(lines.Finish(), "[0] c\n");
}

TEST(LinePrefixer, SplitsLongLines) {
  LinePrefixer lines(">");
  std::string out = lines.Take(std::string(2 * kMaxLineBytes + 1, 'x'));
  std::string part = ">" + std::string(kMaxLineBytes, 'x') + "\n";
  EXPECT_EQ(out, part + part);
  EXPECT_EQ(lines.Finish(), ">x\n");
}

using testing::ElementsAre;
using testing::HasSubstr;

// h0 with two GPUs, h1 with one, h2 with three.
LabState Uneven() {
  LabState lab;
  lab.name = "a";
  lab.daemons = {{"controller", "", 1, "ready", "", 0},
                 {"h0", "", 1, "ready", "", 2},
                 {"h1", "", 1, "ready", "", 1},
                 {"h2", "", 1, "ready", "", 3}};
  return lab;
}

// "h0:0/2 h0:1/2": host, local rank, ranks on that host.
std::string Placed(const LabState& lab, const PlacementOptions& options) {
  absl::StatusOr<std::vector<PlacedRank>> placed = PlaceRanks(lab, options);
  if (!placed.ok()) return std::string(placed.status().message());
  std::string text;
  for (const PlacedRank& rank : *placed) {
    absl::StrAppend(&text, text.empty() ? "" : " ", rank.host->name, ":", rank.local_rank, "/",
                    rank.local_world_size);
  }
  return text;
}

TEST(Placement, OneRankForEachGpu) {
  EXPECT_EQ(Placed(Uneven(), {}), "h0:0/2 h0:1/2 h1:0/1 h2:0/3 h2:1/3 h2:2/3");
}

TEST(Placement, FewerRanksFillTheFirstHosts) {
  EXPECT_EQ(Placed(Uneven(), {.ranks = 4, .ranks_per_host = 0, .hosts = {}}),
            "h0:0/2 h0:1/2 h1:0/1 h2:0/1");
  EXPECT_EQ(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 1, .hosts = {}}),
            "h0:0/1 h1:0/1 h2:0/1");
}

TEST(Placement, UsesChosenHostsInOrder) {
  EXPECT_EQ(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 0, .hosts = {"h2", "h0"}}),
            "h2:0/3 h2:1/3 h2:2/3 h0:0/2 h0:1/2");
}

TEST(Placement, HostsAreNumberedInTheOrderOfTheJob) {
  const LabState lab = Uneven();
  const absl::StatusOr<std::vector<PlacedRank>> placed =
      PlaceRanks(lab, {.ranks = 4, .ranks_per_host = 0, .hosts = {"h2", "h0"}});
  ASSERT_TRUE(placed.ok()) << placed.status();
  std::vector<int32_t> indices;
  for (const PlacedRank& rank : *placed) indices.push_back(rank.host_index);
  EXPECT_THAT(indices, ElementsAre(0, 0, 0, 1));
}

TEST(Placement, RejectsTooManyRanks) {
  EXPECT_THAT(Placed(Uneven(), {.ranks = 7, .ranks_per_host = 0, .hosts = {}}),
              HasSubstr("--ranks 7: 3 hosts take at most 6"));
  EXPECT_THAT(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 2, .hosts = {}}),
              HasSubstr("--ranks-per-host 2: h1 has 1 GPU"));
  EXPECT_THAT(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 0, .hosts = {"h7"}}),
              HasSubstr("'h7'"));
  EXPECT_THAT(Placed(Uneven(), {.ranks = 0, .ranks_per_host = 0, .hosts = {"h0", "h0"}}),
              HasSubstr("twice"));
}

}  // namespace job_test
}  // namespace mccs::lab
