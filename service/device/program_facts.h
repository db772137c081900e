// Facts that an interpreter derives once from a program, before it runs many rounds of it.
#ifndef MCCS_SERVICE_DEVICE_PROGRAM_FACTS_H_
#define MCCS_SERVICE_DEVICE_PROGRAM_FACTS_H_

#include <cstdint>
#include <vector>

#include "algorithms/plan.h"
#include "algorithms/program_lanes.h"

namespace mccs {

struct StepFacts {
  // Conditions for the start of the step: the steps in `after`, and that each staging slot in which
  // it writes is free.
  uint32_t conditions = 0;
  std::vector<uint16_t> successors;  // steps that name it in `after`
  // Offsets of the step's MemOp arguments within those of a round.
  uint32_t source_base = 0;
  uint32_t destination_base = 0;
  bool staged = false;   // a send from its staging slot
  bool in_slot = false;  // a receive that stays in its slot
  // A staged send: the combines that write its slot, each once.
  std::vector<uint16_t> composers;
  // A receive in its slot: the number of combines that read it. A combine: the receives whose slots
  // it reads, each once.
  uint32_t readers = 0;
  std::vector<uint16_t> reads;
  // By combine: how many of the following ones continue it, each with the next block or piece of
  // all its places. So they are one MemOp if the blocks are whole.
  std::vector<uint16_t> runs;
};

struct ProgramFacts {
  ProgramLanes lanes;
  std::vector<StepFacts> steps;
  uint32_t sources = 0;  // of all MemOps of a round, at most
  uint32_t destinations = 0;
  // By ProgramLanes::sends: some of its sends are staged, or are not.
  struct Sources {
    bool staging = false;
    bool buffers = false;
  };
  std::vector<Sources> send_sources;
};

ProgramFacts FactsOf(const Plan& plan, const Program& program);

}  // namespace mccs

#endif  // MCCS_SERVICE_DEVICE_PROGRAM_FACTS_H_
