// Steps of the short programs in tests.
#ifndef MCCS_TESTS_UNIT_EXECUTOR_WRITTEN_STEPS_H_
#define MCCS_TESTS_UNIT_EXECUTOR_WRITTEN_STEPS_H_

#include <utility>
#include <vector>

#include "algorithms/plan.h"

namespace mccs {

inline constexpr Place kFirstInput{Space::kInput, 0, 0, 0};
inline constexpr Place kSecondInput{Space::kInput, 1, 0, 0};
inline constexpr Place kFirstOutput{Space::kOutput, 0, 0, 0};
inline constexpr Place kSecondOutput{Space::kOutput, 1, 0, 0};

// The host at the other end, where only one is needed.
inline constexpr HostIndex kPeer{1};

inline Step Sends(Place from, std::vector<uint16_t> after = {}, HostIndex to = kPeer) {
  return {.kind = StepKind::kSend,
          .combines = {},
          .pieces = {from},
          .peer = to,
          .after = std::move(after)};
}
inline Step Receives(Place to, HostIndex from = kPeer) {
  return {.kind = StepKind::kReceive, .combines = {}, .pieces = {to}, .peer = from, .after = {}};
}
inline Step Sums(std::vector<Place> sources, Place to, std::vector<uint16_t> after = {}) {
  return {.kind = StepKind::kCombine,
          .combines = {{std::move(sources), {to}}},
          .pieces = {},
          .after = std::move(after)};
}
// The only piece of the slice that step `step` sends or receives.
inline Place StagedFor(uint16_t step) { return {Space::kStaged, step, 0, 0}; }
inline Place ReceivedBy(uint16_t step) { return {Space::kReceived, step, 0, 0}; }

// Both inputs are summed into the staging slot and sent.
inline std::vector<Step> SendsTheSum() {
  return {Sums({kFirstInput, kSecondInput}, StagedFor(1)), Sends(StagedFor(1), {0})};
}
// The received slice is added to the first input; the sum is the first output.
inline std::vector<Step> AddsWhatComes() {
  return {Receives(ReceivedBy(0)), Sums({ReceivedBy(0), kFirstInput}, kFirstOutput, {0})};
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_EXECUTOR_WRITTEN_STEPS_H_
