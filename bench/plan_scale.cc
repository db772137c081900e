// The cost of plans over many hosts: hops, and the memory of the lanes that a daemon needs, with
// the lanes that mccsd has by default. Builds the plan of each host. Prints one JSON line.
//
//   plan_scale KIND ALGORITHM HOSTS
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/plan.h"
#include "algorithms/program_lanes.h"
#include "base/units.h"
#include "service/config.h"

namespace mccs {
namespace {

// Slots of all incoming lanes, and staging memory of outgoing ones that need it.
uint64_t LaneMemoryBytes(const Plan& plan, const LaneShape& shape) {
  uint64_t areas = 0;
  for (const Program& program : plan.programs) {
    const ProgramLanes lanes = LanesOf(program);
    areas += lanes.receives.size();
    areas += static_cast<uint64_t>(std::ranges::count_if(
        lanes.sends, [&](const ProgramLanes::Lane& lane) { return Composes(program, lane); }));
  }
  return areas * shape.slots * shape.slot_bytes;
}

int Measure(OpKind kind, Algorithm algorithm, int hosts) {
  const Config config;
  Layout layout;
  std::vector<HostIndex> ring;
  for (int h = 0; h < hosts; ++h) {
    layout.hosts.push_back({Rank(h)});
    ring.push_back(HostIndex(h));
  }
  const ChannelOrders orders{.rings = {static_cast<size_t>(config.channels), ring}};
  int hops = 0;
  uint64_t bytes = 0;
  double longest_ms = 0;
  for (int h = 0; h < hosts; ++h) {
    const auto begin = std::chrono::steady_clock::now();
    const auto plan =
        BuildPlan({.kind = kind, .algorithm = algorithm}, layout, orders, HostIndex(h));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    if (!plan.ok()) {
      std::cerr << "plan_scale: " << plan.status() << "\n";
      return 1;
    }
    for (const Program& program : plan->programs) hops = std::max(hops, program.hops);
    bytes = std::max(bytes, LaneMemoryBytes(*plan, config.lanes));
    longest_ms = std::max(longest_ms, took.count());
  }
  std::printf("{\"hosts\": %d, \"hops\": %d, \"lane_mib\": %.2f, \"longest_build_ms\": %.2f}\n",
              hosts, hops, static_cast<double>(bytes) / kMiB, longest_ms);
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  std::string kind_name, algorithm_name;
  int hosts = 0;
  CLI::App app{"Prints hops and lane memory of a plan over many hosts of one rank each."};
  app.add_option("kind", kind_name, "all_gather, all_to_all, …")->required();
  app.add_option("algorithm", algorithm_name, "ring, tree, direct, pat or grid")->required();
  app.add_option("hosts", hosts)->required()->check(CLI::Range(2, mccs::kMaxHosts));
  CLI11_PARSE(app, argc, argv);
  for (int k = 0; k < mccs::kOpKinds; ++k) {
    const auto kind = static_cast<mccs::OpKind>(k);
    if (mccs::Name(kind) != kind_name) continue;
    const auto algorithm = mccs::ParseAlgorithm(algorithm_name);
    if (algorithm.has_value()) return mccs::Measure(kind, *algorithm, hosts);
  }
  std::cerr << "plan_scale: unknown kind or algorithm: " << kind_name << " " << algorithm_name
            << "; expected for example: all_gather pat\n";
  return 2;
}
