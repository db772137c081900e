// The kernel of one rank on the host: for the emulated GPU, the simulator and tests. Runs the
// commands of one queue, one after the other, in the calling thread.
//
// THREAD: one at a time. Never blocks.
#ifndef MCCS_KERNELS_HOST_KERNEL_H_
#define MCCS_KERNELS_HOST_KERNEL_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/commands.h"
#include "kernels/interpreter.h"

namespace mccs::kernels {

class HostKernel {
 public:
  // Begins after the last command that counts as finished. `done_value`: the kernel waits for it,
  // and takes only its own commands; nothing: it takes all. LIFETIME: `queue` outlives this.
  explicit HostKernel(CommandQueue& queue, std::optional<uint64_t> done_value = std::nullopt);
  HostKernel(const HostKernel&) = delete;
  HostKernel& operator=(const HostKernel&) = delete;

  // Does a piece of the work that is ready, about a slice per program. False: nothing was ready.
  // Read the bell before: if it has not changed since, there is still nothing.
  bool Advance();
  // No command is being run.
  bool idle() const { return programs_.empty() && copies_ == 0; }

 private:
  bool Begin();
  // The next command is published, and this kernel's.
  bool HasNext() const;
  void CopyPiece(const Command& command);

  CommandQueue& queue_;
  const std::optional<uint64_t> done_value_;
  uint64_t next_;  // number of the current or next command
  std::vector<Interpreter<OneThread>> programs_;
  uint32_t copies_ = 0;  // of the current command, not complete
  uint64_t copied_ = 0;  // bytes of the first of them
  Operands operands_;
};

}  // namespace mccs::kernels

#endif  // MCCS_KERNELS_HOST_KERNEL_H_
