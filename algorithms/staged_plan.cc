#include "algorithms/staged_plan.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/check.h"

namespace mccs {
namespace {

bool InBuffer(const Step& step) {
  if (step.kind == StepKind::kCombine) return false;
  const Space space = step.pieces.front().space;
  return space == Space::kInput || space == Space::kOutput;
}

class Stager {
 public:
  explicit Stager(const Program& program) : program_(program) {}

  Program Build() {
    Program result = program_;
    Number();
    result.steps.clear();
    for (size_t s = 0; s < program_.steps.size(); ++s) {
      Step step = program_.steps[s];
      Renumber(step);
      if (!InBuffer(step)) {
        result.steps.push_back(std::move(step));
      } else if (step.kind == StepKind::kSend) {
        Step copy = CopyOf(step);
        const std::vector<Place> buffer = MoveToSlot(step, Space::kStaged, moved_[s]);
        for (size_t i = 0; i < buffer.size(); ++i)
          copy.combines.push_back({{buffer[i]}, {step.pieces[i]}});
        copy.after = std::exchange(step.after, {Previous(moved_[s])});
        result.steps.push_back(std::move(copy));
        result.steps.push_back(std::move(step));
      } else {
        Step copy = CopyOf(step);
        const std::vector<Place> buffer = MoveToSlot(step, Space::kReceived, moved_[s]);
        for (size_t i = 0; i < buffer.size(); ++i)
          copy.combines.push_back({{step.pieces[i]}, {buffer[i]}});
        copy.after = std::exchange(step.after, {});
        copy.after.push_back(moved_[s]);
        result.steps.push_back(std::move(step));
        result.steps.push_back(std::move(copy));
      }
    }
    result.parts += added_parts_;
    return result;
  }

 private:
  static uint16_t Previous(uint16_t step) { return static_cast<uint16_t>(step - 1); }

  // moved_: the new position of a step. done_: of the step after which its buffer has been read or
  // written.
  void Number() {
    size_t next = 0;
    for (const Step& step : program_.steps) {
      const bool copies = InBuffer(step);
      const bool before = copies && step.kind == StepKind::kSend;
      moved_.push_back(static_cast<uint16_t>(next + (before ? 1 : 0)));
      done_.push_back(static_cast<uint16_t>(next + (copies && !before ? 1 : 0)));
      next += copies ? 2 : 1;
      MCCS_CHECK(next < UINT16_MAX);  // CheckPlanSize: at most half as many
      if (copies) added_parts_ += 1 + 3 * step.pieces.size();
    }
  }
  void Renumber(Step& step) const {
    for (uint16_t& before : step.after) before = done_[before];
    for (Place& piece : step.pieces) Renumber(piece);
    for (Combine& combine : step.combines) {
      for (Place& place : combine.sources) Renumber(place);
      for (Place& place : combine.destinations) Renumber(place);
    }
  }
  void Renumber(Place& place) const {
    if (place.space == Space::kReceived || place.space == Space::kStaged)
      place.index = moved_[place.index];
  }
  static Step CopyOf(const Step& step) {
    Step copy;
    copy.stage = step.stage;
    return copy;
  }
  // Replaces the pieces by those of the step's slot; returns the former ones.
  static std::vector<Place> MoveToSlot(Step& step, Space space, uint16_t self) {
    std::vector<Place> buffer = step.pieces;
    for (size_t i = 0; i < buffer.size(); ++i) {
      step.pieces[i] = {.space = space,
                        .index = self,
                        .piece = static_cast<uint16_t>(i),
                        .block = buffer[i].block};
    }
    return buffer;
  }

  const Program& program_;
  std::vector<uint16_t> moved_;
  std::vector<uint16_t> done_;
  uint64_t added_parts_ = 0;
};

}  // namespace

Plan Staged(const Plan& plan) {
  Plan result = plan;
  for (Program& program : result.programs) program = Stager(program).Build();
  return result;
}

}  // namespace mccs
