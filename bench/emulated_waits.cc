// The cost of waiting for another process on the emulation: microseconds of a round trip in which a
// stream publishes a word and waits for the answer of a peer process.
//
//   word           a memory operation that writes, and one that waits (WaitWord), per round
//   kernel         a resumable kernel per round: one piece publishes, the next sees the answer
//   pieces         one resumable kernel for all rounds: each piece is a round
//
// With --asleep the peer answers when the waiting thread sleeps. The figure is then the time from
// the answer to the thread's return, or to the next piece. `background`: no thread waits, so the
// background thread runs the pieces.
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "base/check.h"
#include "emulation/core/engine.h"
#include "emulation/core/kernel_table.h"
#include "proto/fence_page.h"

namespace {

using mccs::emulation::Engine;
using mccs::emulation::Stream;
using mccs::emulation::Work;
using mccs::wire::FenceLine;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kWarmup = 200;

// Shared with the peer.
struct Page {
  FenceLine asked;
  FenceLine answered;
  std::atomic<int64_t> answered_at;  // ns of the steady clock
};

int64_t Now() { return Clock::now().time_since_epoch().count(); }

// The peer process.
void AnswerAll(Page& page, uint64_t rounds, bool asleep) {
  for (uint64_t round = 1; round <= rounds; ++round) {
    while (page.asked.value.load(std::memory_order_acquire) < round) sched_yield();
    while (asleep && page.answered.sleepers.load() == 0) sched_yield();
    page.answered_at = Now();
    SignalFence(page.answered, round);
  }
}

struct Bench {
  Page& page;
  const bool asleep;
  const uint64_t rounds;
  Engine& engine;
  std::shared_ptr<Stream> stream;
  std::vector<double> taken = {};  // microseconds, by round
  int64_t started = 0;             // of this round

  void Start(uint64_t round) {
    started = Now();
    SignalFence(page.asked, round);
  }
  void End() {
    const int64_t from = asleep ? page.answered_at.load() : started;
    taken.push_back(static_cast<double>(Now() - from) / 1000);
  }
  void Wait() { MCCS_CHECK(engine.Wait(engine.PendingOf(stream))); }
};

// ---- Kernels -----------------------------------------------------------------------------------

// A run asks for the rounds from `next` to `last`.
struct Run {
  Bench* bench;
  uint64_t next;
  uint64_t last;
  bool asked = false;
};

void* Begin(const MccsEmulatedLaunch*, void* const* arguments) {
  return new Run(*static_cast<const Run*>(arguments[0]));
}

int Advance(void* state, MccsEmulatedWait* wait) {
  Run& run = *static_cast<Run*>(state);
  Bench& bench = *run.bench;
  if (run.asked) {
    if (bench.page.answered.value.load(std::memory_order_acquire) < run.next) {
      *wait = {reinterpret_cast<const uint64_t*>(&bench.page.answered.value), run.next};
      return MCCS_EMULATED_WAITING;
    }
    if (run.next == run.last) return MCCS_EMULATED_FINISHED;
    bench.End();
    ++run.next;
  }
  bench.Start(run.next);
  run.asked = true;
  *wait = {reinterpret_cast<const uint64_t*>(&bench.page.answered.value), run.next};
  return MCCS_EMULATED_WAITING;
}

void End(void* state) { delete static_cast<Run*>(state); }

Work KernelOf(Bench& bench, uint64_t first, uint64_t last) {
  static const auto host = [] {
    auto made = std::make_shared<mccs::emulation::HostKernel>();
    made->argument_bytes = {sizeof(Run)};
    made->resumable = {Begin, Advance, End};
    return made;
  }();
  Run run{&bench, first, last};
  void* argument = &run;
  return mccs::emulation::ResumableKernel{std::make_shared<const mccs::emulation::PreparedLaunch>(
                                              host, MccsEmulatedLaunch{}, &argument),
                                          nullptr};
}

// ---- Ways to wait ------------------------------------------------------------------------------

void ByWord(Bench& bench) {
  const auto word = [](FenceLine& line) {
    return mccs::emulation::Word{.address = &line.value, .wide = true, .fence = true};
  };
  for (uint64_t round = 1; round <= bench.rounds; ++round) {
    bench.started = Now();
    bench.engine.Enqueue(bench.stream, mccs::emulation::WriteWord{word(bench.page.asked), round});
    bench.engine.Enqueue(
        bench.stream,
        mccs::emulation::WaitWord{.word = word(bench.page.answered),
                                  .value = round,
                                  .comparison = mccs::emulation::Comparison::kGreaterOrEqual});
    bench.Wait();
    bench.End();
  }
}

void ByKernel(Bench& bench) {
  for (uint64_t round = 1; round <= bench.rounds; ++round) {
    const int64_t started = Now();
    bench.engine.Enqueue(bench.stream, KernelOf(bench, round, round));
    bench.Wait();
    bench.started = started;
    bench.End();
  }
}

void ByPieces(Bench& bench) {
  bench.engine.Enqueue(bench.stream, KernelOf(bench, 1, bench.rounds));
  bench.Wait();
}

void InBackground(Bench& bench) {
  bench.engine.Enqueue(bench.stream, KernelOf(bench, 1, bench.rounds));
  while (bench.page.answered.value.load() < bench.rounds) usleep(1000);
  bench.Wait();
}

void Measure(const char* name, void (*wait)(Bench&), uint64_t rounds, bool asleep) {
  void* memory =
      mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  MCCS_CHECK(memory != MAP_FAILED);
  Page& page = *static_cast<Page*>(memory);
  const pid_t peer = fork();
  MCCS_CHECK(peer >= 0);
  if (peer == 0) {
    AnswerAll(page, rounds + kWarmup, asleep);
    _exit(0);
  }
  auto* const engine = new Engine(1, 8);  // its threads never end
  Bench bench{page, asleep, rounds + kWarmup, *engine, engine->CreateStream({.blocking = false})};
  wait(bench);
  MCCS_CHECK(waitpid(peer, nullptr, 0) == peer);
  std::vector<double>& taken = bench.taken;
  taken.erase(taken.begin(), taken.begin() + kWarmup);
  std::sort(taken.begin(), taken.end());
  std::printf("%-10s %7.2f %7.2f\n", name, taken[taken.size() / 2], taken[taken.size() * 99 / 100]);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app(
      "Round trips between a stream of the emulation and another process: microseconds, median and "
      "99th percentile");
  uint64_t rounds = 20'000;
  bool asleep = false;
  app.add_option("rounds", rounds)->capture_default_str()->check(CLI::Range(100, 10'000'000));
  app.add_flag("--asleep", asleep, "the peer answers when the waiting thread sleeps");
  CLI11_PARSE(app, argc, argv);
  Measure("word", ByWord, rounds, asleep);
  Measure("kernel", ByKernel, rounds, asleep);
  Measure("pieces", ByPieces, rounds, asleep);
  Measure("background", InBackground, rounds, asleep);
}
