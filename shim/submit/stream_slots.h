// Assigns the ready fences of a communicator to streams.
//
// Values of a slot only grow, so the daemon's "ready[slot] ≥ value" stays true. A slot is
// reassigned when the last operation that was posted with it is complete: then the last write to it
// has happened, and cannot overtake a later one. Streams are identified by CUDA's number, which is
// never reused. A handle may be destroyed and reused while writes of the first stream are pending.
#ifndef MCCS_SHIM_SUBMIT_STREAM_SLOTS_H_
#define MCCS_SHIM_SUBMIT_STREAM_SLOTS_H_

#include <array>
#include <cstdint>
#include <optional>

#include "proto/shim_wire.h"

namespace mccs::shim {

// THREAD: under the communicator's submit lock.
class StreamSlots {
 public:
  // The slot of the stream with this key. `done` is the communicator's done fence. nullopt: all
  // slots belong to streams with incomplete work.
  std::optional<uint32_t> Acquire(uint64_t key, uint64_t done) {
    if (slots_[latest_].used && slots_[latest_].key == key) return latest_;
    std::optional<uint32_t> free;
    for (uint32_t i = 0; i < wire::kReadySlots; ++i) {
      if (slots_[i].used && slots_[i].key == key) return latest_ = i;
      if (!free && (!slots_[i].used || slots_[i].last_sequence <= done)) free = i;
    }
    if (free) {
      slots_[*free].used = true;
      slots_[*free].key = key;
      latest_ = *free;
    }
    return free;
  }

  // The next value to write to the slot.
  uint64_t NextValue(uint32_t slot) { return ++slots_[slot].last_value; }

  // Call it when the value was posted with operations up to `sequence`.
  void MarkPosted(uint32_t slot, uint64_t sequence) { slots_[slot].last_sequence = sequence; }

 private:
  struct Slot {
    bool used = false;
    uint64_t key = 0;
    uint64_t last_value = 0;
    uint64_t last_sequence = 0;
  };
  std::array<Slot, wire::kReadySlots> slots_;
  uint32_t latest_ = 0;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_SUBMIT_STREAM_SLOTS_H_
