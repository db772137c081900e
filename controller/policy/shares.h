// Policy: how fast each lane may send, so that every tenant gets its share of the links: weighted
// max-min fair, not below what it is guaranteed and not above its cap (topology/max_min_shares.h).
//
// What a Tenant's figures mean: all that its ring lanes of one host send out of one NIC together.
// It weighs its weight there, has its guarantee, and does not get more than its cap; each of the
// lanes has an even part. Rates count payload: of a link they share SharedPart. The cap is for all
// else that the tenant sends, too: daemons hold it to that (PlannedPace::tenant_rate_bps).
//
// Pure.
#ifndef MCCS_CONTROLLER_POLICY_SHARES_H_
#define MCCS_CONTROLLER_POLICY_SHARES_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "controller/cluster_view.h"
#include "controller/policy/fabric.h"
#include "controller/policy/planned_windows.h"
#include "topology/max_min_shares.h"

namespace mccs {

inline constexpr char kSharesName[] = "shares";

// Of a link's rate, with packets of up to `mtu_bytes`: what is payload (topology/payload_part.h),
// less 1.5 %. Lanes keep their rates over time, not at each moment (service/pacing/token_bucket.h):
// what was saved in a pause leaves at once, and queues up where others' does. A queue goes as fast
// as the link has something free. With none it stands, overflows, and who loses packets falls
// behind.
// REQUIRES: a Topology's MTU.
double SharedPart(int32_t mtu_bytes);

// What one flow of the view gets if all send as much as they can.
struct FlowShare {
  int channel = 0;
  int from = 0;  // positions in the communicator's hosts
  int to = 0;
  Path path;             // nothing but the two NICs' links, where the path is not known
  bool on_path = false;  // it is known
  double rate_bps = 0;   // of payload
  bool down = false;     // a link of its path is: it has no rate
  ShareLimit limit = ShareLimit::kLink;
  ArcId full_arc = {};  // with kLink
};

// A tenant's guarantee that a link does not hold.
struct BrokenPromise {
  Fabric* fabric = nullptr;
  ArcId arc;
  double guaranteed_bps = 0;  // by all, of payload
  double capacity_bps = 0;    // of payload
  std::vector<std::string> tenants;
};

struct SharesOfAll {
  // By communicator of the view, channel by channel, around the rings. Empty: a single host, or no
  // Topology says which links it uses.
  std::vector<std::vector<FlowShare>> flows;
  // Guarantees that cannot all be kept; they were lowered in proportion, link by link.
  std::vector<BrokenPromise> broken;
};

// Of the strategies that the communicators of `view` have.
SharesOfAll FindShares(const ClusterView& view, const Fabrics& fabrics);

// "leaf0 → spine1 carries 47 Gbps of payload, but 60 Gbps of it are guaranteed to tenants a, b".
std::string Describe(const BrokenPromise& broken);

// How fast a communicator's lanes may send.
struct PlannedPace {
  struct Lane {
    int channel = 0;
    int from = 0, to = 0;  // positions in the communicator's hosts
    uint64_t rate_bps = 0;

    friend bool operator==(const Lane&, const Lane&) = default;
  };
  CommId id;
  std::vector<Lane> lanes = {};  // that have a limit
  uint32_t priority = 0;
  std::optional<PlannedWindows> windows = {};  // none: at any time
  // Its Tenant's cap, for all that the Tenant sends out of one NIC of a host; 0: none, and no name.
  uint64_t tenant_rate_bps = 0;
  std::string tenant = {};

  friend bool operator==(const PlannedPace&, const PlannedPace&) = default;
};

// Links leave a lane this much, however little its part of them is: an operation ends in the end.
inline constexpr uint64_t kLeastLaneBps = 100'000;

// By communicator of the view. Lanes of those in `by_shares` get what FindShares found, and of
// links that are full kLeastLaneBps at least. The cap of a Tenant is for all of its communicators,
// whatever they send and wherever they run.
std::vector<PlannedPace> PlanPaces(const ClusterView& view, const SharesOfAll& shares,
                                   const std::vector<bool>& by_shares);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_POLICY_SHARES_H_
