// Finds the period of a job that computes and communicates in turns, from its times of
// communication. Pure.
//
// A burst is everything between two long pauses, with any number of calls. "Long" is the largest
// threshold for which the bursts are regular: most pauses are close to the median pause, or most
// distances between bursts are close to the median distance (missed bursts allowed). With more
// bandwidth a job has shorter bursts and the same pauses, and stays regular.
//
// The next bursts are predicted from the last one: variations of the compute time add up.
#ifndef MCCS_CONTROLLER_POLICY_PERIOD_H_
#define MCCS_CONTROLLER_POLICY_PERIOD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"

namespace mccs {

// A time in which a job communicated.
struct WorkSpan {
  MonotonicNs begin = 0;
  MonotonicNs end = 0;
};

// Times in which any of them communicates. `spans` in any order.
std::vector<WorkSpan> Union(std::vector<WorkSpan> spans);

struct Period {
  int64_t period_ns = 0;
  int64_t busy_ns = 0;    // duration of a burst
  MonotonicNs onset = 0;  // start of the last burst
  // Maximal error of the predicted starts within PeriodOptions::horizon_ns.
  int64_t error_ns = 0;
};

struct PeriodOptions {
  bool ongoing = false;  // the last span has not ended
  // How far ahead the period is used before it is computed again.
  int64_t horizon_ns = kNsPerSec;
};

inline constexpr size_t kLeastBursts = 5;
// Shorter pauses are ignored: too short for another job to send.
inline constexpr int64_t kLeastPauseNs = kNsPerMs;

// REQUIRES: `spans` disjoint and sorted. kNotFound: no period; the message has the reason.
absl::StatusOr<Period> FindPeriod(std::span<const WorkSpan> spans, const PeriodOptions& options);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_PERIOD_H_
