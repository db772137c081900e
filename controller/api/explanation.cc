#include "controller/api/explanation.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "controller/api/operator_view.h"
#include "controller/planning/applied_policies.h"
#include "controller/planning/measured_costs.h"
#include "controller/policy/rings.h"
#include "controller/policy/shares.h"
#include "controller/state/resolved_view.h"
#include "controller/view/fabric.h"
#include "controller/view/flow.h"

namespace mccs {
namespace {

constexpr size_t kShownPorts = 4;

// Index in the ring at which the lane starts; −1: not a lane of the ring.
int PlaceOf(const strategy::Strategy& strategy, const agent::v1::Lane& lane) {
  if (lane.channel() < 0 || lane.channel() >= strategy.channels_size()) return -1;
  return PlaceInRing(strategy.channels(lane.channel()), lane.from(), lane.to());
}

// For a lane without an assigned port, or without its assigned one: sets the port that it uses.
void SetPort(const agent::v1::Lane& lane, strategy::Strategy* strategy) {
  const int place = PlaceOf(*strategy, lane);
  const absl::StatusOr<Endpoint> local = ParseEndpoint(lane.local());
  if (place < 0 || !local.ok() || local->port == 0) return;
  strategy::ChannelStrategy* channel = strategy->mutable_channels(lane.channel());
  if (channel->source_ports_size() < channel->ring_size())
    channel->mutable_source_ports()->Resize(channel->ring_size(), 0);
  channel->set_source_ports(place, local->port);
}

ClusterView AppliedView(const Registry& registry) {
  ClusterView view = registry.View();
  for (CommunicatorView& communicator : view.communicators) {
    const CommunicatorRecord& record = registry.communicators().at(communicator.id);
    communicator.strategy = record.Applied();
    for (const auto& [host, report] : record.reports) {
      for (const agent::v1::Lane& lane : report.lanes()) SetPort(lane, &communicator.strategy);
    }
  }
  return view;
}

// Number of hops between different racks in a ring.
int Crossings(const std::vector<std::string>& racks, const std::vector<int>& ring) {
  int crossings = 0;
  for (size_t i = 0; i < ring.size(); ++i)
    crossings += racks[ring[i]] != racks[ring[(i + 1) % ring.size()]] ? 1 : 0;
  return crossings;
}

class Explainer {
 public:
  Explainer(const ExplanationInput& input, const ObjectSet& objects)
      : input_(input),
        objects_(objects),
        view_(ResolveView(input.view, objects)),
        fabrics_(view_),
        shares_(FindShares(view_, fabrics_)) {
    for (size_t c = 0; c < view_.communicators.size(); ++c) {
      const CommunicatorView& communicator = view_.communicators[c];
      if (communicator.id == input.id) at_ = c;
      const auto fabric = CommonFabric(communicator, HostsOf(fabrics_, communicator));
      fabric_of_.push_back(fabric.ok() ? *fabric : nullptr);
    }
  }

  control::v1::Explanation Run() {
    *out_.mutable_summary() = input_.summary;
    out_.set_report_every_ns(input_.report_every_ns);
    AddPolicy();
    AddSource();
    AddRings();
    AddHomes();
    AddAlgorithms();
    AddCosts();
    AddTenant();
    AddGuarantee();
    for (const agent::v1::Report& report : input_.reports) {
      for (const agent::v1::Lane& lane : report.lanes()) AddFlow(lane, report.measured_ns());
    }
    AddLinks();
    AddUnknownPaths();
    AddPorts();
    return std::move(out_);
  }

 private:
  const CommunicatorView& subject() const { return view_.communicators[at_]; }

  void AddLine(const std::string& name, const std::string& value) {
    control::v1::Fact* fact = out_.add_reasons();
    fact->set_name(name);
    fact->set_value(value);
  }

  // Lanes whose RDMA device cannot set the port that the strategy has chosen. Their paths above are
  // those of the ports that they use.
  void AddPorts() {
    std::vector<std::string> others;
    for (const agent::v1::Report& report : input_.reports) {
      for (const agent::v1::Lane& lane : report.lanes()) {
        const agent::v1::RdmaLane& rdma = lane.rdma();
        const bool as_chosen =
            rdma.requested_source_port() == 0 || rdma.source_port() == rdma.requested_source_port();
        const bool known =
            lane.from() >= 0 && lane.from() < static_cast<int>(subject().hosts.size());
        if (as_chosen || !known) continue;
        others.push_back(absl::StrCat(
            "channel ", lane.channel(), " from ", subject().hosts[lane.from()], " uses ",
            rdma.source_port() == 0 ? "an unknown port" : absl::StrCat(rdma.source_port()),
            " instead of ", rdma.requested_source_port(), " (", rdma.device(), ")"));
      }
    }
    if (others.empty()) return;
    const size_t shown = std::min(others.size(), kShownPorts);
    const std::string more =
        others.size() > shown ? absl::StrCat(", and ", others.size() - shown, " more") : "";
    others.resize(shown);
    AddLine("Source ports", absl::StrCat("not as chosen, because the RDMA device cannot set them: ",
                                         absl::StrJoin(others, ", "), more,
                                         "; the paths are those of the ports in use"));
  }

  void AddPolicy() {
    const Object* policy = SelectPolicy(objects_, subject());
    if (policy == nullptr) {
      AddLine("Policy", absl::StrCat(Name(PolicyKind::kLocalityRing),
                                     ": no Policy selects this communicator"));
      return;
    }
    const PolicySpec& spec = PolicyOf(*policy);
    const bool selects = !spec.tenants.empty() || !spec.communicators.empty();
    AddLine("Policy", absl::StrCat(Name(spec.type), " by ", ToText(policy->key),
                                   selects ? absl::StrCat(", which selects ", SelectorText(spec))
                                           : ", the default (no selector)"));
  }

  // Differs from the Policy if that is not applied yet, or could be satisfied only in part.
  void AddSource() {
    AddLine("Chosen by",
            absl::StrCat(subject().strategy.origin(), ", epoch ", subject().strategy.epoch()));
  }

  // By position; a host without a rack has a rack of its own.
  std::vector<std::string> RacksOfHosts() const {
    std::vector<std::string> racks;
    for (const std::string& name : subject().hosts) {
      const auto host =
          std::find_if(view_.hosts.begin(), view_.hosts.end(),
                       [&](const HostView& each) { return each.position.host == name; });
      racks.push_back(host == view_.hosts.end()
                          ? absl::StrCat("host ", name)
                          : absl::StrCat(host->position.pod, "/", host->position.rack));
    }
    return racks;
  }

  void AddRings() {
    const int hosts = static_cast<int>(subject().hosts.size());
    if (hosts < 2) {
      AddLine("Ring", "single host: no network traffic");
      return;
    }
    const std::vector<std::string> racks = RacksOfHosts();
    const size_t count = std::set<std::string>(racks.begin(), racks.end()).size();
    std::vector<int> by_rank;
    for (const HostIndex host : RankRingOrder(subject())) by_rank.push_back(host.value());
    // Channels with the same ring share one line.
    std::map<std::vector<int>, std::vector<int>> rings;
    for (int c = 0; c < subject().strategy.channels_size(); ++c) {
      const auto& ring = subject().strategy.channels(c).ring();
      rings[{ring.begin(), ring.end()}].push_back(c);
    }
    for (const auto& [ring, channels] : rings) {
      // An agent reported the ring; it may be invalid.
      if (std::any_of(ring.begin(), ring.end(), [&](int h) { return h < 0 || h >= hosts; })) return;
      const int crossings = Crossings(racks, ring);
      const std::string where =
          count == 1
              ? "within one rack"
              : absl::StrCat("crosses between ", count, " racks ", crossings, " times (minimum ",
                             count, "; in rank order ", Crossings(racks, by_rank), ")");
      AddLine("Ring",
              absl::StrCat(RingText(subject(), subject().strategy.channels(channels.front())),
                           ", on ", channels.size() == 1 ? "channel " : "channels ",
                           absl::StrJoin(channels, ", "), ": ", where));
    }
  }

  // Nothing if the channels take turns of all ranks.
  void AddHomes() {
    std::vector<int> channels;
    for (int c = 0; c < subject().strategy.channels_size(); ++c) {
      if (subject().strategy.channels(c).homes_size() > 0) channels.push_back(c);
    }
    if (channels.empty()) return;
    AddLine("Home ranks", absl::StrCat("by the NICs near their GPUs on ",
                                       channels.size() == 1 ? "channel " : "channels ",
                                       absl::StrJoin(channels, ", ")));
  }

  // Nothing without a Policy: then costs decide per call.
  void AddAlgorithms() {
    for (const Object* object : AlgorithmPolicies(objects_, subject())) {
      const PolicySpec& policy = PolicyOf(*object);
      std::vector<std::string> calls;
      for (const OpKind kind : KindsOf(policy)) calls.emplace_back(Name(kind));
      AddLine("Algorithm", absl::StrCat(std::string(Name(*policy.parameters.algorithm)), " for ",
                                        absl::StrJoin(calls, ", "), ", sizes ",
                                        ToText(policy.sizes), ", by ", ToText(object->key)));
    }
  }

  // Costs by which algorithms are chosen.
  void AddCosts() {
    if (subject().hosts.size() < 2) return;
    const strategy::AlgorithmChoice& choice = subject().strategy.algorithms();
    const std::string applied = CostsText(CostsOf(choice));
    AddLine(
        "Costs",
        choice.has_configured_costs()
            ? absl::StrCat(applied, " (measured; configured: ", CostsText(OwnCostsOf(choice)), ")")
            : absl::StrCat(applied, " (configured)"));
  }

  void AddTenant() {
    const TenantView& owner = subject().owner;
    std::vector<std::string> claims = {absl::StrCat("weight ", owner.weight)};
    if (owner.guarantee_bps)
      claims.push_back(
          absl::StrCat("guarantee ", FormatBitRate(static_cast<double>(*owner.guarantee_bps))));
    if (owner.cap_bps)
      claims.push_back(absl::StrCat("cap ", FormatBitRate(static_cast<double>(*owner.cap_bps))));
    if (owner.priority > 0) claims.push_back(absl::StrCat("priority ", owner.priority));
    AddLine("Tenant", absl::StrCat(owner.name, ": ", absl::StrJoin(claims, ", ")));
  }

  const FlowShare* ShareOf(const agent::v1::Lane& lane) const {
    for (const FlowShare& share : shares_.flows[at_]) {
      const bool same =
          share.channel == lane.channel() && share.from == lane.from() && share.to == lane.to();
      if (same) return &share;
    }
    return nullptr;
  }

  void AddFlow(const agent::v1::Lane& lane, int64_t measured_ns) {
    control::v1::ExplainedFlow* flow = out_.add_flows();
    flow->set_channel(lane.channel());
    flow->set_from(HostName(subject(), lane.from()));
    flow->set_to(HostName(subject(), lane.to()));
    flow->set_local(lane.local());
    flow->set_remote(lane.remote());
    flow->set_state(lane.state());
    flow->set_payload_bytes(lane.payload_bytes());
    flow->set_measured_ns(measured_ns);
    flow->set_waited_for_credit_ns(lane.waited_for_credit_ns());
    flow->set_waited_for_rate_ns(lane.waited_for_rate_ns());
    flow->set_waited_for_connection_ns(lane.waited_for_connection_ns());
    flow->set_rate_bps(lane.rate_bps());
    flow->set_in_ring(PlaceOf(subject().strategy, lane) >= 0);
    const LaneEnds ends = {flow->from(), flow->to(), lane.local(), lane.remote()};
    if (const auto links = LinksOfLane(fabrics_, ends))
      flow->mutable_links()->Add(links->begin(), links->end());
    const FlowShare* share = ShareOf(lane);
    if (share == nullptr || fabric_of_[at_] == nullptr) return;
    const Topology& topology = fabric_of_[at_]->topology();
    flow->set_fair_share_bps(share->rate_bps);
    if (share->limit == ShareLimit::kCap) flow->set_limit("the tenant's cap");
    if (share->limit != ShareLimit::kLink) return;
    flow->set_limit(topology.ArcName(share->full_arc));
    AddSharers(share->full_arc, flow);
  }

  // Other communicators with flows over an arc of the subject's fabric.
  void AddSharers(ArcId arc, control::v1::ExplainedFlow* flow) const {
    for (size_t c = 0; c < view_.communicators.size(); ++c) {
      const CommunicatorView& other = view_.communicators[c];
      if (c == at_ || fabric_of_[c] != fabric_of_[at_]) continue;
      const auto flows = std::count_if(
          shares_.flows[c].begin(), shares_.flows[c].end(), [&](const FlowShare& share) {
            return std::find(share.path.begin(), share.path.end(), arc) != share.path.end();
          });
      if (flows == 0) continue;
      control::v1::FlowSharer* sharer = flow->add_shared_with();
      sharer->set_communicator(FormatCommId(other.id));
      sharer->set_tenant(other.owner.name);
      sharer->set_flows(static_cast<int>(flows));
    }
  }

  void AddLinks() {
    if (fabric_of_[at_] == nullptr || subject().hosts.size() < 2) return;
    const int32_t mtu = fabric_of_[at_]->topology().mtu_bytes();
    out_.set_payload_fraction(UsableFraction(mtu));
    AddLine("Links",
            absl::StrFormat("lanes may use %.3g %% of a link's rate as payload (MTU %d bytes)",
                            100 * UsableFraction(mtu), mtu));
  }

  // Nothing if there is no guarantee, or it is held.
  void AddGuarantee() {
    const TenantView& owner = subject().owner;
    if (!owner.guarantee_bps) return;
    if (!SpecOf(SelectPolicy(objects_, subject())).Decides(PolicyDecision::kRates))
      return AddLine("Guarantee", "not enforced: no Policy `shares` selects this communicator");
    for (const UnmetGuarantee& broken : shares_.broken) {
      const auto& tenants = broken.tenants;
      if (std::find(tenants.begin(), tenants.end(), owner.name) == tenants.end()) continue;
      AddLine("Guarantee", absl::StrCat("lowered proportionally: ", Describe(broken)));
    }
  }

  void AddUnknownPaths() {
    if (subject().hosts.size() < 2) return;
    const auto flows = FlowsOf(subject(), subject().strategy, HostsOf(fabrics_, subject()));
    if (!flows.ok()) {
      AddLine("Paths", absl::StrCat("not known: ", std::string(flows.status().message())));
      return;
    }
    const auto unknown = std::count_if(shares_.flows[at_].begin(), shares_.flows[at_].end(),
                                       [](const FlowShare& share) { return !share.on_path; });
    if (unknown > 0) {
      AddLine("Paths",
              absl::StrCat(unknown, " of ", shares_.flows[at_].size(),
                           " flows use source ports without a known path: only their NICs' "
                           "links are considered"));
    }
  }

  const ExplanationInput& input_;
  const ObjectSet& objects_;
  const ClusterView view_;
  const Fabrics fabrics_;
  const AllShares shares_;
  std::vector<const Fabric*> fabric_of_;  // by communicator; null: no Topology has all its hosts
  size_t at_ = 0;
  control::v1::Explanation out_;
};

}  // namespace

absl::StatusOr<ExplanationInput> GatherExplanation(const ClusterState& state,
                                                   const std::string& prefix, MonotonicNs now) {
  MCCS_ASSIGN_OR_RETURN(const CommId id, FindCommunicator(state, prefix));
  const CommunicatorRecord& record = state.registry.communicators().at(id);
  ExplanationInput input = {.view = AppliedView(state.registry),
                            .id = id,
                            .summary = Summarize(state, id, record, now),
                            .reports = {},
                            .report_every_ns = state.report_every_ns};
  for (const auto& [host, report] : record.reports) input.reports.push_back(report);
  return input;
}

control::v1::Explanation Explain(const ExplanationInput& input, const ObjectSet& objects) {
  return Explainer(input, objects).Run();
}

}  // namespace mccs
