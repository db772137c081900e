#include "service/communicator/operation_loop.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/scalar.h"

namespace mccs {
namespace {

// Small operations that one communicator may finish before the others get their turn.
constexpr int kOperationsPerTurn = 8;

}  // namespace

OperationLoop::OperationLoop(Device& device, LaneDirectory& lanes, Layout layout, HostIndex self,
                             const Strategy& strategy, std::span<const LocalRank> ranks)
    : executor_(device, lanes, strategy.lanes, static_cast<int>(strategy.channels.size())),
      plans_(std::move(layout), strategy, self),
      self_(self),
      strategy_(strategy),
      ranks_(ranks),
      memory_(ranks.size()) {}

absl::StatusOr<double> OperationLoop::EstimateUs(const EstimatedCall& call) {
  return EstimateCallUs(
      call, plans_, {.self = self_, .slot_bytes = strategy_.lanes.slot_bytes, .parameters = {}});
}

absl::StatusOr<bool> OperationLoop::Poll() {
  bool moved = false;
  for (int i = 0; i < kOperationsPerTurn; ++i) {
    if (!executor_.running()) {
      MCCS_ASSIGN_OR_RETURN(bool started, TryStart());
      if (!started) return moved;
    }
    auto progress = executor_.Poll();
    if (!progress.ok()) {
      if (auto tag = executor_.foreign_tag(); tag.has_value()) {
        return Mismatch(ranks_.front().rank, signature_, "another host", FromTag(*tag));
      }
      return progress.status();
    }
    moved |= *progress;
    if (executor_.running()) return moved;
    Complete();
    moved = true;
  }
  return moved;
}

absl::StatusOr<bool> OperationLoop::TryStart() {
  const PostedOperation* first = nullptr;
  Rank first_rank;
  bool all_posted = true;
  for (const LocalRank& local : ranks_) {
    if (local.port == nullptr) {
      all_posted = false;
      continue;
    }
    MCCS_ASSIGN_OR_RETURN(const PostedOperation* call, local.port->Front());
    if (call == nullptr) {
      all_posted = false;
      continue;
    }
    const OperationSignature signature = SignatureOf(*call, completed_ + 1);
    if (first == nullptr) {
      first = call;
      first_rank = local.rank;
      signature_ = signature;
    } else if (signature != signature_) {
      return Mismatch(local.rank, signature, absl::StrCat("rank ", first_rank.value()), signature_);
    }
  }
  if (first == nullptr) {
    state_ = LoopState::kIdle;
    return false;
  }
  if (!all_posted) {
    state_ = LoopState::kWaitingRanks;
    return false;
  }
  state_ = LoopState::kWaitingReady;
  for (const LocalRank& local : ranks_) {
    if (!local.port->FrontReady()) return false;
  }
  MCCS_RETURN_IF_ERROR(Bind(*first));
  if (first->options.said()) {
    with_options_ = {with_options_.calls + 1, signature_.number, first->options};
  }
  MCCS_RETURN_IF_ERROR(executor_.Start(binding_));
  state_ = LoopState::kRunning;
  return true;
}

// ncclAvg: floating types scale each input by 1/n, rounded to the type; integers divide the sum.
// PreMulSum: each rank's input is scaled by the rank's own factor.
absl::Status OperationLoop::Bind(const PostedOperation& call) {
  const bool average = call.redop == ReduceOp::kAvg;
  const bool factors = call.redop == ReduceOp::kPreMulSum;
  const int ranks = plans_.layout().rank_count();
  PlanKey key{
      .kind = call.kind, .root = call.root, .scaled = factors || (average && IsFloat(call.type))};
  key.scaled &= Reduces(call.kind);
  MCCS_ASSIGN_OR_RETURN(plan_, plans_.GetOrBuild(key));
  binding_.plan = plan_.get();
  geometry_.emplace(*binding_.plan, call.type, call.count, strategy_.lanes.slot_bytes);
  binding_.geometry = &*geometry_;
  binding_.bytes = call.count * SizeOf(call.type);
  binding_.type = call.type;
  binding_.op = average || factors ? ReduceOp::kSum : call.redop;
  binding_.finish =
      average && Reduces(call.kind) && !IsFloat(call.type) ? Finish::kDivide : Finish::kNone;
  binding_.divisor = static_cast<uint64_t>(ranks);
  binding_.tag = ToTag(signature_);
  binding_.skew = strategy_.skew;
  const uint64_t share = key.scaled && average ? EncodeScalar(call.type, 1.0 / ranks) : 0;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const PostedOperation* own = *ranks_[i].port->Front();
    memory_[i] = {.input = own->input,
                  .output = own->output,
                  .scaled = key.scaled,
                  .scale_bits = factors ? own->scalar : share,
                  .scale_address = own->scalar_address};
  }
  binding_.ranks = memory_;
  return absl::OkStatus();
}

void OperationLoop::Complete() {
  ++completed_;
  bytes_ += signature_.count * SizeOf(signature_.type);
  for (const LocalRank& local : ranks_) {
    if (local.port != nullptr) local.port->Complete();
  }
  state_ = LoopState::kIdle;
}

absl::Status OperationLoop::Mismatch(Rank rank, const OperationSignature& theirs,
                                     const std::string& whose,
                                     const OperationSignature& other) const {
  return absl::FailedPreconditionError(absl::StrCat("calls do not fit together: rank ",
                                                    rank.value(), " calls ", Describe(theirs), ", ",
                                                    whose, " calls ", Describe(other)));
}

}  // namespace mccs
