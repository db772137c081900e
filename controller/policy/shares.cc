#include "controller/policy/shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "base/units.h"
#include "controller/view/flow.h"
#include "topology/max_min_shares.h"

namespace mccs {
namespace {

constexpr double kFreePart = 0.015;  // of the payload; 20 ms of a full link's data drain in 1.3 s

// All flows over one fabric.
struct Traffic {
  struct Origin {
    size_t communicator, flow;  // indices in AllShares::flows
  };
  std::vector<FlowDemand> demands;
  std::vector<Origin> origins;
};

class ShareSolver {
 public:
  ShareSolver(const ClusterView& view, const Fabrics& fabrics) : view_(view), fabrics_(fabrics) {
    shares_.flows.resize(view.communicators.size());
  }

  AllShares Run() {
    for (size_t c = 0; c < view_.communicators.size(); ++c) Collect(c);
    CountLanes();
    for (const auto& owned : fabrics_.all()) {
      Fabric* const fabric = owned.get();
      Traffic& traffic = traffic_[fabric];
      Entitle(&traffic);
      std::vector<double> capacity(fabric->capacity_bps().begin(), fabric->capacity_bps().end());
      const double part = UsableFraction(fabric->topology().mtu_bytes());
      for (double& each : capacity) each *= part;
      KeepGuaranteesWithin(fabric, capacity, &traffic);
      Share(capacity, traffic);
    }
    return std::move(shares_);
  }

 private:
  const TenantView& OwnerOf(const Traffic::Origin& origin) const {
    return view_.communicators[origin.communicator].owner;
  }
  FlowShare& ShareOf(const Traffic::Origin& origin) {
    return shares_.flows[origin.communicator][origin.flow];
  }

  void Collect(size_t c) {
    const CommunicatorView& communicator = view_.communicators[c];
    const auto hosts = HostsOf(fabrics_, communicator);
    const auto flows = FlowsOf(communicator, communicator.strategy, hosts);
    if (!flows.ok() || flows->empty()) return;
    Fabric* const fabric = hosts[0]->fabric;
    Traffic& traffic = traffic_[fabric];
    for (const Flow& flow : *flows) {
      FlowShare share = {.channel = flow.channel, .from = flow.from, .to = flow.to, .path = {}};
      if (std::optional<Path> path = PathOf(*fabric, flow)) {
        share.path = *std::move(path);
        share.on_path = true;
      } else {
        share.path = {fabric->topology().ArcOut(flow.from_nic),
                      fabric->topology().ArcInto(flow.to_nic)};
      }
      traffic.origins.push_back({c, shares_.flows[c].size()});
      traffic.demands.push_back({.path = share.path});
      shares_.flows[c].push_back(std::move(share));
    }
  }

  // Counts the lanes of each tenant out of each NIC.
  void CountLanes() {
    for (const auto& [fabric, traffic] : traffic_) {
      for (size_t i = 0; i < traffic.origins.size(); ++i)
        ++lanes_[{OwnerOf(traffic.origins[i]).name, fabric, traffic.demands[i].path.front()}];
    }
    for (auto& [fabric, traffic] : traffic_) {
      for (size_t i = 0; i < traffic.origins.size(); ++i) {
        const int lanes =
            lanes_[{OwnerOf(traffic.origins[i]).name, fabric, traffic.demands[i].path.front()}];
        traffic.demands[i].weight = 1.0 / lanes;
      }
    }
  }

  // REQUIRES: a flow's weight is its part of its tenant's weight.
  void Entitle(Traffic* traffic) {
    for (size_t i = 0; i < traffic->demands.size(); ++i) {
      const TenantView& owner = OwnerOf(traffic->origins[i]);
      FlowDemand& demand = traffic->demands[i];
      const double part = demand.weight;
      demand.weight = owner.weight * part;
      if (owner.guarantee_bps)
        demand.guarantee_bps = static_cast<double>(*owner.guarantee_bps) * part;
      if (owner.cap_bps) demand.cap_bps = static_cast<double>(*owner.cap_bps) * part;
    }
  }

  void KeepGuaranteesWithin(Fabric* fabric, std::span<const double> capacity, Traffic* traffic) {
    const std::vector<BrokenGuarantee> broken = FindBrokenGuarantees(capacity, traffic->demands);
    std::vector<double> kept(traffic->demands.size(), 1);  // remaining part of each guarantee
    for (const BrokenGuarantee& each : broken) {
      std::set<std::string> tenants;
      for (const size_t flow : each.flows) {
        kept[flow] = std::min(kept[flow], each.capacity_bps / each.guaranteed_bps);
        tenants.insert(OwnerOf(traffic->origins[flow]).name);
      }
      shares_.broken.push_back({.fabric = fabric,
                                .arc = each.arc,
                                .guaranteed_bps = each.guaranteed_bps,
                                .capacity_bps = each.capacity_bps,
                                .tenants = {tenants.begin(), tenants.end()}});
    }
    for (size_t i = 0; i < kept.size(); ++i) traffic->demands[i].guarantee_bps *= kept[i];
  }

  void Share(std::span<const double> capacity, const Traffic& traffic) {
    const auto found = MaxMinShares(capacity, traffic.demands);
    MCCS_CHECK(found.ok());
    for (size_t i = 0; i < found->size(); ++i) {
      FlowShare& share = ShareOf(traffic.origins[i]);
      share.rate_bps = (*found)[i].rate_bps;
      share.limit = (*found)[i].limit;
      share.full_arc = (*found)[i].full_arc;
      share.down = std::any_of(share.path.begin(), share.path.end(),
                               [&](ArcId arc) { return capacity[arc.value()] == 0; });
    }
  }

  const ClusterView& view_;
  const Fabrics& fabrics_;
  std::map<Fabric*, Traffic> traffic_;
  std::map<std::tuple<std::string, Fabric*, ArcId>, int> lanes_;
  AllShares shares_;
};

}  // namespace

double UsableFraction(int32_t mtu_bytes) { return (1 - kFreePart) * PayloadFraction(mtu_bytes); }

AllShares FindShares(const ClusterView& view, const Fabrics& fabrics) {
  return ShareSolver(view, fabrics).Run();
}

std::string Describe(const UnmetGuarantee& broken) {
  return absl::StrCat(broken.fabric->topology().ArcName(broken.arc), " can carry ",
                      FormatBitRate(broken.capacity_bps), " of payload, but the guarantees of ",
                      broken.tenants.size() == 1 ? "tenant " : "tenants ",
                      absl::StrJoin(broken.tenants, ", "), " on it add up to ",
                      FormatBitRate(broken.guaranteed_bps));
}

std::vector<agent::v1::RateLimits> PlanRateLimits(const ClusterView& view, const AllShares& shares,
                                                  const std::vector<bool>& by_shares) {
  std::vector<agent::v1::RateLimits> planned;
  for (size_t c = 0; c < view.communicators.size(); ++c) {
    const TenantView& owner = view.communicators[c].owner;
    agent::v1::RateLimits& limits = planned.emplace_back();
    limits.set_comm_id(view.communicators[c].id.value());
    limits.set_priority(owner.priority);
    if (owner.cap_bps) {
      limits.set_tenant_rate_bps(*owner.cap_bps);
      limits.set_tenant(owner.name);
    }
    for (const FlowShare& flow : shares.flows[c]) {
      if (!by_shares[c] || flow.down) continue;
      const auto rate_bps = static_cast<uint64_t>(std::round(flow.rate_bps));
      const uint64_t least_bps = flow.limit == ShareLimit::kLink ? kLeastLaneBps : 1;
      agent::v1::LaneRateLimit* lane = limits.add_lanes();
      lane->set_channel(flow.channel);
      lane->set_from(flow.from);
      lane->set_to(flow.to);
      lane->set_rate_bps(std::max(rate_bps, least_bps));
    }
  }
  return planned;
}

}  // namespace mccs
