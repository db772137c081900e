// Runs small all-reduces, each completed before the next one, in the deterministic simulator
// (tests/sim/sim_world.h). tests/instructions counts the instructions of the daemons' turns with
// valgrind's callgrind: unlike times, they are the same on a busy machine.
//
//   call_instructions CALLS [--hosts 1] [--ranks-per-host 2]
#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <vector>

#include "base/clock.h"
#include "tests/sim/sim_job.h"

namespace mccs {
namespace {

constexpr uint64_t kCount = 2;               // float32
constexpr int64_t kDelayNs = 20 * kNsPerUs;  // of every byte between hosts

// Returns whether all calls completed.
bool Run(int calls, int hosts, int ranks_per_host) {
  SimWorld world({.hosts = hosts, .network = {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs}});
  std::vector<int> host_of_rank;
  for (int h = 0; h < hosts; ++h) host_of_rank.insert(host_of_rank.end(), ranks_per_host, h);
  SimJob job(world, host_of_rank, kCount * sizeof(float));
  if (!job.Form()) return false;
  for (int i = 0; i < calls; ++i) {
    job.PostAll(OpKind::kAllReduce, kCount);
    if (!job.Complete()) return false;
  }
  return true;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  int calls = 0;
  int hosts = 1;
  int ranks_per_host = 2;
  CLI::App app{"Runs small all-reduces in the simulator, to count instructions with callgrind."};
  app.add_option("calls", calls, "number of calls")->required()->check(CLI::PositiveNumber);
  app.add_option("--hosts", hosts)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--ranks-per-host", ranks_per_host)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (mccs::Run(calls, hosts, ranks_per_host)) return 0;
  std::cerr << "call_instructions: a call did not complete\n";
  return 1;
}
