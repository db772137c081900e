// A resumable kernel whose pieces a test writes.
#ifndef MCCS_TESTS_UNIT_EMULATION_SCRIPT_KERNEL_H_
#define MCCS_TESTS_UNIT_EMULATION_SCRIPT_KERNEL_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "emulation/core/kernel_table.h"
#include "emulation/core/work.h"
#include "proto/fence_page.h"

namespace mccs::emulation {

// Its piece i is the i-th call of `piece`, counted per run, without the calls that return WAITING.
// LIFETIME: outlives its runs.
class ScriptKernel {
 public:
  using Piece = std::function<int(size_t step, MccsEmulatedWait* wait)>;
  explicit ScriptKernel(Piece piece) : piece_(std::move(piece)) {}

  // A launch of it.
  Work Launch() const {
    auto host = std::make_shared<HostKernel>();
    host->argument_bytes = {sizeof(ScriptKernel*)};
    host->resumable = {Begin, Advance, End};
    const ScriptKernel* self = this;
    void* argument = &self;
    return ResumableKernel{
        std::make_shared<const PreparedLaunch>(std::move(host), MccsEmulatedLaunch{}, &argument),
        nullptr};
  }

  int begun() const { return begun_; }
  int advanced() const { return advanced_; }
  int ended() const { return ended_; }

 private:
  struct Run {
    const ScriptKernel* kernel;
    size_t step = 0;
    std::atomic<bool> advancing{false};
  };
  static void* Begin(const MccsEmulatedLaunch*, void* const* arguments) {
    const auto* kernel = *static_cast<const ScriptKernel* const*>(arguments[0]);
    ++kernel->begun_;
    return new Run{kernel};
  }
  static int Advance(void* state, MccsEmulatedWait* wait) {
    auto* const run = static_cast<Run*>(state);
    EXPECT_FALSE(run->advancing.exchange(true)) << "two threads advance one run";
    ++run->kernel->advanced_;
    const int result = run->kernel->piece_(run->step, wait);
    if (result == MCCS_EMULATED_AGAIN) ++run->step;
    run->advancing = false;
    return result;
  }
  static void End(void* state) {
    auto* const run = static_cast<Run*>(state);
    ++run->kernel->ended_;
    delete run;
  }

  const Piece piece_;
  mutable std::atomic<int> begun_{0};
  mutable std::atomic<int> advanced_{0};
  mutable std::atomic<int> ended_{0};
};

// The result of a piece that needs `line` to have reached `value`.
inline int AwaitLine(wire::FenceLine& line, uint64_t value, MccsEmulatedWait* wait) {
  const uint64_t seen = line.value.load(std::memory_order_acquire);
  if (static_cast<int64_t>(seen - value) >= 0) return MCCS_EMULATED_AGAIN;
  *wait = {reinterpret_cast<const uint64_t*>(&line.value), value};
  return MCCS_EMULATED_WAITING;
}

// The pieces of a kernel that waits for `line` to reach 1, 2, … `last`, and answers each by the
// same value of `answer`, if there is one.
inline ScriptKernel::Piece Answers(wire::FenceLine& line, uint64_t last,
                                   wire::FenceLine* answer = nullptr) {
  return [&line, last, answer](size_t step, MccsEmulatedWait* wait) {
    if (step == last) return MCCS_EMULATED_FINISHED;
    const int result = AwaitLine(line, step + 1, wait);
    if (result == MCCS_EMULATED_AGAIN && answer != nullptr) wire::SignalFence(*answer, step + 1);
    return result;
  };
}

}  // namespace mccs::emulation

#endif  // MCCS_TESTS_UNIT_EMULATION_SCRIPT_KERNEL_H_
