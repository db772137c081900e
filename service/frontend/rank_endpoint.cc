#include "service/frontend/rank_endpoint.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/error_class.h"

namespace mccs {
namespace {

// Messages of a group whose memory is freed with the group.
constexpr size_t kFreedAtOnce = 256;

}  // namespace

absl::StatusOr<std::unique_ptr<RankEndpoint>> RankEndpoint::Make(Rank rank,
                                                                 const BufferRegistry& buffers,
                                                                 GpuAddressSpace* kernels,
                                                                 Listener listener) {
  MCCS_ASSIGN_OR_RETURN(SharedRegion memory,
                        SharedRegion::Create("mccs-communicator", sizeof(wire::CommRegion)));
  MCCS_ASSIGN_OR_RETURN(RankQueues queues, RankQueues::Make(kernels));
  return std::unique_ptr<RankEndpoint>(
      new RankEndpoint(rank, buffers, std::move(listener), std::move(memory), std::move(queues)));
}

RankEndpoint::RankEndpoint(Rank rank, const BufferRegistry& buffers, Listener listener,
                           SharedRegion memory, RankQueues queues)
    : caller_{.rank = rank},
      buffers_(buffers),
      listener_(std::move(listener)),
      memory_(std::move(memory)),
      queues_(std::move(queues)),
      collectives_(kMaxPostedAhead),
      captured_(caller_, buffers, region(), queues_),
      windows_(rank, buffers) {
  // A new memory file is zero, which is the initial state of all other fields. Writing them would
  // allocate all pages: some hundreds of microseconds, while other tenants wait.
  region().header.magic = wire::kFencePageMagic;
  region().header.bytes = memory_.bytes();
  fences_.reserve(wire::kReadySlots);
}

// ---- Calls --------------------------------------------------------------------------------------

absl::StatusOr<const PostedOperation*> RankEndpoint::Posted(size_t position) {
  if (position >= collective_count_) Advance(position + 1);
  if (position < collective_count_) return &At(position);
  // Older calls are valid and run first.
  if (position > 0 || record_error_.ok()) return nullptr;
  return record_error_;
}

absl::StatusOr<const PostedMessage*> RankEndpoint::TakeMessage() {
  Advance(1);
  if (collective_count_ == 0 && !record_error_.ok()) return record_error_;  // else likewise
  if (AwaitsStreams() && HaveReached(sequence_)) return &messages_[taken_messages_++];
  return captured_.runs().TakeMessage();
}

absl::StatusOr<bool> RankEndpoint::PollUsed(CapturedBudget* budget) {
  // First: a tenant can make its captured groups use the whole budget in every turn.
  const bool frees = !ended_messages_.empty();
  FreeMessages(budget);
  MCCS_ASSIGN_OR_RETURN(const bool more, captured_.Poll(budget));
  return frees || more;  // Other ranks may have messages to free, too.
}

void RankEndpoint::Complete() {
  Collective& complete = At(0);
  complete.input_hold.reset();
  complete.output_hold.reset();
  complete.scalar_hold.reset();
  first_collective_ = (first_collective_ + 1) % collectives_.size();
  --collective_count_;
  SignalIfDone();
}

void RankEndpoint::CompleteMessage(const PostedMessage& message) {
  if (captured_.runs().CompleteMessage(message)) return;
  const_cast<ResolvedMessage&>(static_cast<const ResolvedMessage&>(message)).hold.reset();
  if (++complete_messages_ == messages_.size()) SignalIfDone();
}

// The done word covers all calls up to its value, so it must not advance while a message of the
// group is open.
void RankEndpoint::SignalIfDone() {
  if (complete_messages_ < messages_.size()) return;
  if (collective_count_ == 0 && !group_open_) EndMessages();
  // All calls before the oldest incomplete collective are complete.
  wire::AdvanceFence(region().done, collective_count_ > 0 ? At(0).sequence - 1 : sequence_);
  queues_.RingPosted();
}

void RankEndpoint::EndMessages() {
  if (messages_.size() > kFreedAtOnce) ended_messages_.push_back(std::exchange(messages_, {}));
  messages_.clear();
  taken_messages_ = complete_messages_ = 0;
}

bool RankEndpoint::FreeMessages(CapturedBudget* budget) {
  for (; !ended_messages_.empty(); ended_messages_.pop_back()) {
    std::deque<ResolvedMessage>& messages = ended_messages_.back();
    for (; !messages.empty(); messages.pop_back()) {
      if (budget->left() == 0) return false;
      budget->SpendMessage();
    }
  }
  return true;
}

void RankEndpoint::Advance(size_t collectives) {
  // Most turns find nothing new. Pairs with the shim's release store after it has written a record.
  if (region().tail.load(std::memory_order_acquire) == taken_) return;
  if (record_error_.ok()) record_error_ = TakeRecords(collectives);
}

absl::Status RankEndpoint::TakeRecords(size_t collectives) {
  wire::WorkRecord record;
  // A tenant may refill the ring in the meantime.
  const uint64_t end = taken_ + wire::kRingRecords;
  while (taken_ < end && collective_count_ < std::min(collectives, kMaxPostedAhead) &&
         (group_open_ || messages_.empty())) {
    MCCS_ASSIGN_OR_RETURN(const bool taken, TakeRecord(&record));
    if (!taken) return absl::OkStatus();
    if (record.record != wire::RecordKind::kFence) {
      MCCS_RETURN_IF_ERROR(Accept(record));
      continue;
    }
    // Every fence uses a place, which detects a tenant that posts fences without end.
    if (record.ready_slot == wire::kNoReadySlot) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", caller_.rank.value(), ": work ring is corrupt: fence without a ready slot"));
    }
    MCCS_RETURN_IF_ERROR(AddFence(record));
  }
  return absl::OkStatus();
}

// A group of several calls may have messages, which run beside no other group.
bool RankEndpoint::MustWait(const wire::WorkRecord& record) const {
  return collective_count_ > 0 && !group_open_ && record.record == wire::RecordKind::kOperation &&
         (HasPeer(record.op) || (record.flags & wire::kMoreInGroup) != 0);
}

// ---- Records ------------------------------------------------------------------------------------

// Copies the next record once; later writes of the tenant have no effect, except on a record that
// must wait, which is read again.
absl::StatusOr<bool> RankEndpoint::TakeRecord(wire::WorkRecord* record) {
  // Pairs with the shim's release store after it has written the record.
  const uint64_t tail = region().tail.load(std::memory_order_acquire);
  if (tail == taken_) return false;
  if (tail - taken_ > wire::kRingRecords) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", caller_.rank.value(),
                                                   ": work ring is corrupt: ", tail - taken_,
                                                   " records in ", wire::kRingRecords));
  }
  std::memcpy(static_cast<void*>(record), &region().records[taken_ % wire::kRingRecords],
              sizeof(*record));
  if (MustWait(*record)) return false;
  ++taken_;
  // Pairs with the shim's acquire load before it reuses the record.
  region().head.store(taken_, std::memory_order_release);
  return true;
}

absl::Status RankEndpoint::AddFence(const wire::WorkRecord& record) {
  if (record.ready_slot == wire::kNoReadySlot) return absl::OkStatus();
  const bool known = record.record == wire::RecordKind::kOperation &&
                     std::any_of(fences_.begin(), fences_.end(), [&](const ReadyFence& fence) {
                       return fence.slot == record.ready_slot && fence.value == record.ready_value;
                     });
  if (known) return absl::OkStatus();  // The calls of a group share it.
  if (record.ready_slot >= wire::kReadySlots || fences_.size() >= wire::kReadySlots) {
    return absl::InvalidArgumentError(absl::StrCat("rank ", caller_.rank.value(),
                                                   ": invalid ready slot ", record.ready_slot,
                                                   " of ", wire::kReadySlots));
  }
  fences_.push_back({record.ready_slot, record.ready_value, sequence_ + 1});
  return absl::OkStatus();
}

absl::Status RankEndpoint::Accept(const wire::WorkRecord& record) {
  auto rejected =
      [&](const auto&... why) {  // Formatted only for invalid records: this is the hot path.
        return absl::InvalidArgumentError(
            absl::StrCat("rank ", caller_.rank.value(), ", call #", record.sequence, ": ", why...));
      };
  if (record.record != wire::RecordKind::kOperation || record.sequence != sequence_ + 1) {
    return rejected("work ring is corrupt: expected call #", sequence_ + 1);
  }
  if (absl::Status status = CheckCall(record, caller_); !status.ok()) {
    return rejected(std::string(status.message()));
  }
  if (messages_.size() >= kMaxGroupMessages) {
    return rejected("more than ", kMaxGroupMessages, " point-to-point calls in one group");
  }
  MCCS_RETURN_IF_ERROR(AddFence(record));
  if (absl::Status status = Resolve(record); !status.ok()) {
    return rejected(std::string(status.message()));
  }
  sequence_ = record.sequence;
  group_open_ = (record.flags & wire::kMoreInGroup) != 0;
  return absl::OkStatus();
}

absl::Status RankEndpoint::Resolve(const wire::WorkRecord& record) {
  MCCS_ASSIGN_OR_RETURN(const KernelCall kernel,
                        queues_.PostedAt(record.ready_slot, record.sequence));
  if (HasPeer(record.op)) {
    MCCS_ASSIGN_OR_RETURN(ResolvedMessage message, ResolveMessage(record, buffers_));
    message.kernel = queues_.ForMessages(kernel);
    messages_.push_back(std::move(message));
    return absl::OkStatus();
  }
  MCCS_ASSIGN_OR_RETURN(ResolvedCollective collective,
                        ResolveCollective(record, caller_, buffers_));
  collective.kernel = kernel;
  static_cast<ResolvedCollective&>(At(collective_count_)) = std::move(collective);
  At(collective_count_++).sequence = record.sequence;
  return absl::OkStatus();
}

bool RankEndpoint::IsReady(size_t position) { return HaveReached(At(position).sequence); }

bool RankEndpoint::HaveReached(uint64_t sequence) {
  while (!fences_.empty() && fences_.front().sequence <= sequence) {
    const ReadyFence& fence = fences_.front();
    // Pairs with the stream's write: makes the stream's earlier writes visible here.
    const uint64_t value = region().ready[fence.slot].value.load(std::memory_order_acquire);
    if (static_cast<int64_t>(value - fence.value) < 0) return false;
    fences_.erase(fences_.begin());  // a few
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

bool RankEndpoint::FreeSome(CapturedBudget* budget) {
  const bool has_ended = communicator == nullptr || communicator->has_ended_failed();
  if (!has_ended) return true;
  DropCollectives();
  captured_.Drop();
  EndMessages();
  return FreeMessages(budget) && captured_.FreeSome(budget);
}

// ---- The end ------------------------------------------------------------------------------------

void RankEndpoint::ReportDeath(const absl::Status& why) {
  if (!failed_) WriteError(why, /*accepts_calls=*/true);
}

void RankEndpoint::Fail(const absl::Status& why) {
  if (std::exchange(failed_, true)) return;
  WriteError(why, /*accepts_calls=*/false);
  // For a death that was reported before. Pairs with the acquire load of the shim's WorkFailureOf.
  region().failure.accepts_calls.store(0, std::memory_order_release);
}

void RankEndpoint::WriteError(const absl::Status& why, bool accepts_calls) {
  wire::ErrorLine& line = region().failure;
  // The shim writes it if the daemon answers too late.
  if (line.error.load(std::memory_order_acquire) != 0) error_written_ = true;
  if (std::exchange(error_written_, true)) return;
  const std::string text(why.message());
  std::strncpy(line.text, text.c_str(), sizeof(line.text) - 1);
  line.accepts_calls.store(accepts_calls ? 1 : 0, std::memory_order_relaxed);
  // The error message comes first. Pairs with the acquire load of ncclCommGetAsyncError.
  line.error.store(static_cast<uint32_t>(ToErrorClass(why)), std::memory_order_release);
}

void RankEndpoint::OnReleased() {
  communicator = nullptr;
  DropCollectives();
  EndMessages();
  captured_.Drop();
  windows_.CloseAll();
  listener_.released();
}

void RankEndpoint::DropCollectives() {
  for (Collective& collective : collectives_) collective = Collective{};
  collective_count_ = 0;
}

// ---- For an operator ----------------------------------------------------------------------------

void RankEndpoint::WriteState(state::SessionRank* out) const {
  out->set_rank(rank().value());
  if (communicator != nullptr) out->set_communicator(FormatCommId(communicator->id()));
  out->set_records_posted(region().tail.load(std::memory_order_relaxed));
  out->set_records_taken(taken_);
}

}  // namespace mccs
