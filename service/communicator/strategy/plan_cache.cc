#include "service/communicator/strategy/plan_cache.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

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

absl::StatusOr<std::shared_ptr<const Plan>> PlanCache::GetOrBuild(const PlanKey& key) {
  if (!by_use_.empty() && by_use_.front()->key == key) return by_use_.front();
  if (auto known = plans_.find(key); known != plans_.end()) {
    by_use_.splice(by_use_.begin(), by_use_, known->second);
    return by_use_.front();
  }
  MCCS_ASSIGN_OR_RETURN(Plan built, BuildPlan(key, layout_, orders_, self_));
  if (by_use_.size() == kMaxCachedPlans) {
    plans_.erase(by_use_.back()->key);
    by_use_.pop_back();
  }
  by_use_.push_front(std::make_shared<const Plan>(std::move(built)));
  plans_.emplace(key, by_use_.begin());
  return by_use_.front();
}

absl::StatusOr<double> PlanCache::EstimateUs(const EstimatedCall& call) {
  MCCS_RETURN_IF_ERROR(CheckEstimated(call, layout_.rank_count()));
  if (HasPeer(call.kind)) {
    // For a wait, the count is a number of signals.
    const uint64_t bytes = call.kind == OpKind::kWaitSignal ? 0 : call.count * SizeOf(call.type);
    const std::vector<Rank>& locals = layout_.hosts[static_cast<size_t>(self_.value())];
    const bool crosses = !std::binary_search(locals.begin(), locals.end(), Rank(call.root_or_peer));
    return EstimateMessageUs(bytes, crosses, costs_);
  }
  const PlanKey key{.kind = call.kind,
                    .algorithm = AlgorithmFor(call.kind, call.count * SizeOf(call.type)),
                    .root = Rank(HasRoot(call.kind) ? call.root_or_peer : 0)};
  MCCS_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, GetOrBuild(key));
  return mccs::EstimateUs(*plan, {call.type, call.count, slot_bytes_}, costs_);
}

}  // namespace mccs
