#include "controller/rates/rate_changes.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/units.h"
#include "controller/policy/shares.h"
#include "controller/state/resolved_view.h"
#include "controller/view/fabric.h"

namespace mccs {
namespace {

constexpr double kNoChange = 0.01;

struct RateSummary {
  double out_of_host_bps = 0;  // 0: not known without a Topology
  uint64_t cap_bps = 0;        // 0: none
  uint32_t priority = 0;
};

// A ring is as fast as its slowest flow, and a host sends on all channels.
double OutOfHost(const std::vector<FlowShare>& flows) {
  std::map<int, double> of_channel;
  for (const FlowShare& flow : flows) {
    const auto [slowest, is_first] = of_channel.emplace(flow.channel, flow.rate_bps);
    if (!is_first) slowest->second = std::min(slowest->second, flow.rate_bps);
  }
  double sum = 0;
  for (const auto& [channel, rate_bps] : of_channel) sum += rate_bps;
  return sum;
}

std::map<CommId, RateSummary> RateSummariesOf(const Situation& situation) {
  const ClusterView resolved = ResolveView(situation.view, situation.objects);
  const Fabrics fabrics(resolved);
  const AllShares shares = FindShares(resolved, fabrics);
  std::map<CommId, RateSummary> fares;
  for (size_t i = 0; i < resolved.communicators.size(); ++i) {
    const CommunicatorView& communicator = resolved.communicators[i];
    fares[communicator.id] = {.out_of_host_bps = OutOfHost(shares.flows[i]),
                              .cap_bps = communicator.owner.cap_bps.value_or(0),
                              .priority = communicator.owner.priority};
  }
  return fares;
}

bool AreAlike(double one, double other) {
  return std::abs(one - other) <= kNoChange * std::max(one, other);
}

std::string CapText(uint64_t cap_bps) {
  return cap_bps > 0 ? FormatBitRate(static_cast<double>(cap_bps)) : "none";
}

std::string Difference(const RateSummary& before, const RateSummary& after) {
  std::vector<std::string> parts;
  const bool known = before.out_of_host_bps > 0 && after.out_of_host_bps > 0;
  if (known && !AreAlike(before.out_of_host_bps, after.out_of_host_bps)) {
    parts.push_back(absl::StrCat("fair share per host: ", FormatBitRate(before.out_of_host_bps),
                                 " → ", FormatBitRate(after.out_of_host_bps)));
  }
  if (before.cap_bps != after.cap_bps)
    parts.push_back(absl::StrCat("cap: ", CapText(before.cap_bps), " → ", CapText(after.cap_bps)));
  if (before.priority != after.priority)
    parts.push_back(absl::StrCat("priority: ", before.priority, " → ", after.priority));
  return absl::StrJoin(parts, "; ");
}

}  // namespace

std::map<CommId, std::string> RateChanges(const Situation& before, const Situation& after) {
  const std::map<CommId, RateSummary> fared = RateSummariesOf(before);
  std::map<CommId, std::string> changes;
  for (const auto& [id, fare] : RateSummariesOf(after)) {
    const auto old = fared.find(id);
    if (old == fared.end()) continue;
    if (std::string text = Difference(old->second, fare); !text.empty())
      changes[id] = std::move(text);
  }
  return changes;
}

}  // namespace mccs
