// The lanes of a program, and the number of each of its slices.
//
// A lane carries the slices of its steps in IssueOrder (issue_order.h). So the number of a slice
// follows from its step and round alone, and the program and the lanes need not exchange it.
#ifndef MCCS_ALGORITHMS_PROGRAM_LANES_H_
#define MCCS_ALGORITHMS_PROGRAM_LANES_H_

#include <cstdint>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

struct ProgramLanes {
  // One direction to or from one peer.
  struct Lane {
    HostIndex peer{};
    std::vector<uint16_t> steps;  // ascending positions in the program
  };
  // The position of a send or receive in its lane.
  struct Position {
    uint32_t lane = 0;      // in `sends` or `receives`
    uint32_t before = 0;    // steps of the lane in earlier stages
    uint32_t in_stage = 0;  // steps of the lane in the same stage
    uint32_t index = 0;     // among those
  };

  // In the order of their first steps.
  std::vector<Lane> sends;
  std::vector<Lane> receives;
  std::vector<Position> positions;  // by step; without meaning for combines
};

ProgramLanes LanesOf(const Program& program);

// Whether the program composes slices of this outgoing lane in staging slots, so that the lane
// needs staging memory.
bool Composes(const Program& program, const ProgramLanes::Lane& lane);

// The group of a round (issue_order.h).
struct RoundGroup {
  uint64_t begin = 0;  // the first round
  uint64_t size = 0;   // rounds
};
// REQUIRES: round < rounds.
RoundGroup GroupOf(uint64_t round, uint64_t rounds, uint32_t skew);

// The number of the slice of the step at `position` in `round`, counted over one run.
// REQUIRES: `group` is that of the round.
inline uint64_t SliceIndex(const ProgramLanes::Position& position, uint64_t lane_steps,
                           const RoundGroup& group, uint64_t round) {
  return group.begin * lane_steps + position.before * group.size +
         (round - group.begin) * position.in_stage + position.index;
}

}  // namespace mccs

#endif  // MCCS_ALGORITHMS_PROGRAM_LANES_H_
