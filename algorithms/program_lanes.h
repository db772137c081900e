// The lanes of a program, and the number of each of its slices.
//
// A lane carries the slices of its steps in IssueOrder (issue_order.h). So the number of a slice
// follows from its step and round alone, and the program and the lanes need not exchange it.
#ifndef MCCS_ALGORITHMS_PROGRAM_LANES_H_
#define MCCS_ALGORITHMS_PROGRAM_LANES_H_

#include <cstdint>
#include <vector>

#include "algorithms/issue_cursor.h"
#include "algorithms/plan.h"

namespace mccs {

struct ProgramLanes {
  // One direction to or from one peer.
  struct Lane {
    HostIndex peer{};
    std::vector<uint16_t> steps;  // ascending positions in the program
  };
  using Position = LanePosition;

  // In the order of their first steps.
  std::vector<Lane> sends;
  std::vector<Lane> receives;
  std::vector<Position> positions;  // by step; without meaning for combines
};

ProgramLanes LanesOf(const Program& program);

// Whether the program composes slices of this outgoing lane in staging slots, so that the lane
// needs staging memory.
bool Composes(const Program& program, const ProgramLanes::Lane& lane);

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PROGRAM_LANES_H_
