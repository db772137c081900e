// Which ready fence of a communicator stands for which stream.
//
// A slot is lent to a stream. Its values only grow, so the daemon's "ready[slot] ≥ value" stays
// true once it was. A slot goes to another stream when the last operation that was posted with it
// is done: then the last write to it has happened, and a younger one cannot be overtaken by it.
// Streams are told apart by CUDA's number of the stream, which is never used twice; a handle may be
// destroyed and come back for another stream while writes of the first are still to happen.
#ifndef MCCS_SHIM_STREAM_SLOTS_H_
#define MCCS_SHIM_STREAM_SLOTS_H_

#include <array>
#include <cstdint>
#include <optional>

#include "proto/shim_wire.h"

namespace mccs::shim {

// THREAD: under the communicator's submit lock.
class StreamSlots {
 public:
  // The slot of the stream with this key. `done` is the communicator's done fence. nullopt: all
  // slots belong to streams with work that is not done.
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

  // The value was posted with operations up to `sequence`.
  void Posted(uint32_t slot, uint64_t sequence) { slots_[slot].last_sequence = sequence; }

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

#endif  // MCCS_SHIM_STREAM_SLOTS_H_
