// The meeting points of a program on the device and the lanes that carry its slices: a few counters
// per lane and direction. Each has one writer.
//
//   program                              engine
//   composes slices ── posted ─────────► sends them
//   reuses memory ◄─── source_free ───── the lane does not read it any more
//   reuses staging ◄── acknowledged ──── the peer has them
//
//   frees outputs ──── writable ───────► lets slices land in their outputs
//   reads slices ◄──── landed ────────── they are complete
//   frees slots ────── released ───────► returns credit to the sender
//
// A counter at n means: all slices with numbers below n have reached that point. Numbers count over
// all operations of a lane. Each loaded plan has counters of its own. It writes its own for its run
// only; the engine writes `source_free` and `acknowledged` for the whole lane, so they may be
// before or beyond the run. The program and the engine each compute a slice's step, round and
// memory from its number (algorithms/program_lanes.h). So no address passes between them, and the
// program may run on another processor.
//
// OWNER: the lane's feed (service/executor/lane_feeds.h). THREAD: each counter has one writer, the
// program or the engine; both may read. Never blocks.
#ifndef MCCS_SERVICE_DEVICE_LANE_PORTS_H_
#define MCCS_SERVICE_DEVICE_LANE_PORTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "service/device/region.h"

namespace mccs {

// Stores are releases and loads are acquires: a reader of a counter sees the memory of the slices
// that it counts.
class SliceCounter {
 public:
  uint64_t Load() const { return value_.load(std::memory_order_acquire); }
  void Store(uint64_t value) { value_.store(value, std::memory_order_release); }

 private:
  std::atomic<uint64_t> value_{0};
};

inline constexpr size_t kCounterLineBytes = 64;

// `acknowledged` ≤ `source_free`.
struct SendCounters {
  alignas(kCounterLineBytes) SliceCounter posted;       // by the program
  alignas(kCounterLineBytes) SliceCounter source_free;  // by the engine
  SliceCounter acknowledged;
};

// `released` ≤ `landed`.
struct ReceiveCounters {
  explicit ReceiveCounters(uint32_t slots) : in_slot(slots) {}

  // By the program. Slices that stay in their slots count as writable.
  alignas(kCounterLineBytes) SliceCounter writable;
  SliceCounter released;
  alignas(kCounterLineBytes) SliceCounter landed;  // by the engine
  // By number modulo slots, valid while a slice has landed and is not released: it is in its slot.
  // Otherwise it is in its output.
  std::vector<uint8_t> in_slot;
};

// One direction of a lane as a program sees it. LIFETIME: the counters and the memory outlive it.
struct SendPort {
  SendCounters* counters = nullptr;
  RegionSpan staging;  // LaneShape::staging_bytes; empty: the program composes no slices
};
struct ReceivePort {
  ReceiveCounters* counters = nullptr;
  RegionSpan slots;
};
// Those of one program, in the order of ProgramLanes.
struct ProgramPorts {
  std::vector<SendPort> sends;
  std::vector<ReceivePort> receives;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_LANE_PORTS_H_
