// The cost of plans over many hosts: hops, the memory of the lanes that a daemon needs, with the
// lanes that mccsd has by default, and the processor time to build them: in parts, as the engine
// does, and together. Builds the plan of each host, or of some. Prints one JSON line.
//
//   plan_scale KIND ALGORITHM HOSTS [--ranks-per-host 1] [--every 1]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "algorithms/algorithm_choice.h"
#include "algorithms/build_plan.h"
#include "algorithms/plan.h"
#include "algorithms/program_lanes.h"
#include "base/units.h"
#include "service/config.h"

namespace mccs {
namespace {

// Slots of all incoming lanes, and staging memory of outgoing ones that need it.
uint64_t LaneMemoryBytes(const Plan& plan, const LaneShape& shape) {
  uint64_t bytes = 0;
  for (const Program& program : plan.programs) {
    const ProgramLanes lanes = LanesOf(program);
    bytes += lanes.receives.size() * shape.receive_bytes();
    bytes +=
        shape.staging_bytes() *
        static_cast<uint64_t>(std::ranges::count_if(
            lanes.sends, [&](const ProgramLanes::Lane& lane) { return Composes(program, lane); }));
  }
  return bytes;
}

double ThreadMs() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

// Measures the processor time of parts of work.
struct PartTimes {
  template <typename Part>
  auto Run(const Part& part) {
    const double begin = ThreadMs();
    auto result = part();
    const double took = ThreadMs() - begin;
    total_ms += took;
    longest_ms = std::max(longest_ms, took);
    return result;
  }
  double total_ms = 0;
  double longest_ms = 0;
};

struct Shape {
  int hosts = 0;
  int ranks_per_host = 1;
  int every = 1;  // hosts
};

// The choice of the algorithm, as for the first call of the kind.
PartTimes TimesOfChoice(OpKind kind, const Layout& layout, const ChannelOrders& orders,
                        const Config& config) {
  AlgorithmChooser chooser({.layout = layout,
                            .orders = orders,
                            .slot_bytes = config.lanes.slot_bytes,
                            .max_peers = layout.host_count()},
                           config.algorithms);
  PartTimes times;
  while (!chooser.IsPrepared(kind, 1)) times.Run([&] { return chooser.PrepareNext(kind); });
  return times;
}

int Measure(OpKind kind, Algorithm algorithm, const Shape& shape) {
  const Config config;
  Layout layout;
  std::vector<HostIndex> ring;
  for (int h = 0; h < shape.hosts; ++h) {
    std::vector<Rank>& ranks = layout.hosts.emplace_back();
    for (int r = 0; r < shape.ranks_per_host; ++r)
      ranks.push_back(Rank(h * shape.ranks_per_host + r));
    ring.push_back(HostIndex(h));
  }
  const ChannelOrders orders{.rings = {static_cast<size_t>(config.channels), ring}};
  int hops = 0;
  uint64_t bytes = 0;
  double longest_ms = 0;
  double longest_part_ms = 0;
  uint64_t most_parts = 0;
  for (int h = 0; h < shape.hosts; h += shape.every) {
    PartTimes times;
    auto build = times.Run([&] {
      return PlanBuild::Begin({.kind = kind, .algorithm = algorithm}, layout, orders, HostIndex(h));
    });
    if (!build.ok()) {
      std::cerr << "plan_scale: " << build.status() << "\n";
      return 1;
    }
    while (!build->done()) {
      const uint64_t parts = times.Run([&] {
        build->BuildNext();
        return build->last_parts();
      });
      most_parts = std::max(most_parts, parts);
    }
    const Plan plan = build->Take();
    for (const Program& program : plan.programs) hops = std::max(hops, program.hops);
    bytes = std::max(bytes, LaneMemoryBytes(plan, config.lanes));
    longest_ms = std::max(longest_ms, times.total_ms);
    longest_part_ms = std::max(longest_part_ms, times.longest_ms);
  }
  const PartTimes choice = TimesOfChoice(kind, layout, orders, config);
  std::printf(
      "{\"hosts\": %d, \"hops\": %d, \"lane_mib\": %.2f, \"longest_build_ms\": %.2f, "
      "\"longest_part_ms\": %.2f, \"most_parts\": %llu, \"choice_ms\": %.2f, "
      "\"longest_choice_part_ms\": %.2f}\n",
      shape.hosts, hops, static_cast<double>(bytes) / kMiB, longest_ms, longest_part_ms,
      static_cast<unsigned long long>(most_parts), choice.total_ms, choice.longest_ms);
  return 0;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  std::string kind_name, algorithm_name;
  mccs::Shape shape;
  CLI::App app{"Prints hops and lane memory of a plan over many hosts, and the time to build it."};
  app.add_option("kind", kind_name, "all_gather, all_to_all, …")->required();
  app.add_option("algorithm", algorithm_name, "ring, tree, direct, pat or grid")->required();
  app.add_option("hosts", shape.hosts)->required()->check(CLI::Range(2, mccs::kMaxHosts));
  app.add_option("--ranks-per-host", shape.ranks_per_host, "ranks of each host")
      ->check(CLI::Range(1, mccs::kMaxLocalRanks))
      ->capture_default_str();
  app.add_option("--every", shape.every, "builds the plan of every N-th host only")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (int k = 0; k < mccs::kOpKinds; ++k) {
    const auto kind = static_cast<mccs::OpKind>(k);
    if (mccs::Name(kind) != kind_name) continue;
    const auto algorithm = mccs::ParseAlgorithm(algorithm_name);
    if (algorithm.has_value()) return mccs::Measure(kind, *algorithm, shape);
  }
  std::cerr << "plan_scale: unknown kind or algorithm: " << kind_name << " " << algorithm_name
            << "; expected for example: all_gather pat\n";
  return 2;
}
