// The accesses to memory on one channel, and whether conflicting accesses are ordered.
#ifndef MCCS_TESTS_UNIT_ALGORITHMS_CHECK_MEMORY_H_
#define MCCS_TESTS_UNIT_ALGORITHMS_CHECK_MEMORY_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "tests/unit/algorithms/check/channel_events.h"

namespace mccs::check {

// One slice of one block of a buffer, or one piece of one slice in a slot (slot contents of
// different slices are different cells, though they share memory). In place, an input and its
// output are one cell.
using CellId = uint32_t;

class Memory {
 public:
  // LIFETIME: `events` outlives the memory.
  Memory(const ProofInput& proof, const ChannelEvents& events);

  size_t cells() const { return cells_; }
  CellId Cell(const Instance& instance, const Place& place) const;
  CellId Input(int host, uint64_t slice, uint16_t local, int32_t block) const;
  CellId Output(int host, uint64_t slice, uint16_t local, int32_t block) const;

  // Whether a copy is omitted because it would copy a place onto itself.
  bool IsOmitted(const Instance& instance, const Combine& combine, const Place& destination) const;

  // Checks that every two accesses to a cell, one of them a write, are ordered, and likewise the
  // uses of a slot by successive slices. REQUIRES: events.CheckProgress() returned OK.
  absl::Status CheckRaces() const;

 private:
  struct Access {
    InstanceId instance = 0;
    size_t combine = 0;  // accesses of the same combine do not conflict
    EventId begin = 0;
    EventId end = 0;
    bool writes = false;
    Place place;
  };
  using CellAccesses = std::vector<std::vector<Access>>;

  CellAccesses ListAccesses() const;
  void ListCombine(InstanceId id, CellAccesses& accesses) const;
  void ListSend(InstanceId id, CellAccesses& accesses) const;
  void ListReceive(InstanceId id, CellAccesses& accesses) const;
  absl::Status CheckCell(std::vector<Access>& accesses) const;
  absl::Status CheckSlots(const CellAccesses& accesses, CellId first, size_t slices,
                          size_t slots) const;
  bool Ordered(const Access& first, const Access& second) const;
  absl::Status Conflict(const Access& first, const Access& second) const;
  CellId BufferCell(int host, uint64_t slice, size_t buffer, int32_t block) const;

  struct LaneCells {
    CellId received = 0;  // [slice][piece]
    CellId staged = 0;    // [slice][piece]
  };

  const ProofInput proof_;
  const ChannelEvents& events_;
  size_t blocks_;
  size_t pieces_;                 // of a slice, at most
  std::vector<CellId> buffers_;   // by host: [buffer][block][slice]
  std::vector<LaneCells> lanes_;  // as events_.lanes()
  size_t cells_ = 0;
};

}  // namespace mccs::check

#endif  // MCCS_TESTS_UNIT_ALGORITHMS_CHECK_MEMORY_H_
