#include "service/frontend/session.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_lookup.h"
#include "base/status_macros.h"
#include "service/frontend/join_options.h"
#include "service/frontend/session_reply.h"

namespace mccs {
namespace {

constexpr int kMessagesPerTurn = 16;
constexpr size_t kMaxPendingMappings = 256;

// Ending a rank takes most of a millisecond with all its consequences.
bool IsRankEnd(const TenantMessage& message) {
  wire::MessageHeader header;
  if (message.size < sizeof(header)) return false;
  std::memcpy(&header, message.bytes.data(), sizeof(header));
  return header.kind == wire::MessageKind::kCommDestroy ||
         header.kind == wire::MessageKind::kCommAbort;
}

}  // namespace

Session::Session(SessionId id, const SessionEnvironment& environment,
                 std::unique_ptr<TenantChannel> channel)
    : id_(id),
      env_(environment),
      channel_(std::move(channel)),
      account_(environment.ledger != nullptr
                   ? environment.ledger->AccountOf(
                         {channel_->identity().tenant, channel_->identity().cgroup})
                   : nullptr),
      counters_(CountersOf(environment.counters, account_.get(), channel_->identity().tenant)),
      buffers_(*environment.device, *environment.buffer_quota, channel_->identity().tenant,
               account_, channel_->identity().process) {}

Session::~Session() = default;

// ---- Turns of the engine -----------------------------------------------------------------------

bool Session::Poll(int& ends_left) {
  bool moved = false;
  if (state_ == State::kGreeting || state_ == State::kOpen) moved |= PollMessages(ends_left);
  if (state_ == State::kOpen && !send_error_.ok()) {
    Close(send_error_);
    moved = true;
  }
  if (state_ == State::kOpen) moved |= PollDirty();
  moved |= PollMapped();
  moved |= PollReleases();
  moved |= PollClosingWindows();
  moved |= PollRevocations();
  for (uint32_t handle : std::exchange(free_, {})) {
    ranks_.erase(handle);
    free_below_.insert(handle);
  }
  if (state_ != State::kClosing || !ranks_.empty()) return moved;
  const size_t before = buffers_.size() + buffers_.pending();
  if (buffers_.ReleaseSome()) state_ = State::kClosed;
  return moved || buffers_.size() + buffers_.pending() != before || closed();
}

bool Session::PollMessages(int& ends_left) {
  const MemoryMapper& mapper = env_.device->mapper();
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    // Each pending mapping has a descriptor. The event that ends it wakes the engine.
    if (buffers_.pending() >= kMaxPendingMappings || mapper.IsFull(identity().tenant)) {
      return i > 0;
    }
    absl::StatusOr<bool> received = true;
    if (!std::exchange(message_waits_, false)) received = channel_->Receive(&message_);
    if (!received.ok()) {
      Close(received.status());
      return true;
    }
    if (!*received) return i > 0;
    if (IsRankEnd(message_)) {
      message_waits_ = ends_left == 0;
      if (message_waits_) {
        CloseDescriptors();
        return true;
      }
      --ends_left;
    }
    absl::Status status = Handle(message_, message_.fds);
    CloseDescriptors();
    if (!status.ok()) {
      Close(status);
      return true;
    }
  }
  return true;
}

// Closes the message's descriptors. If the tenant has closed its own, this frees the file.
void Session::CloseDescriptors() {
  for (UniqueFd& fd : message_.fds) {
    env_.device->mapper().Close({identity().tenant, identity().process}, std::move(fd));
  }
}

// Pairs with the shim's fetch_or after it has advanced a ring's tail.
bool Session::PollDirty() {
  bool moved = false;
  for (uint32_t word = 0; word < dirty_words_; ++word) {
    if (region().dirty[word].load(std::memory_order_relaxed) == 0) continue;
    uint64_t bits = region().dirty[word].exchange(0, std::memory_order_seq_cst);
    for (; bits != 0; bits &= bits - 1) {
      auto slot = ranks_.find(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      if (slot == ranks_.end() || slot->second.endpoint->communicator == nullptr) continue;
      slot->second.endpoint->communicator->Wake();
      moved = true;
    }
  }
  return moved;
}

bool Session::PrepareSleep() {
  if (state_ != State::kOpen) return false;
  region().daemon_asleep.store(1, std::memory_order_seq_cst);
  for (uint32_t word = 0; word < dirty_words_; ++word) {
    if (region().dirty[word].load(std::memory_order_seq_cst) != 0) return true;
  }
  return false;
}

void Session::EndSleep() {
  if (state_ == State::kOpen) region().daemon_asleep.store(0, std::memory_order_relaxed);
}

// ---- Messages ----------------------------------------------------------------------------------

absl::Status Session::Handle(const TenantMessage& message, std::span<UniqueFd> fds) {
  wire::MessageHeader header;
  if (message.size < sizeof(header)) {
    return absl::InvalidArgumentError(absl::StrCat("invalid message of ", message.size, " bytes"));
  }
  std::memcpy(&header, message.bytes.data(), sizeof(header));
  auto as = [&]<typename Message>(Message* out) {
    if (message.size != sizeof(Message) || header.bytes != sizeof(Message)) return false;
    std::memcpy(out, message.bytes.data(), sizeof(Message));
    return true;
  };
  const bool greeted = state_ == State::kOpen;
  switch (header.kind) {
    case wire::MessageKind::kHello:
      if (wire::Hello m; !greeted && as(&m)) return HandleHello(m);
      break;
    case wire::MessageKind::kGetUniqueId:
      if (wire::GetUniqueId m; greeted && as(&m)) return HandleGetUniqueId(m);
      break;
    case wire::MessageKind::kRegisterBuffer:
      if (wire::RegisterBuffer m; greeted && as(&m)) return HandleRegister(m, fds[0]);
      break;
    case wire::MessageKind::kReleaseBuffer:
      if (wire::ReleaseBuffer m; greeted && as(&m)) return HandleRelease(m);
      break;
    case wire::MessageKind::kReserveRange:
      if (wire::ReserveRange m; greeted && as(&m)) return HandleReserve(m);
      break;
    case wire::MessageKind::kMapChunk:
      if (wire::MapChunk m; greeted && as(&m)) return HandleMapChunk(m, fds[0]);
      break;
    case wire::MessageKind::kUnmapChunks:
      if (wire::UnmapChunks m; greeted && as(&m)) return HandleUnmapChunks(m);
      break;
    case wire::MessageKind::kCommInit:
      if (wire::CommInit m; greeted && as(&m)) return HandleInit(m);
      break;
    case wire::MessageKind::kCommSplit:
      if (wire::CommSplit m; greeted && as(&m)) return HandleSplit(m);
      break;
    case wire::MessageKind::kCommShrink:
      if (wire::CommShrink m; greeted && as(&m)) return HandleShrink(m);
      break;
    case wire::MessageKind::kCommGrow:
      if (wire::CommGrow m; greeted && as(&m)) return HandleGrow(m);
      break;
    case wire::MessageKind::kCommUniqueId:
      if (wire::CommUniqueId m; greeted && as(&m)) return HandleCommUniqueId(m);
      break;
    case wire::MessageKind::kCommRevoke:
      if (wire::CommRevoke m; greeted && as(&m)) return HandleRevoke(m);
      break;
    case wire::MessageKind::kCommSuspend:
      if (wire::CommSuspend m; greeted && as(&m)) return HandleSuspend(m);
      break;
    case wire::MessageKind::kCaptureWork:
      if (wire::CaptureWork m; greeted && as(&m)) return HandleCaptureWork(m);
      break;
    case wire::MessageKind::kReleaseCapture:
      if (wire::ReleaseCapture m; greeted && as(&m)) return HandleReleaseCapture(m);
      break;
    case wire::MessageKind::kRegisterWindow:
      if (wire::RegisterWindow m; greeted && as(&m)) return HandleRegisterWindow(m);
      break;
    case wire::MessageKind::kDeregisterWindow:
      if (wire::DeregisterWindow m; greeted && as(&m)) return HandleDeregisterWindow(m);
      break;
    case wire::MessageKind::kCommAbort:
      if (wire::CommAbort m; greeted && as(&m)) return HandleAbort(m);
      break;
    case wire::MessageKind::kCommDestroy:
      if (wire::CommDestroy m; greeted && as(&m)) return HandleDestroy(m);
      break;
    case wire::MessageKind::kEstimate:
      if (wire::Estimate m; greeted && as(&m)) return HandleEstimate(m);
      break;
    default:
      break;
  }
  return absl::InvalidArgumentError(absl::StrCat("unexpected message: kind ",
                                                 static_cast<uint32_t>(header.kind), " of ",
                                                 message.size, " bytes"));
}

absl::Status Session::HandleHello(const wire::Hello& hello) {
  absl::Status status;
  const uint32_t version = std::min(hello.newest_version, wire::kWireVersion);
  if (hello.magic != wire::kControlMagic) {
    return absl::InvalidArgumentError("the first message is not a shim's Hello");
  }
  if (version < wire::kOldestWireVersion || version < hello.oldest_version) {
    status = absl::FailedPreconditionError(absl::StrCat(
        "libnccl.so.2 (", TextOf(hello.build), ") supports wire versions ", hello.oldest_version,
        " to ", hello.newest_version, ", mccsd ", wire::kOldestWireVersion, " to ",
        wire::kWireVersion, ": install both from the same release"));
  }
  auto reply = Reply<wire::HelloReply>(hello.header.request, status);
  reply.version = version;
  std::strncpy(reply.build, "mccsd " MCCS_VERSION, sizeof(reply.build) - 1);
  if (!status.ok()) return Send(reply);
  MCCS_ASSIGN_OR_RETURN(memory_, SharedRegion::Create("mccs-session", sizeof(wire::SessionRegion)));
  new (memory_.data()) wire::SessionRegion{};
  state_ = State::kOpen;
  const UniqueFd memory = memory_.TakeFd();
  const int fds[] = {memory.get(), channel_->doorbell()};
  return Send(reply,
              channel_->doorbell() >= 0 ? std::span<const int>(fds) : std::span<const int>(fds, 1));
}

absl::Status Session::HandleGetUniqueId(const wire::GetUniqueId& request) {
  const wire::UniqueId id = env_.rendezvous->MakeId(env_.endpoint, identity().tenant);
  auto reply = Reply<wire::UniqueIdReply>(request.header.request, absl::OkStatus());
  std::memcpy(reply.unique_id, &id, sizeof(id));
  return Send(reply);
}

absl::Status Session::HandleInit(const wire::CommInit& request) {
  const uint64_t number = request.header.request;
  auto join = CheckInit(request);
  absl::Status status = join.ok() ? Admit(*join, number) : join.status();
  return status.ok() ? status : Send(Reply<wire::CommInitReply>(number, status));
}

absl::Status Session::Admit(const JoinRequest& join, uint64_t request) {
  const uint32_t handle = FreeHandle();
  if (handle == wire::kMaxCommsPerSession) {
    return absl::ResourceExhaustedError(absl::StrCat("too many communicators: this process has ",
                                                     ranks_.size(), ", which is the limit"));
  }
  MCCS_ASSIGN_OR_RETURN(
      std::unique_ptr<RankEndpoint> endpoint,
      RankEndpoint::Make(
          Rank(join.rank.rank()), buffers_,
          {.init_done = [this, handle](const absl::Status& s,
                                       CommId id) { AnswerInit(handle, s, id); },
           .released = [this, handle] { OnRankReleased(handle); },
           .join_split = [this](uint64_t r, const JoinRequest& j) { return JoinSplit(r, j); },
           .on_not_member = [this](uint64_t r, const absl::Status& why) { OnNotMember(r, why); }}));
  JoinRequest own = join;
  own.account = account_;
  MCCS_ASSIGN_OR_RETURN(endpoint->communicator, env_.communicators->Join(own, endpoint.get()));
  ranks_[handle] = RankSlot{.endpoint = std::move(endpoint),
                            .serial = ++last_serial_,
                            .join = join,
                            .init_request = request};
  ranks_[handle].join.roster = nullptr;  // not needed any more
  if (free_below_.erase(handle) == 0) ++handles_;
  dirty_words_ = std::max(dirty_words_, handle / 64 + 1);
  return absl::OkStatus();
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
  if (join.id.guessable != 0 && request.rank == 0) {
    MCCS_RETURN_IF_ERROR(env_.listen_for_environment_id(join.id, identity().tenant));
  }
  join.tenant = identity().tenant;
  join.ranks = request.ranks;
  join.rank.set_rank(request.rank);
  join.rank.set_gpu(TextOf(request.device_bus_id));
  join.rank.set_process(identity().process);
  join.gpu.set_uuid(request.device_uuid, sizeof(request.device_uuid));
  join.gpu.set_shared((request.flags & wire::kMultiRankGpu) != 0);
  SetOptions(request.options, &join);
  return join;
}

void Session::AnswerInit(uint32_t handle, const absl::Status& status, CommId id) {
  auto slot = ranks_.find(handle);
  if (slot == ranks_.end() || std::exchange(slot->second.init_answered, true)) return;
  auto reply = Reply<wire::CommInitReply>(slot->second.init_request, status);
  reply.comm_handle = handle;
  reply.rank = slot->second.join.rank.rank();
  reply.ranks = slot->second.endpoint->ranks();
  reply.comm_id = id.value();
  const UniqueFd memory = slot->second.endpoint->TakeRegionFd();
  const int fd = memory.get();
  if (state_ == State::kOpen) CheckSent(status.ok() ? Send(reply, {&fd, 1}) : Send(reply));
  // The shim has no handle of a communicator whose init failed, so it will not destroy it.
  if (!status.ok()) Leave(handle, "could not join", Communicator::Leaving::kAtOnce);
}

absl::Status Session::HandleAbort(const wire::CommAbort& request) {
  uint32_t handle = request.comm_handle;
  if (request.init_request != 0) {
    auto seat = std::find_if(
        pending_requests_.begin(), pending_requests_.end(),
        [&](const PendingRequest& pending) { return pending.request == request.init_request; });
    if (seat != pending_requests_.end())
      RejectPendingRequests(seat->parent, seat->request, "was aborted");
    auto slot = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& entry) {
      return entry.second.init_request == request.init_request;
    });
    // Rejected in the meantime.
    if (slot == ranks_.end()) return SendDone(request.header.request, absl::OkStatus());
    handle = slot->first;
    if (!slot->second.init_answered) {
      AnswerInit(handle, absl::AbortedError("the communicator was aborted while it was forming"),
                 CommId());
      return SendDone(request.header.request, absl::OkStatus());
    }
    // The answer crossed this message; the shim ignores it.
  }
  return EndRank(handle, request.header.request, "was aborted", Communicator::Leaving::kAtOnce);
}

absl::Status Session::HandleDestroy(const wire::CommDestroy& request) {
  return EndRank(request.comm_handle, request.header.request, "was destroyed",
                 Communicator::Leaving::kAfterPostedWork);
}

absl::Status Session::HandleSuspend(const wire::CommSuspend& request) {
  const absl::StatusOr<RankSlot*> slot = UsableSlot(request.comm_handle);
  if (slot.ok()) {
    RankEndpoint& endpoint = *(*slot)->endpoint;
    endpoint.communicator->Suspend(&endpoint, request.suspended != 0);
  }
  return SendDone(request.header.request, slot.status());
}

absl::Status Session::HandleEstimate(const wire::Estimate& request) {
  const absl::StatusOr<double> estimate = [&]() -> absl::StatusOr<double> {
    MCCS_ASSIGN_OR_RETURN(RankSlot * slot, UsableSlot(request.comm_handle));
    return slot->endpoint->communicator->Estimate(
        {request.op, request.type, request.root_or_peer, request.count});
  }();
  auto reply = Reply<wire::EstimateReply>(request.header.request, estimate.status());
  reply.microseconds = estimate.ok() ? *estimate : 0;
  return Send(reply);
}

absl::Status Session::EndRank(uint32_t handle, uint64_t request, const std::string& why,
                              Communicator::Leaving how) {
  auto slot = ranks_.find(handle);
  if (slot == ranks_.end() || slot->second.leaving >= how) {
    return SendDone(request, absl::InvalidArgumentError(
                                 absl::StrCat("communicator handle ", handle, " is not in use")));
  }
  slot->second.end_requests.push_back(request);
  Leave(handle, why, how);
  return absl::OkStatus();
}

void Session::Leave(uint32_t handle, const std::string& why, Communicator::Leaving how) {
  RankSlot& slot = ranks_.at(handle);
  Communicator* communicator = slot.endpoint->communicator;
  if (communicator == nullptr || slot.leaving >= how) return;
  slot.leaving = how;
  RejectPendingRequests(handle, 0, why);
  communicator->Leave(slot.endpoint.get(), why, how, /*asked=*/state_ == State::kOpen);
}

// The communicator has released the rank.
void Session::OnRankReleased(uint32_t handle) {
  RankSlot& slot = ranks_.at(handle);
  for (uint64_t request : std::exchange(slot.end_requests, {})) {
    if (state_ == State::kOpen) CheckSent(SendDone(request, absl::OkStatus()));
  }
  free_.push_back(handle);
}

void Session::CheckSent(const absl::Status& sent) {
  if (!sent.ok() && send_error_.ok()) send_error_ = sent;
}

absl::Status Session::SendDone(uint64_t request, const absl::Status& status) {
  return Send(Reply<wire::Done>(request, status));
}

uint32_t Session::FreeHandle() const {
  return free_below_.empty() ? handles_ : *free_below_.begin();
}

// Ends the session after the process's exit or a protocol violation: ranks leave, mappings end.
void Session::Close(const absl::Status& why) {
  const bool gone = absl::IsUnavailable(why);
  const std::string message(why.message());
  if (gone) {
    env_.log->Debug("process ", identity().process, " (", identity().tenant, ") has disconnected");
  } else {
    env_.warnings->Write(identity().tenant,
                         absl::StrCat("closing the session of process ", identity().process, " (",
                                      identity().tenant, "): ", message),
                         env_.clock->Now());
  }
  state_ = State::kClosing;
  close_reason_ = why;
}

bool Session::EndNextRank() {
  if (state_ != State::kClosing) return false;
  const auto next = ranks_.lower_bound(next_to_end_);
  if (next == ranks_.end()) return false;
  const uint32_t handle = next->first;
  RankSlot& slot = next->second;
  next_to_end_ = handle + 1;
  const bool gone = absl::IsUnavailable(close_reason_);
  const std::string message(close_reason_.message());
  slot.init_answered = true;  // the process cannot receive an answer any more
  // A process that still runs gets the reason in its communicators.
  if (!gone) {
    slot.endpoint->Fail(
        absl::Status(close_reason_.code(), absl::StrCat("mccsd closed this session: ", message)));
  }
  Leave(handle,
        gone ? absl::StrCat("is gone: its process ", identity().process, " has ended")
             : absl::StrCat("is gone: mccsd closed the session of its process ", identity().process,
                            ": ", message),
        Communicator::Leaving::kAtOnce);
  return true;
}

}  // namespace mccs
