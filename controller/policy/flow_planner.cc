#include "controller/policy/flow_planner.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "controller/policy/rings.h"
#include "controller/view/source_ports.h"

namespace mccs {

void FlowPlanner::AddFixed(const CommunicatorView& communicator,
                           const strategy::Strategy& strategy) {
  Job job;
  job.running = FixedFlows(communicator, strategy, &job.fabric);
  jobs_[communicator.id] = std::move(job);
}

std::vector<PlacedFlow> FlowPlanner::FixedFlows(const CommunicatorView& communicator,
                                                const strategy::Strategy& strategy,
                                                Fabric** fabric) const {
  const auto hosts = HostsOf(*fabrics_, communicator);
  const auto flows = FlowsOf(communicator, strategy, hosts);
  if (!flows.ok() || flows->empty()) return {};
  *fabric = hosts[0]->fabric;
  std::vector<PlacedFlow> fixed;
  for (const Flow& flow : *flows) {
    const PathSet paths = (*fabric)->paths().Between(flow.from_nic, flow.to_nic);
    if (paths.empty()) continue;
    fixed.push_back({.paths = paths, .allowed = nullptr, .path = {}, .fixed = true});
    if (flow.source_port == 0) continue;
    const auto path = (*fabric)->ports().PathOf(flow.Ends(), flow.source_port);
    if (path.ok()) fixed.back().path = *path;
  }
  return fixed;
}

absl::Status FlowPlanner::CheckPaths(Fabric* fabric, const std::vector<Flow>& flows) const {
  for (const Flow& flow : flows) {
    MCCS_RETURN_IF_ERROR(fabric->ports().CheckKnown(flow.Ends()));
    if (!fabric->paths().Between(flow.from_nic, flow.to_nic).empty()) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("no links lead from ", fabric->topology().NicName(flow.from_nic), " to ",
                     fabric->topology().NicName(flow.to_nic)));
  }
  return absl::OkStatus();
}

absl::Status FlowPlanner::Add(const CommunicatorView& communicator, strategy::Strategy frame,
                              const FlowOptions& options) {
  const auto hosts = HostsOf(*fabrics_, communicator);
  const absl::StatusOr<std::vector<Flow>> flows = FlowsOf(communicator, frame, hosts);
  const absl::Status status = flows.ok() ? CheckPaths(hosts[0]->fabric, *flows) : flows.status();
  if (!status.ok()) {
    AddFixed(communicator, communicator.strategy);
    return status;
  }
  Job job = {.fabric = hosts[0]->fabric, .running = {}, .is_fixed = false, .stays = options.stays};
  job.tenant = communicator.owner.name;
  job.frame = std::move(frame);
  job.ports = job.fabric->topology().source_ports().candidates;
  if (options.ports) job.ports = job.ports.Common(*options.ports);
  const int limits = allowed_.NumberOf({options.avoid_links, job.ports});
  for (const Flow& flow : *flows) AddLane(communicator, flow, limits, options.last, &job);
  FindUnassignedPorts(communicator, &job);
  job.same_frame = IsSameStrategy(job.frame, communicator.strategy);
  if (job.same_frame) {
    for (size_t i = 0; i < job.lanes.size(); ++i) {
      job.running.push_back({.paths = job.flows[i].paths,
                             .allowed = nullptr,
                             .path = job.lanes[i].port_path,
                             .fixed = true});
    }
  } else {
    job.running = FixedFlows(communicator, communicator.strategy, &job.fabric);
  }
  jobs_[communicator.id] = std::move(job);
  return absl::OkStatus();
}

void FlowPlanner::AddLane(const CommunicatorView& communicator, const Flow& flow, int limits,
                          bool last, Job* job) {
  Fabric* const fabric = job->fabric;
  strategy::ChannelStrategy* channel = job->frame.mutable_channels(flow.channel);
  Lane lane = {.flow = flow,
               .ends = taken_->Between(communicator.hosts[flow.from], communicator.hosts[flow.to])};
  const AllowedPaths::Allowed& allowed = allowed_.Get(fabric, flow, limits);
  PlacedFlow placed = {.paths = fabric->paths().Between(flow.from_nic, flow.to_nic),
                       .allowed = allowed.paths.get(),
                       .path = {},
                       .fixed = !allowed.any_port,
                       .last = last};
  if (flow.channel < communicator.strategy.channels_size()) {
    const strategy::ChannelStrategy& now = communicator.strategy.channels(flow.channel);
    const bool stays = AddressOfHost(now, flow.from) == AddressOfHost(*channel, flow.from) &&
                       AddressOfHost(now, flow.to) == AddressOfHost(*channel, flow.to);
    if (stays) lane.flow.source_port = PortOfLane(now, flow.from, flow.to);
  }
  if (lane.flow.source_port != 0) {
    lane.port_path = *fabric->ports().PathOf(flow.Ends(), lane.flow.source_port);
    placed.path = lane.port_path;
    lane.may_stay = lane.port_path && job->ports.Contains(lane.flow.source_port);
  }
  channel->add_source_ports(lane.flow.source_port);
  job->flows.push_back(placed);
  job->lanes.push_back(std::move(lane));
}

void FlowPlanner::FindUnassignedPorts(const CommunicatorView& communicator, Job* job) {
  std::vector<SourcePorts::Port> now = taken_->PortsOf(communicator), of_lanes;
  for (const Lane& lane : job->lanes) {
    if (lane.flow.source_port != 0) of_lanes.push_back({lane.ends, lane.flow.source_port});
  }
  if (now == of_lanes) return;
  std::sort(now.begin(), now.end());
  std::sort(of_lanes.begin(), of_lanes.end());
  std::set_difference(now.begin(), now.end(), of_lanes.begin(), of_lanes.end(),
                      std::back_inserter(job->unassigned));
}

// One run of the planner.
class FlowPlanner::SolverRun {
 public:
  SolverRun(const std::map<CommId, Job>& jobs, SourcePorts* taken) : taken_(*taken) {
    for (const auto& [id, job] : jobs)
      most_flows_ += std::max(job.flows.size(), job.running.size());
    taken_.BeginTrial();
  }
  ~SolverRun() { taken_.UndoTrial(); }
  SolverRun(const SolverRun&) = delete;
  SolverRun& operator=(const SolverRun&) = delete;

  // LIFETIME: `job` outlives this, unchanged.
  void AddRunning(const Job& job) {
    if (job.fabric == nullptr) return;
    std::vector<PlacedFlow>& flows = GroupOf(job.fabric).flows;
    flows.insert(flows.end(), job.running.begin(), job.running.end());
  }
  void AddToPlace(CommId id, const Job& job) {
    if (!job.lanes.empty()) GroupOf(job.fabric).tenants[job.tenant].push_back(subjects_.size());
    subjects_.push_back({.id = id, .job = &job});
  }

  // Returns the number of moved flows.
  size_t Run() {
    size_t moved = 0;
    for (Group& group : groups_) {
      TakeTurns(&group);
      moved += PlaceFlows(group.fabric->capacity_bps(), group.flows);
    }
    for (const Subject& subject : subjects_) taken_.Release(subject.job->unassigned);
    // First, so that no new lane takes a port that another lane keeps.
    for (Group& group : groups_) ReleasePorts(&group);
    for (const Group& group : groups_) ChoosePorts(group);
    return moved;
  }

  std::vector<Planned> Take(bool only_changed) const {
    std::vector<Planned> planned;
    for (const Subject& subject : subjects_) {
      if (only_changed && subject.job->same_frame && subject.ports.empty()) continue;
      planned.push_back({subject.id, subject.job->frame, subject.off_path, subject.unprobed});
      for (const auto& [lane, port] : subject.ports) {
        const Flow& flow = subject.job->lanes[lane].flow;
        planned.back().strategy.mutable_channels(flow.channel)->set_source_ports(flow.place, port);
      }
    }
    return planned;
  }

 private:
  struct Subject {
    CommId id;
    const Job* job = nullptr;
    std::vector<std::pair<size_t, uint16_t>> ports = {};  // changed ports, by lane
    int off_path = 0;
    int unprobed = 0;
  };
  // A lane of a subject.
  struct Place {
    size_t subject = 0;
    size_t lane = 0;
  };
  // Flows over one fabric; fixed ones first.
  struct Group {
    Fabric* fabric = nullptr;
    std::vector<PlacedFlow> flows = {};
    std::map<std::string, std::vector<size_t>> tenants = {};  // subjects of each tenant
    std::vector<Place> places = {};                           // of the flows that are not fixed
    std::vector<size_t> to_choose = {};                       // indices in `places`
  };

  // A cluster has few fabrics.
  Group& GroupOf(Fabric* fabric) {
    for (Group& group : groups_) {
      if (group.fabric == fabric) return group;
    }
    Group& group = groups_.emplace_back(Group{.fabric = fabric});
    group.flows.reserve(most_flows_);
    return group;
  }

  // Round robin over the tenants.
  void TakeTurns(Group* group) {
    struct Turn {
      std::span<const size_t> subjects;
      size_t lane = 0;
    };
    std::vector<Turn> turns;
    for (const auto& [tenant, subjects] : group->tenants) turns.push_back({subjects});
    while (!turns.empty()) {
      for (Turn& turn : turns) {
        const size_t subject = turn.subjects.front();
        const Job& job = *subjects_[subject].job;
        group->flows.push_back(job.flows[turn.lane]);
        group->places.push_back({subject, turn.lane});
        if (++turn.lane < job.lanes.size()) continue;
        turn.subjects = turn.subjects.subspan(1);
        turn.lane = 0;
      }
      std::erase_if(turns, [](const Turn& turn) { return turn.subjects.empty(); });
    }
  }

  const Lane& LaneAt(const Place& place) const {
    return subjects_[place.subject].job->lanes[place.lane];
  }
  static const PlacedFlow& FlowAt(const Group& group, size_t place) {
    return group.flows[group.flows.size() - group.places.size() + place];
  }

  // Releases the ports of lanes that cannot keep them.
  void ReleasePorts(Group* group) {
    for (size_t i = 0; i < group->places.size(); ++i) {
      const Lane& lane = LaneAt(group->places[i]);
      const uint16_t port = lane.flow.source_port;
      const bool stays = lane.may_stay && lane.port_path == FlowAt(*group, i).path;
      if (stays && !taken_.IsShared(port, lane.ends)) continue;
      if (port != 0) taken_.Release(port, lane.ends);
      group->to_choose.push_back(i);
    }
  }

  void ChoosePorts(const Group& group) {
    for (const size_t i : group.to_choose) {
      const auto [at, number] = group.places[i];
      Subject& subject = subjects_[at];
      const Lane& lane = subject.job->lanes[number];
      const uint16_t port = ChoosePort(group.fabric, lane, FlowAt(group, i).path, &subject);
      if (port != lane.flow.source_port) subject.ports.emplace_back(number, port);
    }
  }

  // 0: every port is taken.
  uint16_t ChoosePort(Fabric* fabric, const Lane& lane, std::optional<PathIndex> path,
                      Subject* subject) {
    const SourcePortRange& limits = subject->job->ports;
    const uint64_t hash = LaneHash(subject->id, lane.flow.channel, lane.flow.place);
    std::optional<uint16_t> port;
    if (path) {
      port = taken_.Choose(
          limits, lane.ends, [&](SourcePorts::IsFree is_free) -> std::optional<uint16_t> {
            const auto found =
                fabric->ports().FindPort(lane.flow.Ends(), *path, limits, hash, is_free);
            return found.ok() ? *found : std::nullopt;
          });
    }
    if (!port) {
      ++(path ? subject->off_path : subject->unprobed);
      // A port without a known path stays: it will be probed.
      const uint16_t now = lane.port_path ? 0 : lane.flow.source_port;
      if (limits.first <= limits.last) port = taken_.Choose(limits, now, hash, lane.ends);
    }
    return port.value_or(0);
  }

  SourcePorts& taken_;
  size_t most_flows_ = 0;  // of all groups
  std::vector<Subject> subjects_;
  std::vector<Group> groups_;
};

std::vector<FlowPlanner::Planned> FlowPlanner::Solve() {
  SolverRun solving(jobs_, taken_);
  for (const auto& [id, job] : jobs_) {
    if (job.stays) {
      solving.AddRunning(job);
    } else {
      solving.AddToPlace(id, job);
    }
  }
  moved_ = solving.Run();
  return solving.Take(/*only_changed=*/true);
}

FlowPlanner::Planned FlowPlanner::SolveOne(CommId id) {
  SolverRun solving(jobs_, taken_);
  for (const auto& [other, job] : jobs_) {
    if (other != id) solving.AddRunning(job);
  }
  const Job& job = jobs_.at(id);
  MCCS_CHECK(!job.is_fixed);
  solving.AddToPlace(id, job);
  moved_ = solving.Run();
  return solving.Take(/*only_changed=*/false).front();
}

}  // namespace mccs
