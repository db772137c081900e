#include "service/communicator/schedule/estimate.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/links/rank_port.h"

namespace mccs {
namespace {

absl::Status Check(const EstimatedCall& call, int ranks) {
  if (call.kind == OpKind::kNone || static_cast<int>(call.kind) >= kOpKinds ||
      static_cast<int>(call.type) >= kDataTypes) {
    return absl::InvalidArgumentError(absl::StrCat("cannot estimate the call: invalid kind ",
                                                   static_cast<int>(call.kind), " or type ",
                                                   static_cast<int>(call.type)));
  }
  const bool names_a_rank = HasRoot(call.kind) || HasPeer(call.kind);
  if (names_a_rank && (call.root_or_peer < 0 || call.root_or_peer >= ranks)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot estimate the call: no rank ", call.root_or_peer, " among ", ranks));
  }
  if (call.count > kMaxCallBytes / SizeOf(call.type) / static_cast<uint64_t>(ranks)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot estimate the call: too large a count: ", call.count));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<double> EstimateCallUs(const EstimatedCall& call, PlanCache& plans,
                                      const EstimateContext& context) {
  const Layout& layout = plans.layout();
  MCCS_RETURN_IF_ERROR(Check(call, layout.rank_count()));
  if (HasPeer(call.kind)) {
    // For a wait, the count is a number of signals.
    const uint64_t bytes = call.kind == OpKind::kWaitSignal ? 0 : call.count * SizeOf(call.type);
    const bool crosses = layout.HostOf(Rank(call.root_or_peer)) != context.self;
    return EstimateMessageUs(bytes, crosses, context.parameters);
  }
  const PlanKey key{.kind = call.kind,
                    .algorithm = plans.AlgorithmFor(call.kind, call.count * SizeOf(call.type)),
                    .root = Rank(HasRoot(call.kind) ? call.root_or_peer : 0)};
  MCCS_ASSIGN_OR_RETURN(const std::shared_ptr<const Plan> plan, plans.GetOrBuild(key));
  return EstimateUs(*plan, {call.type, call.count, context.slot_bytes}, context.parameters);
}

}  // namespace mccs
