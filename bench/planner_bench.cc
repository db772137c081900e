// How long a plan takes: 10,000 flows on 768 GPUs from nothing, again when all is placed, and one
// job more. By switches' hash, and by rules.
//
//   planner_bench [--benchmark_filter=…]
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "bench/cluster_views.h"
#include "bench/paper_cluster.h"
#include "benchmark/benchmark.h"
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

// As many jobs as have kFlows flows, not placed yet.
ClusterView BusyCluster(SourcePortMapping::Kind mapping) {
  std::mt19937 random(kSeed);
  ClusterView view = ViewOf(PaperCluster(mapping));
  constexpr int kJobs = (kFlows + kHostsPerJob * kGpusPerHost - 1) / (kHostsPerJob * kGpusPerHost);
  for (uint64_t id = 1; id <= kJobs; ++id) view.communicators.push_back(RandomJob(id, random));
  return view;
}

// A planner as the controller makes one: with all that the view has.
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

// One after the other comes to the planner that has all the others.
void BM_OneJobMore(benchmark::State& state, SourcePortMapping::Kind mapping) {
  const ClusterView view = PlacedCluster(mapping);
  Planning planning(view);
  planning.Solve();
  std::mt19937 random(kSeed + 1);
  uint64_t id = view.communicators.size();
  const size_t before = planning.moved();
  for (auto _ : state) {
    state.PauseTiming();
    const CommunicatorView job = RandomJob(++id, random);
    state.ResumeTiming();
    planning.Add(job);
    benchmark::DoNotOptimize(planning.Solve());
  }
  state.counters["moved_each"] =
      static_cast<double>(planning.moved() - before) / static_cast<double>(state.iterations());
}

constexpr auto kHash = SourcePortMapping::Kind::kHash;
constexpr auto kRules = SourcePortMapping::Kind::kRules;
constexpr int kJobsMore = 32;

BENCHMARK_CAPTURE(BM_AllFlowsFromNothing, hash, kHash)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllFlowsFromNothing, rules, kRules)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllFlowsAgain, hash, kHash)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_AllFlowsAgain, rules, kRules)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_OneJobMore, hash, kHash)->Iterations(kJobsMore)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_OneJobMore, rules, kRules)
    ->Iterations(kJobsMore)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mccs

BENCHMARK_MAIN();
