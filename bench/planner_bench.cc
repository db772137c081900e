// Measures planning of 10,000 flows on 768 GPUs: from scratch, again when all flows are placed, and
// with one job more or less. For source ports mapped by hash and by rules. First the planner alone,
// then the whole controller: from an agent's message to the proposal for the waiting communicator,
// and the Tick that moves other flows.
//
//   planner_bench [--benchmark_filter=…]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "bench/busy_controller.h"
#include "bench/cluster_views.h"
#include "benchmark/benchmark.h"
#include "controller/planning/planner.h"
#include "controller/policy/fair_flow.h"
#include "controller/policy/flow_planner.h"

namespace mccs {
namespace {

constexpr unsigned kSeed = 1;
constexpr int kFlows = 10'000;
constexpr int kHostsPerJob = 4;  // 32 GPUs, and as many flows: four around each of eight rings
constexpr int kTenants = 20;

CommunicatorView RandomJob(uint64_t id, std::mt19937& random) {
  std::vector<int> all(kPaperHosts);
  std::iota(all.begin(), all.end(), 0);
  std::shuffle(all.begin(), all.end(), random);
  std::vector<std::string> hosts;
  for (int i = 0; i < kHostsPerJob; ++i) hosts.push_back(absl::StrCat("h", all[i]));
  std::vector<int> gpus(kGpusPerHost);
  std::iota(gpus.begin(), gpus.end(), 0);
  return MakeJob(id, absl::StrCat("tenant", random() % kTenants), hosts,
                 std::vector<std::vector<int>>(kHostsPerJob, gpus));
}

// Jobs with kFlows flows in total, not placed yet.
ClusterView BusyCluster(SourcePortMapping::Kind mapping) {
  std::mt19937 random(kSeed);
  ClusterView view = ViewOf(PaperCluster(mapping));
  constexpr int kJobs = (kFlows + kHostsPerJob * kGpusPerHost - 1) / (kHostsPerJob * kGpusPerHost);
  for (uint64_t id = 1; id <= kJobs; ++id) view.communicators.push_back(RandomJob(id, random));
  return view;
}

// A planner as the controller creates it, with all data of the view.
class Planning {
 public:
  explicit Planning(const ClusterView& view) : view_(view), fabrics_(view) {
    for (const CommunicatorView& job : view.communicators) taken_.TakeAll(job);
    for (const CommunicatorView& job : view.communicators) Add(job);
  }

  void Add(const CommunicatorView& job) {
    MCCS_CHECK(AddFairFlow(view_, fabrics_, job, {}, &planner_).ok());
  }
  std::vector<FlowPlanner::Planned> Solve() { return planner_.Solve(); }
  size_t moved() const { return planner_.moved(); }

 private:
  const ClusterView& view_;
  const Fabrics fabrics_;
  SourcePorts taken_;
  FlowPlanner planner_{&fabrics_, &taken_};
};

ClusterView PlacedCluster(SourcePortMapping::Kind mapping) {
  ClusterView view = BusyCluster(mapping);
  std::vector<FlowPlanner::Planned> planned = Planning(view).Solve();
  for (size_t i = 0; i < planned.size(); ++i)
    view.communicators[i].strategy = std::move(planned[i].strategy);
  return view;
}

void BM_AllFlowsFromNothing(benchmark::State& state, SourcePortMapping::Kind mapping) {
  const ClusterView view = BusyCluster(mapping);
  for (auto _ : state) benchmark::DoNotOptimize(Planning(view).Solve());
}

void BM_AllFlowsAgain(benchmark::State& state, SourcePortMapping::Kind mapping) {
  const ClusterView view = PlacedCluster(mapping);
  size_t moved = 0;
  for (auto _ : state) {
    Planning planning(view);
    benchmark::DoNotOptimize(planning.Solve());
    moved += planning.moved();
  }
  state.counters["moved"] = static_cast<double>(moved);
}

// The controller's pure planning function over a complete view, from scratch.
void BM_DecideFromScratch(benchmark::State& state, SourcePortMapping::Kind mapping) {
  const ClusterView view = BusyCluster(mapping);
  const auto objects = FairFlowObjects(view.topologies.front());
  for (auto _ : state) benchmark::DoNotOptimize(Decide(*objects, view));
}

class BusyCoordinator {
 public:
  explicit BusyCoordinator(SourcePortMapping::Kind mapping) {
    ClusterView view = BusyCluster(mapping);
    next_id_ = view.communicators.size() + 1;
    controller_ = std::make_unique<BusyController>(view);
    controller_->Start(view.communicators);
  }

  BusyController& operator*() { return *controller_; }
  BusyController* operator->() { return controller_.get(); }
  CommunicatorView NextJob() { return RandomJob(next_id_++, random_); }
  // A running job.
  CommId AnyJob() {
    const auto& all = controller_->coordinator().registry().communicators();
    return std::next(all.begin(), static_cast<std::ptrdiff_t>(random_() % all.size()))->first;
  }

 private:
  std::mt19937 random_{kSeed + 1};
  uint64_t next_id_ = 0;
  std::unique_ptr<BusyController> controller_;
};

// Until the new job's strategy is sent.
void BM_ControllerPlansNewJob(benchmark::State& state, SourcePortMapping::Kind mapping) {
  BusyCoordinator controller(mapping);
  for (auto _ : state) {
    state.PauseTiming();
    const CommunicatorView job = controller.NextJob();
    state.ResumeTiming();
    controller->ReportWaiting(job);
    state.PauseTiming();
    MCCS_CHECK(controller->AcceptProposals() == 1);
    controller->Tick();
    controller->AcceptProposals();
    state.ResumeTiming();
  }
}

// The Tick that sends changes to other communicators, after the messages of `prepare`.
template <typename Prepare>
void MeasureTicks(benchmark::State& state, SourcePortMapping::Kind mapping,
                  const Prepare& prepare) {
  BusyCoordinator controller(mapping);
  int proposals = 0;
  for (auto _ : state) {
    state.PauseTiming();
    prepare(controller);
    state.ResumeTiming();
    controller->Tick();
    state.PauseTiming();
    proposals += controller->AcceptProposals();
    state.ResumeTiming();
  }
  state.counters["proposals_each"] =
      benchmark::Counter(proposals, benchmark::Counter::kAvgIterations);
}

// After the strategy for a new job.
void BM_ControllerMovesOtherJobs(benchmark::State& state, SourcePortMapping::Kind mapping) {
  MeasureTicks(state, mapping, [](BusyCoordinator& controller) {
    controller->ReportWaiting(controller.NextJob());
    controller->AcceptProposals();
  });
}

// After a job's end.
void BM_ControllerPlansEndOfJob(benchmark::State& state, SourcePortMapping::Kind mapping) {
  MeasureTicks(state, mapping,
               [](BusyCoordinator& controller) { controller->ReportEnd(controller.AnyJob()); });
}

constexpr auto kHash = SourcePortMapping::Kind::kHash;
constexpr auto kRules = SourcePortMapping::Kind::kRules;
constexpr int kJobsMore = 32;

BENCHMARK_CAPTURE(BM_AllFlowsFromNothing, hash, kHash)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllFlowsFromNothing, rules, kRules)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllFlowsAgain, hash, kHash)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllFlowsAgain, rules, kRules)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_DecideFromScratch, hash, kHash)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_DecideFromScratch, rules, kRules)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ControllerPlansNewJob, hash, kHash)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ControllerPlansNewJob, rules, kRules)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ControllerMovesOtherJobs, hash, kHash)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ControllerMovesOtherJobs, rules, kRules)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ControllerPlansEndOfJob, hash, kHash)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_ControllerPlansEndOfJob, rules, kRules)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mccs

BENCHMARK_MAIN();
