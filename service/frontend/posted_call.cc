#include "service/frontend/posted_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

bool Served(OpKind kind) {
  return (kind >= OpKind::kAllReduce && kind <= OpKind::kScatter) || HasPeer(kind);
}

// Error messages are formatted only for invalid records: this is the hot path.
template <typename... Parts>
absl::Status Rejected(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

}  // namespace

absl::Status CheckCall(const wire::WorkRecord& record, const CallingRank& caller) {
  if (caller.ranks < 1) {
    return Rejected("the communicator is still forming; wait until its init has completed");
  }
  if (!Served(record.op) || static_cast<int>(record.type) >= kDataTypes ||
      static_cast<int>(record.redop) >= kReduceOps) {
    return Rejected("unknown kind ", static_cast<int>(record.op), ", type ",
                    static_cast<int>(record.type), " or operator ", static_cast<int>(record.redop));
  }
  const bool names_rank = record.root_or_peer >= 0 && record.root_or_peer < caller.ranks;
  if (HasRoot(record.op) && !names_rank) {
    return Rejected("invalid root ", record.root_or_peer, " of ", caller.ranks, " ranks");
  }
  if (HasPeer(record.op) && !names_rank) {
    return Rejected("invalid peer ", record.root_or_peer, " of ", caller.ranks, " ranks");
  }
  if (IsOneSided(record.op) && record.signal >= kSignals) {
    return Rejected("invalid signal ", record.signal, " of ", kSignals);
  }
  if (record.priority > kHighestPriority || record.criticality > Criticality::kCritical) {
    return Rejected("priority ", static_cast<int>(record.priority), " or criticality ",
                    static_cast<int>(record.criticality), " out of range");
  }
  if (record.count > kMaxCallBytes / SizeOf(record.type) / static_cast<uint64_t>(caller.ranks)) {
    return Rejected("count ", record.count, " is too large");
  }
  return absl::OkStatus();
}

absl::StatusOr<ResolvedCollective> ResolveCollective(const wire::WorkRecord& record,
                                                     const CallingRank& caller,
                                                     const BufferRegistry& buffers) {
  const CallElements sides =
      ElementsOf(record.op, record.count, static_cast<uint64_t>(caller.ranks),
                 caller.rank.value() == record.root_or_peer);
  const size_t size = SizeOf(record.type);
  ResolvedCollective call;
  call.kind = record.op;
  call.type = record.type;
  call.redop = record.redop;
  call.root = Rank(HasRoot(record.op) ? record.root_or_peer : 0);
  call.count = record.count;
  call.options = {.deadline_us = record.deadline_us,
                  .priority = record.priority,
                  .criticality = record.criticality};
  if (sides.input > 0) {
    MCCS_ASSIGN_OR_RETURN(call.input_hold, buffers.Resolve(record.send, sides.input * size, size));
    call.input = {call.input_hold.get(), record.send.offset, sides.input * size};
  }
  if (sides.output > 0) {
    MCCS_ASSIGN_OR_RETURN(call.output_hold,
                          buffers.Resolve(record.recv, sides.output * size, size));
    call.output = {call.output_hold.get(), record.recv.offset, sides.output * size};
  }
  if (Reduces(record.op) && record.redop == ReduceOp::kPreMulSum) {
    call.scalar = record.scalar;
    if (record.scalar_buffer.id != 0) {
      MCCS_ASSIGN_OR_RETURN(call.scalar_hold, buffers.Resolve(record.scalar_buffer, size, 1));
      call.scalar_memory = {call.scalar_hold.get(), record.scalar_buffer.offset, size};
    }
  }
  return call;
}

absl::StatusOr<ResolvedMessage> ResolveMessage(const wire::WorkRecord& record,
                                               const BufferRegistry& buffers) {
  ResolvedMessage message;
  message.kind = record.op;
  message.type = record.type;
  message.peer = Rank(record.root_or_peer);
  if (IsOneSided(record.op)) {
    message.signal = record.signal;
    message.window = record.window;
    message.window_offset = record.window_offset;
  }
  if (record.op == OpKind::kWaitSignal) message.awaited = record.count;
  // Signals and waits have no elements.
  if (record.op == OpKind::kSignal || record.op == OpKind::kWaitSignal) return message;
  message.count = record.count;
  if (record.count > 0) {
    const wire::BufferRef& where = record.op == OpKind::kRecv ? record.recv : record.send;
    MCCS_ASSIGN_OR_RETURN(message.hold,
                          buffers.Resolve(where, message.bytes(), SizeOf(record.type)));
    message.memory = {message.hold.get(), where.offset, message.bytes()};
  }
  return message;
}

}  // namespace mccs
