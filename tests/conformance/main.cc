// conformance: checks that a library behaves as NCCL documents. See docs/reference/conformance.md.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/control_link.h"
#include "conformance/coordinator.h"
#include "conformance/library.h"
#include "conformance/options.h"
#include "conformance/rank_runner.h"
#include "conformance/report.h"
#include "conformance/test_table.h"
#include "cuda_runtime.h"
#include "rendezvous.h"

namespace conformance {
namespace {

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
