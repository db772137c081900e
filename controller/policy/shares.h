// Policy: computes the rate of each lane so that every tenant gets its share of the links: weighted
// max-min fair, between its guarantee and its cap (topology/max_min_shares.h).
//
// A Tenant's weight, guarantee and cap apply to all its ring lanes from one host out of one NIC
// together; each lane gets an equal part. Rates count payload: lanes share UsableFraction of a
// link. Daemons also apply the cap to everything else that the tenant sends
// (RateLimits.tenant_rate_bps in proto/agent.proto).
//
// Pure.
#ifndef MCCS_CONTROLLER_POLICY_SHARES_H_
#define MCCS_CONTROLLER_POLICY_SHARES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/view/cluster_view.h"
#include "controller/view/fabric.h"
#include "proto/agent.pb.h"
#include "topology/max_min_shares.h"

namespace mccs {

// The part of a link's rate, with packets of up to `mtu_bytes`, that lanes may use as payload:
// PayloadFraction (topology/max_min_shares.h) less 1.5 %. Lanes hold their rates on average only
// (service/pacing/token_bucket.h), so bursts queue up. The queue drains only if the link has spare
// capacity; otherwise it overflows, and lanes that lose packets fall behind.
// REQUIRES: a Topology's MTU.
double UsableFraction(int32_t mtu_bytes);

// The rate of one flow of the view if all flows send as much as they can.
struct FlowShare {
  int channel = 0;
  int from = 0;  // positions in the communicator's hosts
  int to = 0;
  Path path;             // only the two NICs' links if the path is not known
  bool on_path = false;  // the path is known
  double rate_bps = 0;   // payload
  bool down = false;     // a link of its path is down: no rate
  ShareLimit limit = ShareLimit::kLink;
  ArcId full_arc = {};  // if limit is kLink
};

// A link that cannot hold the guarantees over it.
struct UnmetGuarantee {
  Fabric* fabric = nullptr;
  ArcId arc;
  double guaranteed_bps = 0;  // by all tenants, payload
  double capacity_bps = 0;    // payload
  std::vector<std::string> tenants;
};

struct AllShares {
  // By communicator of the view; in each by channel, then around the ring. Empty: a single host, or
  // its links are not known from a Topology.
  std::vector<std::vector<FlowShare>> flows;
  // Guarantees that cannot all be held; they were lowered in proportion, link by link.
  std::vector<UnmetGuarantee> broken;
};

// For the strategies in `view`.
AllShares FindShares(const ClusterView& view, const Fabrics& fabrics);

// "leaf0 → spine1 can carry 47 Gbit/s of payload, but the guarantees of tenants a, b on it add up
// to 60 Gbit/s".
std::string Describe(const UnmetGuarantee& broken);

// Send windows of a communicator: [origin + n × period, … + open) for each whole n, on the
// controller's clock.
struct PlannedWindows {
  int64_t period_ns = 0;
  MonotonicNs origin = 0;
  int64_t open_ns = 0;

  friend bool operator==(const PlannedWindows&, const PlannedWindows&) = default;
};

// Minimal rate of a lane, so that every operation ends.
inline constexpr uint64_t kLeastLaneBps = 100'000;

// By communicator of the view. Lanes of communicators in `by_shares` get their rate from `shares`,
// at least kLeastLaneBps. A Tenant's cap applies to all of its communicators, whatever they send
// and wherever they run. Without revisions and send windows.
std::vector<agent::v1::RateLimits> PlanRateLimits(const ClusterView& view, const AllShares& shares,
                                                  const std::vector<bool>& by_shares);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_SHARES_H_
