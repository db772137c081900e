#include "service/frontend/rank_endpoint.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/frontend/error_class.h"

namespace mccs {
namespace {

// Beyond this a count times a size times the ranks could overflow; no machine has that memory.
constexpr uint64_t kMaxCallBytes = uint64_t{1} << 56;

Sides SidesOf(const wire::WorkRecord& record, Rank rank, int ranks) {
  return SidesOf(record.op, record.count, static_cast<uint64_t>(ranks),
                 rank.value() == record.root_or_peer);
}

bool Served(OpKind kind) {
  return (kind >= OpKind::kAllReduce && kind <= OpKind::kScatter) || IsMessage(kind);
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankEndpoint>> RankEndpoint::Make(Rank rank, int ranks,
                                                                 const BufferRegistry& buffers,
                                                                 Listener listener) {
  MCCS_ASSIGN_OR_RETURN(SharedRegion memory,
                        SharedRegion::Create("mccs-communicator", sizeof(wire::CommRegion)));
  return std::unique_ptr<RankEndpoint>(
      new RankEndpoint(rank, ranks, buffers, std::move(listener), std::move(memory)));
}

RankEndpoint::RankEndpoint(Rank rank, int ranks, const BufferRegistry& buffers, Listener listener,
                           SharedRegion memory)
    : rank_(rank),
      ranks_(ranks),
      buffers_(buffers),
      listener_(std::move(listener)),
      memory_(std::move(memory)) {
  auto* fresh = new (memory_.data()) wire::CommRegion{};
  fresh->header.magic = wire::kFencePageMagic;
  fresh->header.bytes = memory_.bytes();
  fences_.reserve(wire::kReadySlots);
}

// ---- Calls --------------------------------------------------------------------------------------

absl::StatusOr<const PostedOperation*> RankEndpoint::Front() {
  MCCS_RETURN_IF_ERROR(Advance());
  return front_.has_value() ? &*front_ : nullptr;
}

absl::StatusOr<const PostedMessage*> RankEndpoint::TakeMessage() {
  MCCS_RETURN_IF_ERROR(Advance());
  if (!AwaitsStreams() || !FrontReady()) return nullptr;
  return &messages_[taken_messages_++];
}

void RankEndpoint::Complete() {
  DropFront();
  SignalIfDone();
}

void RankEndpoint::CompleteMessage(const PostedMessage& message) {
  const_cast<HeldMessage&>(static_cast<const HeldMessage&>(message)).buffer.reset();
  if (++complete_messages_ == messages_.size()) SignalIfDone();
}

// The done word says "all up to here", so it stands still while a message of the group is open.
void RankEndpoint::SignalIfDone() {
  if (complete_messages_ < messages_.size()) return;
  if (front_.has_value()) return;
  if (!group_open_) {
    messages_.clear();
    taken_messages_ = complete_messages_ = 0;
  }
  wire::SignalFence(region().done, sequence_);
}

absl::Status RankEndpoint::Advance() {
  wire::WorkRecord record;
  while (!front_.has_value() && (group_open_ || messages_.empty())) {
    MCCS_ASSIGN_OR_RETURN(const bool taken, TakeRecord(&record));
    if (!taken) return absl::OkStatus();
    if (record.record != wire::RecordKind::kFence) {
      MCCS_RETURN_IF_ERROR(Accept(record));
      continue;
    }
    // Every fence takes a place, so a tenant that feeds them without end is found out.
    if (record.ready_slot == wire::kNoReadySlot) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank_.value(), ": work ring is corrupt: a fence that waits for nothing"));
    }
    MCCS_RETURN_IF_ERROR(AddFence(record));
  }
  return absl::OkStatus();
}

// ---- Records ------------------------------------------------------------------------------------

// Copies the next record out once; what the tenant writes there afterwards changes nothing.
absl::StatusOr<bool> RankEndpoint::TakeRecord(wire::WorkRecord* record) {
  // Pairs with the shim's release store after it has written the record.
  const uint64_t tail = region().tail.load(std::memory_order_acquire);
  if (tail == taken_) return false;
  if (tail - taken_ > wire::kRingRecords) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank_.value(),
                                                   ": work ring is corrupt: ", tail - taken_,
                                                   " records in ", wire::kRingRecords));
  }
  std::memcpy(static_cast<void*>(record), &region().records[taken_ % wire::kRingRecords],
              sizeof(*record));
  ++taken_;
  // Pairs with the shim's acquire load before it reuses the place.
  region().head.store(taken_, std::memory_order_release);
  return true;
}

absl::Status RankEndpoint::AddFence(const wire::WorkRecord& record) {
  if (record.ready_slot == wire::kNoReadySlot) return absl::OkStatus();
  const bool known = record.record == wire::RecordKind::kOperation &&
                     std::any_of(fences_.begin(), fences_.end(), [&](const ReadyFence& fence) {
                       return fence.slot == record.ready_slot && fence.value == record.ready_value;
                     });
  if (known) return absl::OkStatus();  // The calls of a group name the same one.
  if (record.ready_slot >= wire::kReadySlots || fences_.size() >= wire::kReadySlots) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", rank_.value(), ": ready slot ",
                                                   record.ready_slot, " of ", wire::kReadySlots));
  }
  fences_.push_back({record.ready_slot, record.ready_value});
  return absl::OkStatus();
}

absl::Status RankEndpoint::Accept(const wire::WorkRecord& record) {
  auto refused =
      [&](const auto&... why) {  // Texts are made for bad records only: this is the hot path.
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", rank_.value(), ", call #", record.sequence, ": ", why...));
      };
  if (record.record != wire::RecordKind::kOperation || record.sequence != sequence_ + 1) {
    return refused("work ring is corrupt: call #", sequence_ + 1, " was to come");
  }
  if (!Served(record.op) || static_cast<int>(record.type) >= kDataTypes ||
      static_cast<int>(record.redop) >= kReduceOps) {
    return refused("unknown kind ", static_cast<int>(record.op), ", type ",
                   static_cast<int>(record.type), " or operator ", static_cast<int>(record.redop));
  }
  if (HasRoot(record.op) && (record.root_or_peer < 0 || record.root_or_peer >= ranks_)) {
    return refused("root ", record.root_or_peer, " of ", ranks_, " ranks");
  }
  if (IsMessage(record.op) && (record.root_or_peer < 0 || record.root_or_peer >= ranks_)) {
    return refused("peer ", record.root_or_peer, " of ", ranks_, " ranks");
  }
  if (record.priority > kHighestPriority || record.criticality > Criticality::kCritical) {
    return refused("priority ", static_cast<int>(record.priority), " or criticality ",
                   static_cast<int>(record.criticality), " out of range");
  }
  if (messages_.size() >= kMaxGroupMessages) {
    return refused("more than ", kMaxGroupMessages, " sends and receives in one group");
  }
  if (record.count > kMaxCallBytes / SizeOf(record.type) / static_cast<uint64_t>(ranks_)) {
    return refused("count ", record.count, " is too large");
  }
  MCCS_RETURN_IF_ERROR(AddFence(record));
  const absl::Status status =
      IsMessage(record.op) ? ResolveMessage(record) : ResolveCollective(record);
  if (!status.ok()) return refused(std::string(status.message()));
  sequence_ = record.sequence;
  group_open_ = (record.flags & wire::kMoreInGroup) != 0;
  return absl::OkStatus();
}

absl::Status RankEndpoint::ResolveCollective(const wire::WorkRecord& record) {
  const Sides sides = SidesOf(record, rank_, ranks_);
  const size_t size = SizeOf(record.type);
  PostedOperation call{.kind = record.op,
                       .type = record.type,
                       .redop = record.redop,
                       .root = Rank(HasRoot(record.op) ? record.root_or_peer : 0),
                       .count = record.count,
                       .options = {.deadline_us = record.deadline_us,
                                   .priority = record.priority,
                                   .criticality = record.criticality}};
  if (sides.input > 0) {
    MCCS_ASSIGN_OR_RETURN(front_input_, buffers_.Resolve(record.send, sides.input * size, size));
    call.input = front_input_->address() + record.send.offset;
  }
  if (sides.output > 0) {
    MCCS_ASSIGN_OR_RETURN(front_output_, buffers_.Resolve(record.recv, sides.output * size, size));
    call.output = front_output_->address() + record.recv.offset;
  }
  if (Reduces(record.op) && record.redop == ReduceOp::kPreMulSum) {
    call.scalar = record.scalar;
    if (record.scalar_buffer.id != 0) {
      MCCS_ASSIGN_OR_RETURN(front_scalar_, buffers_.Resolve(record.scalar_buffer, size, 1));
      call.scalar_address = front_scalar_->address() + record.scalar_buffer.offset;
    }
  }
  front_ = call;
  return absl::OkStatus();
}

absl::Status RankEndpoint::ResolveMessage(const wire::WorkRecord& record) {
  const bool sends = record.op == OpKind::kSend;
  HeldMessage held;
  held.kind = record.op;
  held.type = record.type;
  held.peer = Rank(record.root_or_peer);
  held.count = record.count;
  if (record.count > 0) {
    const wire::BufferRef& where = sends ? record.send : record.recv;
    MCCS_ASSIGN_OR_RETURN(held.buffer, buffers_.Resolve(where, held.bytes(), SizeOf(record.type)));
    held.address = held.buffer->address() + where.offset;
  }
  messages_.push_back(std::move(held));
  return absl::OkStatus();
}

bool RankEndpoint::FrontReady() {
  while (!fences_.empty()) {
    const ReadyFence& fence = fences_.back();
    // Pairs with the stream's write: what the stream did before it is visible to us.
    const uint64_t value = region().ready[fence.slot].value.load(std::memory_order_acquire);
    if (static_cast<int64_t>(value - fence.value) < 0) return false;
    fences_.pop_back();
  }
  return true;
}

// ---- Buffers that are taken back ----------------------------------------------------------------

uint64_t RankEndpoint::LastUseOf(BufferId id, size_t* budget) const {
  // Pairs with the shim's release store after it has written the records.
  const uint64_t tail = region().tail.load(std::memory_order_acquire);
  const uint64_t posted = tail - taken_;
  if (failed_ || posted > wire::kRingRecords) return 0;
  if (posted > *budget) return tail;
  *budget -= posted;
  uint64_t last = 0;
  for (uint64_t i = taken_; i != tail; ++i) {
    wire::WorkRecord record;
    std::memcpy(static_cast<void*>(&record), &region().records[i % wire::kRingRecords],
                sizeof(record));
    const uint32_t named = id.value();
    if (record.send.id == named || record.recv.id == named || record.scalar_buffer.id == named) {
      last = i + 1;
    }
  }
  return last;
}

void RankEndpoint::DropFailedCalls() {
  if (communicator == nullptr || !communicator->has_ended_failed()) return;
  for (BufferHold* hold : {&front_input_, &front_output_, &front_scalar_}) hold->reset();
  for (HeldMessage& message : messages_) message.buffer.reset();
}

// ---- The end ------------------------------------------------------------------------------------

void RankEndpoint::Fail(const absl::Status& why) {
  if (std::exchange(failed_, true)) return;
  wire::ErrorLine& line = region().failure;
  const std::string text(why.message());
  std::strncpy(line.text, text.c_str(), sizeof(line.text) - 1);
  line.done_before = region().done.value.load(std::memory_order_relaxed);
  // Pairs with the acquire load of ncclCommGetAsyncError: text first.
  line.error.store(static_cast<uint32_t>(ToErrorClass(why)), std::memory_order_release);
  Poison();
}

void RankEndpoint::Poison() { wire::SignalFence(region().done, wire::kFencePoison); }

void RankEndpoint::LetGo() {
  communicator = nullptr;
  DropCalls();
  listener_.let_go();
}

void RankEndpoint::DropFront() {
  front_.reset();
  front_input_.reset();
  front_output_.reset();
  front_scalar_.reset();
}

void RankEndpoint::DropCalls() {
  DropFront();
  messages_.clear();
  taken_messages_ = complete_messages_ = 0;
}

}  // namespace mccs
