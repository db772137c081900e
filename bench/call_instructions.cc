// Runs small collectives, or exchanges of small messages with a rank of the next host, on every
// communicator, each completed before the next one of its communicator, in the deterministic
// simulator (tests/sim/sim_world.h). tests/instructions counts the instructions of the daemons'
// turns with valgrind's callgrind: unlike times, they are the same on a busy machine.
//
//   call_instructions CALLS [--kind all_reduce] [--hosts 1] [--ranks-per-host 2] [--tenants 1]
//                     [--communicators 1] [--messages]
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <deque>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "algorithms/algorithm.h"
#include "base/clock.h"
#include "tests/sim/sim_job.h"

namespace mccs {
namespace {

constexpr uint64_t kCount = 2;               // float32
constexpr int64_t kDelayNs = 20 * kNsPerUs;  // of every byte between hosts

constexpr int64_t kLimitNs = 10 * kNsPerSec;  // of simulated time

struct Options {
  OpKind kind = OpKind::kAllReduce;
  int calls = 0;
  int hosts = 1;
  int ranks_per_host = 2;
  int tenants = 1;
  int communicators = 1;  // of each tenant
  bool messages = false;
};

// Every rank sends to and receives from the rank of the next and of the previous host, in one
// group.
void PostMessages(SimJob& job, const Options& options) {
  const int ranks = job.ranks();
  for (int r = 0; r < ranks; ++r) {
    const int to = (r + options.ranks_per_host) % ranks;
    const int from = (r + ranks - options.ranks_per_host) % ranks;
    job.Post(r, {.sends = true, .peer = to, .at = 0, .count = kCount, .more = true});
    job.Post(r, {.sends = false, .peer = from, .at = 0, .count = kCount});
  }
}

// Returns whether all calls completed.
bool Run(const Options& options) {
  SimWorld world(
      {.hosts = options.hosts, .network = {.min_delay_ns = kDelayNs, .max_delay_ns = kDelayNs}});
  std::vector<int> host_of_rank;
  for (int h = 0; h < options.hosts; ++h) {
    host_of_rank.insert(host_of_rank.end(), static_cast<size_t>(options.ranks_per_host), h);
  }
  std::deque<SimJob> jobs;
  for (int tenant = 0; tenant < options.tenants; ++tenant) {
    for (int i = 0; i < options.communicators; ++i) {
      jobs.emplace_back(world, host_of_rank, kCount * sizeof(float) * host_of_rank.size(),
                        "tenant " + std::to_string(tenant));
      if (!jobs.back().Form()) return false;
    }
  }
  for (int i = 0; i < options.calls; ++i) {
    for (SimJob& job : jobs) {
      if (options.messages) {
        PostMessages(job, options);
      } else {
        job.PostAll(options.kind, kCount);
      }
    }
    const bool complete = world.RunUntil(
        [&] { return std::ranges::all_of(jobs, [](const SimJob& job) { return job.Done(); }); },
        kLimitNs);
    if (!complete) return false;
  }
  return true;
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  mccs::Options options;
  std::map<std::string, mccs::OpKind> kinds;
  for (int k = 0; k < mccs::kOpKinds; ++k) {
    const auto kind = static_cast<mccs::OpKind>(k);
    if (mccs::Supports(mccs::UsualAlgorithm(kind), kind)) kinds[std::string(Name(kind))] = kind;
  }
  CLI::App app{"Runs small collectives in the simulator, to count instructions with callgrind."};
  app.add_option("calls", options.calls, "number of calls on each communicator")
      ->required()
      ->check(CLI::PositiveNumber);
  app.add_option("--kind", options.kind, "all_reduce, all_gather, …")
      ->transform(CLI::CheckedTransformer(kinds));
  const auto add = [&](const char* name, int& value) {
    app.add_option(name, value)->check(CLI::PositiveNumber)->capture_default_str();
  };
  add("--hosts", options.hosts);
  add("--ranks-per-host", options.ranks_per_host);
  add("--tenants", options.tenants);
  add("--communicators", options.communicators);
  app.add_flag("--messages", options.messages, "exchange messages between hosts instead");
  CLI11_PARSE(app, argc, argv);
  if (mccs::Run(options)) return 0;
  std::cerr << "call_instructions: a call did not complete\n";
  return 1;
}
