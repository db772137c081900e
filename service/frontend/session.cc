#include "service/frontend/session.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/error_class.h"

namespace mccs {
namespace {

constexpr int kMessagesPerTurn = 16;
constexpr size_t kMaxPendingMappings = 256;
// Socket, pidfd and doorbell.
constexpr uint64_t kDescriptorsPerProcess = 3;
// The number of a shim's Hello.
constexpr uint64_t kHelloRequest = 0;
// Costs of requests in the units of the TurnBudget.
constexpr int kRequestCost = 1;
// It creates a communicator or a rank's shared memory.
constexpr int kJoinCost = 16;
// It unmaps the memory that a rank shares.
constexpr int kEraseCost = 4;
// Looks of the CapturedBudget that cost one unit, and how many units are spent on one rank at once.
constexpr size_t kLooksPerUnit = 256;
constexpr size_t kMostFreed = 8;

}  // namespace

// ---- Requests -----------------------------------------------------------------------------------

struct Session::Request {
  template <typename Message, typename Reply, Needs needs, auto handler>
  static constexpr Request Make(State state = State::kOpen, bool ends_rank = false,
                                int cost = kRequestCost) {
    return {.kind = Message::kKind,
            .bytes = sizeof(Message),
            .state = state,
            .ends_rank = ends_rank,
            .cost = cost,
            .run = &Session::Run<Message, Reply, needs, handler>};
  }

  wire::MessageKind kind;
  uint32_t bytes;                        // of its message
  State state;                           // of the session: otherwise it violates the protocol
  bool ends_rank;                        // waits for a turn in which a rank may end
  int cost;                              // without extra_cost_
  void (Session::*run)(TenantMessage&);  // REQUIRES: Check accepted the message
};

struct Session::Protocol {
  using S = Session;
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kPlain = Request::Make<Message, Reply, Needs::kNothing, handler>();
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kWithFd = Request::Make<Message, Reply, Needs::kDescriptor, handler>();
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kOfRank = Request::Make<Message, Reply, Needs::kRank, handler>();
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kJoins = Request::Make<Message, Reply, Needs::kNothing, handler>(
      State::kOpen, /*ends_rank=*/false, kJoinCost);
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kJoinsByRank = Request::Make<Message, Reply, Needs::kRank, handler>(
      State::kOpen, /*ends_rank=*/false, kJoinCost);
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kGreeting =
      Request::Make<Message, Reply, Needs::kNothing, handler>(State::kGreeting);
  template <typename Message, typename Reply, auto handler>
  static constexpr Request kEndsRank =
      Request::Make<Message, Reply, Needs::kNothing, handler>(State::kOpen, true);

  // Every request: what it needs, its message, its answer, its handler.
  static constexpr Request kRequests[] = {
      kGreeting<wire::Hello, wire::HelloReply, &S::HandleHello>,
      kPlain<wire::GetUniqueId, wire::UniqueIdReply, &S::HandleGetUniqueId>,

      kWithFd<wire::RegisterBuffer, wire::RegisterReply, &S::HandleRegister>,
      kPlain<wire::ReserveRange, wire::RegisterReply, &S::HandleReserve>,
      kWithFd<wire::MapChunk, wire::Done, &S::HandleMapChunk>,
      kPlain<wire::UnmapChunks, wire::Done, &S::HandleUnmapChunks>,
      kPlain<wire::ReleaseBuffer, wire::Done, &S::HandleRelease>,
      kPlain<wire::MemoryMapped, wire::Done, &S::HandleMemoryMapped>,
      kPlain<wire::MemoryUnmapped, wire::Done, &S::HandleMemoryUnmapped>,
      kPlain<wire::MemoryCopied, wire::Done, &S::HandleMemoryCopied>,

      kJoins<wire::CommInit, wire::CommInitReply, &S::HandleInit>,
      kJoinsByRank<wire::CommSplit, wire::CommInitReply, &S::HandleSplit>,
      kJoinsByRank<wire::CommShrink, wire::CommInitReply, &S::HandleShrink>,
      kJoinsByRank<wire::CommGrow, wire::CommInitReply, &S::HandleGrow>,
      kOfRank<wire::CommUniqueId, wire::UniqueIdReply, &S::HandleCommUniqueId>,
      kOfRank<wire::CommRevoke, wire::Done, &S::HandleRevoke>,
      kOfRank<wire::CommSuspend, wire::Done, &S::HandleSuspend>,
      kPlain<wire::GpuFailed, wire::Done, &S::HandleGpuFailed>,
      kOfRank<wire::Estimate, wire::EstimateReply, &S::HandleEstimate>,
      kEndsRank<wire::CommAbort, wire::Done, &S::HandleAbort>,
      kEndsRank<wire::CommDestroy, wire::Done, &S::HandleDestroy>,

      kPlain<wire::CaptureWork, wire::Done, &S::HandleCaptureWork>,
      kPlain<wire::ReleaseCapture, wire::Done, &S::HandleReleaseCapture>,

      kOfRank<wire::RegisterWindow, wire::Done, &S::HandleRegisterWindow>,
      kPlain<wire::DeregisterWindow, wire::Done, &S::HandleDeregisterWindow>,
  };

  // Null: no request has this kind.
  static constexpr const Request* Find(wire::MessageKind kind) {
    const auto row = std::find_if(std::begin(kRequests), std::end(kRequests),
                                  [&](const Request& request) { return request.kind == kind; });
    return row == std::end(kRequests) ? nullptr : row;
  }
  // Whether each kind of message has one row if the shim sends it, and none if the daemon does.
  static constexpr bool IsComplete() {
    for (uint32_t number = 1; number <= wire::kMessageKinds; ++number) {
      const auto kind = static_cast<wire::MessageKind>(number);
      const auto rows = std::count_if(std::begin(kRequests), std::end(kRequests),
                                      [&](const Request& row) { return row.kind == kind; });
      if (rows != (wire::IsFromDaemon(kind) ? 0 : 1)) return false;
    }
    return true;
  }
};

template <typename Message, typename Reply, Session::Needs needs, auto handler>
void Session::Run(TenantMessage& received) {
  Message message;
  std::memcpy(&message, received.bytes.data(), sizeof(message));
  const uint64_t request = message.header.request;
  auto result = [&] {
    if constexpr (needs == Needs::kDescriptor) {
      return (this->*handler)(message, received.fds);
    } else if constexpr (needs == Needs::kRank) {
      using Result = decltype((this->*handler)(message, std::declval<RankSlot&>()));
      const absl::StatusOr<RankSlot*> slot = UsableSlot(message.comm_handle);
      return slot.ok() ? (this->*handler)(message, **slot) : Result(slot.status());
    } else {
      return (this->*handler)(message);
    }
  }();
  if (message_waits_) return;
  if constexpr (std::is_same_v<decltype(result), Outcome>) {
    if (result.has_value()) Answer<Reply>(request, *result);
  } else {
    Answer<Reply>(request, result.status(), result.ok() ? *result : Reply{});
  }
}

absl::StatusOr<const Session::Request*> Session::Check(const TenantMessage& message) const {
  static_assert(Protocol::IsComplete());
  wire::MessageHeader header;
  if (message.size < sizeof(header)) {
    return absl::InvalidArgumentError(absl::StrCat("invalid message of ", message.size, " bytes"));
  }
  std::memcpy(&header, message.bytes.data(), sizeof(header));
  const Request* row = Protocol::Find(header.kind);
  if (row != nullptr && row->state == state_ && row->bytes == message.size &&
      row->bytes == header.bytes) {
    return row;
  }
  return absl::InvalidArgumentError(absl::StrCat("unexpected message: kind ",
                                                 static_cast<uint32_t>(header.kind), " of ",
                                                 message.size, " bytes"));
}

wire::ReplyStatus Session::ToReply(const absl::Status& status) {
  wire::ReplyStatus reply{};
  reply.error = ToErrorClass(status);
  const std::string text(status.message());
  std::strncpy(reply.text, text.c_str(), sizeof(reply.text) - 1);
  return reply;
}

Session::Session(SessionId id, const SessionEnvironment& environment,
                 std::unique_ptr<TenantChannel> channel)
    : id_(id),
      env_(environment),
      channel_(std::move(channel)),
      account_(environment.ledger != nullptr
                   ? environment.ledger->AccountOf(
                         {channel_->identity().tenant, channel_->identity().cgroup})
                   : nullptr),
      counted_as_(account_ != nullptr ? account_->counted_as() : channel_->identity().tenant),
      counters_(CountersOf(environment.counters, account_.get(), channel_->identity().tenant)),
      budget_(environment.budget != nullptr
                  ? environment.budget->Of(
                        counted_as_, account_ != nullptr ? account_->limit_group() : "", counters_)
                  : nullptr),
      buffers_(*environment.device, *environment.buffer_quota, counted_as_, account_,
               channel_->identity().process, budget_),
      kernels_(id, channel_->identity().process,
               [this](std::span<const std::byte> message, std::span<const int> fds) {
                 if (state_ == State::kOpen) EndOnError(channel_->Send(message, fds));
               }) {}

Session::~Session() = default;

absl::Status Session::TakeShares() {
  absl::Status taken = process_.Take();
  if (taken.ok()) taken = descriptors_.Take(kDescriptorsPerProcess);
  if (taken.ok()) taken = region_share_.Take();
  if (!taken.ok()) Answer<wire::HelloReply>(kHelloRequest, taken);
  return taken;
}

// ---- Turns of the engine -----------------------------------------------------------------------

bool Session::IsQuiet() const {
  if (state_ != State::kOpen || channel_->HasInput()) return false;
  if (message_waits_ || !end_reason_.ok() || buffers_.pending() > 0 || !releases_.empty() ||
      !stops_.empty() || !estimates_.empty() || !free_.empty()) {
    return false;
  }
  for (uint32_t word = 0; word < dirty_words_; ++word) {
    if (region().dirty[word].load(std::memory_order_relaxed) != 0) return false;
  }
  return true;
}

bool Session::Poll(TurnBudget& budget) {
  // First: the process's messages may use the whole budget in every turn.
  EraseRanks(budget);
  bool moved = false;
  if (state_ == State::kGreeting || state_ == State::kOpen) moved |= PollMessages(budget);
  if (state_ == State::kOpen && !end_reason_.ok()) {
    Close();
    moved = true;
  }
  if (state_ == State::kOpen) moved |= PollDirty(budget);
  moved |= PollMapped(budget);
  moved |= PollReleases(budget);
  moved |= PollStops(budget);
  if (state_ == State::kOpen) moved |= PollEstimates(budget);
  moved |= !free_.empty();
  if (state_ == State::kClosing && ranks_.empty()) moved |= ReleaseBuffers(budget);
  return moved;
}

void Session::EraseRanks(TurnBudget& budget) {
  while (!free_.empty() && budget.left() > 0) {
    const uint32_t handle = free_.back();
    const auto slot = ranks_.find(handle);
    if (!FreeSome(slot->second.endpoint(), budget)) continue;
    budget.Spend(kEraseCost);
    free_.pop_back();
    inits_.erase({slot->second.origin().init_request, handle});
    ranks_.erase(slot);
    free_below_.insert(handle);
  }
}

bool Session::FreeSome(RankEndpoint& endpoint, TurnBudget& budget) {
  constexpr size_t kLooks = kMostFreed * kLooksPerUnit;
  CapturedBudget looks(kLooks);
  const bool all = endpoint.FreeSome(&looks);
  budget.Spend(static_cast<int>((kLooks - looks.left() + kLooksPerUnit - 1) / kLooksPerUnit));
  return all;
}

bool Session::ReleaseBuffers(TurnBudget& budget) {
  const size_t before = buffers_.size() + buffers_.pending();
  const bool last = buffers_.ReleaseSome(static_cast<size_t>(budget.left()));
  const size_t released = before - (buffers_.size() + buffers_.pending());
  budget.Spend(static_cast<int>(released));
  if (last) state_ = State::kClosed;
  return released > 0 || closed() || budget.left() == 0;
}

bool Session::PollMessages(TurnBudget& budget) {
  const MemoryMapper& mapper = env_.device->mapper();
  for (int i = 0; i < kMessagesPerTurn; ++i) {
    // Each pending mapping has a descriptor. The event that ends it wakes the engine.
    if (buffers_.pending() >= kMaxPendingMappings || mapper.IsFull(counted_as_)) {
      return i > 0;
    }
    if (budget.left() == 0) return true;
    absl::StatusOr<bool> received = true;
    if (!std::exchange(message_waits_, false)) received = channel_->Receive(&message_);
    if (!received.ok()) {
      end_reason_ = received.status();
      Close();
      return true;
    }
    if (!*received) return i > 0;
    const absl::StatusOr<const Request*> request = Check(message_);
    if (request.ok() && (*request)->ends_rank && MayEndRank(message_)) {
      message_waits_ = !budget.TakeRankEnd();
      if (message_waits_) {
        CloseDescriptors();
        return true;
      }
    }
    if (request.ok()) {
      (this->*(*request)->run)(message_);
      budget.Spend((*request)->cost + std::exchange(extra_cost_, 0));
      if (message_waits_) {
        CloseDescriptors();
        return true;
      }
    } else {
      EndOnError(request.status());
    }
    CloseDescriptors();
    if (!end_reason_.ok()) {
      Close();
      return true;
    }
  }
  return true;
}

// REQUIRES: the message is one that ends a rank. False: its rank does not exist or is leaving, and it
// is only answered.
bool Session::MayEndRank(const TenantMessage& message) {
  static_assert(offsetof(wire::CommAbort, comm_handle) == offsetof(wire::CommDestroy, comm_handle));
  wire::CommAbort abort{};
  std::memcpy(&abort, message.bytes.data(), std::min(sizeof(abort), message.size));
  if (abort.init_request != 0) return FindByInit(abort.init_request) != ranks_.end();
  const auto rank = ranks_.find(abort.comm_handle);
  const bool at_once = abort.header.kind == wire::MessageKind::kCommAbort;
  return rank != ranks_.end() &&
         rank->second.MayLeave(at_once ? Communicator::Leaving::kAtOnce
                                       : Communicator::Leaving::kAfterPostedWork);
}

// Closes the message's descriptors. If the tenant has closed its own, this frees the file.
void Session::CloseDescriptors() {
  for (UniqueFd& fd : message_.fds) {
    env_.device->mapper().Close({counted_as_, identity().process}, std::move(fd));
  }
}

// Pairs with the shim's fetch_or after it has advanced a ring's tail.
bool Session::PollDirty(TurnBudget& budget) {
  bool moved = false;
  const uint32_t first = next_dirty_;
  next_dirty_ = 0;
  for (uint32_t i = 0; i < dirty_words_; ++i) {
    const uint32_t word = (first + i) % dirty_words_;
    if (region().dirty[word].load(std::memory_order_relaxed) == 0) continue;
    if (budget.wakes_left() <= 0) {
      next_dirty_ = word;
      return true;
    }
    uint64_t bits = region().dirty[word].exchange(0, std::memory_order_seq_cst);
    budget.SpendWakes(std::popcount(bits));
    for (; bits != 0; bits &= bits - 1) {
      auto slot = ranks_.find(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      if (slot == ranks_.end() || slot->second.communicator() == nullptr) continue;
      slot->second.communicator()->Wake();
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

// ---- The end ------------------------------------------------------------------------------------

// Ends the session after the process's exit or a protocol violation: ranks leave, mappings end.
void Session::Close() {
  if (absl::IsUnavailable(end_reason_)) {
    env_.log->Debug("process ", identity().process, " (", identity().tenant, ") has disconnected");
  } else {
    env_.warnings->Write(counted_as_,
                         absl::StrCat("closing the session of process ", identity().process, " (",
                                      identity().tenant, "): ", end_reason_.message()),
                         env_.clock->Now());
  }
  state_ = State::kClosing;
  kernels_.End();
}

bool Session::EndNextRank() {
  if (state_ != State::kClosing) return false;
  const auto next = ranks_.lower_bound(next_to_end_);
  if (next == ranks_.end()) return false;
  const uint32_t handle = next->first;
  RankSlot& slot = next->second;
  next_to_end_ = handle + 1;
  const bool gone = absl::IsUnavailable(end_reason_);
  const std::string message(end_reason_.message());
  slot.AnswerInit(/*ok=*/false);  // the process cannot receive an answer any more
  // A process that still runs gets the reason in its communicators.
  if (!gone) {
    slot.endpoint().Fail(
        absl::Status(end_reason_.code(), absl::StrCat("mccsd closed this session: ", message)));
  }
  Leave(handle,
        gone ? absl::StrCat("left: its process ", identity().process, " has ended")
             : absl::StrCat("left: mccsd closed the session of its process ", identity().process,
                            ": ", message),
        Communicator::Leaving::kAtOnce);
  return true;
}

// ---- For an operator ----------------------------------------------------------------------------

uint32_t Session::WriteState(uint32_t first, state::Session* out) const {
  out->set_id(id_.value());
  out->set_process(identity().process);
  out->set_tenant(identity().tenant);
  constexpr const char* kNames[] = {"greeting", "open", "closing", "closed"};
  out->set_state(kNames[static_cast<size_t>(state_)]);
  out->set_buffers(buffers_.size());
  out->set_buffer_bytes(buffers_.bytes());
  for (auto next = ranks_.lower_bound(first); next != ranks_.end(); ++next) {
    const auto& [handle, slot] = *next;
    if (out->ranks_size() == kRanksPerStatePart) return handle;
    state::SessionRank* rank = out->add_ranks();
    slot.endpoint().WriteState(rank);
    rank->set_leaving(slot.leaving());
  }
  return 0;
}

}  // namespace mccs
