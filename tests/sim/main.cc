// sim_test: runs the random world for many seeds and reports each seed that violates a rule.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>

#include "tests/sim/random_world.h"

// With at least this many seeds, every kind of event must have happened.
constexpr uint64_t kManySeeds = 1000;
// With at least this many, every kind except the attacks, some of which are rarer.
constexpr uint64_t kSomeSeeds = 250;

namespace {

volatile uint64_t running_seed = 0;

// Prints the seed when a check fails or the process receives SIGSEGV or SIGBUS.
void NameTheSeed(int signal) {
  char line[64];
  const int bytes = std::snprintf(line, sizeof(line), "seed %llu: killed by signal %d\n",
                                  static_cast<unsigned long long>(running_seed), signal);
  if (write(STDOUT_FILENO, line, static_cast<size_t>(bytes)) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seeds = 1000;
  uint64_t first = 1;
  mccs::RandomWorldOptions options;
  CLI::App app(
      "Runs all of MCCS in one simulated world: production daemons, controller and agents, random "
      "jobs, policy changes, failures, faults of resources, and hostile tenants with daemons of "
      "their own. The same seed gives the same world.");
  app.add_option("--seeds", seeds, "Number of seeds to run")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--first", first, "First seed")->capture_default_str();
  app.add_flag("!--no-hostile-tenants", options.hostile_tenants, "Run without hostile tenants");
  app.add_flag("!--no-faults", options.faults, "Run without faults of resources and clocks");
  app.add_flag("!--no-certificates", options.certificates,
               "Run without certificates of daemons, which half of the worlds have");
  std::string transport = "streams";
  app.add_option("--transport", transport, "Transport of lanes: streams, or verbs of fake NICs")
      ->capture_default_str()
      ->check(CLI::IsMember({"streams", "verbs"}));
  std::string device = "processor";
  app.add_option("--device", device,
                 "What runs collectives: the daemon's processor, or kernels of the tenants")
      ->capture_default_str()
      ->check(CLI::IsMember({"processor", "kernels"}));
  app.footer(
      "Examples:\n"
      "  sim_test --seeds 10000\n"
      "  sim_test --first 4711 --seeds 1     # repeat a reported seed\n\n"
      "Exit status: 0 no violation; 1 violations (printed with their seeds) or an event that never "
      "happened; 2 wrong usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  options.verbs = transport == "verbs";
  options.kernels = device == "kernels";
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, NameTheSeed);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto printed = start;
  uint64_t violations = 0;
  mccs::RandomCounts counts;
  for (uint64_t i = 0; i < seeds; ++i) {
    running_seed = first + i;
    const mccs::RandomWorldOutcome outcome = mccs::RunRandomWorld(first + i, options);
    counts += outcome.counts;
    if (!outcome.violation.empty()) {
      ++violations;
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(first + i),
                  outcome.violation.c_str());
    }
    if (Clock::now() - printed > std::chrono::seconds(10)) {
      printed = Clock::now();
      std::printf("%llu of %llu seeds\n", static_cast<unsigned long long>(i + 1),
                  static_cast<unsigned long long>(seeds));
    }
    std::fflush(stdout);
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  std::printf("%llu seeds from %llu: %llu violations, %.1f s\n",
              static_cast<unsigned long long>(seeds), static_cast<unsigned long long>(first),
              static_cast<unsigned long long>(violations), seconds);
  bool all_happened = true;
  const size_t required = seeds >= kManySeeds   ? mccs::kRandomEvents
                          : seeds >= kSomeSeeds ? mccs::kFirstAttack
                                                : 0;
  const size_t kinds = options.hostile_tenants ? mccs::kRandomEvents : mccs::kFirstAttack;
  for (size_t e = 0; e < kinds; ++e) {
    if (!options.faults && e >= mccs::kFirstFault && e < mccs::kFirstAttack) continue;
    std::printf("%s%llu %s", e == 0 ? "" : ", ", static_cast<unsigned long long>(counts.of[e]),
                mccs::kRandomEventNames[e]);
    all_happened &= e >= required || counts.of[e] > 0;
  }
  std::printf("\n");
  // An event that never happened was not tested.
  if (!all_happened) {
    std::printf("not tested: an event above happened in none of these worlds (count 0)\n");
    return 1;
  }
  return violations == 0 ? 0 : 1;
}
