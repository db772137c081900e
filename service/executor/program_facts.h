// What a runner derives from a program once, before it runs it for many rounds.
#ifndef MCCS_SERVICE_EXECUTOR_PROGRAM_FACTS_H_
#define MCCS_SERVICE_EXECUTOR_PROGRAM_FACTS_H_

#include <cstdint>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

struct SendQueue;
struct ReceiveQueue;

struct StepFacts {
  // Where the step's MemOp arguments lie among those of a round.
  uint32_t source_base = 0;
  uint32_t destination_base = 0;
  bool staged = false;   // a send from its staging slot
  bool in_slot = false;  // a receive that stays in its slot
  // Of a receive in its slot: how many combines read it. Of a combine: the receives whose slots it
  // reads, each once.
  uint32_t readers = 0;
  std::vector<uint16_t> reads;
  // The lane of a send or receive (channel_lanes.h).
  SendQueue* send = nullptr;
  ReceiveQueue* receive = nullptr;
};

struct ProgramFacts {
  std::vector<StepFacts> steps;
  uint32_t sources = 0;  // of all MemOps of a round
  uint32_t destinations = 0;
};

// All but the lanes.
ProgramFacts DeriveFacts(const Program& program);

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_PROGRAM_FACTS_H_
