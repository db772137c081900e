// A bounded FIFO queue of steps in flight.
#ifndef MCCS_SERVICE_DEVICE_STEP_QUEUE_H_
#define MCCS_SERVICE_DEVICE_STEP_QUEUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"

namespace mccs {

// A step of a round in flight: row = round modulo the maximum rounds in flight.
struct StepRef {
  uint32_t row = 0;
  uint16_t step = 0;
};

// Never allocates after construction.
class StepQueue {
 public:
  // Holds at least `capacity` entries.
  explicit StepQueue(size_t capacity) : entries_(std::bit_ceil(capacity < 1 ? 1 : capacity)) {}
  bool empty() const { return head_ == tail_; }
  StepRef front() const { return entries_[head_ & (entries_.size() - 1)]; }
  void push(StepRef ref) {
    MCCS_CHECK(tail_ - head_ < entries_.size());
    entries_[tail_++ & (entries_.size() - 1)] = ref;
  }
  void pop() { ++head_; }

 private:
  std::vector<StepRef> entries_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_STEP_QUEUE_H_
