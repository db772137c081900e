// Builds a plan from a key: validates the inputs, computes the common frame, and calls the builder
// of the programs.
#include "algorithms/build_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "algorithms/direct.h"
#include "algorithms/grid.h"
#include "algorithms/pat.h"
#include "algorithms/plan.h"
#include "algorithms/plan_size.h"
#include "algorithms/program_build.h"
#include "algorithms/ring.h"
#include "algorithms/tree.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace mccs {

namespace {

absl::Status CheckLayout(const Layout& layout) {
  if (layout.hosts.empty() || layout.hosts.size() > kMaxHosts) {
    return absl::InvalidArgumentError(absl::StrCat("layout with ", layout.hosts.size(),
                                                   " hosts; 1 to ", kMaxHosts, " are supported"));
  }
  std::vector<bool> seen(static_cast<size_t>(layout.rank_count()), false);
  for (size_t h = 0; h < layout.hosts.size(); ++h) {
    const std::vector<Rank>& ranks = layout.hosts[h];
    if (ranks.empty() || ranks.size() > kMaxLocalRanks) {
      return absl::InvalidArgumentError(absl::StrCat("layout: host ", h, " has ", ranks.size(),
                                                     " ranks; 1 to ", kMaxLocalRanks,
                                                     " are supported"));
    }
    for (size_t i = 0; i < ranks.size(); ++i) {
      const int64_t rank = ranks[i].value();
      if (rank < 0 || rank >= static_cast<int64_t>(seen.size()) ||
          seen[static_cast<size_t>(rank)] || (i > 0 && ranks[i] < ranks[i - 1])) {
        return absl::InvalidArgumentError(absl::StrCat(
            "layout: rank ", rank, " of host ", h, " is out of range, out of order or duplicate"));
      }
      seen[static_cast<size_t>(rank)] = true;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHomes(const ChannelOrders& orders, const Layout& layout) {
  if (orders.homes.empty()) return absl::OkStatus();
  if (orders.homes.size() != orders.rings.size()) {
    return absl::InvalidArgumentError(absl::StrCat("home ranks of ", orders.homes.size(),
                                                   " channels; expected ", orders.rings.size()));
  }
  for (size_t c = 0; c < orders.homes.size(); ++c) {
    const std::vector<LocalIndex>& homes = orders.homes[c];
    if (homes.empty()) continue;
    if (homes.size() != layout.hosts.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "channel ", c, ": ", homes.size(), " home ranks for ", layout.hosts.size(), " hosts"));
    }
    for (size_t h = 0; h < homes.size(); ++h) {
      const size_t ranks = layout.hosts[h].size();
      if (homes[h] >= LocalIndex(0) && static_cast<size_t>(homes[h].value()) < ranks) continue;
      return absl::InvalidArgumentError(absl::StrCat("channel ", c, ": home rank ",
                                                     homes[h].value(), " on host ", h,
                                                     ": expected 0 to ", ranks - 1));
    }
  }
  return absl::OkStatus();
}

LocalIndex HomeOf(const ChannelOrders& orders, const Layout& layout, size_t channel,
                  HostIndex host) {
  const auto h = static_cast<size_t>(host.value());
  if (!orders.homes.empty() && !orders.homes[channel].empty()) return orders.homes[channel][h];
  return DefaultHome(ChannelId(static_cast<int32_t>(channel)),
                     static_cast<int>(layout.hosts[h].size()));
}

absl::Status CheckOrders(const ChannelOrders& orders, int hosts) {
  if (orders.rings.empty())
    return absl::InvalidArgumentError("no channel: at least one ring is required");
  std::vector<bool> seen;
  for (size_t c = 0; c < orders.rings.size(); ++c) {
    const std::vector<HostIndex>& ring = orders.rings[c];
    seen.assign(static_cast<size_t>(hosts), false);
    bool good = ring.size() == seen.size();
    for (size_t i = 0; good && i < ring.size(); ++i) {
      const auto host = static_cast<size_t>(ring[i].value());
      good = ring[i] >= HostIndex(0) && host < seen.size() && !seen[host];
      if (good) seen[host] = true;
    }
    if (!good) {
      return absl::InvalidArgumentError(absl::StrCat(
          "channel ", c, ": its ring does not contain each of the ", hosts, " hosts once"));
    }
  }
  return absl::OkStatus();
}

// Rejects a key for which there is no plan.
absl::Status CheckKey(const PlanKey& key, const Layout& layout) {
  const std::string kind(Name(key.kind));
  const bool reduces = Reduces(key.kind);
  const int ranks = layout.rank_count();
  if (!Supports(UsualAlgorithm(key.kind), key.kind)) {
    return absl::InvalidArgumentError(absl::StrCat(kind, ": no algorithm supports it"));
  }
  if (!Supports(key.algorithm, key.kind, layout.host_count())) {
    return absl::InvalidArgumentError(absl::StrCat(kind, ": unsupported by algorithm '",
                                                   std::string(Name(key.algorithm)), "' over ",
                                                   layout.host_count(), " hosts"));
  }
  if (key.scaled && !reduces) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": does not reduce, so it takes no scale"));
  }
  if (key.root.value() < 0 || key.root.value() >= ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat(kind, ": root ", key.root.value(), " is out of range of ", ranks, " ranks"));
  }
  return absl::OkStatus();
}

// The plan without its programs.
Plan Frame(const PlanKey& key, const Layout& layout) {
  Plan plan{.key = key, .crosses_hosts = layout.host_count() > 1, .programs = {}};
  const int local_parts = plan.crosses_hosts ? layout.max_local_ranks() : 1;
  if (key.algorithm == Algorithm::kTree) {
    plan.blocks = kTrees;
    plan.count_spans_blocks = plan.input_blocked = plan.output_blocked = true;
    return plan;
  }
  switch (key.kind) {
    case OpKind::kAllReduce:
      plan.blocks = key.algorithm == Algorithm::kRing ? layout.host_count() : 1;
      plan.count_spans_blocks = plan.input_blocked = plan.output_blocked = true;
      break;
    case OpKind::kReduceScatter:
      plan.blocks = layout.rank_count();
      plan.input_blocked = true;
      plan.parts = local_parts;
      break;
    case OpKind::kAllGather:
      plan.blocks = layout.rank_count();
      plan.output_blocked = true;
      plan.parts = local_parts;
      break;
    case OpKind::kAllToAll:
    case OpKind::kGather:
    case OpKind::kScatter:
      plan.blocks = layout.rank_count();
      plan.input_blocked = key.kind != OpKind::kGather;
      plan.output_blocked = key.kind != OpKind::kScatter;
      plan.parts = plan.crosses_hosts ? ExchangeParts(key, layout) : 1;
      break;
    default:
      break;  // Broadcast, reduce: one block.
  }
  // These always pack, and divide their blocks into steps.
  if (key.algorithm == Algorithm::kGrid || key.algorithm == Algorithm::kPat) {
    plan.parts = 1;
    plan.max_pieces = key.algorithm == Algorithm::kGrid
                          ? GridShapeOf(layout.host_count(), layout.max_local_ranks()).max_pieces
                          : PatShapeOf(key.kind, layout).max_pieces;
  }
  return plan;
}

struct Root {
  HostIndex host;
  LocalIndex local;
};

// Linear, like the checks of the layout.
Root RootOf(const PlanKey& key, const Layout& layout) {
  for (int h = 0; h < layout.host_count(); ++h) {
    const std::vector<Rank>& ranks = layout.hosts[static_cast<size_t>(h)];
    const auto at = std::lower_bound(ranks.begin(), ranks.end(), key.root);
    if (at != ranks.end() && *at == key.root) {
      return {HostIndex(h), LocalIndex(static_cast<int32_t>(at - ranks.begin()))};
    }
  }
  MCCS_CHECK(!"CheckKey has found the root in range");
  return {};
}

// The program of a broadcast or a reduce.
Program RootedProgram(const PlanKey& key, const Root& root, const Ring& ring) {
  const bool tree = key.algorithm == Algorithm::kTree;
  if (key.kind == OpKind::kReduce) {
    return tree ? TreeReduce(ring, root.host, root.local, key.scaled)
                : RingReduce(ring, root.host, root.local, key.scaled);
  }
  return tree ? TreeBroadcast(ring, root.host, root.local)
              : RingBroadcast(ring, root.host, root.local);
}

std::unique_ptr<ProgramBuild> AllAtOnce(Program program) {
  return std::make_unique<BuiltProgram>(std::move(program));
}

std::unique_ptr<ProgramBuild> AllReduceProgram(const PlanKey& key, const Ring& ring) {
  switch (key.algorithm) {
    case Algorithm::kTree:
      return AllAtOnce(TreeAllReduce(ring, key.scaled));
    case Algorithm::kDirect:
      return AllAtOnce(DirectAllReduce(ring, key.scaled));
    default:
      return RingAllReduce(ring, key.scaled);
  }
}

std::unique_ptr<ProgramBuild> BeginProgram(const PlanKey& key, const Layout& layout,
                                           const Ring& ring) {
  if (key.algorithm == Algorithm::kGrid) {
    return GridAllToAll(ring, GridShapeOf(layout.host_count(), layout.max_local_ranks()));
  }
  if (Exchanges(key.kind)) return DirectExchange(key, ring);
  if (ring.hosts() == 1) return AllAtOnce(LocalProgram(key, ring.local(), ring.channel()));
  const bool pat = key.algorithm == Algorithm::kPat;
  switch (key.kind) {
    case OpKind::kAllReduce:
      return AllReduceProgram(key, ring);
    case OpKind::kReduceScatter:
      return pat ? PatReduceScatter(ring, PatShapeOf(key.kind, layout), key.scaled)
                 : RingReduceScatter(key, ring);
    case OpKind::kAllGather:
      return pat ? PatAllGather(ring, PatShapeOf(key.kind, layout)) : RingAllGather(key, ring);
    default:
      return AllAtOnce(RootedProgram(key, RootOf(key, layout), ring));
  }
}

}  // namespace

// A rank or a host of a ring is looked up in one table of bits.
uint64_t PartsOfChecks(const Layout& layout, const ChannelOrders& orders) {
  constexpr uint64_t kChecksPerPart = 8;
  const uint64_t ranks = static_cast<uint64_t>(layout.rank_count());
  return 1 + (ranks + orders.rings.size() * layout.hosts.size()) / kChecksPerPart;
}

absl::StatusOr<PlanBuild> PlanBuild::Begin(const PlanKey& key, const Layout& layout,
                                           const ChannelOrders& orders, HostIndex self) {
  MCCS_RETURN_IF_ERROR(CheckLayout(layout));
  MCCS_RETURN_IF_ERROR(CheckOrders(orders, layout.host_count()));
  MCCS_RETURN_IF_ERROR(CheckHomes(orders, layout));
  MCCS_RETURN_IF_ERROR(CheckKey(key, layout));
  if (self.value() < 0 || self.value() >= layout.host_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("host ", self.value(), " is out of range of ", layout.host_count(), " hosts"));
  }
  MCCS_RETURN_IF_ERROR(CheckPlanSize(key, SizeOf(layout), orders.rings.size()));
  return PlanBuild(Frame(key, layout), layout, orders, self);
}

PlanBuild::PlanBuild(Plan plan, const Layout& layout, const ChannelOrders& orders, HostIndex self)
    : plan_(std::move(plan)),
      layout_(&layout),
      orders_(&orders),
      self_(self),
      last_parts_(PartsOfChecks(layout, orders)) {}

void PlanBuild::BuildNext() {
  const size_t number = plan_.programs.size();
  const ChannelId channel(static_cast<int32_t>(number));
  last_parts_ = 0;
  const uint64_t before = program_ == nullptr ? 0 : program_->parts();
  const LocalIndex home = HomeOf(*orders_, *layout_, number, self_);
  if (PacksParts(plan_) && number > 0) {  // has no rounds, and needs no lanes
    plan_.programs.push_back({.channel = channel, .home = home, .steps = {}});
    return;
  }
  if (program_ == nullptr) {
    const Ring ring(*layout_, orders_->rings[number], channel, self_, home);
    program_ = BeginProgram(plan_.key, *layout_, ring);
  }
  while (!program_->done() && program_->parts() < before + kPartsAtOnce) program_->BuildNext();
  last_parts_ = program_->parts() - before;
  if (!program_->done()) return;
  plan_.programs.push_back(program_->Take());
  plan_.programs.back().home = home;
  program_.reset();
}

absl::StatusOr<Plan> BuildPlan(const PlanKey& key, const Layout& layout,
                               const ChannelOrders& orders, HostIndex self) {
  MCCS_ASSIGN_OR_RETURN(PlanBuild build, PlanBuild::Begin(key, layout, orders, self));
  while (!build.done()) build.BuildNext();
  return build.Take();
}

int Layout::rank_count() const {
  size_t ranks = 0;
  for (const auto& host : hosts) ranks += host.size();
  return static_cast<int>(ranks);
}

int Layout::max_local_ranks() const {
  size_t most = 0;
  for (const auto& host : hosts) most = std::max(most, host.size());
  return static_cast<int>(most);
}

}  // namespace mccs
