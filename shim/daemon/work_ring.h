// The producer's end of a communicator's work ring: single producer, never blocks.
#ifndef MCCS_SHIM_DAEMON_WORK_RING_H_
#define MCCS_SHIM_DAEMON_WORK_RING_H_

#include "proto/shim_wire.h"

namespace mccs::shim {

// THREAD: under the communicator's submit lock.
class WorkRing {
 public:
  explicit WorkRing(wire::CommRegion& region) : region_(region) {}

  // False when the ring is full. A written record is invisible until Publish.
  bool Write(const wire::WorkRecord& record) {
    if (written_ - known_head_ == wire::kRingRecords) {
      // Pairs with the daemon's release store after it has copied the records.
      known_head_ = region_.head.load(std::memory_order_acquire);
      if (written_ - known_head_ >= wire::kRingRecords) return false;
    }
    region_.records[written_ % wire::kRingRecords] = record;
    ++written_;
    return true;
  }

  // Makes all written records visible to the daemon. True if there are new ones.
  bool Publish() {
    if (published_ == written_) return false;
    published_ = written_;
    // Pairs with the daemon's acquire load before it copies records.
    region_.tail.store(written_, std::memory_order_release);
    return true;
  }

  // The number of the next operation; numbers start at 1.
  uint64_t NextSequence() { return ++last_sequence_; }
  uint64_t last_sequence() const { return last_sequence_; }

 private:
  wire::CommRegion& region_;
  uint64_t written_ = 0;
  uint64_t published_ = 0;
  uint64_t known_head_ = 0;
  uint64_t last_sequence_ = 0;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_DAEMON_WORK_RING_H_
