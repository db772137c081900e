// The part of a Session that handles its ranks: their begin, use and end.
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <span>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "proto/shim_control.h"
#include "service/device/kernel_image.h"
#include "service/frontend/session.h"
#include "service/frontend/tenant_text.h"

namespace mccs {
namespace {

// Of a process; further ones are backpressure for all its requests.
constexpr size_t kMaxWaitingEstimates = 64;
// Groups of a capture that are released in the time of one unit of the TurnBudget.
constexpr size_t kReleasedGroupsPerUnit = 4096;
// Of an estimate that is looked up once more, in units of the TurnBudget.
constexpr int kEstimateCost = 1;

void SetHints(const wire::CommOptions& options, cluster::Hints* hints) {
  hints->set_min_channels(options.min_channels);
  hints->set_max_channels(options.max_channels);
  hints->set_buffer_bytes(options.buffer_bytes);
  hints->set_algorithms(TextOf(options.algorithms));
  hints->set_protocols(TextOf(options.protocols));
  if (options.traffic_class >= 0) {
    hints->set_traffic_class(static_cast<uint32_t>(options.traffic_class));
  }
  if (options.service_level >= 0) {
    hints->set_service_level(static_cast<uint32_t>(options.service_level));
  }
}

}  // namespace

// ---- The beginning ------------------------------------------------------------------------------

absl::Status Session::CheckKnown() const {
  const bool denies = env_.denies_unknown != nullptr && env_.denies_unknown->load();
  if (!denies || account_ == nullptr || account_->IsKnown()) return absl::OkStatus();
  const std::string& cgroup = identity().cgroup;
  return absl::PermissionDeniedError(
      absl::StrCat(identity().tenant,
                   " belongs to no Tenant, and this host denies unknown tenants: ask the operator "
                   "to add the user or the control group "
                   "to a Tenant, or set MCCS_SOCKET to the socket of yours; the control group is ",
                   cgroup.empty() ? "unknown" : cgroup));
}

Session::Outcome Session::HandleHello(const wire::Hello& hello) {
  absl::Status status;
  const uint32_t version = std::min(hello.newest_version, wire::kWireVersion);
  if (hello.magic != wire::kControlMagic) {
    EndOnError(absl::InvalidArgumentError("the first message is not a shim's Hello"));
    return std::nullopt;
  }
  if (version < wire::kOldestWireVersion || version < hello.oldest_version) {
    status = absl::FailedPreconditionError(absl::StrCat(
        "libnccl.so.2 (", TextOf(hello.build), ") supports wire versions ", hello.oldest_version,
        " to ", hello.newest_version, ", mccsd ", wire::kOldestWireVersion, " to ",
        wire::kWireVersion, "; install both from the same release"));
  }
  if (const absl::Status known = CheckKnown(); status.ok() && !known.ok()) {
    status = known;
    if (env_.counters != nullptr) env_.counters->denied_processes.Add(1);
    env_.warnings->Write(counted_as_,
                         absl::StrCat("denied process ", identity().process, ": ", known.message()),
                         env_.clock->Now());
  }
  wire::HelloReply reply{};
  reply.version = version;
  reply.uses_kernels = env_.device->uses_kernels() ? 1 : 0;
  reply.wants_dma_bufs = env_.wants_dma_bufs ? 1 : 0;
  std::strncpy(reply.build, "mccsd " MCCS_VERSION, sizeof(reply.build) - 1);
  if (!status.ok()) {
    Answer(hello.header.request, status, reply);
    return std::nullopt;
  }
  auto memory = SharedRegion::Create("mccs-session", sizeof(wire::SessionRegion));
  if (!memory.ok()) {
    EndOnError(memory.status());
    return std::nullopt;
  }
  memory_ = std::move(*memory);
  new (memory_.data()) wire::SessionRegion{};
  state_ = State::kOpen;
  const UniqueFd region = memory_.TakeFd();
  std::array<int, wire::kMaxReplyFds> fds{region.get()};
  size_t count = 1;
  if (channel_->doorbell() >= 0) fds[count++] = channel_->doorbell();
  if (const KernelImage* image = env_.device->kernel_image(); image != nullptr) {
    reply.kernel_image_bytes = image->bytes;
    std::strncpy(reply.kernel_architectures, image->architectures.c_str(),
                 sizeof(reply.kernel_architectures) - 1);
    fds[count++] = image->file.get();
  }
  Answer(hello.header.request, status, reply, std::span(fds).first(count));
  return std::nullopt;
}

absl::StatusOr<wire::UniqueIdReply> Session::HandleGetUniqueId(const wire::GetUniqueId&) {
  MCCS_ASSIGN_OR_RETURN(const wire::UniqueId id,
                        env_.rendezvous->MakeId(env_.endpoint, identity().tenant, budget_));
  return Signed(id);
}

wire::UniqueIdReply Session::Signed(wire::UniqueId id) const {
  env_.id_keys->Sign(&id, env_.clock->Now());
  wire::UniqueIdReply reply{};
  std::memcpy(reply.unique_id, &id, sizeof(id));
  return reply;
}

// ---- Joining ------------------------------------------------------------------------------------

Session::Outcome Session::HandleInit(const wire::CommInit& request) {
  MCCS_ASSIGN_OR_RETURN(const JoinRequest join, CheckInit(request));
  MCCS_ASSIGN_OR_RETURN(GpuMappings* const kernels, KernelsOf(join));
  if (kernels != nullptr && request.probe_buffer != 0) {
    MCCS_ASSIGN_OR_RETURN(BufferHold probe,
                          buffers_.Resolve({.id = request.probe_buffer, .reserved = 0, .offset = 0},
                                           /*bytes=*/1, /*alignment=*/1));
    kernels->SetProbe(std::move(probe));
  }
  return Later(Admit(join, request.header.request));
}

absl::Status Session::Admit(const JoinRequest& join, uint64_t request) {
  const uint32_t handle = FreeHandle();
  if (handle == wire::kMaxCommsPerSession) {
    return absl::ResourceExhaustedError(absl::StrCat("too many communicators: this process has ",
                                                     ranks_.size(), ", which is the limit"));
  }
  MCCS_ASSIGN_OR_RETURN(GpuMappings* const kernels, KernelsOf(join));
  BudgetShare regions(budget_, Resource::kMappings);
  MCCS_RETURN_IF_ERROR(regions.Take(kernels != nullptr ? 2 : 1));
  MCCS_ASSIGN_OR_RETURN(
      std::unique_ptr<RankEndpoint> endpoint,
      RankEndpoint::Make(Rank(join.rank.rank()), buffers_, kernels,
                         {.init_done = std::bind_front(&Session::AnswerInit, this, handle),
                          .released = std::bind_front(&Session::OnRankReleased, this, handle),
                          .join_split = std::bind_front(&Session::JoinSplit, this, handle),
                          .on_not_member = std::bind_front(&Session::OnNotMember, this, handle)}));
  JoinRequest own = join;
  own.account = account_;
  own.budget = budget_;
  MCCS_ASSIGN_OR_RETURN(endpoint->communicator, env_.communicators->Join(own, endpoint.get()));
  RankSlot::Origin origin{.serial = ++last_serial_, .join = join, .init_request = request};
  origin.join.roster = nullptr;  // not needed any more
  ranks_.try_emplace(handle, std::move(origin), std::move(endpoint), std::move(regions));
  inits_.emplace(request, handle);
  if (free_below_.erase(handle) == 0) ++handles_;
  dirty_words_ = std::max(dirty_words_, handle / 64 + 1);
  return absl::OkStatus();
}

absl::StatusOr<GpuMappings*> Session::KernelsOf(const JoinRequest& join) {
  if (!env_.device->uses_kernels()) return nullptr;
  return kernels_.On(join.gpu.uuid(), join.device);
}

absl::StatusOr<JoinRequest> Session::CheckInit(const wire::CommInit& request) {
  JoinRequest join;
  std::memcpy(&join.id, request.unique_id, sizeof(join.id));
  if (join.id.magic != wire::kUniqueIdMagic) {
    return absl::FailedPreconditionError(
        "the unique id was not made by MCCS: the rank that called ncclGetUniqueId uses "
        "another NCCL "
        "library; preload MCCS's libnccl.so.2 on every rank, or on none");
  }
  if (join.id.version < wire::kOldestWireVersion || join.id.version > wire::kWireVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("the unique id was made by a daemon of wire version ", join.id.version,
                     ", this one supports ", wire::kOldestWireVersion, " to ", wire::kWireVersion));
  }
  if (request.ranks < 1 || request.ranks > kMaxRanks || request.rank < 0 ||
      request.rank >= request.ranks) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid rank ", request.rank, " of a communicator of ", request.ranks,
                     " ranks; 1 to ", kMaxRanks, " ranks are supported"));
  }
  // Resolving a name would block the engine's thread for as long as its name servers take.
  if (const std::string host = TextOf(join.id.host); !IsNumericAddress(host) || join.id.port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the unique id has the rendezvous address '", host, "' port ", join.id.port,
                     ": it must be a numeric address and a port; the library resolves names "
                     "(NCCL_COMM_ID), the daemon does not"));
  }
  if (join.id.guessable == 0) {
    MCCS_RETURN_IF_ERROR(env_.id_keys->Check(join.id));
  } else {  // The id of NCCL_COMM_ID is the library's: no daemon makes it.
    // By Tenant: the containers of all Tenants may run as one user.
    MCCS_RETURN_IF_ERROR(
        env_.id_keys->Name(&join.id, account_ != nullptr ? account_->name() : identity().tenant));
    if (request.rank == 0)
      MCCS_RETURN_IF_ERROR(env_.listen_for_environment_id(join.id, identity().tenant, budget_));
  }
  join.tenant = identity().tenant;
  join.ranks = request.ranks;
  join.rank.set_rank(request.rank);
  join.rank.set_gpu(absl::AsciiStrToLower(TextOf(request.device_bus_id)));  // CUDA: in capitals
  join.rank.set_process(identity().process);
  join.gpu.set_uuid(request.device_uuid, sizeof(request.device_uuid));
  join.device = request.device;
  join.gpu.set_shared((request.flags & wire::kMultiRankGpu) != 0);
  SetOptions(request.options, &join);
  return join;
}

void Session::SetOptions(const wire::CommOptions& options, JoinRequest* join) {
  join->name = TextOf(options.name);
  join->timeout_ns = options.init_timeout_ms * kNsPerMs;
  join->warn_after_ns = options.warn_after_ms * kNsPerMs;
  SetHints(options, join->rank.mutable_hints());
}

static_assert(wire::kMaxRanksOnHost == kMaxLocalRanks);

void Session::AnswerInit(uint32_t handle, const absl::Status& status, CommId id) {
  auto slot = ranks_.find(handle);
  if (slot == ranks_.end() || !slot->second.AnswerInit(status.ok())) return;
  wire::CommInitReply reply{};
  reply.comm_handle = handle;
  reply.rank = slot->second.origin().join.rank.rank();
  reply.ranks = slot->second.endpoint().ranks();
  reply.comm_id = id.value();
  for (const Rank rank : slot->second.endpoint().on_host()) {
    reply.on_host[reply.local_ranks++] = rank.value();
  }
  const UniqueFd memory = slot->second.endpoint().TakeRegionFd();
  const UniqueFd kernels = slot->second.endpoint().TakeKernelRegionFd();
  const KernelUse& use = slot->second.endpoint().kernel_use();
  reply.role = use.role;
  reply.stages_collectives = use.staged.empty() ? 0 : 1;
  use.staged.copy(reply.staged_text, sizeof(reply.staged_text) - 1);
  const bool runs_plans = use.role == wire::KernelRole::kRunsPlans;
  const int fds[] = {memory.get(), kernels.get()};
  if (state_ == State::kOpen) {
    Answer(slot->second.origin().init_request, status, reply,
           {fds, !status.ok() ? 0u
                 : runs_plans ? 2u
                              : 1u});
  }
  // The shim has no handle of a communicator whose init failed, so it will not destroy it.
  if (!status.ok()) Leave(handle, "could not join", Communicator::Leaving::kAtOnce);
}

// ---- Leaving ------------------------------------------------------------------------------------

std::map<uint32_t, RankSlot>::iterator Session::FindByInit(uint64_t init_request) {
  const auto init = inits_.lower_bound({init_request, 0});
  if (init == inits_.end() || init->first != init_request) return ranks_.end();
  return ranks_.find(init->second);
}

Session::Outcome Session::HandleAbort(const wire::CommAbort& request) {
  uint32_t handle = request.comm_handle;
  if (request.init_request != 0) {
    const auto pending = pending_by_number_.lower_bound({request.init_request, 0});
    if (pending != pending_by_number_.end() && pending->first == request.init_request)
      RejectPendingRequest(pending->second, request.init_request, "was aborted");
    const auto slot = FindByInit(request.init_request);
    // Rejected in the meantime.
    if (slot == ranks_.end()) return absl::OkStatus();
    handle = slot->first;
    if (!slot->second.init_answered()) {
      AnswerInit(handle, absl::AbortedError("the communicator was aborted while it was forming"),
                 CommId());
      return absl::OkStatus();
    }
    // The answer crossed this message; the shim ignores it.
  }
  return EndRank(handle, request.header.request, "was aborted", Communicator::Leaving::kAtOnce);
}

Session::Outcome Session::HandleDestroy(const wire::CommDestroy& request) {
  return EndRank(request.comm_handle, request.header.request, "was destroyed",
                 Communicator::Leaving::kAfterPostedWork);
}

Session::Outcome Session::EndRank(uint32_t handle, uint64_t request, const std::string& why,
                                  Communicator::Leaving how) {
  if (ranks_.contains(handle) && Leave(handle, why, how, request)) return std::nullopt;
  return absl::InvalidArgumentError(absl::StrCat(
      "communicator handle ", handle,
      " is not in use: the communicator was destroyed or never created; create a new one"));
}

bool Session::Leave(uint32_t handle, const std::string& why, Communicator::Leaving how,
                    std::optional<uint64_t> request) {
  RankSlot& slot = ranks_.at(handle);
  if (!slot.BeginLeave(how, request)) return false;
  RejectPendingRequests(handle, why);
  slot.communicator()->Leave(&slot.endpoint(), why, how, /*asked=*/state_ == State::kOpen);
  return true;
}

// The communicator has released the rank.
void Session::OnRankReleased(uint32_t handle) {
  RankSlot& slot = ranks_.at(handle);
  // A communicator that fails while it forms may release a rank twice.
  if (slot.released()) return;
  for (uint64_t request : slot.Release()) AnswerDone(request);
  free_.push_back(handle);
}

uint32_t Session::FreeHandle() const {
  return free_below_.empty() ? handles_ : *free_below_.begin();
}

// ---- Use ----------------------------------------------------------------------------------------

Session::Outcome Session::HandleSuspend(const wire::CommSuspend& request, RankSlot& slot) {
  slot.communicator()->Suspend(&slot.endpoint(), request.suspended != 0);
  return absl::OkStatus();
}

// A rank that is leaving needs no failure any more, but its kernels have ended.
Session::Outcome Session::HandleGpuFailed(const wire::GpuFailed& message) {
  const auto found = ranks_.find(message.comm_handle);
  if (found == ranks_.end() || found->second.communicator() == nullptr) return std::nullopt;
  RankEndpoint& endpoint = found->second.endpoint();
  switch (message.ended) {
    case wire::EndedKernels::kNone:
      break;
    case wire::EndedKernels::kFromCall:
      EndOnError(endpoint.EndKernelsFrom(message.ready_slot, message.first_call));
      break;
    case wire::EndedKernels::kAll:
      endpoint.EndKernels();
      break;
    default:
      EndOnError(absl::InvalidArgumentError("GpuFailed names no kernels that have ended"));
  }
  found->second.communicator()->FailForRank(&endpoint, TextOf(message.text));
  return std::nullopt;
}

Session::Outcome Session::HandleEstimate(const wire::Estimate& request, RankSlot&) {
  message_waits_ = estimates_.size() == kMaxWaitingEstimates;
  if (message_waits_) return std::nullopt;
  estimates_.push_back({request.header.request,
                        request.comm_handle,
                        {request.op, request.type, request.root_or_peer, request.count}});
  return std::nullopt;
}

// One after the other: each may need a plan that takes many turns, and building them in turn would
// let a process have many half-built ones.
bool Session::PollEstimates(TurnBudget& budget) {
  while (!estimates_.empty() && budget.left() > 0) {
    const AwaitedEstimate& next = estimates_.front();
    budget.Spend(kEstimateCost);
    absl::StatusOr<std::optional<double>> estimate = 0;
    const absl::StatusOr<RankSlot*> slot = UsableSlot(next.handle);
    if (slot.ok()) {
      estimate = (*slot)->communicator()->Estimate(next.call);
    } else {
      estimate = slot.status();
    }
    if (estimate.ok() && !estimate->has_value()) return true;
    wire::EstimateReply reply{};
    if (estimate.ok()) reply.microseconds = **estimate;
    Answer(next.request, estimate.status(), reply);
    estimates_.pop_front();
  }
  return !estimates_.empty();
}

// ---- Captured graphs ----------------------------------------------------------------------------

Session::Outcome Session::HandleCaptureWork(const wire::CaptureWork& request) {
  absl::StatusOr<RankSlot*> slot = UsableSlot(request.comm_handle);
  Outcome outcome;
  if (slot.ok()) {
    outcome = (*slot)->endpoint().captured().Add(request.capture, request.record);
    (*slot)->communicator()->Wake();  // It polls the slots from now on.
  } else if ((request.record.flags & wire::kMoreInGroup) == 0) {
    outcome = slot.status();
  }
  return outcome;
}

// If the communicator has ended, there is nothing to release.
Session::Outcome Session::HandleReleaseCapture(const wire::ReleaseCapture& request) {
  const auto slot = ranks_.find(request.comm_handle);
  if (slot == ranks_.end() || slot->second.communicator() == nullptr) return std::nullopt;
  const size_t groups = slot->second.endpoint().captured().Release(request.capture);
  extra_cost_ += static_cast<int>(groups / kReleasedGroupsPerUnit);
  slot->second.communicator()->Wake();  // Its turns free the memory.
  return std::nullopt;
}

// ---- RMA windows --------------------------------------------------------------------------------

Session::Outcome Session::HandleRegisterWindow(const wire::RegisterWindow& request,
                                               RankSlot& slot) {
  const absl::Status opened = slot.endpoint().windows().Open(request);
  slot.communicator()->Wake();  // Puts may wait for the window.
  return opened;
}

// If the communicator has ended, there is no window to close.
Session::Outcome Session::HandleDeregisterWindow(const wire::DeregisterWindow& request) {
  const auto slot = ranks_.find(request.comm_handle);
  absl::Status closed;
  if (slot != ranks_.end() && slot->second.communicator() != nullptr) {
    closed = slot->second.endpoint().windows().Close(request.number);
    slot->second.communicator()->Wake();
  }
  const AwaitedStop stop{request.header.request, request.comm_handle, request.number};
  if (!closed.ok() || HasStopped(stop)) return closed;
  return Await(stop);
}

Session::Outcome Session::Await(const AwaitedStop& stop) {
  if (absl::Status added = stops_.Add(stop); !added.ok()) return added;
  return std::nullopt;
}

// Puts stop after the slice or copy in progress, or with the communicator: a broken lane fails it.
bool Session::HasStopped(const AwaitedStop& stop) const {
  const auto slot = ranks_.find(stop.handle);
  if (slot == ranks_.end() || slot->second.communicator() == nullptr) return true;
  const Communicator& communicator = *slot->second.communicator();
  if (!stop.window.has_value()) return communicator.quiescent();
  return !communicator.WritesInto(slot->second.endpoint().rank(), *stop.window);
}

bool Session::PollStops(TurnBudget& budget) {
  return stops_.Poll(
      budget, [this](const AwaitedStop& stop) { return HasStopped(stop); },
      [this](const AwaitedStop& stop) { AnswerDone(stop.request); });
}

}  // namespace mccs
