#include "service/device/program_facts.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "algorithms/geometry.h"

namespace mccs {
namespace {

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

bool Continues(const PlaceList& places, const PlaceList& next) {
  return std::ranges::equal(places, next, [](const Place& a, const Place& b) {
    const bool in_slot = a.space == Space::kReceived || a.space == Space::kStaged;
    return a.space == b.space && a.index == b.index &&
           (in_slot ? a.piece + 1 == b.piece : a.block + 1 == b.block);
  });
}

std::vector<uint16_t> RunsOf(const std::vector<Combine>& combines) {
  std::vector<uint16_t> runs(combines.size(), 0);
  for (size_t c = combines.size(); c-- > 1;) {
    const Combine &before = combines[c - 1], &next = combines[c];
    if (before.finish == next.finish && Continues(before.sources, next.sources) &&
        Continues(before.destinations, next.destinations)) {
      runs[c - 1] = static_cast<uint16_t>(runs[c] + 1);
    }
  }
  return runs;
}

uint32_t SumOfLargest(std::vector<uint32_t> values, size_t count) {
  std::sort(values.rbegin(), values.rend());
  values.resize(std::min(values.size(), count));
  return std::accumulate(values.begin(), values.end(), uint32_t{0});
}

// Adds the combines of step `s`. A round takes `most` of them or fewer.
void AddCombines(const Step& step, uint16_t s, size_t most, ProgramFacts& facts) {
  std::vector<uint32_t> sources, destinations;
  for (const Combine& combine : step.combines) {
    sources.push_back(static_cast<uint32_t>(combine.sources.size()));
    destinations.push_back(static_cast<uint32_t>(combine.destinations.size()));
  }
  facts.sources += SumOfLargest(std::move(sources), most);
  facts.destinations += SumOfLargest(std::move(destinations), most);
  for (const Combine& combine : step.combines) {
    for (const Place& place : combine.destinations) {
      if (place.space != Space::kStaged) continue;
      std::vector<uint16_t>& composers = facts.steps[place.index].composers;
      if (!composers.empty() && composers.back() == s) continue;
      ++facts.steps[s].conditions;
      composers.push_back(s);
    }
  }
}

}  // namespace

ProgramFacts FactsOf(const Plan& plan, const Program& program) {
  const IndexRange most_parts{0, MaxRoundParts(plan)};
  ProgramFacts facts;
  facts.lanes = LanesOf(program);
  facts.send_sources.resize(facts.lanes.sends.size());
  facts.steps.resize(program.steps.size());
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    StepFacts& own = facts.steps[s];
    own.source_base = facts.sources;
    own.destination_base = facts.destinations;
    if (step.kind == StepKind::kSend) {
      own.staged = step.pieces.front().space == Space::kStaged;
      ProgramFacts::Sources& sources = facts.send_sources[facts.lanes.positions[s].lane];
      (own.staged ? sources.staging : sources.buffers) = true;
    }
    own.in_slot = step.kind == StepKind::kReceive && step.pieces.front().space == Space::kReceived;
    own.reads = ReceivesReadBy(step);
    own.runs = RunsOf(step.combines);
    for (uint16_t receive : own.reads) ++facts.steps[receive].readers;
    own.conditions += static_cast<uint32_t>(step.after.size());
    for (uint16_t before : step.after) {
      facts.steps[before].successors.push_back(static_cast<uint16_t>(s));
    }
    AddCombines(step, static_cast<uint16_t>(s),
                PartEntries(most_parts, step.combines.size(), plan.parts).size(), facts);
    if (step.kind == StepKind::kReceive && !own.in_slot) {  // a copy if the slice is early
      ++facts.sources;
      ++facts.destinations;
    }
  }
  return facts;
}

}  // namespace mccs
