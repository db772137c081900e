// Benchmarks of topology/ as the planner uses it, on the paper's cluster of 768 GPUs (or another
// topology): paths, shares, and the map of source ports.
//
//   topology_bench [--benchmark_filter=…]      in the repository's root
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"
#include "topology/ecmp_paths.h"
#include "topology/linux_multipath_hash.h"
#include "topology/max_min_shares.h"
#include "topology/topology_reader.h"

namespace mccs {
namespace {

constexpr char kCluster[] = "examples/topologies/paper-cluster.yaml";
constexpr unsigned kSeed = 1;

std::string Text() {
  std::ifstream file(kCluster);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

const Topology& Cluster() {
  static const Topology* const topology = [] {
    auto read = ParseTopology(Text(), kCluster);
    if (!read.ok()) {
      std::cerr << read.status().message() << "\n";
      std::exit(1);
    }
    return new Topology(*std::move(read));
  }();
  return *topology;
}

std::vector<std::pair<NicId, NicId>> RandomPairs(const Topology& topology, size_t count) {
  std::mt19937 random(kSeed);
  const auto nics = static_cast<uint32_t>(topology.nics().size());
  const auto any = [&] { return NicId(static_cast<int32_t>(random() % nics)); };
  std::vector<std::pair<NicId, NicId>> pairs;
  while (pairs.size() < count) {
    const NicId from = any(), to = any();
    if (topology.nic(from).host != topology.nic(to).host) pairs.emplace_back(from, to);
  }
  return pairs;
}

// Iterates over each pair's paths, as a policy that searches for the least loaded one.
void BM_AllPathsOfFlows(benchmark::State& state) {
  const Topology& topology = Cluster();
  const auto pairs = RandomPairs(topology, static_cast<size_t>(state.range(0)));
  const std::vector<double> load = topology.ArcCapacities();
  EcmpPaths paths(topology);
  for (auto _ : state) {
    double sum = 0;
    for (const auto& [from, to] : pairs) {
      const PathSet set = paths.Between(from, to);
      for (int32_t p = 0; p < set.size(); ++p) {
        for (const ArcId arc : set.Fabric(PathIndex(p))) sum += load[arc.value()];
      }
    }
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(BM_AllPathsOfFlows)->Arg(10'000)->Unit(benchmark::kMillisecond);

// The planner's first use of a cluster, with empty caches.
void BM_FirstPathsBetweenAllLeaves(benchmark::State& state) {
  const Topology& topology = Cluster();
  const auto pairs = RandomPairs(topology, 10'000);
  for (auto _ : state) {
    EcmpPaths paths(topology);
    for (const auto& [from, to] : pairs) benchmark::DoNotOptimize(paths.Between(from, to));
  }
}
BENCHMARK(BM_FirstPathsBetweenAllLeaves)->Unit(benchmark::kMillisecond);

struct Mix {
  bool weights, demands, guarantees;
};

void BM_MaxMinShares(benchmark::State& state, Mix mix) {
  const Topology& topology = Cluster();
  std::mt19937 random(kSeed);
  EcmpPaths paths(topology);
  std::vector<FlowDemand> flows;
  for (const auto& [from, to] : RandomPairs(topology, static_cast<size_t>(state.range(0)))) {
    const PathSet set = paths.Between(from, to);
    FlowDemand flow;
    flow.path = set[PathIndex(static_cast<int32_t>(random() % set.size()))];
    if (mix.weights) flow.weight = 1 + random() % 4;
    if (mix.demands) flow.demand_bps = 1e9 * (1 + random() % 40);
    if (mix.guarantees && random() % 4 == 0) flow.guarantee_bps = 5e8;
    flows.push_back(flow);
  }
  const std::vector<double> capacity = topology.ArcCapacities();
  for (auto _ : state) {
    auto shares = MaxMinShares(capacity, flows);
    if (!shares.ok()) state.SkipWithError(std::string(shares.status().message()).c_str());
    benchmark::DoNotOptimize(shares);
  }
}
BENCHMARK_CAPTURE(BM_MaxMinShares, equal, Mix{false, false, false})
    ->Arg(1'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(BM_MaxMinShares, weights_demands_guarantees, Mix{true, true, true})
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);

// All candidate ports of one flow, 16 spines.
void BM_HashOfAllPorts(benchmark::State& state) {
  FiveTuple tuple = {.source_address = 0x0a000001,
                     .destination_address = 0x0a000101,
                     .protocol = kProtocolTcp,
                     .source_port = 0,
                     .destination_port = 7400};
  for (auto _ : state) {
    for (uint32_t port = 61000; port <= 65535; ++port) {
      tuple.source_port = static_cast<uint16_t>(port);
      benchmark::DoNotOptimize(LinuxNextHop(LinuxMultipathHash(tuple, kHashAllFields, 7), 16));
    }
  }
}
BENCHMARK(BM_HashOfAllPorts)->Unit(benchmark::kMillisecond);

void BM_ReadTopology(benchmark::State& state) {
  const std::string text = Text();
  for (auto _ : state) benchmark::DoNotOptimize(ParseTopology(text, kCluster));
}
BENCHMARK(BM_ReadTopology)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mccs

BENCHMARK_MAIN();
