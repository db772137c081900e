// One run of a resumable kernel (mccs_emulation_kernel.h): its state, and what it waits for.
#ifndef MCCS_EMULATION_CORE_KERNEL_RUN_H_
#define MCCS_EMULATION_CORE_KERNEL_RUN_H_

#include <memory>
#include <utility>

#include "emulation/core/kernel_table.h"
#include "emulation/core/work.h"

namespace mccs::emulation {

// THREAD: one thread at a time.
class KernelRun {
 public:
  // REQUIRES: launch->resumable().
  explicit KernelRun(std::shared_ptr<const PreparedLaunch> launch) : launch_(std::move(launch)) {}

  // Runs one piece, after `begin` if it is the first. Returns true if it was the last; the kernel's
  // `end` has run, too. REQUIRES: it was not; no thread is counted in the wait's line.
  bool Advance();

  // Null if a piece is ready.
  WaitWord* wait() { return waiting_ ? &wait_ : nullptr; }

 private:
  const std::shared_ptr<const PreparedLaunch> launch_;
  void* state_ = nullptr;
  bool begun_ = false;
  bool waiting_ = false;
  WaitWord wait_;
};

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_KERNEL_RUN_H_
