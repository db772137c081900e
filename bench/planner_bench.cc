// Measures planning of 10,000 flows on 768 GPUs: from scratch, again when all flows are placed, and
// with one job more or less. For source ports mapped by hash and by rules. First the planner alone,
// then the whole controller: from an agent's message to the proposal for the waiting communicator,
// and the Tick that moves other flows.
//
//   planner_bench [--benchmark_filter=…]
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "bench/cluster_views.h"
#include "benchmark/benchmark.h"
#include "controller/coordinator/coordinator.h"
#include "controller/coordinator/registration.h"
#include "controller/planning/planner.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/rings.h"
#include "controller/view/flow.h"

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
    strategy::Strategy frame =
        MakeFrame(job, LocalityRingOrder(view_, job), HostsOf(fabrics_, job), "fair_flow");
    MCCS_CHECK(planner_.Add(job, std::move(frame), {}).ok());
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

// The Policies: fair_flow for all communicators, the same except for one with
// locality_ring, or locality_ring for all.
enum class PolicyMix { kFairFlow, kOneRing, kRings };

std::string BusIdOf(int gpu) { return absl::StrCat("gpu", gpu); }

agent::v1::Announce AnnounceOf(const CommunicatorView& job) {
  agent::v1::Announce announce;
  announce.set_comm_id(job.id.value());
  announce.set_tenant(job.tenant);
  *announce.mutable_strategy() = job.strategy;
  announce.set_newest_epoch(job.strategy.epoch());
  for (size_t h = 0; h < job.hosts.size(); ++h) {
    announce.add_hosts(job.hosts[h]);
    for (const int gpu : job.gpus[h]) {
      cluster::Member* member = announce.add_members();
      member->set_rank(announce.members_size() - 1);
      member->set_host(job.hosts[h]);
      member->set_gpu(BusIdOf(gpu));
    }
  }
  return announce;
}

std::shared_ptr<const ObjectSet> ObjectsFor(std::shared_ptr<const Topology> topology,
                                            PolicyMix mix) {
  auto objects = std::make_shared<ObjectSet>();
  const auto add = [&](ObjectKind kind, const std::string& name, auto spec) {
    Object object;
    object.key = {kind, name};
    object.version = 1;
    object.spec = std::move(spec);
    objects->objects[object.key] = std::move(object);
  };
  const std::string name = topology->name();
  add(ObjectKind::kTopology, name, TopologySpec{.text = "", .topology = std::move(topology)});
  PolicySpec for_all, for_one;
  for_all.type = mix == PolicyMix::kRings ? PolicyKind::kLocalityRing : PolicyKind::kFairFlow;
  add(ObjectKind::kPolicy, "for-all", std::move(for_all));
  if (mix == PolicyMix::kOneRing) {
    for_one.type = PolicyKind::kLocalityRing;
    for_one.communicators = {FormatCommId(CommId(1))};
    add(ObjectKind::kPolicy, "for-one", std::move(for_one));
  }
  objects->revision = 1;
  return objects;
}

// The controller's pure planning function over a complete view, from scratch.
void BM_DecideFromScratch(benchmark::State& state, SourcePortMapping::Kind mapping,
                          PolicyMix mix = PolicyMix::kFairFlow) {
  const ClusterView view = BusyCluster(mapping);
  const auto objects = ObjectsFor(view.topologies.front(), mix);
  for (auto _ : state) benchmark::DoNotOptimize(Decide(*objects, view));
}

// A controller's coordinator with a fully loaded cluster: no network, and agents that accept
// proposals immediately.
class BusyController {
 public:
  // Plans until nothing changes.
  BusyController(SourcePortMapping::Kind mapping, PolicyMix mix) {
    const ClusterView view = BusyCluster(mapping);
    next_id_ = view.communicators.size() + 1;
    for (const HostView& host : view.hosts) Register(host);
    coordinator_.SetObjects(ObjectsFor(view.topologies.front(), mix));
    coordinator_.TakeOutbox();
    for (const CommunicatorView& job : view.communicators) Announce(job, /*running=*/true);
    do {
      Tick();
    } while (AcceptProposals() > 0);
  }

  CommunicatorView NextJob() { return RandomJob(next_id_++, random_); }
  // A running job.
  CommId AnyJob() {
    const auto& all = coordinator_.registry().communicators();
    return std::next(all.begin(), static_cast<std::ptrdiff_t>(random_() % all.size()))->first;
  }

  // Sends an agent's message: `job` waits for its strategy.
  void ReportWaiting(const CommunicatorView& job) { Announce(job, /*running=*/false); }
  // Sends an agent's message: communicator `id` has ended.
  void ReportEnd(CommId id) {
    const std::string leader = coordinator_.registry().communicators().at(id).leader;
    agent::v1::FromAgent message;
    message.mutable_ended()->set_comm_id(id.value());
    coordinator_.Handle(AgentOf(leader), message);
  }
  // The periodic call that replans other communicators.
  void Tick() { coordinator_.Tick(); }
  // Accepts all proposals on behalf of the agents. Returns their number.
  int AcceptProposals() {
    int proposals = 0;
    for (const Outgoing& out : coordinator_.TakeOutbox()) {
      if (!out.message || !out.message->has_propose()) continue;
      ++proposals;
      const agent::v1::Propose& propose = out.message->propose();
      const CommunicatorRecord& record =
          coordinator_.registry().communicators().at(CommId(propose.comm_id()));
      agent::v1::FromAgent message;
      *message.mutable_announce() = record.announced;
      message.mutable_announce()->set_running(true);
      *message.mutable_announce()->mutable_strategy() = propose.strategy();
      message.mutable_announce()->set_newest_epoch(propose.strategy().epoch());
      coordinator_.Handle(AgentOf(record.leader), message);
    }
    return proposals;
  }

 private:
  struct StillClock final : Clock {
    MonotonicNs Now() const override { return kNsPerSec; }
  };

  // The agent of a host, numbered by the host's name: "h12".
  static AgentKey AgentOf(const std::string& host) {
    return AgentKey(std::strtoull(host.c_str() + 1, nullptr, 10) + 1);
  }

  void Register(const HostView& host) {
    agent::v1::FromAgent message;
    agent::v1::Register* registration = message.mutable_registration();
    registration->set_protocol(kAgentProtocol);
    agent::v1::Host* out = registration->mutable_host();
    out->set_name(host.position.host);
    out->set_peer_endpoint(absl::StrCat(host.peer_address, ":", host.peer_port));
    for (int gpu = 0; gpu < host.gpus; ++gpu) {
      agent::v1::Gpu* each = out->add_gpus();
      each->set_index(gpu);
      each->set_bus_id(BusIdOf(gpu));
    }
    for (const NicView& nic : host.nics) {
      agent::v1::Nic* each = out->add_nics();
      each->set_name(nic.name);
      for (const std::string& address : nic.addresses) each->add_addresses(address);
    }
    coordinator_.Handle(AgentOf(host.position.host), message);
  }

  void Announce(const CommunicatorView& job, bool running) {
    agent::v1::FromAgent message;
    *message.mutable_announce() = AnnounceOf(job);
    message.mutable_announce()->set_running(running);
    coordinator_.Handle(AgentOf(job.hosts.front()), message);
  }

  std::mt19937 random_{kSeed + 1};
  uint64_t next_id_ = 0;
  const StillClock clock_;
  const std::unique_ptr<Log> log_ = MakeNullLog();
  Coordinator coordinator_{{.version = "bench"}, &clock_, log_.get()};
};

// Until the new job's strategy is sent.
void BM_ControllerPlansNewJob(benchmark::State& state, SourcePortMapping::Kind mapping,
                              PolicyMix mix = PolicyMix::kFairFlow) {
  BusyController controller(mapping, mix);
  for (auto _ : state) {
    state.PauseTiming();
    const CommunicatorView job = controller.NextJob();
    state.ResumeTiming();
    controller.ReportWaiting(job);
    state.PauseTiming();
    MCCS_CHECK(controller.AcceptProposals() == 1);
    controller.Tick();
    controller.AcceptProposals();
    state.ResumeTiming();
  }
}

// The Tick that sends changes to other communicators, after the messages of `prepare`.
template <typename Prepare>
void MeasureTicks(benchmark::State& state, SourcePortMapping::Kind mapping, PolicyMix mix,
                  const Prepare& prepare) {
  BusyController controller(mapping, mix);
  int proposals = 0;
  for (auto _ : state) {
    state.PauseTiming();
    prepare(controller);
    state.ResumeTiming();
    controller.Tick();
    state.PauseTiming();
    proposals += controller.AcceptProposals();
    state.ResumeTiming();
  }
  state.counters["proposals_each"] =
      benchmark::Counter(proposals, benchmark::Counter::kAvgIterations);
}

// After the strategy for a new job.
void BM_ControllerMovesOtherJobs(benchmark::State& state, SourcePortMapping::Kind mapping,
                                 PolicyMix mix = PolicyMix::kFairFlow) {
  MeasureTicks(state, mapping, mix, [](BusyController& controller) {
    controller.ReportWaiting(controller.NextJob());
    controller.AcceptProposals();
  });
}

// After a job's end.
void BM_ControllerPlansEndOfJob(benchmark::State& state, SourcePortMapping::Kind mapping,
                                PolicyMix mix = PolicyMix::kFairFlow) {
  MeasureTicks(state, mapping, mix,
               [](BusyController& controller) { controller.ReportEnd(controller.AnyJob()); });
}

constexpr auto kHash = SourcePortMapping::Kind::kHash;
constexpr auto kRules = SourcePortMapping::Kind::kRules;
constexpr int kJobsMore = 32;

#define MCCS_BENCHMARK(name, ...) \
  BENCHMARK_CAPTURE(name, __VA_ARGS__)->Unit(benchmark::kMillisecond)
#define MCCS_JOB_BENCHMARK(name)                                                     \
  MCCS_BENCHMARK(name, hash, kHash)->Iterations(kJobsMore);                          \
  MCCS_BENCHMARK(name, rules, kRules)->Iterations(kJobsMore);                        \
  MCCS_BENCHMARK(name, one_ring, kHash, PolicyMix::kOneRing)->Iterations(kJobsMore); \
  MCCS_BENCHMARK(name, rings, kHash, PolicyMix::kRings)->Iterations(kJobsMore)

MCCS_BENCHMARK(BM_AllFlowsFromNothing, hash, kHash);
MCCS_BENCHMARK(BM_AllFlowsFromNothing, rules, kRules);
MCCS_BENCHMARK(BM_AllFlowsAgain, hash, kHash);
MCCS_BENCHMARK(BM_AllFlowsAgain, rules, kRules);
MCCS_BENCHMARK(BM_DecideFromScratch, hash, kHash);
MCCS_BENCHMARK(BM_DecideFromScratch, rules, kRules);
MCCS_BENCHMARK(BM_DecideFromScratch, rings, kHash, PolicyMix::kRings);
MCCS_JOB_BENCHMARK(BM_ControllerPlansNewJob);
MCCS_JOB_BENCHMARK(BM_ControllerMovesOtherJobs);
MCCS_JOB_BENCHMARK(BM_ControllerPlansEndOfJob);

}  // namespace
}  // namespace mccs

BENCHMARK_MAIN();
