#include "service/pacing/rate_limits.h"

#include <algorithm>

namespace mccs {
namespace {

// Position of `now` in its period; the origin may be in the past or in the future.
int64_t PhaseOf(const SendWindows& windows, MonotonicNs now) {
  const int64_t phase =
      (now % windows.period_ns - windows.origin_ns % windows.period_ns) % windows.period_ns;
  return phase < 0 ? phase + windows.period_ns : phase;
}

}  // namespace

bool SendWindows::OpenAt(MonotonicNs now) const {
  return period_ns == 0 || PhaseOf(*this, now) < open_ns;
}

bool RateLimits::IsUnlimited() const {
  return lanes.empty() && priority == 0 && windows.period_ns == 0 && tenant_rate_bps == 0;
}

SentRates::SentRates(const RateLimits& limits, HostIndex from) {
  for (const LaneRateLimit& lane : limits.lanes) {
    if (lane.from == from) rates_[{lane.channel, lane.to}] = lane.rate_bps;
  }
}

std::optional<uint64_t> SentRates::RateOf(ChannelId channel, HostIndex to) const {
  const auto found = rates_.find({channel, to});
  return found == rates_.end() ? std::nullopt : std::optional(found->second);
}

uint8_t ControlDscp(const DscpMap& markings) {
  const auto highest =
      std::find_if(markings.rbegin(), markings.rend(), [](uint8_t mark) { return mark != 0; });
  return highest != markings.rend() ? *highest : 0;
}

MonotonicNs SendWindows::NextOpening(MonotonicNs now) const {
  return period_ns == 0 ? now : now + period_ns - PhaseOf(*this, now);
}

}  // namespace mccs
