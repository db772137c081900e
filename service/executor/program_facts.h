// Facts that a runner derives once from a program before it runs many rounds of it.
#ifndef MCCS_SERVICE_EXECUTOR_PROGRAM_FACTS_H_
#define MCCS_SERVICE_EXECUTOR_PROGRAM_FACTS_H_

#include <cstdint>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

struct SendQueue;
struct ReceiveQueue;

struct StepFacts {
  // Offsets of the step's MemOp arguments within those of a round.
  uint32_t source_base = 0;
  uint32_t destination_base = 0;
  bool staged = false;   // a send from its staging slot
  bool in_slot = false;  // a receive that stays in its slot
  // For a receive in its slot: the number of combines that read it. For a combine: the receives
  // whose slots it reads, each once.
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

// Everything except the lanes.
ProgramFacts DeriveFacts(const Program& program);

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_PROGRAM_FACTS_H_
