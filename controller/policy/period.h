// The period of a job that computes and communicates in turns, from the times in which it
// communicated. Pure.
//
// What stands between two long pauses is one burst, however many calls it has: of the lengths that
// "long" may have, the longest is taken with which the bursts come regularly. They do where most
// pauses are about as long as the pause in the middle, or most distances from burst to burst
// (missed bursts count as such): a job that gets more bandwidth has shorter bursts and the same
// pauses, and stays regular.
//
// Where the next bursts begin is told from the last one on: computing takes now a little more and
// now a little less, and what it took is not caught up with.
#ifndef MCCS_CONTROLLER_POLICY_PERIOD_H_
#define MCCS_CONTROLLER_POLICY_PERIOD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mccs {

// In which a job communicated.
struct WorkSpan {
  MonotonicNs begin = 0;
  MonotonicNs end = 0;
};

// The time in which any of them works. `spans` in any order.
std::vector<WorkSpan> Union(std::vector<WorkSpan> spans);

struct Period {
  int64_t period_ns = 0;
  int64_t busy_ns = 0;    // from the begin of a burst to its end
  MonotonicNs onset = 0;  // when the last burst began
  // So far from where the period has them the bursts of the time to come may begin (PeriodOptions).
  int64_t error_ns = 0;
};

struct PeriodOptions {
  bool goes_on = false;  // the last span has not ended
  // So far ahead of the last burst somebody goes by the period before it is looked for again.
  int64_t horizon_ns = kNsPerSec;
};

inline constexpr size_t kLeastBursts = 5;
// A shorter pause is none: nothing could be sent in it that is worth the trouble.
inline constexpr int64_t kLeastPauseNs = kNsPerMs;

// REQUIRES: `spans` apart from each other and in order. kNotFound: there is no period; the text
// says why.
absl::StatusOr<Period> FindPeriod(std::span<const WorkSpan> spans, const PeriodOptions& options);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PERIOD_H_
