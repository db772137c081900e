#include "service/messages/message_lane.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace mccs {
namespace {

// The tag of the next slice of a transfer; `last`: it is the last slice.
MessageTag TagOf(const Transfer& transfer, bool last) {
  const PostedMessage& call = *transfer.message.call;
  MessageTag tag{.kind = MessageTag::Kind::kPayload,
                 .type = call.type,
                 .pair = transfer.message.pair,
                 .number = transfer.message.number,
                 .amount = transfer.offset};
  if (call.kind == OpKind::kSend) return tag;
  tag.kind = last ? MessageTag::Kind::kSignal : MessageTag::Kind::kPut;
  tag.signal = call.signal;
  tag.number = call.window;
  tag.amount = call.window_offset + transfer.offset;
  return tag;
}

// Returns the number of the message's stripes if this was the last one, else 0.
int FinishStripe(OpenStripes* stripes) {
  if (stripes == nullptr) return 1;
  return --stripes->unfinished == 0 ? stripes->all : 0;
}

}  // namespace

// ---- Turns --------------------------------------------------------------------------------------

absl::Status MessageLaneTurns::Poll(std::vector<OpenMessage>& done, bool* moved) {
  size_t slices = 0;
  for (size_t left = ready_.size(); left > 0 && slices < kSlicesPerTurn; --left) {
    auto& lane = static_cast<MessageLane&>(*ready_.Next());
    MCCS_ASSIGN_OR_RETURN(const size_t arrived, lane.Poll(done, moved));
    slices += arrived;
  }
  return absl::OkStatus();
}

MessageLane::~MessageLane() {
  SetBusy(false);
  if (send_ != nullptr) send_->SetUser(nullptr);
  if (receive_ == nullptr) return;
  receive_->SetUser(nullptr);
  receive_->SetSink(nullptr);
}

void MessageLane::Attach(RecvLane& lane) {
  receive_ = &lane;
  lane.SetUser(this);
  lane.SetSink(this);
  lane.RequestPoll();  // A slice may wait for the sink.
  List();
}

Outbox& MessageLane::OutboxToFill() {
  SetBusy(true);
  List();
  return outbox_;
}

absl::StatusOr<size_t> MessageLane::Poll(std::vector<OpenMessage>& done, bool* moved) {
  MCCS_ASSIGN_OR_RETURN(const size_t arrived, PollIncoming(done));
  *moved |= arrived > 0;
  if (owner_.has_kept(lane_)) {
    SetBusy(true);
    MCCS_ASSIGN_OR_RETURN(const bool copied, owner_.PollCopies(lane_));
    *moved |= copied;
  }
  if (busy_) MCCS_RETURN_IF_ERROR(PollOutgoing(done, moved));
  return arrived;
}

void MessageLane::SetBusy(bool busy) {
  if (std::exchange(busy_, busy) == busy) return;
  turns_.busy_ += busy ? 1 : -1;
}

// ---- Incoming -----------------------------------------------------------------------------------

absl::StatusOr<size_t> MessageLane::PollIncoming(std::vector<OpenMessage>& done) {
  if (receive_ == nullptr) return 0;
  const SliceNumber first = next_slice_;
  for (Landing landing = receive_->Landed(next_slice_); landing != Landing::kNotYet;
       landing = receive_->Landed(next_slice_)) {
    const ArrivingSlice slice{.lane = lane_,
                              .number = next_slice_,
                              .tag = MessageFromTag(receive_->Tag(next_slice_)),
                              .bytes = receive_->Bytes(next_slice_),
                              .landing = landing};
    MCCS_RETURN_IF_ERROR(owner_.OnSlice(slice, done));
    while (!placed_.empty() && placed_.front().number <= next_slice_) placed_.pop_front();
    if (!owner_.Keeps(slice)) receive_->Release(next_slice_);
    ++next_slice_;
  }
  if (next_slice_ > first) receive_->RequestPoll();  // for the credit
  return next_slice_ - first;
}

void MessageLane::Release(SliceNumber number) {
  receive_->Release(number);
  receive_->RequestPoll();  // for the credit
}

std::optional<RegionSpan> MessageLane::FindDestination(SliceNumber n, const SliceTag& tag,
                                                       uint32_t bytes) {
  const auto known = std::ranges::find(placed_, n, &Placed::number);
  const bool is_known = known != placed_.end();
  const std::optional<RegionSpan> found =
      owner_.FindDestination({.lane = lane_,
                              .number = n,
                              .tag = MessageFromTag(tag),
                              .bytes = bytes,
                              .again = is_known && known->tag == tag,
                              .receive = receive_});
  if (found.has_value() && is_known) known->tag = tag;
  if (found.has_value() && !is_known) placed_.push_back({.number = n, .tag = tag});
  return found;
}

// ---- Outgoing -----------------------------------------------------------------------------------

absl::Status MessageLane::PollOutgoing(std::vector<OpenMessage>& done, bool* moved) {
  const SliceNumber next = send_ == nullptr ? 0 : send_->next();
  uint64_t sent = 0;  // stripes
  std::deque<MessageTag>& announcements = outbox_.announcements;
  while (!announcements.empty() && Post({}, announcements.front(), nullptr)) {
    if (announcements.front().kind == MessageTag::Kind::kWindowReply) owner_.OnWindowReplyPosted();
    announcements.pop_front();
    *moved = true;
  }
  while (announcements.empty() && !outbox_.transfers.empty()) {
    MCCS_ASSIGN_OR_RETURN(const bool posted, PostNext());
    if (!posted) break;
    *moved = true;
  }
  while (!unacknowledged_.empty() && unacknowledged_.front().last < send_->source_free()) {
    const Unacknowledged& front = unacknowledged_.front();
    const int stripes = FinishStripe(front.stripes.get());
    if (stripes > 0) done.push_back(front.message);
    if (!IsOneSided(front.message.call->kind)) sent += static_cast<uint64_t>(stripes);
    unacknowledged_.pop_front();
    *moved = true;
  }
  if (send_ != nullptr && send_->next() > next) send_->RequestPoll();
  const bool has_kept = owner_.has_kept(lane_);
  SetBusy(has_outgoing() || has_kept);
  if (has_kept) List();  // for the next turn: processes copy
  return sent > 0 ? owner_.OnSent(sent) : absl::OkStatus();
}

absl::StatusOr<bool> MessageLane::PostNext() {
  Transfer& front = outbox_.transfers.front();
  const OpenMessage& message = front.message;
  const uint64_t bytes = std::min<uint64_t>(slice_bytes_, message.bytes() - front.offset);
  const bool last = message.bytes() - front.offset <= front.stride;
  SliceNumber slice;
  if (!Post(message.memory().Part(front.offset, bytes), TagOf(front, last), &slice)) return false;
  Transfer transfer = std::move(front);
  outbox_.transfers.pop_front();
  if (!last) {
    transfer.offset += transfer.stride;
    outbox_.transfers.push_back(std::move(transfer));
    return true;
  }
  unacknowledged_.push_back(
      {.message = transfer.message, .last = slice, .stripes = std::move(transfer.stripes)});
  if (IsOneSided(transfer.message.call->kind)) {
    MCCS_RETURN_IF_ERROR(owner_.OnPosted(transfer.message));
  }
  return true;
}

bool MessageLane::Post(const RegionSpan& payload, const MessageTag& tag, SliceNumber* number) {
  if (send_ == nullptr) {
    send_ = owner_.OpenLane(lane_);
    send_->SetUser(this);
  }
  // If the lane has failed for good, the owner of the lanes ends the communicator.
  const auto posted = send_->Post(payload, ToTag(tag));
  if (!posted.ok() || !posted->has_value()) return false;
  if (number != nullptr) *number = **posted;
  return true;
}

const OpenMessage* MessageLane::UnacknowledgedPut(Rank rank) const {
  for (const Unacknowledged& posted : unacknowledged_) {
    const bool put = IsOneSided(posted.message.call->kind);
    if (put && posted.message.pair.destination == rank) return &posted.message;
  }
  return nullptr;
}

}  // namespace mccs
