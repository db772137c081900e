#include "controller/policy/time_windows.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/units.h"
#include "controller/view/flow.h"

namespace mccs {
namespace {

// Minimal open part of a period: shorter windows cost the waiting jobs more than others gain.
constexpr int64_t kLeastOpenPart = 10;  // 1/10 of the period
// Data in the kernel's and the switches' queues is sent after a window has closed.
constexpr int64_t kLeastDrainNs = kNsPerMs;
constexpr int64_t kDrainPart = 100;  // of the period
// Windows are sent again if their edges are further off than this.
constexpr int64_t kTolerancePart = 80;  // of the period
constexpr int64_t kLeastToleranceNs = kNsPerMs / 2;

int64_t ToleranceOf(int64_t period_ns) {
  return std::max(period_ns / kTolerancePart, kLeastToleranceNs);
}

// The directions of links that a communicator's lanes use.
struct Footprint {
  bool leaves_host = false;
  bool known = true;  // for all lanes
  std::vector<std::pair<const Fabric*, ArcId>> arcs = {};

  bool Meets(const Footprint& other) const {
    if (!leaves_host || !other.leaves_host) return false;
    if (!known || !other.known) return true;
    return std::any_of(arcs.begin(), arcs.end(), [&](const auto& arc) {
      return std::binary_search(other.arcs.begin(), other.arcs.end(), arc);
    });
  }
};

Footprint FootprintOf(const Fabrics& fabrics, const CommunicatorView& communicator) {
  Footprint footprint = {.leaves_host = communicator.hosts.size() > 1};
  if (!footprint.leaves_host) return footprint;
  const auto hosts = HostsOf(fabrics, communicator);
  const auto flows = FlowsOf(communicator, communicator.strategy, hosts);
  footprint.known = flows.ok();
  if (!flows.ok()) return footprint;
  Fabric* const fabric = hosts[0]->fabric;
  for (const Flow& flow : *flows) {
    const std::optional<Path> path = PathOf(*fabric, flow);
    footprint.known &= path.has_value();
    if (!path) continue;
    for (const ArcId arc : *path) footprint.arcs.emplace_back(fabric, arc);
  }
  std::sort(footprint.arcs.begin(), footprint.arcs.end());
  return footprint;
}

// Phase of `time` in the windows' period, ≥ 0.
int64_t PhaseOf(const PlannedWindows& windows, MonotonicNs time) {
  const int64_t phase = (time - windows.origin) % windows.period_ns;
  return phase < 0 ? phase + windows.period_ns : phase;
}

}  // namespace

std::vector<WaitRule> FindWaitRules(const ClusterView& view, const Fabrics& fabrics,
                                    const std::vector<const std::vector<std::string>*>& favoured) {
  std::vector<WaitRule> rules;
  const bool any = std::any_of(favoured.begin(), favoured.end(),
                               [](const auto* each) { return each != nullptr; });
  if (!any) return rules;
  std::vector<Footprint> footprints;
  for (const CommunicatorView& communicator : view.communicators)
    footprints.push_back(FootprintOf(fabrics, communicator));
  const auto is_favoured = [](const CommunicatorView& communicator,
                              const std::vector<std::string>& tenants) {
    return std::find(tenants.begin(), tenants.end(), communicator.owner.name) != tenants.end();
  };
  for (size_t i = 0; i < view.communicators.size(); ++i) {
    const CommunicatorView& waits = view.communicators[i];
    if (favoured[i] == nullptr || is_favoured(waits, *favoured[i])) continue;
    WaitRule rule = {.waits = waits.id, .favoured = {}, .hosts = waits.hosts};
    for (size_t j = 0; j < view.communicators.size(); ++j) {
      if (is_favoured(view.communicators[j], *favoured[i]) && footprints[i].Meets(footprints[j]))
        rule.favoured.push_back(view.communicators[j].id);
    }
    if (!rule.favoured.empty()) rules.push_back(std::move(rule));
  }
  return rules;
}

absl::StatusOr<PlannedWindows> PlanWindows(const Period& favoured, int64_t clock_error_ns) {
  // Windows that are slightly off stay unchanged (AreClose).
  const int64_t drain = std::max(favoured.period_ns / kDrainPart, kLeastDrainNs);
  const int64_t guard =
      clock_error_ns + favoured.error_ns + drain + ToleranceOf(favoured.period_ns);
  const int64_t pause = favoured.period_ns - favoured.busy_ns;
  const int64_t open = pause - clock_error_ns - guard;
  if (open < favoured.period_ns / kLeastOpenPart || open < kLeastPauseNs) {
    return absl::NotFoundError(
        absl::StrCat("its pause of ", FormatMilliseconds(pause), " in each period of ",
                     FormatMilliseconds(favoured.period_ns), " is too short for a guard time of ",
                     FormatMilliseconds(guard + clock_error_ns), " (clock error ",
                     FormatMilliseconds(clock_error_ns), ", period error ",
                     FormatMilliseconds(favoured.error_ns), ")"));
  }
  return PlannedWindows{.period_ns = favoured.period_ns,
                        .origin = favoured.onset + favoured.busy_ns + clock_error_ns,
                        .open_ns = open};
}

bool AreClose(const PlannedWindows& sent, const PlannedWindows& fresh, MonotonicNs now,
              int64_t horizon_ns) {
  const int64_t tolerance = ToleranceOf(fresh.period_ns);
  // Distance of the edges, the shorter way around the period, now and at the end of the horizon.
  for (const MonotonicNs at : {now, now + horizon_ns}) {
    const int64_t apart = std::abs(PhaseOf(sent, at) - PhaseOf(fresh, at));
    if (std::min(apart, std::abs(fresh.period_ns - apart)) > tolerance) return false;
  }
  // Between the two times, the edges could have drifted by a whole period.
  const int64_t periods = horizon_ns / fresh.period_ns + 1;
  if (std::abs(sent.period_ns - fresh.period_ns) > tolerance / periods) return false;
  return std::abs(sent.open_ns - fresh.open_ns) <= tolerance;
}

}  // namespace mccs
