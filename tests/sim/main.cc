// sim_test: runs the random world for many seeds and says which ones break a rule.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <vector>

#include "tests/sim/random_world.h"

// In so many worlds everything must have happened.
constexpr uint64_t kManySeeds = 1000;

namespace {

volatile uint64_t running_seed = 0;

// A check that did not hold, or memory that is not there: the seed would not be known.
void NameTheSeed(int signal) {
  char line[64];
  const int bytes = std::snprintf(line, sizeof(line), "seed %llu: ended by signal %d\n",
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
      "The whole of MCCS in one simulated world: production daemons, controller and agents, random "
      "jobs, changes of policy, failures, and hostile tenants with daemons of their own. Each seed "
      "is another world, and the same one each time.");
  app.add_option("--seeds", seeds, "How many")->capture_default_str()->check(CLI::PositiveNumber);
  app.add_option("--first", first, "The first of them")->capture_default_str();
  app.add_flag("!--no-liars", options.liars, "Worlds without hostile tenants");
  app.footer(
      "Examples:\n"
      "  sim_test --seeds 10000\n"
      "  sim_test --first 4711 --seeds 1     # one that was reported, again\n\n"
      "Exit status: 0 no violation; 1 some, each printed with its seed, or nothing tested; 2 wrong "
      "usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS}) std::signal(signal, NameTheSeed);
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  auto told = start;
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
    if (Clock::now() - told > std::chrono::seconds(10)) {
      told = Clock::now();
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
  const size_t kinds = options.liars ? mccs::kRandomEvents : mccs::kFirstLie;
  for (size_t e = 0; e < kinds; ++e) {
    std::printf("%s%llu %s", e == 0 ? "" : ", ", static_cast<unsigned long long>(counts.of[e]),
                mccs::kRandomEventNames[e]);
    all_happened &= counts.of[e] > 0;
  }
  std::printf("\n");
  // What does not happen violates nothing.
  if (seeds >= kManySeeds && !all_happened) {
    std::printf("something was not tested: it did not happen in any of these worlds\n");
    return 1;
  }
  return violations == 0 ? 0 : 1;
}
