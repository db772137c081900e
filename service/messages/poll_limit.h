// How much one Poll over copies does.
#ifndef MCCS_SERVICE_MESSAGES_POLL_LIMIT_H_
#define MCCS_SERVICE_MESSAGES_POLL_LIMIT_H_

#include <cstddef>
#include <cstdint>

#include "service/device/device.h"

namespace mccs {

// Ends a Poll over copies when the engine has done enough for one turn. The next Poll continues
// with the next copies.
class PollLimit {
 public:
  // Copies, or puts and signals.
  static constexpr size_t kCopies = 128;
  // Read and written by the engine itself; rounded up to one part of a copy.
  static constexpr uint64_t kBytes = 256 << 10;

  explicit PollLimit(const Device& device)
      : device_(device), end_(device.inline_bytes() + kBytes) {}
  bool left() const { return device_.inline_bytes() < end_; }

 private:
  const Device& device_;
  const uint64_t end_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_POLL_LIMIT_H_
