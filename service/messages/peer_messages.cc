#include "service/messages/peer_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Limit of elements of an announced call: beyond it the number of bytes could overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 56;

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

}  // namespace

PeerMessages::PeerMessages(Options options)
    : options_(std::move(options)),
      puts_({.signals = options_.signals,
             .port_of = options_.port_of,
             .may_receive = options_.may_receive,
             .may_send = options_.may_send},
            outbox_) {}

PeerMessages::~PeerMessages() {
  if (receive_ != nullptr) receive_->SetSink(nullptr);
}

void PeerMessages::Attach(RecvLane& lane) {
  receive_ = &lane;
  lane.SetSink(this);
}

absl::Status PeerMessages::Add(const OpenMessage& message) {
  if (IsOneSided(message.call->kind)) return puts_.Add(message);
  if (message.call->kind == OpKind::kSend) {
    OutgoingPair& pair = outgoing_[message.pair];
    pair.sends.push_back(message);
    return Match(pair);
  }
  incoming_[message.pair].push_back({.message = message});
  outbox_.announcements.push_back({.kind = MessageTag::Kind::kAnnouncement,
                                   .type = message.call->type,
                                   .pair = message.pair,
                                   .number = message.number,
                                   .amount = message.call->count});
  return absl::OkStatus();
}

absl::Status PeerMessages::Match(OutgoingPair& pair) {
  while (!pair.sends.empty() && !pair.receives.empty()) {
    MCCS_RETURN_IF_ERROR(CheckMatch(pair.sends.front(), pair.receives.front()));
    outbox_.transfers.push_back({.message = pair.sends.front()});
    --announced_[pair.sends.front().pair.destination];
    pair.sends.pop_front();
    pair.receives.pop_front();
  }
  return absl::OkStatus();
}

absl::Status PeerMessages::Poll(std::vector<OpenMessage>& done, bool* moved) {
  MCCS_RETURN_IF_ERROR(PollIncoming(done, moved));
  return PollOutgoing(done, moved);
}

// ---- Incoming -----------------------------------------------------------------------------------

absl::Status PeerMessages::PollIncoming(std::vector<OpenMessage>& done, bool* moved) {
  if (receive_ == nullptr) return absl::OkStatus();
  for (;; ++next_slice_) {
    const Landing landing = receive_->Landed(next_slice_);
    if (landing == Landing::kNotYet) return absl::OkStatus();
    *moved = true;
    const MessageTag tag = MessageFromTag(receive_->Tag(next_slice_));
    MCCS_RETURN_IF_ERROR(OnSlice(tag, landing, receive_->Bytes(next_slice_), done));
    receive_->Release(next_slice_);
  }
}

absl::Status PeerMessages::OnSlice(const MessageTag& tag, Landing landing, uint32_t bytes,
                                   std::vector<OpenMessage>& done) {
  switch (tag.kind) {
    case MessageTag::Kind::kAnnouncement: {
      if (bytes > 0) return ProtocolError(tag, "its announcement has a payload");
      if (!options_.may_send(tag.pair))
        return ProtocolError(tag, "its sender is not a rank of this host");
      OutgoingPair& pair = outgoing_[tag.pair];
      if (tag.number != ++pair.announced || static_cast<int>(tag.type) >= kDataTypes ||
          tag.amount > kMaxCount) {
        return ProtocolError(tag, "its receive was announced out of order or with invalid values");
      }
      if (++announced_[tag.pair.destination] > kMaxAnnounced) {
        return ProtocolError(tag, "its rank has announced more receives than it can have posted");
      }
      pair.receives.push_back({.type = tag.type, .count = tag.amount});
      return Match(pair);
    }
    case MessageTag::Kind::kPayload:
      return OnPayload(tag, landing, bytes, done);
    default:
      return puts_.OnSlice({.number = next_slice_, .tag = tag, .bytes = bytes, .landing = landing});
  }
}

absl::Status PeerMessages::OnPayload(const MessageTag& tag, Landing landing, uint32_t bytes,
                                     std::vector<OpenMessage>& done) {
  Receive* const receive = Find(tag, bytes);
  if (receive == nullptr || landing != Landing::kDirect) {
    return ProtocolError(tag, "its payload matches no announced receive");
  }
  // A lane keeps the order of a message's slices; a duplicate would hide a missing slice.
  if (tag.amount != receive->landed) return ProtocolError(tag, "its payload arrived out of order");
  receive->landed += bytes;
  if (receive->landed < receive->message.bytes()) return absl::OkStatus();
  receive->done = true;
  done.push_back(receive->message);
  IncomingPair& pair = incoming_[tag.pair];
  while (!pair.empty() && pair.front().done) pair.pop_front();
  return absl::OkStatus();
}

bool PeerMessages::FindDestination(const SliceTag& slice, uint32_t bytes,
                                   std::vector<RegionSpan>& pieces) {
  const MessageTag tag = MessageFromTag(slice);
  // Slices arrive in order, so this is the first one that has not arrived.
  SliceNumber number = next_slice_;
  while (receive_->Landed(number) != Landing::kNotYet) ++number;
  if (tag.kind != MessageTag::Kind::kPayload) {
    return puts_.FindDestination({.number = number, .tag = tag, .bytes = bytes}, pieces);
  }
  Receive* const receive = Find(tag, bytes);
  if (receive == nullptr) return false;
  // A slice repeated after a reconnect gets its previous place.
  const bool again = receive->placed_slice == number;
  if (tag.amount != (again ? receive->placed_from : receive->placed)) return false;
  receive->placed_slice = number;
  receive->placed_from = tag.amount;
  receive->placed = tag.amount + bytes;
  pieces.push_back(receive->message.memory().Part(tag.amount, bytes));
  return true;
}

PeerMessages::Receive* PeerMessages::Find(const MessageTag& tag, uint32_t bytes) {
  const auto pair = incoming_.find(tag.pair);
  if (pair == incoming_.end() || pair->second.empty()) return nullptr;
  const uint64_t index = tag.number - pair->second.front().message.number;
  if (index >= pair->second.size()) return nullptr;
  Receive& receive = pair->second[index];
  const uint64_t whole = receive.message.bytes();
  const bool within = tag.amount <= whole && bytes <= whole - tag.amount;
  return within && !receive.done ? &receive : nullptr;
}

// ---- Outgoing -----------------------------------------------------------------------------------

absl::Status PeerMessages::PollOutgoing(std::vector<OpenMessage>& done, bool* moved) {
  std::deque<MessageTag>& announcements = outbox_.announcements;
  while (!announcements.empty() && Post({}, announcements.front(), nullptr)) {
    if (announcements.front().kind == MessageTag::Kind::kWindowReply) --outbox_.window_replies;
    announcements.pop_front();
    *moved = true;
  }
  while (announcements.empty() && !outbox_.transfers.empty()) {
    MCCS_ASSIGN_OR_RETURN(const bool posted, PostNext());
    if (!posted) break;
    *moved = true;
  }
  while (!unacknowledged_.empty() && unacknowledged_.front().last < send_->source_free()) {
    done.push_back(unacknowledged_.front().message);
    unacknowledged_.pop_front();
    *moved = true;
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PeerMessages::PostNext() {
  Transfer transfer = outbox_.transfers.front();
  const OpenMessage& message = transfer.message;
  const uint64_t bytes =
      std::min<uint64_t>(options_.slice_bytes, message.bytes() - transfer.offset);
  SliceNumber slice;
  const bool last = transfer.offset + bytes == message.bytes();
  const MessageTag tag = TagOf(transfer, last);
  if (!Post(message.memory().Part(transfer.offset, bytes), tag, &slice)) return false;
  outbox_.transfers.pop_front();
  transfer.offset += bytes;
  if (!last) {
    outbox_.transfers.push_back(transfer);
    return true;
  }
  unacknowledged_.push_back({.message = message, .last = slice});
  if (IsOneSided(message.call->kind)) MCCS_RETURN_IF_ERROR(puts_.Posted(message));
  return true;
}

bool PeerMessages::Post(const RegionSpan& piece, const MessageTag& tag, SliceNumber* number) {
  if (send_ == nullptr) send_ = options_.open();
  // If the lane has failed for good, the owner of the lanes ends the communicator.
  const auto posted = send_->Post({&piece, piece.bytes > 0 ? 1u : 0u}, ToTag(tag));
  if (!posted.ok() || !posted->has_value()) return false;
  if (number != nullptr) *number = **posted;
  return true;
}

// ---- Waiting calls ------------------------------------------------------------------------------

void PeerMessages::AddUnmatched(std::vector<OpenMessage>& unmatched) const {
  for (const auto& [pair, outgoing] : outgoing_) {
    if (!outgoing.sends.empty()) unmatched.push_back(outgoing.sends.front());
  }
  for (const auto& [pair, receives] : incoming_) {
    const auto first = std::find_if(receives.begin(), receives.end(), [](const Receive& receive) {
      return !receive.done && receive.landed == 0;
    });
    if (first != receives.end()) unmatched.push_back(first->message);
  }
  puts_.AddUnmatched(unmatched);
}

// ---- Departed ranks -----------------------------------------------------------------------------

const OpenMessage* PeerMessages::Unmatched(Rank rank,
                                           const std::vector<MessageCount>& counts) const {
  for (const auto& [pair, outgoing] : outgoing_) {
    if (pair.destination != rank || outgoing.sends.empty()) continue;
    const MessageCount* count = CountWith(pair.source, counts);
    const OpenMessage& last = outgoing.sends.back();
    if (count == nullptr || last.number > count->received) return &last;
  }
  for (const auto& [pair, receives] : incoming_) {
    if (pair.source != rank || receives.empty()) continue;
    const MessageCount* count = CountWith(pair.destination, counts);
    const Receive& last = receives.back();
    if (count == nullptr || last.message.number > count->sent) return &last.message;
  }
  for (const Unacknowledged& posted : unacknowledged_) {
    const bool put = IsOneSided(posted.message.call->kind);
    if (put && posted.message.pair.destination == rank) return &posted.message;
  }
  return puts_.WaitingFor(rank);
}

}  // namespace mccs
