#include "emulation/core/kernel_run.h"

#include <cstdint>

#include "base/check.h"
#include "proto/fence_page.h"

namespace mccs::emulation {

bool KernelRun::Advance() {
  const ResumableFunctions& functions = launch_->functions();
  if (!begun_) state_ = functions.begin(&launch_->launch(), launch_->arguments());
  begun_ = true;
  MccsEmulatedWait wait{};
  const int result = functions.advance(state_, &wait);
  waiting_ = result == MCCS_EMULATED_WAITING;
  if (result == MCCS_EMULATED_FINISHED) {
    functions.end(state_);
    return true;
  }
  MCCS_CHECK(waiting_ || result == MCCS_EMULATED_AGAIN);
  if (!waiting_) return false;
  auto* const word = const_cast<uint64_t*>(wait.word);
  // The engine writes to the rest of the line.
  MCCS_CHECK(word != nullptr && reinterpret_cast<uintptr_t>(word) % sizeof(wire::FenceLine) == 0);
  wait_ = {.word = {.address = word, .wide = true, .fence = true},
           .value = wait.value,
           .comparison = Comparison::kGreaterOrEqual};
  return false;
}

}  // namespace mccs::emulation
