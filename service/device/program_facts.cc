#include "service/device/program_facts.h"

#include <algorithm>
#include <cstddef>

namespace mccs {
namespace {

bool AllIn(Space space, const Step& step) {
  return !step.pieces.empty() &&
         std::all_of(step.pieces.begin(), step.pieces.end(),
                     [&](const Place& place) { return place.space == space; });
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

// Adds the combines of step `s`.
void AddCombines(const Step& step, uint16_t s, ProgramFacts& facts) {
  for (const Combine& combine : step.combines) {
    facts.sources += static_cast<uint32_t>(combine.sources.size());
    facts.destinations += static_cast<uint32_t>(combine.destinations.size());
    for (const Place& place : combine.destinations) {
      if (place.space != Space::kStaged) continue;
      ++facts.steps[s].conditions;
      facts.steps[place.index].composers.push_back(s);
    }
  }
}

}  // namespace

ProgramFacts FactsOf(const Program& program) {
  ProgramFacts facts;
  facts.lanes = LanesOf(program);
  facts.send_sources.resize(facts.lanes.sends.size());
  facts.steps.resize(program.steps.size());
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    StepFacts& own = facts.steps[s];
    own.source_base = facts.sources;
    own.destination_base = facts.destinations;
    own.staged = step.kind == StepKind::kSend && AllIn(Space::kStaged, step);
    own.in_slot = step.kind == StepKind::kReceive && AllIn(Space::kReceived, step);
    if (step.kind == StepKind::kSend) {
      ProgramFacts::Sources& sources = facts.send_sources[facts.lanes.positions[s].lane];
      (own.staged ? sources.staging : sources.buffers) = true;
    }
    own.reads = ReceivesReadBy(step);
    for (uint16_t receive : own.reads) ++facts.steps[receive].readers;
    own.conditions += static_cast<uint32_t>(step.after.size());
    for (uint16_t before : step.after) {
      facts.steps[before].successors.push_back(static_cast<uint16_t>(s));
    }
    AddCombines(step, static_cast<uint16_t>(s), facts);
    if (step.kind == StepKind::kReceive && !own.in_slot) {  // one copy per piece if it is early
      facts.sources += static_cast<uint32_t>(step.pieces.size());
      facts.destinations += static_cast<uint32_t>(step.pieces.size());
    }
  }
  return facts;
}

}  // namespace mccs
