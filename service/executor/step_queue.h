// A bounded FIFO queue of steps in flight; no allocation after Reset.
#ifndef MCCS_SERVICE_EXECUTOR_STEP_QUEUE_H_
#define MCCS_SERVICE_EXECUTOR_STEP_QUEUE_H_

#include <cstdint>
#include <vector>

#include "base/check.h"

namespace mccs {

// A step of a round in flight: row = round modulo the maximum rounds in flight.
struct StepRef {
  uint32_t row = 0;
  uint16_t step = 0;
};

class StepQueue {
 public:
  // Empties the queue and makes room for `capacity` entries.
  void Reset(uint32_t capacity) {
    if (entries_.size() < capacity) entries_.resize(capacity);
    head_ = tail_ = 0;
  }
  bool empty() const { return head_ == tail_; }
  uint32_t size() const { return static_cast<uint32_t>(tail_ - head_); }
  // REQUIRES: index < size().
  StepRef at(uint32_t index) const { return entries_[(head_ + index) % entries_.size()]; }
  StepRef front() const { return at(0); }
  void push(StepRef ref) {
    MCCS_CHECK(size() < entries_.size());
    entries_[tail_++ % entries_.size()] = ref;
  }
  void pop() { ++head_; }

 private:
  std::vector<StepRef> entries_;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_STEP_QUEUE_H_
