// Simulates policies on the cluster of "MCCS" (SIGCOMM 2024): 50 jobs on 768 GPUs, half of them
// with 16 GPUs and half with 32, each with an all-reduce of 100 MB. A flow model without packets:
//
// clang-format off
// - GPUs belong to one job at a time. Jobs are placed in order until the cluster is full; the rest
//   are placed on an empty cluster, and so on. All jobs of such a wave all-reduce repeatedly at the
//   same time.
// - Placement `random`: a job's GPUs are drawn from all free ones. `compact`: the free GPUs of one
//   host after the other, in the order of the racks, whole hosts first.
// - A job's channels are rings over its hosts, one for each NIC near one of its GPUs on the host
//   with most GPUs. Each ring carries an equal part of the data, 2 (H − 1) / H times around H hosts,
//   at the rate of its slowest link; rates are max-min fair. A job ends with its slowest ring.
//   Latency and work on hosts are ignored.
// - ECMP: source ports are random; each leaf hashes the flow's addresses and ports.
// clang-format on
//
// Arms: the library's ring over hosts in the order of randomly placed ranks with ECMP; the same
// with hosts in locality order; locality order with fair flow assignment. Each trial draws new
// random values.
//
//   policy_study [--trials 20] [--seed 1]      one JSON line for each figure
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "bench/cluster_views.h"
#include "controller/policy/flow_planner.h"
#include "controller/policy/rings.h"
#include "controller/policy/shares.h"
#include "controller/view/flow.h"
#include "topology/max_min_shares.h"

namespace mccs {
namespace {

constexpr int kJobs = 50;
constexpr double kBits = 8 * 100e6;
constexpr uint64_t kPortSeed = 1;

enum class Arm { kRandomOrderEcmp, kLocalityEcmp, kLocalityFairFlow };
constexpr std::array kArms = {Arm::kRandomOrderEcmp, Arm::kLocalityEcmp, Arm::kLocalityFairFlow};

enum class Placement { kRandom, kCompact };

struct Gpu {
  int host, index;
};

// GPUs without a job in this wave, grouped by host.
using Free = std::vector<Gpu>;

Free AllGpus() {
  Free all;
  for (int h = 0; h < kPaperHosts; ++h) {
    for (int g = 0; g < kGpusPerHost; ++g) all.push_back({h, g});
  }
  return all;
}

std::vector<Gpu> TakeRandom(Free* free, int count, std::mt19937& random) {
  std::vector<Gpu> taken;
  for (int i = 0; i < count; ++i) {
    const auto at = free->begin() + static_cast<int64_t>(random() % free->size());
    taken.push_back(*at);
    free->erase(at);
  }
  return taken;
}

std::vector<Gpu> TakeCompact(Free* free, int count) {
  std::vector<Gpu> taken(free->begin(), free->begin() + count);
  free->erase(free->begin(), free->begin() + count);
  return taken;
}

// Ranks have random numbers over the hosts.
CommunicatorView JobOn(uint64_t id, const std::vector<Gpu>& gpus, std::mt19937& random) {
  std::map<int, std::vector<int>> by_host;
  for (const Gpu& gpu : gpus) by_host[gpu.host].push_back(gpu.index);
  std::vector<int> hosts;
  for (const auto& [host, of_host] : by_host) hosts.push_back(host);
  std::shuffle(hosts.begin(), hosts.end(), random);
  std::vector<std::string> names;
  std::vector<std::vector<int>> indices;
  for (const int host : hosts) {
    names.push_back(absl::StrCat("h", host));
    indices.push_back(by_host[host]);
    std::sort(indices.back().begin(), indices.back().end());
  }
  return MakeJob(id, absl::StrCat("tenant", id), names, indices);
}

// The jobs, wave by wave.
std::vector<std::vector<CommunicatorView>> PlaceJobs(Placement placement, std::mt19937& random) {
  std::vector<int> sizes;
  for (int j = 0; j < kJobs; ++j) sizes.push_back(j % 2 == 0 ? 16 : 32);
  std::shuffle(sizes.begin(), sizes.end(), random);
  std::vector<std::vector<CommunicatorView>> waves(1);
  Free free = AllGpus();
  for (int j = 0; j < kJobs; ++j) {
    if (static_cast<int>(free.size()) < sizes[j]) {
      free = AllGpus();
      waves.emplace_back();
    }
    const std::vector<Gpu> gpus = placement == Placement::kRandom
                                      ? TakeRandom(&free, sizes[j], random)
                                      : TakeCompact(&free, sizes[j]);
    waves.back().push_back(JobOn(static_cast<uint64_t>(j) + 1, gpus, random));
  }
  return waves;
}

const char* NameOf(Arm arm) {
  switch (arm) {
    case Arm::kRandomOrderEcmp:
      return "random order, ECMP";
    case Arm::kLocalityEcmp:
      return "locality order, ECMP";
    case Arm::kLocalityFairFlow:
      return "locality order, fair flow assignment";
  }
  return "";
}

void Decide(Arm arm, uint64_t seed, const Fabrics& fabrics, ClusterView* view) {
  SourcePorts taken;
  FlowPlanner planner(&fabrics, &taken);
  for (CommunicatorView& job : view->communicators) {
    const std::vector<HostIndex> order =
        arm == Arm::kRandomOrderEcmp ? RankRingOrder(job) : LocalityRingOrder(*view, job);
    strategy::Strategy frame = MakeFrame(job, order, HostsOf(fabrics, job), NameOf(arm));
    if (arm == Arm::kLocalityFairFlow) {
      MCCS_CHECK(planner.Add(job, std::move(frame), {}).ok());
      continue;
    }
    const auto ports =
        ChooseRingPorts(job, frame, {.ports = kDefaultSourcePorts, .seed = seed}, &taken);
    MCCS_CHECK(ports.ok());
    job.strategy = WithRingPorts(std::move(frame), *ports);
  }
  std::vector<FlowPlanner::Planned> planned = planner.Solve();
  for (size_t i = 0; i < planned.size(); ++i)
    view->communicators[i].strategy = std::move(planned[i].strategy);
}

// Seconds of an all-reduce, by job.
std::vector<double> Seconds(const ClusterView& view, const Fabrics& fabrics) {
  const AllShares shares = FindShares(view, fabrics);  // for the paths
  struct Ring {
    size_t job;
    int hosts, channels;
  };
  std::vector<Ring> rings;
  std::vector<FlowDemand> demands;  // one per ring: over all links of its lanes
  for (size_t j = 0; j < view.communicators.size(); ++j) {
    const strategy::Strategy& strategy = view.communicators[j].strategy;
    const size_t first = demands.size();
    for (const auto& channel : strategy.channels()) {
      rings.push_back({j, channel.ring_size(), strategy.channels_size()});
      demands.emplace_back();
    }
    for (const FlowShare& flow : shares.flows[j]) {
      Path& path = demands[first + flow.channel].path;
      path.insert(path.end(), flow.path.begin(), flow.path.end());
    }
  }
  const std::vector<double> capacity(fabrics.all()[0]->capacity_bps().begin(),
                                     fabrics.all()[0]->capacity_bps().end());
  const auto rates = MaxMinShares(capacity, demands);
  MCCS_CHECK(rates.ok());
  std::vector<double> seconds(view.communicators.size());
  for (size_t r = 0; r < rings.size(); ++r) {
    const Ring& ring = rings[r];
    const double bits = 2.0 * (ring.hosts - 1) / ring.hosts * kBits / ring.channels;
    seconds[ring.job] = std::max(seconds[ring.job], bits / (*rates)[r].rate_bps);
  }
  return seconds;
}

double Mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1))];
}

void Study(Placement placement, int trials, unsigned seed) {
  const auto topology = PaperCluster(SourcePortMapping::Kind::kHash);
  std::map<Arm, std::vector<double>> seconds;  // of all jobs of all trials, in the same order
  for (int trial = 0; trial < trials; ++trial) {
    std::mt19937 random(seed + static_cast<unsigned>(trial));
    for (const auto& wave : PlaceJobs(placement, random)) {
      ClusterView view = ViewOf(topology);
      const Fabrics fabrics(view);
      for (const Arm arm : kArms) {
        view.communicators = wave;
        Decide(arm, kPortSeed + static_cast<uint64_t>(trial), fabrics, &view);
        const std::vector<double> of_wave = Seconds(view, fabrics);
        seconds[arm].insert(seconds[arm].end(), of_wave.begin(), of_wave.end());
      }
    }
  }
  const char* name = placement == Placement::kRandom ? "random" : "compact";
  for (const Arm arm : kArms) {
    std::vector<double> faster;  // than in the first arm
    for (size_t j = 0; j < seconds[arm].size(); ++j) {
      if (seconds[arm][j] > 0) faster.push_back(seconds[kArms[0]][j] / seconds[arm][j]);
    }
    std::cout << "{\"figure\": \"policy_study\", \"placement\": \"" << name << "\", \"arm\": \""
              << NameOf(arm) << "\", \"trials\": " << trials << ", \"jobs\": " << faster.size()
              << ", \"mean_ms\": " << 1e3 * Mean(seconds[arm])
              << ", \"mean_speedup\": " << Mean(faster)
              << ", \"median_speedup\": " << Quantile(faster, 0.5)
              << ", \"ratio_of_mean_times\": " << Mean(seconds[kArms[0]]) / Mean(seconds[arm])
              << ", \"speedups\": [";
    for (int percent = 0; percent <= 100; ++percent)
      std::cout << (percent > 0 ? ", " : "") << Quantile(faster, percent / 100.0);
    std::cout << "]}\n";
  }
}

int Main(int argc, char** argv) {
  CLI::App app("Simulates policies on a cluster of 768 GPUs by a flow model");
  int trials = 20;
  unsigned seed = 1;
  app.add_option("--trials", trials, "number of random draws of placement, order and ports")
      ->check(CLI::PositiveNumber);
  app.add_option("--seed", seed, "seed of the first trial");
  CLI11_PARSE(app, argc, argv);
  Study(Placement::kRandom, trials, seed);
  Study(Placement::kCompact, trials, seed);
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) { return mccs::Main(argc, argv); }
