#include "service/messages/peer_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Elements of an announced call at most: beyond this its bytes could overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 56;

absl::Status Broken(const MessageTag& tag, std::string_view what) {
  return absl::DataLossError(absl::StrCat("message #", tag.number, " of rank ",
                                          tag.pair.source.value(), " to rank ",
                                          tag.pair.destination.value(), ": ", std::string(what),
                                          "; run the same release of mccsd on all hosts"));
}

const MessageCount* CountWith(Rank peer, const std::vector<MessageCount>& counts) {
  const auto found = std::find_if(counts.begin(), counts.end(),
                                  [&](const MessageCount& count) { return count.peer == peer; });
  return found == counts.end() ? nullptr : &*found;
}

}  // namespace

PeerMessages::~PeerMessages() {
  if (receive_ != nullptr) receive_->SetSink(nullptr);
}

void PeerMessages::Attach(RecvLane& lane) {
  receive_ = &lane;
  lane.SetSink(this);
}

absl::Status PeerMessages::Add(const OpenMessage& message) {
  if (message.call->kind == OpKind::kSend) {
    OutgoingPair& pair = outgoing_[message.pair];
    pair.sends.push_back(message);
    return Match(pair);
  }
  incoming_[message.pair].push_back({.message = message});
  announcements_.push_back({.kind = MessageTag::Kind::kAnnouncement,
                            .type = message.call->type,
                            .pair = message.pair,
                            .number = message.number,
                            .amount = message.call->count});
  return absl::OkStatus();
}

absl::Status PeerMessages::Match(OutgoingPair& pair) {
  while (!pair.sends.empty() && !pair.receives.empty()) {
    MCCS_RETURN_IF_ERROR(CheckFit(pair.sends.front(), pair.receives.front()));
    transfers_.push_back({.message = pair.sends.front()});
    pair.sends.pop_front();
    pair.receives.pop_front();
  }
  return absl::OkStatus();
}

absl::Status PeerMessages::Poll(std::vector<OpenMessage>& done, bool* moved) {
  MCCS_RETURN_IF_ERROR(PollIncoming(done, moved));
  PollOutgoing(done, moved);
  return absl::OkStatus();
}

// ---- What comes ---------------------------------------------------------------------------------

absl::Status PeerMessages::PollIncoming(std::vector<OpenMessage>& done, bool* moved) {
  if (receive_ == nullptr) return absl::OkStatus();
  for (;; ++next_slice_) {
    const Landing landing = receive_->Landed(next_slice_);
    if (landing == Landing::kNotYet) return absl::OkStatus();
    *moved = true;
    const MessageTag tag = MessageFromTag(receive_->Tag(next_slice_));
    MCCS_RETURN_IF_ERROR(Hear(tag, landing, receive_->Bytes(next_slice_), done));
    receive_->Release(next_slice_);
  }
}

absl::Status PeerMessages::Hear(const MessageTag& tag, Landing landing, uint32_t bytes,
                                std::vector<OpenMessage>& done) {
  switch (tag.kind) {
    case MessageTag::Kind::kAnnouncement: {
      if (!options_.may_send(tag.pair)) return Broken(tag, "its sender is no rank of this host");
      OutgoingPair& pair = outgoing_[tag.pair];
      if (tag.number != ++pair.announced || static_cast<int>(tag.type) >= kDataTypes ||
          tag.amount > kMaxCount) {
        return Broken(tag, "its receive was announced out of order or with bad values");
      }
      pair.receives.push_back({.type = tag.type, .count = tag.amount});
      return Match(pair);
    }
    case MessageTag::Kind::kPayload:
      return HearPayload(tag, landing, bytes, done);
  }
  return Broken(tag, "unknown kind of slice");
}

absl::Status PeerMessages::HearPayload(const MessageTag& tag, Landing landing, uint32_t bytes,
                                       std::vector<OpenMessage>& done) {
  Receive* const receive = Find(tag, bytes);
  if (receive == nullptr || landing != Landing::kDirect) {
    return Broken(tag, "its payload belongs to no receive that was announced");
  }
  receive->landed += bytes;
  if (receive->landed < receive->message.bytes()) return absl::OkStatus();
  receive->done = true;
  done.push_back(receive->message);
  IncomingPair& pair = incoming_[tag.pair];
  while (!pair.empty() && pair.front().done) pair.pop_front();
  return absl::OkStatus();
}

bool PeerMessages::Place(const SliceTag& slice, uint32_t bytes, std::vector<MemRef>& pieces) {
  const MessageTag tag = MessageFromTag(slice);
  if (tag.kind != MessageTag::Kind::kPayload) return false;
  const Receive* const receive = Find(tag, bytes);
  if (receive == nullptr) return false;
  pieces.push_back({receive->message.address() + tag.amount, bytes});
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

// ---- What goes out ------------------------------------------------------------------------------

void PeerMessages::PollOutgoing(std::vector<OpenMessage>& done, bool* moved) {
  while (!announcements_.empty() && Post({}, announcements_.front(), nullptr)) {
    announcements_.pop_front();
    *moved = true;
  }
  while (announcements_.empty() && !transfers_.empty() && PostNext()) {
    *moved = true;
  }
  while (!unacknowledged_.empty() && unacknowledged_.front().last < send_->source_free()) {
    done.push_back(unacknowledged_.front().message);
    unacknowledged_.pop_front();
    *moved = true;
  }
}

bool PeerMessages::PostNext() {
  Transfer transfer = transfers_.front();
  const OpenMessage& message = transfer.message;
  const uint64_t bytes =
      std::min<uint64_t>(options_.slice_bytes, message.bytes() - transfer.offset);
  SliceNumber slice;
  const MessageTag tag{.kind = MessageTag::Kind::kPayload,
                       .type = message.call->type,
                       .pair = message.pair,
                       .number = message.number,
                       .amount = transfer.offset};
  if (!Post({message.address() + transfer.offset, bytes}, tag, &slice)) return false;
  transfers_.pop_front();
  transfer.offset += bytes;
  if (transfer.offset == message.bytes()) {
    unacknowledged_.push_back({.message = message, .last = slice});
  } else {
    transfers_.push_back(transfer);
  }
  return true;
}

bool PeerMessages::Post(const ConstMemRef& piece, const MessageTag& tag, SliceNumber* number) {
  if (send_ == nullptr) send_ = options_.open();
  // Where the lane has failed for good, whoever polls the lanes ends the communicator for it.
  const auto posted = send_->Post({&piece, piece.bytes > 0 ? 1u : 0u}, ToTag(tag));
  if (!posted.ok() || !posted->has_value()) return false;
  if (number != nullptr) *number = **posted;
  return true;
}

// ---- What waits ---------------------------------------------------------------------------------

void PeerMessages::AddUnanswered(std::vector<OpenMessage>& unanswered) const {
  for (const auto& [pair, outgoing] : outgoing_) {
    if (!outgoing.sends.empty()) unanswered.push_back(outgoing.sends.front());
  }
  for (const auto& [pair, receives] : incoming_) {
    const auto first = std::find_if(receives.begin(), receives.end(), [](const Receive& receive) {
      return !receive.done && receive.landed == 0;
    });
    if (first != receives.end()) unanswered.push_back(first->message);
  }
}

// ---- Ranks that have left -----------------------------------------------------------------------

const OpenMessage* PeerMessages::Unanswered(Rank rank,
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
  return nullptr;
}

}  // namespace mccs
