// Measures the formation of a communicator on many simulated hosts (tests/sim/sim_world.h): from
// the first join until all ranks are initialised, with the production daemons in one thread. Prints
// a JSON line for each number of hosts.
//
//   forming_scale [--hosts 128 256 512 1024] [--ranks-per-host 8] [--channels 2] [--jitter 0]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "tests/sim/sim_world.h"

namespace mccs {
namespace {

constexpr int64_t kDelayNs = 20 * kNsPerUs;
constexpr int64_t kLimitNs = 60 * kNsPerSec;

struct Shape {
  int ranks_per_host = 8;
  int channels = 2;
  int jitter_us = 0;
};

double Milliseconds(int64_t ns) { return static_cast<double>(ns) / kNsPerMs; }

// The rendezvous and the leader are on host 0.
bool Measure(int hosts, const Shape& shape) {
  const auto [ranks_per_host, channels, jitter_us] = shape;
  SimWorld world({.hosts = hosts,
                  .channels = channels,
                  .lanes = {.slots = 2, .slot_bytes = 16u << 10},
                  .network = {.min_delay_ns = kDelayNs,
                              .max_delay_ns = kDelayNs + jitter_us * kNsPerUs,
                              .max_portion_bytes = 1u << 20,
                              .buffer_bytes = 256u << 10},
                  .measures_turns = true});
  std::vector<SimTenant*> tenants;
  for (int h = 0; h < hosts; ++h) tenants.push_back(&world.AddTenant(h));
  if (!world.GetUniqueId(*tenants[0])) return false;
  const wire::UniqueId id = tenants[0]->unique_id();
  std::vector<int64_t> before_ns;
  for (int h = 0; h < hosts; ++h) before_ns.push_back(world.host(h).turns_ns());
  const MonotonicNs begin = world.clock().Now();
  std::vector<SimRank*> ranks;
  for (int r = 0; r < hosts * ranks_per_host; ++r) {
    ranks.push_back(
        &tenants[static_cast<size_t>(r / ranks_per_host)]->Init(id, hosts * ranks_per_host, r));
  }
  size_t formed = 0;
  const bool all = world.RunUntil(
      [&] {
        while (formed < ranks.size() && ranks[formed]->answered) ++formed;
        return formed == ranks.size();
      },
      kLimitNs);
  const auto failed = std::find_if(ranks.begin(), ranks.end(), [](const SimRank* rank) {
    return !rank->answered || rank->status.error != wire::ErrorClass::kNone;
  });
  if (!all || failed != ranks.end()) {
    std::cerr << "forming_scale: " << hosts << " hosts: rank " << failed - ranks.begin()
              << " is not initialised: " << (failed != ranks.end() ? (*failed)->status.text : "")
              << "\n";
    return false;
  }
  int64_t most_ns = 0, longest_turn_ns = 0;
  uint64_t most_bytes = 0;
  for (int h = 1; h < hosts; ++h) {
    SimHost& host = world.host(h);
    most_ns = std::max(most_ns, host.turns_ns() - before_ns[static_cast<size_t>(h)]);
    longest_turn_ns = std::max(longest_turn_ns, host.longest_turn_ns());
    most_bytes = std::max(most_bytes, world.network().bytes_written(host.address()));
  }
  SimHost& leader = world.host(0);
  std::printf(
      "{\"hosts\": %d, \"ranks\": %zu, \"channels\": %d, \"leader_cpu_ms\": %.1f, "
      "\"leader_longest_turn_ms\": %.2f, \"leader_sent_bytes\": %llu, \"member_cpu_ms\": %.1f, "
      "\"member_longest_turn_ms\": %.2f, \"member_sent_bytes\": %llu, \"simulated_ms\": %.1f}\n",
      hosts, ranks.size(), channels, Milliseconds(leader.turns_ns() - before_ns[0]),
      Milliseconds(leader.longest_turn_ns()),
      static_cast<unsigned long long>(world.network().bytes_written(leader.address())),
      Milliseconds(most_ns), Milliseconds(longest_turn_ns),
      static_cast<unsigned long long>(most_bytes), Milliseconds(world.clock().Now() - begin));
  std::fflush(stdout);
  return true;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  std::vector<int> hosts = {128, 256, 512, 1024};
  mccs::Shape shape;
  CLI::App app{
      "Measures the formation of a communicator on simulated hosts. Prints a JSON line for each "
      "number of hosts: processor time, longest turn and bytes sent, of the leader and of the "
      "member that has most."};
  app.add_option("--hosts", hosts, "numbers of hosts")->capture_default_str();
  app.add_option("--ranks-per-host", shape.ranks_per_host, "ranks of each host")
      ->capture_default_str();
  app.add_option("--channels", shape.channels, "channels of the default strategy")
      ->capture_default_str();
  app.add_option("--jitter", shape.jitter_us,
                 "microseconds by which delays of the network vary; 0: all hosts act at the same "
                 "times, so that few turns handle many messages")
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  for (const int each : hosts) {
    if (!mccs::Measure(each, shape)) return 1;
  }
  return 0;
}
