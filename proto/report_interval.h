// The interval of daemons' periodic reports, as controller, daemons and mccsctl use it. Sent as
// Registered.report_every_ns and ReportInterval (proto/agent.proto).
#ifndef MCCS_PROTO_REPORT_INTERVAL_H_
#define MCCS_PROTO_REPORT_INTERVAL_H_

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace mccs {

// Used if none was sent.
inline constexpr int64_t kDefaultReportIntervalNs = 500 * kNsPerMs;
// Daemons apply no others.
inline constexpr int64_t kShortestReportIntervalNs = 100 * kNsPerMs;
inline constexpr int64_t kLongestReportIntervalNs = 60 * kNsPerSec;
// Limit of the time from a periodic report's measurement until the controller has it.
inline constexpr int64_t kReportDelayNs = 250 * kNsPerMs;

// The interval that a message with `sent` means; 0 or less: it has none.
constexpr int64_t ReportIntervalFrom(int64_t sent) {
  if (sent <= 0) return kDefaultReportIntervalNs;
  return std::clamp(sent, kShortestReportIntervalNs, kLongestReportIntervalNs);
}

}  // namespace mccs

#endif  // MCCS_PROTO_REPORT_INTERVAL_H_
