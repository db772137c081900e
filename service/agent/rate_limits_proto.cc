#include "service/agent/rate_limits_proto.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {
namespace {

absl::Status CheckLanes(const std::vector<LaneRateLimit>& lanes) {
  std::vector<std::tuple<ChannelId, HostIndex, HostIndex>> seen;
  for (const LaneRateLimit& lane : lanes) {
    const bool channel = lane.channel.value() >= 0 && lane.channel <= kMessageChannel;
    if (!channel || lane.from.value() < 0 || lane.to.value() < 0 || lane.from == lane.to) {
      return absl::InvalidArgumentError(absl::StrCat("limits: invalid lane: channel ",
                                                     lane.channel.value(), " from host ",
                                                     lane.from.value(), " to ", lane.to.value()));
    }
    seen.emplace_back(lane.channel, lane.from, lane.to);
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return absl::InvalidArgumentError("limits: duplicate lane: it has two rates");
  }
  return absl::OkStatus();
}

absl::Status CheckWindows(const SendWindows& windows) {
  if (windows.period_ns > 0 && windows.open_ns > 0 && windows.open_ns <= windows.period_ns) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("limits: invalid send windows: open for ",
                                                 windows.open_ns, " of ", windows.period_ns,
                                                 " ns"));
}

}  // namespace

absl::StatusOr<RateLimits> RateLimitsFromProto(const agent::v1::RateLimits& message) {
  if (message.lanes_size() > kMaxRateLimitedLanes) {
    return absl::InvalidArgumentError(absl::StrCat("limits: too many lanes: ", message.lanes_size(),
                                                   "; at most ", kMaxRateLimitedLanes));
  }
  if (message.priority() > kMaxPriority) {
    return absl::InvalidArgumentError(absl::StrCat("limits: invalid class ", message.priority(),
                                                   ": expected 0 to ", kMaxPriority));
  }
  RateLimits limits{.revision = message.revision(),
                    .lanes = {},
                    .priority = message.priority(),
                    .windows = {},
                    .tenant_rate_bps = message.tenant_rate_bps(),
                    .tenant = message.tenant()};
  for (const agent::v1::LaneRateLimit& lane : message.lanes()) {
    limits.lanes.push_back({.channel = ChannelId(lane.channel()),
                            .from = HostIndex(lane.from()),
                            .to = HostIndex(lane.to()),
                            .rate_bps = lane.rate_bps()});
  }
  if (absl::Status status = CheckLanes(limits.lanes); !status.ok()) return status;
  if (message.has_send_windows()) {
    limits.windows = {.period_ns = message.send_windows().period_ns(),
                      .origin_ns = message.send_windows().origin_ns(),
                      .open_ns = message.send_windows().open_ns()};
    if (absl::Status status = CheckWindows(limits.windows); !status.ok()) return status;
  }
  return limits;
}

}  // namespace mccs
