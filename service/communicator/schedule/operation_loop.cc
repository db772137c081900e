#include "service/communicator/schedule/operation_loop.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/communicator/schedule/scalar_encoding.h"

namespace mccs {
namespace {

// A posted call was validated against its rank's own view of the communicator. It is validated
// again against the plan's layout before the plan gets its addresses.
absl::Status CheckShape(const PostedOperation& call, int ranks) {
  const bool has_root = call.root.value() >= 0 && call.root.value() < ranks;
  if (has_root && call.count <= kMaxCallBytes / SizeOf(call.type) / static_cast<uint64_t>(ranks)) {
    return absl::OkStatus();
  }
  if (!has_root) {
    return absl::InvalidArgumentError(absl::StrCat(
        std::string(Name(call.kind)), ": root ", call.root.value(), "; expected 0 to ", ranks - 1));
  }
  return absl::InvalidArgumentError(absl::StrCat(std::string(Name(call.kind)), ": count ",
                                                 call.count, " is too large for ", ranks,
                                                 " ranks; split the call"));
}

// REQUIRES: CheckShape(call, ranks) is OK.
absl::Status CheckBuffers(const PostedOperation& call, Rank rank, int ranks) {
  const CallElements sides =
      ElementsOf(call.kind, call.count, static_cast<uint64_t>(ranks), rank == call.root);
  const uint64_t size = SizeOf(call.type);
  if (sides.input * size <= call.input.bytes && sides.output * size <= call.output.bytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(Name(call.kind)), " with count ", call.count, ": rank ", rank.value(),
      " passed an input of ", call.input.bytes, " bytes and an output of ", call.output.bytes,
      " bytes; expected at least ", sides.input * size, " and ", sides.output * size, " bytes for ",
      ranks, " ranks"));
}

std::unique_ptr<Executor> MakeExecutor(Device& device, LaneDirectory& lanes,
                                       const Strategy& strategy, const PlanCache& plans,
                                       const std::shared_ptr<TenantResources>& budget) {
  return std::make_unique<Executor>(device, lanes, strategy.lanes, plans.channels(),
                                    BudgetShare(budget, Resource::kPlanMemory));
}

uint64_t BufferBytes(std::span<const PostedOperation* const> calls) {
  uint64_t bytes = 0;
  for (const PostedOperation* call : calls) bytes += call->input.bytes + call->output.bytes;
  return bytes;
}

}  // namespace

OperationLoop::OperationLoop(const Parts& parts, Layout layout, HostIndex self,
                             const Strategy& strategy, std::span<const LocalRank> ranks)
    : device_(*parts.device),
      order_(*parts.order),
      change_(*parts.change),
      tally_(*parts.tally),
      clock_(*parts.clock),
      budget_(parts.budget),
      account_(parts.account),
      lanes_(parts.lanes),
      self_(self),
      strategy_(strategy),
      runners_(parts.runners),
      plans_(std::make_unique<PlanCache>(std::move(layout), strategy, self, runners_,
                                         BudgetShare(budget_, Resource::kPlanMemory))),
      executor_(MakeExecutor(device_, *parts.lanes, strategy, *plans_, budget_)),
      ranks_(ranks),
      calls_(ranks.size()) {}

void OperationLoop::SwitchTo(const Strategy& strategy, LaneSet& lanes) {
  MCCS_CHECK(!running() && quiescent());
  strategy_ = strategy;
  former_plan_cost_ += plans_->cost();
  plans_ = std::make_unique<PlanCache>(plans_->layout(), strategy, self_, runners_,
                                       BudgetShare(budget_, Resource::kPlanMemory));
  if (lanes_ == &lanes) return;
  lanes_ = &lanes;
  former_plan_cost_ += executor_->loaded_bytes() * kCostPerLoadedByte;
  former_poll_cost_ += executor_->polled_programs() * kCostPerProgram;
  executor_ = MakeExecutor(device_, lanes, strategy, *plans_, budget_);
}

absl::StatusOr<bool> OperationLoop::Poll() {
  const int64_t before = plan_cost();
  plan_cost_end_ = before + kPlanCostPerTurn;
  captured_left_ = std::max(kCapturedPerTurn, ranks_.size());
  absl::StatusOr<bool> moved = Advance();
  WorkOnPlans();  // for estimates
  if (moved.ok()) {
    *moved |= plan_cost() > before || plans_->has_work() || (captured_after_ != 0 && !running());
  }
  if (!moved.ok()) {
    Stop();
  } else if (*moved && running() && has_quota()) {
    account_->RecordProgress(clock_.Now());
  }
  return moved;
}

void OperationLoop::Stop() {
  for (auto& running : running_) running->work.reset();
  executor_->Stop();
}

absl::StatusOr<bool> OperationLoop::Advance() {
  bool moved = false;
  if (running()) {
    MCCS_ASSIGN_OR_RETURN(moved, AfterPoll(executor_->Poll()));
    // When the tenant's quota limits its operations, another communicator's turn comes first.
    if (moved && !running() && has_quota()) return true;
  }
  const uint64_t end = device_.inline_bytes() + kBytesPerTurn;
  for (int i = 0;
       i < kOperationsPerTurn && device_.inline_bytes() < end && plan_cost() < plan_cost_end_;
       ++i) {
    // Operations after the boundary run under the other strategy: the owner switches first.
    if (!running() && change_.ReadyToSwitch(completed_)) return moved;
    MCCS_ASSIGN_OR_RETURN(const bool started, running() ? TryOverlap() : TryStart());
    if (!started) break;
    moved = true;
    MCCS_RETURN_IF_ERROR(AfterPoll(executor_->PollLast()).status());
    if (!running() && has_quota()) return true;
  }
  if (running() && !moved) MCCS_RETURN_IF_ERROR(CheckOtherLanes());
  return moved;
}

// Completes operations that the executor has completed, and explains its errors. running_ and the
// executor's operations correspond by position; those that the executor no longer has are complete.
absl::StatusOr<bool> OperationLoop::AfterPoll(absl::StatusOr<bool> moved) {
  if (!moved.ok()) {
    const std::optional<SliceTag> tag = executor_->mismatched_tag();
    if (!tag.has_value()) return moved;
    return Mismatch(ranks_.front().rank, running_.front()->signature, "another host",
                    FromTag(*tag));
  }
  while (running_.size() > executor_->running()) CompleteOldest();
  return moved;
}

// Posted and captured collectives alternate if both are ready.
absl::StatusOr<bool> OperationLoop::TryStart() {
  state_ = LoopState::kIdle;
  retry_at_ = kNever;
  const bool posted_first = last_key_ != kPosted;
  if (posted_first) {
    MCCS_ASSIGN_OR_RETURN(const bool started, TryStart(kPosted));
    if (started) return true;
  }
  MCCS_ASSIGN_OR_RETURN(const bool started, TryStartCaptured());
  if (started) return true;
  return posted_first ? false : TryStart(kPosted);
}

// A tenant chooses how many captured collectives some of its ranks have reached and others have
// not.
absl::StatusOr<bool> OperationLoop::TryStartCaptured() {
  const uint64_t first = NextCaptured(0);
  uint64_t after = std::exchange(captured_after_, 0);
  if (first == 0) return false;
  order_.Request();
  uint64_t key = after == 0 ? first : NextCaptured(after);
  if (key == 0) {  // Those that were left are complete.
    after = 0;
    key = first;
  }
  while (key != 0) {
    if (captured_left_ < ranks_.size()) {
      captured_after_ = after;
      return false;
    }
    captured_left_ -= ranks_.size();
    captured_looks_ += static_cast<int64_t>(ranks_.size());
    MCCS_ASSIGN_OR_RETURN(const bool started, TryStart(key));
    if (started) return true;
    after = key;
    key = NextCaptured(after);
  }
  return false;
}

static_assert(kMaxPostedAhead == kMaxRunningOperations,
              "a rank shows as many collectives as may run");

// Collectives that were captured never overlap others: replays and posted calls alternate.
absl::StatusOr<bool> OperationLoop::TryOverlap() {
  if (running_.front()->key != kPosted || running_.size() == kMaxRunningOperations) return false;
  if (trace_ == nullptr && !HasNextCall(ranks_.front())) return false;  // as in most turns
  if (BytesInUse() >= kMaxOverlappingBytes) return false;  // cheaper than to look at the next call
  if (has_quota()) return false;
  if (NextCaptured(0) != 0) return false;
  const absl::StatusOr<Reached> reached = CheckReached(kPosted);
  if (!reached.ok()) return false;  // found again when the older operations are complete
  if (trace_ != nullptr && *reached != Reached::kByNobody) {
    trace_->OnPosted(kPosted, /*by_all=*/*reached != Reached::kBySome);
  }
  const uint64_t number = started() + 1;
  if (*reached != Reached::kReady || !order_.Allows(number, kPosted) || !change_.Allows(number) ||
      !MayOverlap()) {
    return false;
  }
  return Start(kPosted);
}

bool OperationLoop::HasNextCall(const LocalRank& local) const {
  if (local.port == nullptr) return false;
  const auto next = local.port->Posted(running_.size());
  return next.ok() && *next != nullptr;
}

uint64_t OperationLoop::BytesInUse() const {
  uint64_t bytes = 0;
  for (const auto& running : running_) bytes += running->bytes;
  return bytes;
}

bool OperationLoop::MayOverlap() const {
  return BufferBytes(calls_) + BytesInUse() <= kMaxOverlappingBytes &&
         std::ranges::none_of(running_,
                              [&](const auto& running) { return ConflictsWith(*running); });
}

// Of each rank's buffers: NCCL orders no accesses of different ranks.
bool OperationLoop::ConflictsWith(const Running& running) const {
  for (size_t i = 0; i < calls_.size(); ++i) {
    const PostedOperation& next = *calls_[i];
    const RankMemory& current = running.memory[i];
    if (Overlap(next.output, current.output) || Overlap(next.output, current.input) ||
        Overlap(next.output, current.scale_memory) || Overlap(next.input, current.output) ||
        Overlap(next.scalar_memory, current.output)) {
      return true;
    }
  }
  return false;
}

absl::StatusOr<bool> OperationLoop::TryStart(uint64_t key) {
  MCCS_ASSIGN_OR_RETURN(const Reached reached, CheckReached(key));
  if (trace_ != nullptr && reached != Reached::kByNobody) {
    trace_->OnPosted(key, /*by_all=*/reached != Reached::kBySome);
  }
  if (reached == Reached::kReady && order_.Allows(completed_ + 1, key) &&
      change_.Allows(completed_ + 1)) {
    if (has_quota() && !account_->MayStart(clock_.Now())) {
      retry_at_ = account_->StalledAt();
      state_ = LoopState::kWaitingQuota;
      return false;
    }
    return Start(key);
  }
  if (reached == Reached::kByAll) {
    state_ = LoopState::kWaitingReady;
  } else if (reached != Reached::kByNobody && state_ == LoopState::kIdle) {
    state_ = LoopState::kWaitingRanks;  // or for the leader's decision
  }
  return false;
}

uint64_t OperationLoop::NextCaptured(uint64_t after) const {
  uint64_t next = 0;
  for (const LocalRank& local : ranks_) {
    if (local.port == nullptr) continue;
    const uint64_t key = local.port->NextCaptured(after);
    if (key != 0 && (next == 0 || key < next)) next = key;
  }
  return next;
}

absl::StatusOr<const PostedOperation*> OperationLoop::CallOf(const LocalRank& local, uint64_t key,
                                                             size_t position) const {
  return key == kPosted ? local.port->Posted(position) : local.port->Captured(key);
}

absl::StatusOr<OperationLoop::Reached> OperationLoop::CheckReached(uint64_t key) {
  const LocalRank* first = nullptr;
  bool by_all = true;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const LocalRank& local = ranks_[i];
    calls_[i] = nullptr;
    if (local.port != nullptr) {
      MCCS_ASSIGN_OR_RETURN(calls_[i], CallOf(local, key, running_.size()));
    }
    if (calls_[i] == nullptr) {
      by_all = false;
      continue;
    }
    const OperationSignature signature = SignatureOf(*calls_[i], started() + 1);
    if (first == nullptr) {
      first = &local;
      signature_ = signature;
    } else if (signature != signature_) {
      return Mismatch(local.rank, signature, absl::StrCat("rank ", first->rank.value()),
                      signature_);
    }
  }
  if (first == nullptr) return Reached::kByNobody;
  if (!by_all) return Reached::kBySome;
  if (key != kPosted) return Reached::kReady;
  for (const LocalRank& local : ranks_) {
    if (!local.port->IsReady(running_.size())) return Reached::kByAll;
  }
  return Reached::kReady;
}

absl::Status OperationLoop::CheckCalls() const {
  const int ranks = plans_->layout().rank_count();
  MCCS_RETURN_IF_ERROR(CheckShape(*calls_.front(), ranks));
  for (size_t i = 0; i < ranks_.size(); ++i) {
    MCCS_RETURN_IF_ERROR(CheckBuffers(*calls_[i], ranks_[i].rank, ranks));
  }
  return absl::OkStatus();
}

void OperationLoop::WorkOnPlans() {
  if (plans_->has_work()) plans_->Work(plan_cost_end_ - plan_cost());
}

// ncclAvg: floating types scale each input by 1/n, rounded to the type; integers divide the sum.
// PreMulSum: each rank's input is scaled by the rank's own factor.
absl::StatusOr<std::shared_ptr<const Plan>> OperationLoop::FindPlan(const PostedOperation& call) {
  const bool scaled =
      call.redop == ReduceOp::kPreMulSum || (call.redop == ReduceOp::kAvg && IsFloat(call.type));
  for (;;) {
    std::optional<PlanKey> key = plans_->KeyFor(call.kind, call.count * SizeOf(call.type));
    if (key.has_value()) {
      key->root = call.root;
      key->scaled = scaled && Reduces(call.kind);
      MCCS_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, plans_->Find(*key));
      if (plan != nullptr) return plan;
    }
    if (plan_cost() >= plan_cost_end_) return nullptr;
    WorkOnPlans();
  }
}

absl::StatusOr<bool> OperationLoop::Start(uint64_t key) {
  const PostedOperation& call = *calls_.front();
  if (absl::Status valid = CheckCalls(); !valid.ok()) {
    // It must not end older operations, and is found again when they are complete.
    if (running()) return false;
    return valid;
  }
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<const Plan> plan, FindPlan(call));
  if (plan == nullptr && !running()) state_ = LoopState::kWaitingPlan;
  if (plan == nullptr || !executor_->MayStart(*plan)) return false;
  if (unused_.empty()) unused_.push_back(std::make_unique<Running>());
  Running& next = *unused_.back();
  Operation operation = Bind(call, std::move(plan), next);
  MCCS_ASSIGN_OR_RETURN(const bool prepared, executor_->Prepare(operation));
  if (!prepared) {
    if (!running()) state_ = LoopState::kWaitingNics;
    return false;
  }
  next.signature = signature_;
  next.key = last_key_ = key;
  next.bytes = BufferBytes(calls_);
  if (trace_ != nullptr) {
    next.stamps = trace_->TakeStamps(key);
    if (!std::exchange(trace_skips_next_, false)) operation.stamps = &next.stamps;
  }
  next.traced = operation.stamps != nullptr;
  if (call.options.any_set()) {
    with_options_ = {with_options_.calls + 1, signature_.number, call.options};
  }
  order_.Started(signature_.number, key);
  MCCS_RETURN_IF_ERROR(executor_->Start(operation));
  if (account_ != nullptr) {
    next.work.emplace(account_, has_quota() ? clock_.Now() : 0);
  }
  running_.push_back(std::move(unused_.back()));
  unused_.pop_back();
  state_ = LoopState::kRunning;
  return true;
}

Operation OperationLoop::Bind(const PostedOperation& call, std::shared_ptr<const Plan> plan,
                              Running& running) {
  const bool average = call.redop == ReduceOp::kAvg;
  const bool factors = call.redop == ReduceOp::kPreMulSum;
  const int ranks = plans_->layout().rank_count();
  const bool scaled = plan->key.scaled;
  Operation operation;
  operation.plan = std::move(plan);
  OperationBinding& binding = operation.binding;
  binding.bytes = call.count * SizeOf(call.type);
  if (device_.uses_kernels() && !operation.plan->crosses_hosts) {
    running.geometry.emplace(*operation.plan, call.type, call.count, kKernelSlices.most_bytes,
                             kKernelSlices);
  } else {
    running.geometry.emplace(*operation.plan, call.type, call.count, strategy_.lanes.slot_bytes);
  }
  binding.geometry = &*running.geometry;
  binding.type = call.type;
  binding.op = average || factors ? ReduceOp::kSum : call.redop;
  binding.finish =
      average && Reduces(call.kind) && !IsFloat(call.type) ? Finish::kDivide : Finish::kNone;
  binding.divisor = static_cast<uint64_t>(ranks);
  operation.tag = ToTag(signature_);
  operation.skew = strategy_.skew;
  const uint64_t share = scaled && average ? EncodeScalar(call.type, 1.0 / ranks) : 0;
  running.memory.resize(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const PostedOperation* own = calls_[i];
    running.memory[i] = {.input = own->input,
                         .output = own->output,
                         .scaled = scaled,
                         .scale_bits = factors ? own->scalar : share,
                         .scale_memory = own->scalar_memory};
  }
  binding.ranks = running.memory;
  if (device_.uses_kernels()) {
    running.kernels.clear();
    for (const PostedOperation* own : calls_) running.kernels.push_back(own->kernel);
    binding.kernels = running.kernels;
  }
  return operation;
}

void OperationLoop::CompleteOldest() {
  std::unique_ptr<Running> complete = std::move(running_.front());
  running_.erase(running_.begin());  // a few pointers
  complete->work.reset();
  ++completed_;
  const OperationSignature& signature = complete->signature;
  const uint64_t bytes = signature.count * SizeOf(signature.type);
  bytes_ += bytes;
  tally_.Count(signature.kind, bytes);
  for (const LocalRank& local : ranks_) {
    if (local.port == nullptr) continue;
    if (complete->key == kPosted) {
      local.port->Complete();
    } else {
      local.port->CompleteCaptured(complete->key);
    }
  }
  if (trace_ != nullptr && complete->traced) {  // otherwise it started before the trace
    trace_->Add(
        {.number = completed_, .kind = signature.kind, .bytes = bytes, .stamps = complete->stamps});
  }
  unused_.push_back(std::move(complete));
  if (!running()) state_ = LoopState::kIdle;
}

// A posted collective takes precedence over captured ones that some ranks have reached, because not
// all of those need to be the next operation.
OperationLoop::LocalRankStatus OperationLoop::LocalStatus() const {
  const auto called = [&](uint64_t key) {
    LocalRankStatus local_status;
    for (const LocalRank& local : ranks_) {
      if (local.port == nullptr) continue;
      const auto call = CallOf(local, key, 0);
      if (!call.ok()) continue;  // The loop will find the error and fail.
      if (*call == nullptr) {
        local_status.absent.push_back(local.rank);
        continue;
      }
      local_status.call = absl::StrCat(Describe(SignatureOf(**call, completed_ + 1)),
                                       key == kPosted ? "" : ", captured");
      if (key == kPosted && !local.port->FrontReady()) local_status.late.push_back(local.rank);
    }
    return local_status;
  };
  LocalRankStatus local_status = called(running() ? running_.front()->key : kPosted);
  if (!local_status.call.empty()) return local_status;
  const uint64_t captured = NextCaptured(0);
  return captured != 0 ? called(captured) : local_status;
}

absl::Status OperationLoop::CheckOtherLanes() const {
  const OperationSignature& oldest = running_.front()->signature;
  const std::optional<OperationSignature> other = lanes_->FindMismatchedCall(oldest);
  if (!other.has_value()) return absl::OkStatus();
  return Mismatch(ranks_.front().rank, oldest, "another host", *other);
}

absl::Status OperationLoop::Mismatch(Rank rank, const OperationSignature& theirs,
                                     const std::string& whose,
                                     const OperationSignature& other) const {
  return absl::FailedPreconditionError(absl::StrCat("mismatched collectives: rank ", rank.value(),
                                                    " calls ", Describe(theirs), ", ", whose,
                                                    " calls ", Describe(other)));
}

}  // namespace mccs
