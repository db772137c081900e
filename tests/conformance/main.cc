// conformance: checks that a library behaves as NCCL documents. See docs/reference/conformance.md.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "conformance/control_link.h"
#include "conformance/coordinator.h"
#include "conformance/library.h"
#include "conformance/options.h"
#include "conformance/rank_runner.h"
#include "conformance/test_table.h"
#include "cuda_runtime.h"
#include "rendezvous.h"

namespace conformance {
namespace {

struct Row {
  int passed = 0;
  int failed = 0;
  int skipped = 0;
  int not_run = 0;
  std::map<std::string, int> reasons;  // of skipped tests
};

const char* Label(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFailed:
      return "FAILED ";
    case Outcome::kSkipped:
      return "skipped";
    default:
      return "passed ";
  }
}

void PrintRow(const std::string& group, const Row& row) {
  std::printf("%-16s %7d %7d %8d", group.c_str(), row.passed, row.failed, row.skipped);
  if (row.not_run > 0) std::printf("  %d not run", row.not_run);
  std::printf("\n");
  for (const auto& [reason, times] : row.reasons) {
    std::printf("%-16s         skipped, %d: %s\n", "", times, reason.c_str());
  }
}

// The output for the user: a line for each failure, and a table by group at the end.
// THREAD: any, one at a time.
class Report {
 public:
  Report(const TestTable& tests, bool verbose) : tests_(tests), verbose_(verbose) {}

  void Record(size_t test, const Verdict& verdict);
  // Prints the table. Tests without a verdict were not run.
  void PrintTable() const;
  // Whether every test has a verdict and none failed.
  bool AllPassed() const;

 private:
  const TestTable& tests_;
  const bool verbose_;
  std::vector<Verdict> verdicts_;  // in the order of tests_
};

void Report::Record(size_t test, const Verdict& verdict) {
  verdicts_.push_back(verdict);
  if (!verbose_ && verdict.outcome != Outcome::kFailed) return;
  std::printf("%s %s (%.0f ms)%s%s\n", Label(verdict.outcome), tests_[test].FullName().c_str(),
              verdict.seconds * 1000, verdict.text.empty() ? "" : ": ", verdict.text.c_str());
  std::fflush(stdout);
}

void Report::PrintTable() const {
  std::vector<std::string> order;
  std::map<std::string, Row> rows;
  Row total;
  for (size_t i = 0; i < tests_.size(); ++i) {
    const std::string& group = tests_[i].group;
    if (std::find(order.begin(), order.end(), group) == order.end()) order.push_back(group);
    for (Row* row : {&rows[group], &total}) {
      if (i >= verdicts_.size()) {
        ++row->not_run;
      } else if (verdicts_[i].outcome == Outcome::kFailed) {
        ++row->failed;
      } else if (verdicts_[i].outcome == Outcome::kSkipped) {
        ++row->skipped;
        if (row != &total) ++row->reasons[verdicts_[i].text];
      } else {
        ++row->passed;
      }
    }
  }
  std::printf("\n%-16s %7s %7s %8s\n", "group", "passed", "failed", "skipped");
  for (const std::string& group : order) PrintRow(group, rows[group]);
  PrintRow("all", total);
  std::fflush(stdout);
}

bool Report::AllPassed() const {
  return verdicts_.size() == tests_.size() &&
         std::none_of(verdicts_.begin(), verdicts_.end(),
                      [](const Verdict& one) { return one.outcome == Outcome::kFailed; });
}

constexpr auto kWatchdogPause = std::chrono::milliseconds(200);
// Time for a test's limit to expire, the watchdog and the cleanup.
constexpr auto kCoordinatorGrace = std::chrono::seconds(15);

std::vector<Self> RanksHere(const JobPlace& place, const Options& options) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::fprintf(stderr,
                 "conformance: no GPU found; on a machine without GPUs start it with "
                 "mccs-lab run\n");
    std::exit(1);
  }
  const bool launched = std::getenv("WORLD_SIZE") != nullptr;
  const int here = options.gpus_per_process > 0 ? options.gpus_per_process : launched ? 1 : devices;
  std::vector<Self> ranks;
  for (int i = 0; i < here; ++i) {
    Self self;
    self.rank = place.rank * here + i;
    self.size = place.world_size * here;
    self.local_rank = place.local_rank * here + i;
    // A launcher may use CUDA_VISIBLE_DEVICES to let each process see only its own GPU.
    self.device = devices > here ? self.local_rank % devices : i % devices;
    self.process = place.rank;
    self.is_host_leader = self.local_rank == 0;
    self.visible_devices = devices;
    self.beyond_nccl = options.beyond_nccl == BeyondNccl::kAuto
                           ? LibraryIsPreloaded()
                           : options.beyond_nccl == BeyondNccl::kOn;
    ranks.push_back(self);
  }
  return ranks;
}

void PrintHeading(const Self& self, const TestTable& tests, int processes) {
  std::printf("conformance: NCCL %s (%s), %d ranks in %d processes, %zu tests\n",
              LibraryVersion().c_str(), LibraryPath().c_str(), self.size, processes, tests.size());
  std::fflush(stdout);
}

// Rank 0's side. LIFETIME: `report` outlives it.
std::unique_ptr<Coordinator> Coordinate(int listener, int ranks, std::chrono::seconds limit,
                                        size_t tests, Report* report) {
  Coordinator::Events events;
  events.finished = [report](size_t test, const Verdict& verdict) {
    report->Record(test, verdict);
  };
  events.broken = [report](size_t test, const std::string& why) {
    report->Record(test, {Outcome::kFailed, why, 0});
    report->PrintTable();
    // A thread is blocked in a call and cannot be joined.
    std::_Exit(1);
  };
  return std::make_unique<Coordinator>(
      listener, Coordinator::Options{ranks, tests, limit + kCoordinatorGrace}, std::move(events));
}

void RunRanks(const std::vector<Self>& ranks, const JobPlace& place, const TestTable& tests,
              std::chrono::seconds limit) {
  std::vector<std::unique_ptr<RankRunner>> runners;
  for (const Self& self : ranks) {
    runners.push_back(std::make_unique<RankRunner>(self, tests, limit));
  }
  std::jthread watchdog([&](std::stop_token stop) {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(kWatchdogPause);
      for (const auto& runner : runners) runner->AbortIfLate();
    }
  });
  std::vector<std::jthread> threads;
  for (const auto& runner : runners) {
    threads.emplace_back([&runner, &place] { runner->Run(place); });
  }
  threads.clear();
}

int Main(int argc, char** argv) {
  ParsedOptions parsed = ParseOptions(argc, argv);
  if (parsed.exit_status) return *parsed.exit_status;
  const Options& options = parsed.options;
  const TestTable tests = ChosenTests(options);
  if (options.list) {
    for (const TestCase& test : tests) std::printf("%s\n", test.FullName().c_str());
    return 0;
  }
  if (tests.empty()) {
    std::fprintf(stderr, "conformance: no test matches the filters; see conformance --list\n");
    return 1;
  }
  JobPlace place = ReadJobPlace();
  const std::vector<Self> ranks = RanksHere(place, options);
  Report report(tests, options.verbose);
  std::unique_ptr<Coordinator> coordinator;
  if (place.rank == 0) {
    PrintHeading(ranks.front(), tests, place.world_size);
    const int listener = ListenForRanks(&place);
    coordinator = Coordinate(listener, ranks.front().size, options.limit, tests.size(), &report);
  }
  RunRanks(ranks, place, tests, options.limit);
  if (place.rank != 0) return 0;  // rank 0 reports the result
  coordinator.reset();
  report.PrintTable();
  return report.AllPassed() ? 0 : 1;
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) { return conformance::Main(argc, argv); }
