#include "service/executor/program_facts.h"

#include <algorithm>

namespace mccs {
namespace {

bool AllIn(Space space, const std::vector<Place>& places) {
  return !places.empty() && std::all_of(places.begin(), places.end(),
                                        [&](const Place& p) { return p.space == space; });
}

std::vector<uint16_t> ReceivesReadBy(const Step& step) {
  std::vector<uint16_t> reads;
  for (const Combine& combine : step.combines) {
    for (const Place& place : combine.sources) {
      if (place.space == Space::kReceived) reads.push_back(place.index);
    }
  }
  std::sort(reads.begin(), reads.end());
  reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
  return reads;
}

}  // namespace

ProgramFacts DeriveFacts(const Program& program) {
  ProgramFacts facts;
  facts.steps.resize(program.steps.size());
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    StepFacts& own = facts.steps[s];
    own.source_base = facts.sources;
    own.destination_base = facts.destinations;
    own.staged = step.kind == StepKind::kSend && AllIn(Space::kStaged, step.pieces);
    own.in_slot = step.kind == StepKind::kReceive && AllIn(Space::kReceived, step.pieces);
    own.reads = ReceivesReadBy(step);
    for (uint16_t receive : own.reads) ++facts.steps[receive].readers;
    for (const Combine& combine : step.combines) {
      facts.sources += static_cast<uint32_t>(combine.sources.size());
      facts.destinations += static_cast<uint32_t>(combine.destinations.size());
    }
    if (step.kind == StepKind::kReceive && !own.in_slot) {  // one copy per piece if it is early
      facts.sources += static_cast<uint32_t>(step.pieces.size());
      facts.destinations += static_cast<uint32_t>(step.pieces.size());
    }
  }
  return facts;
}

}  // namespace mccs
