#include "shim/submit/communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"
#include "shim/config/diagnostics.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/error_message.h"

namespace mccs::shim {
namespace {

// For requests that the daemon answers without other hosts. Estimates take longest, because the
// plan of a large communicator takes some time to build.
constexpr std::chrono::seconds kReplyTimeout{10};

constexpr char kRevokedMessage[] =
    "the communicator was revoked by ncclCommRevoke: only split, shrink, grow, destroy and abort "
    "are allowed";

constexpr char kShrunkMessage[] =
    "ncclCommShrink with NCCL_SHRINK_ABORT ended the communicator's work: only split, shrink, "
    "grow, destroy and abort are allowed";

}  // namespace

Communicator::Communicator(std::shared_ptr<Session> session, JoinOptions options)
    : session_(std::move(session)),
      options_(std::move(options)),
      ranks_(options_.ranks),
      rank_(options_.rank.value()),
      registrations_(session_->buffers) {}

Communicator::~Communicator() {
  if (link_to_parent_ != nullptr) link_to_parent_->Clear();
  if (state() == State::kJoining) session_->client->IgnoreReply(request_);
  if (page_ == nullptr) return;
  ReturnStaging();
  session_->client->Unwatch(&page_->region());
  const bool ended_well = state() == State::kFinalized && FailureOf(page_->region()).ok() &&
                          !submission_state_->captures.alive();
  // No caller can end the communicator any more.
  if (!FailureOf(page_->region()).ok()) ReleaseStreams();
  session_->retired_pages.RetirePage(std::move(page_), ended_well, SystemClock().Now());
}

// Nobody else uses the communicator any more, so this needs no lock. After an abort no memory is
// freed, because freeing waits for other streams, which may hang. Memory that a daemon may still
// write to is not freed.
void Communicator::ReturnStaging() {
  if (!submission_state_) return;
  const bool ended_well = state() == State::kFinalized;
  if (!ended_well && !released_ && !session_->client->dead()) return;
  submission_state_->staging.ReturnAllBlocks();
  if (ended_well) TrimStaging();
}

// cuMemFree waits for all streams of the GPU, so do not call it while a failed communicator blocks
// some.
void Communicator::TrimStaging() {
  if (!session_->client->MayBlockStreams()) session_->staging.Trim();
}

// ---- Join ------------------------------------------------------------------------------------

absl::Status Communicator::Join() {
  const uint32_t probe = PrepareForKernels();
  std::lock_guard lock(control_mutex_);
  if (aborted_.load()) return DeepCopy(failure_);
  for (const wire::CommShrink& part : options_.before) {
    if (auto sent = session_->client->Send(part); sent.ok()) session_->client->IgnoreReply(*sent);
  }
  const absl::StatusOr<uint64_t> request = SendJoin(probe);
  if (!request.ok()) {
    failure_ = request.status();
    state_.store(State::kFailed, std::memory_order_release);
    return DeepCopy(failure_);
  }
  request_ = join_request_ = *request;
  state_.store(State::kJoining, std::memory_order_release);
  return absl::OkStatus();
}

// If kernels run calls, the daemon asks for memory before it answers.
uint32_t Communicator::PrepareForKernels() const {
  if (!session_->client->uses_kernels()) return 0;
  session_->kernel_memory.SetContext(options_.device);
  return session_->probe_memory.BufferOn(options_.device);
}

absl::StatusOr<uint64_t> Communicator::SendJoin(uint32_t probe) const {
  DaemonClient& client = *session_->client;
  if (const auto* init = std::get_if<wire::CommInit>(&options_.message); init != nullptr) {
    wire::CommInit message = *init;
    message.probe_buffer = probe;
    return client.Send(message);
  }
  return std::visit([&](const auto& message) { return client.Send(message); }, options_.message);
}

absl::Status Communicator::AwaitJoined() {
  if (state() == State::kJoining) {
    absl::StatusOr<Reply> reply = session_->client->Await(request_);
    std::lock_guard lock(control_mutex_);
    if (state() == State::kJoining) FinishJoin(std::move(reply));
  }
  // Later failures are reported by the communicator's next call.
  return state() == State::kReady ? absl::OkStatus() : Failure();
}

void Communicator::FinishJoin(absl::StatusOr<Reply> reply) {
  absl::StatusOr<State> next = reply.ok() ? EnterCommunicator(*std::move(reply)) : reply.status();
  if (!next.ok()) failure_ = next.status();
  state_.store(next.ok() ? *next : State::kFailed, std::memory_order_release);
  if (next.ok() && *next == State::kReady && IsLogged(Verbosity::kInfo, Subsystem::kInit)) {
    LogLine(Verbosity::kInfo,
            absl::StrCat("communicator '", options_.config.name, "': rank ", rank(), " of ",
                         ranks(), " on CUDA device ", device(), " is ready"));
  }
}

void Communicator::LogStaging(const wire::CommInitReply& joined) const {
  if (joined.stages_collectives == 0 || !IsLogged(Verbosity::kWarn)) return;
  const std::string text(joined.staged_text,
                         strnlen(joined.staged_text, sizeof(joined.staged_text)));
  LogLine(Verbosity::kWarn, absl::StrCat("communicator ", absl::Hex(id(), absl::kZeroPad16), " '",
                                         options_.config.name, "': ", text));
}

absl::StatusOr<Communicator::State> Communicator::EnterCommunicator(Reply reply) {
  MCCS_ASSIGN_OR_RETURN(const auto joined, reply.As<wire::CommInitReply>());
  if (joined.comm_handle == wire::kNoCommHandle) return State::kNoColor;
  joined_.emplace(joined);
  ranks_.store(joined.ranks, std::memory_order_relaxed);
  rank_.store(joined.rank, std::memory_order_relaxed);
  LogStaging(joined);
  absl::StatusOr<std::unique_ptr<FencePage>> page =
      OpenRegions(*session_, options_.device, *joined_, std::move(reply));
  if (!page.ok()) {
    // The daemon counts this rank as joined: notify it, so that other ranks do not wait for us.
    if (auto request = SendAbort(); request.ok()) session_->client->IgnoreReply(*request);
    return page.status();
  }
  page_ = *std::move(page);
  session_->client->Watch(&page_->region());
  const bool checked = options_.config.check_pointers;
  submission_state_.emplace(session_, handle(), page_->region(), options_.device, submit_mutex_,
                            checked ? std::optional<int>(device()) : std::nullopt);
  return State::kReady;
}

bool Communicator::StagesMessagesWith(int peer) const {
  return session_->client->uses_kernels() && !joined_->CopiesMessagesWith(peer);
}

void Communicator::TrackChildJoin(Communicator* child) {
  child->link_to_parent_ = std::make_shared<ChildLink>(child);
  child_joins_.Track(child->link_to_parent_);
}

bool Communicator::StillJoins() {
  Progress();
  return state() == State::kJoining;
}

// ---- Finalize and abort ----------------------------------------------------------------------

absl::Status Communicator::BeginFinalize() {
  Progress();
  // Nothing is posted during finalize; callers that wait for ring space get it, or fail.
  std::lock_guard submit_lock(submit_mutex_);
  std::lock_guard lock(control_mutex_);
  switch (state()) {
    case State::kReady:
      if (end_message_ == kRevokedMessage) return absl::InvalidArgumentError(kRevokedMessage);
      if (end_message_ == nullptr && !FailedAfterOwnWork()) {
        MCCS_RETURN_IF_ERROR(WorkFailureOf(page_->region()));
      }
      break;
    case State::kFinalizing:
    case State::kFinalized:
      return absl::InvalidArgumentError(
          "cannot finalize the communicator: it is already finalized; call ncclCommDestroy");
    case State::kCreated:
    case State::kJoining:
      return absl::InvalidArgumentError(
          "cannot finalize the communicator: its init is still in progress; poll "
          "ncclCommGetAsyncError until it has ended");
    case State::kNoColor:
    case State::kFailed:
    case State::kAborted:
      return DeepCopy(failure_);
  }
  wire::CommDestroy message{};
  message.comm_handle = handle();
  auto request = session_->client->Send(message);
  if (!request.ok()) return request.status();
  request_ = *request;
  state_.store(State::kFinalizing, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Communicator::AwaitFinalized() {
  if (state() == State::kFinalizing) {
    absl::StatusOr<Reply> reply = session_->client->Await(request_);
    std::lock_guard lock(control_mutex_);
    if (state() == State::kFinalizing) FinishFinalize(std::move(reply));
  }
  return Failure();
}

bool Communicator::FailedAfterOwnWork() const {
  const wire::CommRegion& region = page_->region();
  if (region.failure.error.load(std::memory_order_acquire) == 0) return false;
  if (submission_state_->ring.last_sequence() > LastDone(region)) return false;
  // Replays have no numbers: one may be incomplete, unless the daemon still works.
  return !submission_state_->captures.used() || WorkFailureOf(region).ok();
}

absl::Status Communicator::IncompleteWork() const {
  if (state() != State::kReady || end_message_ != nullptr || FailedAfterOwnWork()) {
    return absl::OkStatus();
  }
  return WorkFailureOf(page_->region());
}

void Communicator::FinishFinalize(absl::StatusOr<Reply> reply) {
  absl::Status status = reply.ok() ? reply->As<wire::Done>().status() : reply.status();
  if (status.ok()) {
    state_.store(State::kFinalized, std::memory_order_release);
  } else {
    failure_ = std::move(status);
    state_.store(State::kFailed, std::memory_order_release);
  }
}

absl::StatusOr<uint64_t> Communicator::SendAbort() {
  wire::CommAbort message{};
  message.comm_handle = handle();
  return session_->client->Send(message);
}

std::string Communicator::DescribeGpuFailure(const absl::Status& error) const {
  char bus_id[32] = "unknown";
  driver().DeviceGetPCIBusId(bus_id, sizeof(bus_id), device());
  return absl::StrCat("GPU ", bus_id, " (CUDA device ", device(),
                      ") has failed: ", std::string(error.message()));
}

void Communicator::ReportGpuFailure(std::string_view text) {
  wire::GpuFailed message{};
  message.ended = wire::EndedKernels::kAll;
  ReportFailure(text, message, gpu_failure_reported_);
}

void Communicator::ReportLaunchFailure(std::string_view text,
                                       const std::optional<UnlaunchedKernel>& kernel) {
  wire::GpuFailed message{};
  if (kernel.has_value()) {
    message.ended = wire::EndedKernels::kFromCall;
    message.ready_slot = kernel->slot;
    message.first_call = kernel->first_call;
  }
  ReportFailure(text, message, launch_failure_reported_);
}

void Communicator::ReportFailure(std::string_view text, wire::GpuFailed message, bool& reported) {
  std::lock_guard lock(control_mutex_);  // the handle is in use as long as the state is kReady
  if (state() != State::kReady || std::exchange(reported, true)) return;
  // Before the report, after which the daemon writes the same.
  FailLocally(page_->region(), wire::ErrorClass::kRemote,
              absl::StrCat("rank ", rank(), ": ", std::string(text)));
  message.comm_handle = handle();
  std::memcpy(message.text, text.data(), std::min(text.size(), sizeof(message.text) - 1));
  session_->client->SendOneWay(message);
}

absl::Status Communicator::Revoke() {
  MCCS_RETURN_IF_ERROR(CheckReady());
  const char* before = nullptr;
  if (!end_message_.compare_exchange_strong(before, kRevokedMessage)) {
    return absl::InvalidArgumentError(before);
  }
  AwaitWorkEnded(kRevokedMessage);
  return absl::OkStatus();
}

void Communicator::EndForShrink() {
  const char* before = nullptr;
  if (end_message_.compare_exchange_strong(before, kShrunkMessage)) AwaitWorkEnded(kShrunkMessage);
}

void Communicator::AwaitWorkEnded(const char* text) {
  wire::CommRevoke message{};
  message.comm_handle = handle();
  auto request = session_->client->Send(message);
  if (request.ok()) (void)session_->client->Await(*request, wire::kAbortTimeout);
  FailLocally(page_->region(), wire::ErrorClass::kInvalidUsage, text);
  ReleaseStreams();
}

// The program may use its windows again: copies into them that the daemon has given up must end.
void Communicator::ReleaseStreams() {
  if (page_ == nullptr) return;
  for (const AddressRange& window : registrations_.WindowRanges())
    session_->kernel_memory.EndCopiesInto(window, /*freed=*/false);
  const bool captured = submission_state_.has_value() && submission_state_->captures.used();
  shim::ReleaseStreams(page_->region(), captured);
  if (page_->kernel_region() != nullptr) WakeKernels(*page_->kernel_region(), captured);
}

absl::Status Communicator::Suspend() {
  MCCS_RETURN_IF_ERROR(CheckUsable());
  suspended_ = true;
  {
    std::lock_guard lock(submit_mutex_);
    submission_state_->staging.ReturnIdleBlocks();
  }
  TrimStaging();
  absl::Status status = SetSuspended(true);
  if (!status.ok()) {
    suspended_ = false;
    // A slow daemon may have suspended it.
    if (const auto sent = SendSuspended(false); sent.ok()) session_->client->IgnoreReply(*sent);
  }
  return status;
}

absl::StatusOr<uint64_t> Communicator::SendSuspended(bool suspended) {
  wire::CommSuspend message{};
  message.comm_handle = handle();
  message.suspended = suspended ? 1 : 0;
  return session_->client->Send(message);
}

absl::Status Communicator::SetSuspended(bool suspended) {
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, SendSuspended(suspended));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, session_->client->Await(request, kReplyTimeout));
  return reply.As<wire::Done>().status();
}

uint64_t Communicator::StagingBytes() {
  std::lock_guard lock(submit_mutex_);
  return submission_state_ ? submission_state_->staging.bytes() : 0;
}

absl::Status Communicator::Resume() {
  MCCS_RETURN_IF_ERROR(CheckReady());
  if (!suspended_.exchange(false)) {
    return absl::InvalidArgumentError(
        "cannot resume the communicator: it is not suspended; call ncclCommSuspend first");
  }
  absl::Status status = SetSuspended(false);
  if (!status.ok()) suspended_ = true;
  return status;
}

void Communicator::Abort() {
  static constexpr char kText[] = "the communicator was aborted by ncclCommAbort";
  std::lock_guard once(abort_mutex_);
  // The daemon may have reused the handle for another communicator.
  if (state() == State::kAborted) return;
  std::optional<uint64_t> request;
  uint64_t cancelled = 0;
  {
    std::lock_guard lock(control_mutex_);
    const State before = state();
    failure_ = absl::CancelledError(kText);
    state_.store(State::kAborted, std::memory_order_release);
    // Last, because callers that see it ask Failure() for the reason.
    aborted_.store(true, std::memory_order_release);
    if (before == State::kJoining || before == State::kFinalizing) cancelled = request_;
    // During finalize the daemon may have ended it, and reused its handle.
    if (before == State::kJoining || before == State::kFinalizing) {
      wire::CommAbort message{};
      message.init_request = join_request_;
      if (auto sent = session_->client->Send(message); sent.ok()) request = *sent;
    } else if (page_ != nullptr && before != State::kFinalized) {
      if (auto sent = SendAbort(); sent.ok()) request = *sent;
    }
  }
  child_joins_.Abort();
  // The daemon unmaps the tenant's memory before any stream continues and uses it.
  if (request && session_->client->Await(*request, wire::kAbortTimeout).ok()) released_ = true;
  if (cancelled != 0) session_->client->Cancel(cancelled, absl::CancelledError(kText));
  if (page_ != nullptr) FailLocally(page_->region(), wire::ErrorClass::kAborted, kText);
  ReleaseStreams();
}

absl::StatusOr<double> Communicator::EstimateUs(const wire::WorkRecord& call) {
  wire::Estimate message{};
  message.comm_handle = handle();
  message.op = call.op;
  message.type = call.type;
  message.root_or_peer = call.root_or_peer;
  message.count = call.count;
  MCCS_ASSIGN_OR_RETURN(const uint64_t request, session_->client->Send(message));
  MCCS_ASSIGN_OR_RETURN(const Reply reply, session_->client->Await(request, kReplyTimeout));
  MCCS_ASSIGN_OR_RETURN(const auto estimate, reply.As<wire::EstimateReply>());
  return estimate.microseconds;
}

// ---- Queries ---------------------------------------------------------------------------------

void Communicator::Progress() {
  const State seen = state();
  if (seen != State::kJoining && seen != State::kFinalizing) return;
  std::unique_lock lock(control_mutex_, std::try_to_lock);
  if (!lock || state() != seen) return;
  std::optional<absl::StatusOr<Reply>> reply = session_->client->Poll(request_);
  if (!reply) return;
  if (seen == State::kJoining) {
    FinishJoin(*std::move(reply));
  } else {
    FinishFinalize(*std::move(reply));
  }
}

ncclResult_t Communicator::AsyncResult() {
  if (state() == State::kReady) [[likely]] {
    const auto error = static_cast<wire::ErrorClass>(
        page_->region().failure.error.load(std::memory_order_acquire));
    if (error != wire::ErrorClass::kNone && end_message_ == nullptr) return ResultOf(error);
    return child_joins_.AnyTrackedJoins() ? ncclInProgress : ncclSuccess;
  }
  Progress();
  if (const State now = state(); now == State::kJoining || now == State::kFinalizing) {
    return ncclInProgress;
  }
  return ResultOf(Failure());
}

absl::Status Communicator::Failure() {
  switch (state()) {
    case State::kReady:
      if (const char* ended = end_message_.load()) return absl::FailedPreconditionError(ended);
      return FailureOf(page_->region());
    case State::kFinalizing:
    case State::kFinalized:
      if (end_message_ != nullptr || FailedAfterOwnWork()) return absl::OkStatus();
      return FailureOf(page_->region());
    case State::kCreated:
    case State::kJoining:
    case State::kNoColor:
      return absl::OkStatus();
    case State::kFailed:
    case State::kAborted:
      break;
  }
  std::lock_guard lock(control_mutex_);
  return DeepCopy(failure_);
}

absl::Status Communicator::TakeFailure() {
  if (failure_taken_.load(std::memory_order_relaxed)) return absl::OkStatus();
  if (end_message_ != nullptr || state() == State::kAborted) return absl::OkStatus();
  absl::Status failure = Failure();
  if (!failure.ok() && failure_taken_.exchange(true)) return absl::OkStatus();
  return failure;
}

absl::Status Communicator::CheckReady() {
  if (state() == State::kReady) [[likely]]
    return absl::OkStatus();
  Progress();
  switch (state()) {
    case State::kReady:
      return absl::OkStatus();
    case State::kCreated:
    case State::kJoining:
      return absl::InvalidArgumentError(
          "the communicator is not ready: its init is still in progress; poll "
          "ncclCommGetAsyncError until it has ended");
    case State::kFinalizing:
    case State::kFinalized:
      return absl::InvalidArgumentError(
          "the communicator is finalized: it accepts no operations; call ncclCommDestroy");
    case State::kNoColor:
    case State::kFailed:
    case State::kAborted:
      break;
  }
  const absl::Status failure = Failure();
  return failure.ok() ? absl::InvalidArgumentError(
                            "the communicator has ended; destroy it and create a new one")
                      : failure;
}

absl::Status Communicator::CheckUsable() {
  MCCS_RETURN_IF_ERROR(CheckReady());
  if (const char* ended = end_message_.load(std::memory_order_relaxed)) {
    return absl::FailedPreconditionError(ended);
  }
  if (suspended_.load(std::memory_order_relaxed)) {
    return absl::FailedPreconditionError(
        "the communicator is suspended; call ncclCommResume first");
  }
  return WorkFailureOf(page_->region());
}

absl::Status Communicator::CheckParent(bool failed_too) {
  MCCS_RETURN_IF_ERROR(CheckReady());
  return failed_too || end_message_ != nullptr ? absl::OkStatus() : WorkFailureOf(page_->region());
}

bool Communicator::finalized_or_finalizing() const {
  return state() == State::kFinalizing || state() == State::kFinalized;
}

bool Communicator::broken() const {
  return aborted_.load(std::memory_order_acquire) || !WorkFailureOf(page_->region()).ok();
}

}  // namespace mccs::shim
