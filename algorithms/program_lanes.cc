#include "algorithms/program_lanes.h"

#include <algorithm>
#include <cstddef>

namespace mccs {
namespace {

// The lane of `peer`, added if it is new. `index_of` by HostIndex; -1: none yet.
uint32_t LaneTo(HostIndex peer, std::vector<ProgramLanes::Lane>& lanes,
                std::vector<int32_t>& index_of) {
  const auto host = static_cast<size_t>(peer.value());
  if (index_of.size() <= host) index_of.resize(host + 1, -1);
  if (index_of[host] < 0) {
    index_of[host] = static_cast<int32_t>(lanes.size());
    lanes.push_back({.peer = peer, .steps = {}});
  }
  return static_cast<uint32_t>(index_of[host]);
}

void SetPositions(const Program& program, const std::vector<ProgramLanes::Lane>& lanes,
                  std::vector<ProgramLanes::Position>& positions) {
  for (const ProgramLanes::Lane& lane : lanes) {
    for (size_t begin = 0; begin < lane.steps.size();) {
      size_t end = begin;
      while (end < lane.steps.size() &&
             program.steps[lane.steps[end]].stage == program.steps[lane.steps[begin]].stage) {
        ++end;
      }
      for (size_t i = begin; i < end; ++i) {
        ProgramLanes::Position& position = positions[lane.steps[i]];
        position.before = static_cast<uint32_t>(begin);
        position.in_stage = static_cast<uint32_t>(end - begin);
        position.index = static_cast<uint32_t>(i - begin);
      }
      begin = end;
    }
  }
}

}  // namespace

ProgramLanes LanesOf(const Program& program) {
  ProgramLanes result;
  result.positions.resize(program.steps.size());
  std::vector<int32_t> send_to;
  std::vector<int32_t> receive_from;
  for (size_t s = 0; s < program.steps.size(); ++s) {
    const Step& step = program.steps[s];
    if (step.kind == StepKind::kCombine) continue;
    const bool sends = step.kind == StepKind::kSend;
    std::vector<ProgramLanes::Lane>& lanes = sends ? result.sends : result.receives;
    const uint32_t lane = LaneTo(step.peer, lanes, sends ? send_to : receive_from);
    lanes[lane].steps.push_back(static_cast<uint16_t>(s));
    result.positions[s].lane = lane;
  }
  SetPositions(program, result.sends, result.positions);
  SetPositions(program, result.receives, result.positions);
  return result;
}

bool Composes(const Program& program, const ProgramLanes::Lane& lane) {
  return std::ranges::any_of(lane.steps, [&](uint16_t step) {
    return program.steps[step].pieces.front().space == Space::kStaged;
  });
}

}  // namespace mccs
