#include "service/communicator/strategy/plan_cache.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// The time of a part of a plan is about 25 ns: it is filled, and freed later.
constexpr int64_t kCostPerPart = 250;

int64_t CostOf(uint64_t parts) { return static_cast<int64_t>(parts) * kCostPerPart; }

absl::Status CheckEstimated(const EstimatedCall& call, int ranks) {
  if (call.kind == OpKind::kNone || static_cast<int>(call.kind) >= kOpKinds ||
      static_cast<int>(call.type) >= kDataTypes) {
    return absl::InvalidArgumentError(absl::StrCat("cannot estimate the call: invalid kind ",
                                                   static_cast<int>(call.kind), " or type ",
                                                   static_cast<int>(call.type)));
  }
  const bool names_a_rank = HasRoot(call.kind) || HasPeer(call.kind);
  if (names_a_rank && (call.root_or_peer < 0 || call.root_or_peer >= ranks)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot estimate the call: root or peer ",
                                                   call.root_or_peer, ": expected 0 to ",
                                                   ranks - 1));
  }
  if (call.count > kMaxCallBytes / SizeOf(call.type) / static_cast<uint64_t>(ranks)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot estimate the call: count ", call.count,
                                                   " is too large for ", ranks, " ranks"));
  }
  return absl::OkStatus();
}

}  // namespace

ChannelOrders OwnOrders(ChannelOrders orders, const Layout& layout, HostIndex self,
                        std::span<const LocalIndex> runners) {
  if (runners.empty()) return orders;
  if (layout.host_count() == 1) {
    std::vector<LocalIndex> distinct(runners.begin(), runners.end());
    std::ranges::sort(distinct);
    distinct.erase(std::ranges::unique(distinct).begin(), distinct.end());
    orders = {};
    for (const LocalIndex runner : distinct) {
      if (orders.rings.size() == kMaxChannels) break;
      orders.rings.push_back({self});
      orders.homes.push_back({runner});
    }
    return orders;
  }
  orders.homes.resize(orders.rings.size());
  for (size_t c = 0; c < orders.homes.size(); ++c) {
    std::vector<LocalIndex>& homes = orders.homes[c];
    for (size_t h = homes.size(); h < layout.hosts.size(); ++h) {
      homes.push_back(DefaultHome(ChannelId(static_cast<int32_t>(c)),
                                  static_cast<int>(layout.hosts[h].size())));
    }
    LocalIndex& own = homes[static_cast<size_t>(self.value())];
    own = runners[static_cast<size_t>(own.value())];
  }
  return orders;
}

std::optional<Algorithm> PlanCache::AlgorithmFor(OpKind kind, uint64_t bytes) {
  if (chooser_.IsPrepared(kind, bytes)) return chooser_.Choose(kind, bytes);
  wanted_ = {.kind = kind, .bytes = bytes, .plan = std::nullopt};
  return std::nullopt;
}

std::optional<PlanKey> PlanCache::KeyFor(OpKind kind, uint64_t bytes) {
  const std::optional<Algorithm> algorithm = AlgorithmFor(kind, bytes);
  if (!algorithm.has_value()) return std::nullopt;
  return PlanKey{
      .kind = kind, .algorithm = *algorithm, .packed = chooser_.Packs(kind, *algorithm, bytes)};
}

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::Find(const PlanKey& key) {
  MCCS_ASSIGN_OR_RETURN(Cached* const cached, FindCached(key));
  return cached != nullptr ? cached->plan : nullptr;
}

absl::StatusOr<PlanCache::Cached*> PlanCache::FindCached(const PlanKey& key) {
  if (!by_use_.empty() && by_use_.front().plan->key == key) return &by_use_.front();
  if (auto known = plans_.find(key); known != plans_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, known->second);
    return &by_use_.front();
  }
  if (failure_.has_value() && failure_->key == key) return failure_->why;
  wanted_ = {.kind = key.kind, .bytes = 0, .plan = key};
  return nullptr;
}

// ---- Building -----------------------------------------------------------------------------------

void PlanCache::Work(int64_t most) {
  const int64_t end = cost_ + most;
  while (has_work() && cost_ < end) cost_ += BuildPart();
}

int64_t PlanCache::BuildPart() {
  if (weighing_.has_value()) return WeighPart();
  if (build_.has_value()) {
    build_->BuildNext();
    const int64_t cost = CostOf(build_->last_parts());
    if (!build_->done()) return cost;
    Plan plan = build_->Take();
    build_.reset();
    const PlanKey key = plan.key;
    if (const absl::Status kept = Insert(std::move(plan)); !kept.ok()) Fail(key, kept);
    return cost;
  }
  if (!wanted_->plan.has_value()) {
    if (chooser_.IsPrepared(wanted_->kind, wanted_->bytes)) return wanted_.reset(), 0;
    return CostOf(chooser_.PrepareNext(wanted_->kind));
  }
  const PlanKey key = *wanted_->plan;
  if (const auto known = plans_.find(key); known != plans_.end()) {
    const bool weighs = std::exchange(wanted_, std::nullopt)->weighs;
    if (weighs && !known->second->weight.has_value()) weighing_.emplace(known->second->plan);
    return 0;
  }
  if (!wanted_->weighs) wanted_.reset();
  absl::StatusOr<PlanBuild> build = PlanBuild::Begin(key, layout_, own_orders_, self_);
  if (!build.ok()) {
    Fail(key, build.status());
    return CostOf(PartsOfChecks(layout_, own_orders_));
  }
  build_.emplace(*std::move(build));
  return CostOf(build_->last_parts());
}

int64_t PlanCache::WeighPart() {
  const int64_t cost = CostOf(weighing_->WeighNext());
  if (!weighing_->done()) return cost;
  PlanWeight weight = weighing_->Take();
  weighing_.reset();
  const auto known = plans_.find(weight.frame.key);
  if (known == plans_.end()) return cost;
  known->second->weight = std::move(weight);
  if (wanted_.has_value() && wanted_->plan == known->first) wanted_.reset();
  return cost;
}

void PlanCache::Fail(const PlanKey& key, const absl::Status& why) {
  failure_ = {key, why};
  if (wanted_.has_value() && wanted_->plan == key) wanted_.reset();
}

absl::Status PlanCache::Insert(Plan plan) {
  const PlanKey key = plan.key;
  const uint64_t bytes = MemoryBytes(plan);
  while (!by_use_.empty() &&
         (by_use_.size() == kMaxCachedPlans || memory_.held() + bytes > max_bytes_)) {
    EvictOldest();
  }
  for (absl::Status taken = memory_.Take(bytes); !taken.ok(); taken = memory_.Take(bytes)) {
    if (by_use_.empty()) return taken;
    EvictOldest();
  }
  if (wanted_.has_value() && wanted_->plan == key && !wanted_->weighs) wanted_.reset();
  by_use_.push_front(
      {.plan = std::make_shared<const Plan>(std::move(plan)), .weight = std::nullopt});
  plans_.emplace(key, by_use_.begin());
  return absl::OkStatus();
}

void PlanCache::EvictOldest() {
  const Plan& plan = *by_use_.back().plan;
  memory_.Return(MemoryBytes(plan));
  plans_.erase(plan.key);
  by_use_.pop_back();
}

absl::StatusOr<std::optional<double>> PlanCache::EstimateUs(const EstimatedCall& call) {
  MCCS_RETURN_IF_ERROR(CheckEstimated(call, layout_.rank_count()));
  if (HasPeer(call.kind)) {
    // For a wait, the count is a number of signals.
    const uint64_t bytes = call.kind == OpKind::kWaitSignal ? 0 : call.count * SizeOf(call.type);
    const std::vector<Rank>& locals = layout_.hosts[static_cast<size_t>(self_.value())];
    const bool crosses = !std::binary_search(locals.begin(), locals.end(), Rank(call.root_or_peer));
    return EstimateMessageUs(bytes, crosses, costs_);
  }
  std::optional<PlanKey> key = KeyFor(call.kind, call.count * SizeOf(call.type));
  if (!key.has_value()) return std::nullopt;
  if (HasRoot(call.kind)) key->root = Rank(call.root_or_peer);
  MCCS_ASSIGN_OR_RETURN(Cached* const cached, FindCached(*key));
  if (cached == nullptr) {
    wanted_->weighs = true;
    return std::nullopt;
  }
  if (!cached->weight.has_value()) {
    wanted_ = {.kind = key->kind, .bytes = 0, .plan = *key, .weighs = true};
    return std::nullopt;
  }
  return mccs::EstimateUs(*cached->weight, {call.type, call.count, slot_bytes_}, costs_);
}

}  // namespace mccs
