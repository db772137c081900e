#include "controller/measurement/report_interval.h"

#include <algorithm>
#include <array>

#include "proto/report_interval.h"

namespace mccs {
namespace {

constexpr int64_t kNsPerHost = kNsPerMs;
// Each about a quarter longer: a growing cluster changes its interval a few times.
constexpr std::array<int64_t, 11> kStepsMs = {500,  630,  800,  1000, 1250, 1600,
                                              2000, 2500, 3150, 4000, 5000};
static_assert(kStepsMs.front() * kNsPerMs == kDefaultReportIntervalNs);
static_assert(kStepsMs.back() * kNsPerMs <= kLongestReportIntervalNs);

// The shortest interval for that many hosts.
int64_t StepFor(size_t hosts) {
  const auto enough = [&](int64_t ms) {
    return static_cast<int64_t>(hosts) * kNsPerHost <= ms * kNsPerMs;
  };
  const auto* step = std::find_if(kStepsMs.begin(), kStepsMs.end(), enough);
  return (step != kStepsMs.end() ? *step : kStepsMs.back()) * kNsPerMs;
}

}  // namespace

int64_t NextReportInterval(int64_t current_ns, size_t hosts) {
  return std::clamp(current_ns, StepFor(hosts), StepFor(hosts + hosts / 10));
}

}  // namespace mccs
