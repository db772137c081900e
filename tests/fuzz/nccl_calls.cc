// Random arguments for each of NCCL's functions. For all arguments, the call returns, the daemon
// survives, and other communicators, in this process and in others, continue to work.
//
//   nccl_calls          runs; MCCS_FUZZ_CALLS and the variables of fuzz_run.h set the duration
//   nccl_calls --list   prints the functions that it calls
//
// Two GPUs, one process. Exits with 0 on success.
#include <chrono>
#include <cstdio>
#include <string_view>
#include <vector>

#include "tests/fuzz/call_table.h"

namespace mccs {
namespace {

constexpr int64_t kCalls = 20'000;
constexpr int64_t kCallsBetweenChecks = 48;
constexpr std::chrono::seconds kSlow{1};  // not a failure on a loaded machine, but worth a report

std::vector<FuzzedCall> AllCalls() {
  std::vector<FuzzedCall> calls;
  for (const auto& some : {OperationCalls(), CommunicatorCalls()}) {
    calls.insert(calls.end(), some.begin(), some.end());
  }
  return calls;
}

// Repeats each call according to its weight.
std::vector<FuzzedCall> Weighted(const std::vector<FuzzedCall>& calls) {
  std::vector<FuzzedCall> drawn_from;
  for (const FuzzedCall& each : calls) {
    drawn_from.insert(drawn_from.end(), static_cast<size_t>(each.weight), each);
  }
  return drawn_from;
}

bool Run() {
  FuzzRun run("calls", "MCCS_FUZZ_CALLS", kCalls);
  FuzzTargets victims(run);
  const std::vector<FuzzedCall> calls = Weighted(AllCalls());
  const bool say = std::getenv("MCCS_FUZZ_VERBOSE") != nullptr;
  while (run.Next()) {
    const FuzzedCall& next = calls[run.Below(calls.size())];
    if (say) std::fprintf(stderr, "%lld nccl%s\n", static_cast<long long>(run.done()), next.name);
    const auto before = std::chrono::steady_clock::now();
    next.call(victims);
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - before;
    if (taken > kSlow) {
      std::printf("fuzz: call %lld, nccl%s, took %.1f s\n", static_cast<long long>(run.done()),
                  next.name, taken.count());
    }
    if (run.done() % kCallsBetweenChecks != 0 || victims.IsHealthy()) continue;
    std::printf("fuzz: after call %lld; run again with MCCS_FUZZ_SEED=%llu\n",
                static_cast<long long>(run.done()), static_cast<unsigned long long>(run.seed()));
    return false;
  }
  return victims.IsHealthy();
}

}  // namespace
}  // namespace mccs

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    for (const mccs::FuzzedCall& call : mccs::AllCalls()) std::puts(call.name);
    return 0;
  }
  return mccs::Run() ? 0 : 1;
}
