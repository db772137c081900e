#include "service/messages/peer_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Limit of elements of an announced call: beyond it the number of bytes could overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 56;

}  // namespace

PeerMessages::PeerMessages(Options options)
    : options_(std::move(options)),
      puts_({.signals = options_.signals,
             .port_of = options_.port_of,
             .may_receive = options_.may_receive,
             .may_send = options_.may_send,
             .outbox_of = [this](const RankPair& pair) -> Outbox& { return HomeOutbox(pair); },
             .slice_bytes = options_.slice_bytes}) {}

MessageLane& PeerMessages::LaneAt(int lane) {
  const auto index = static_cast<size_t>(lane);
  if (index >= lanes_.size()) lanes_.resize(index + 1);
  std::unique_ptr<MessageLane>& entry = lanes_[index];
  if (entry == nullptr) {
    MessageLane::Owner& owner = *this;
    entry = std::make_unique<MessageLane>(owner, *options_.turns, lane, options_.slice_bytes);
  }
  return *entry;
}

template <typename Pair>
Pair& PeerMessages::FindOrAdd(absl::flat_hash_map<RankPair, Pair>& pairs, const RankPair& key) {
  const auto [entry, is_new] = pairs.try_emplace(key);
  if (is_new) entry->second.home = options_.home_of(key);
  return entry->second;
}

int PeerMessages::ChooseStripes(uint64_t bytes) const {
  const bool is_short = bytes < 2 * uint64_t{options_.slice_bytes};
  return is_short ? 1 : StripesOf(bytes, options_.slice_bytes, options_.channels());
}

absl::Status PeerMessages::Add(const OpenMessage& message) {
  if (IsOneSided(message.call->kind)) return puts_.Add(message);
  if (message.call->kind == OpKind::kSend) {
    OutgoingPair& pair = FindOrAdd(outgoing_, message.pair);
    pair.sends.push_back(message);
    return Match(pair);
  }
  IncomingPair& pair = FindOrAdd(incoming_, message.pair);
  const int stripes = ChooseStripes(message.bytes());
  Receive& receive = pair.receives.emplace_back();
  receive.message = message;
  receive.striping = StripingOf(pair.home, stripes);
  if (stripes > 1) receive.others = std::make_unique<Stripe[]>(static_cast<size_t>(stripes) - 1);
  for (int s = 1; s < stripes; ++s) {
    receive.At(s).landed = receive.At(s).placed = receive.striping.FirstOffset(s);
  }
  LaneAt(pair.home).OutboxToFill().announcements.push_back(
      {.kind = MessageTag::Kind::kAnnouncement,
       .type = message.call->type,
       .stripes = static_cast<uint16_t>(stripes),
       .pair = message.pair,
       .number = message.number,
       .amount = message.call->count});
  return absl::OkStatus();
}

absl::Status PeerMessages::Match(OutgoingPair& pair) {
  while (!pair.sends.empty() && !pair.receives.empty()) {
    const OpenMessage& send = pair.sends.front();
    MCCS_RETURN_IF_ERROR(CheckMatch(send, pair.receives.front()));
    StartTransfers(send, StripingOf(pair.home, pair.receives.front().stripes));
    --announced_[send.pair.destination];
    pair.sends.pop_front();
    pair.receives.pop_front();
  }
  return absl::OkStatus();
}

void PeerMessages::StartTransfers(const OpenMessage& send, const Striping& striping) {
  const StripeCount unfinished =
      striping.stripes > 1 ? std::make_shared<int>(striping.stripes) : nullptr;
  for (int s = 0; s < striping.stripes; ++s) {
    LaneAt(striping.LaneOf(s))
        .OutboxToFill()
        .transfers.push_back({.message = send,
                              .offset = striping.FirstOffset(s),
                              .stride = striping.Stride(),
                              .unfinished = unfinished});
  }
}

// ---- Incoming -----------------------------------------------------------------------------------

absl::Status PeerMessages::OnSlice(const ArrivingSlice& slice, std::vector<OpenMessage>& done) {
  switch (slice.tag.kind) {
    case MessageTag::Kind::kAnnouncement:
      return OnAnnouncement(slice);
    case MessageTag::Kind::kPayload:
      return OnPayload(slice, done);
    default:
      break;
  }
  if (!options_.may_send(slice.tag.pair) && !options_.may_receive(slice.tag.pair)) {
    return ProtocolError(slice.tag, "its ranks are not those of the two hosts");
  }
  MCCS_RETURN_IF_ERROR(CheckHomeLane(slice, options_.home_of(slice.tag.pair)));
  return puts_.OnSlice(slice);
}

absl::Status PeerMessages::CheckHomeLane(const ArrivingSlice& slice, int home) {
  if (slice.lane == home) return absl::OkStatus();
  return ProtocolError(slice.tag, absl::StrCat("a slice arrived on message lane ", slice.lane,
                                               "; expected lane ", home, ", the pair's home"));
}

absl::Status PeerMessages::OnAnnouncement(const ArrivingSlice& slice) {
  const MessageTag& tag = slice.tag;
  if (slice.bytes > 0) return ProtocolError(tag, "its announcement has a payload");
  if (!options_.may_send(tag.pair))
    return ProtocolError(tag, "its sender is not a rank of this host");
  OutgoingPair& pair = FindOrAdd(outgoing_, tag.pair);
  MCCS_RETURN_IF_ERROR(CheckHomeLane(slice, pair.home));
  if (tag.number != ++pair.announced || static_cast<int>(tag.type) >= kDataTypes ||
      tag.amount > kMaxCount) {
    return ProtocolError(tag, "its receive was announced out of order or with invalid values");
  }
  const int most =
      StripesOf(tag.amount * SizeOf(tag.type), options_.slice_bytes, options_.most_lanes);
  if (tag.stripes < 1 || tag.stripes > most) {
    return ProtocolError(tag, absl::StrCat("its receive was announced with ", tag.stripes,
                                           " stripes; expected 1 to ", most));
  }
  if (++announced_[tag.pair.destination] > kMaxAnnounced) {
    return ProtocolError(tag, "its rank has announced more receives than it can have posted");
  }
  pair.receives.push_back({.type = tag.type, .count = tag.amount, .stripes = tag.stripes});
  return Match(pair);
}

absl::Status PeerMessages::OnPayload(const ArrivingSlice& slice, std::vector<OpenMessage>& done) {
  const MessageTag& tag = slice.tag;
  std::deque<Receive>* receives = nullptr;
  Receive* const receive = Find(tag, &receives);
  if (receive == nullptr) return ProtocolError(tag, "its payload matches no announced receive");
  MCCS_RETURN_IF_ERROR(CheckStriping(*receive, slice));
  // A lane keeps the order of a stripe's slices; a duplicate would hide a missing slice.
  Stripe& stripe = receive->At(receive->striping.StripeAt(tag.amount));
  if (tag.amount != stripe.landed || slice.landing != Landing::kDirect) {
    return ProtocolError(tag, "its payload arrived out of order");
  }
  stripe.landed += receive->striping.Stride();
  receive->landed += slice.bytes;
  if (receive->landed < receive->message.bytes()) return absl::OkStatus();
  receive->done = true;
  done.push_back(receive->message);
  while (!receives->empty() && receives->front().done) receives->pop_front();
  return absl::OkStatus();
}

std::optional<RegionSpan> PeerMessages::FindDestination(const ArrivingSlice& slice) {
  const MessageTag& tag = slice.tag;
  if (tag.kind != MessageTag::Kind::kPayload) return puts_.FindDestination(slice);
  std::deque<Receive>* receives = nullptr;
  Receive* const receive = Find(tag, &receives);
  if (receive == nullptr || !CheckStriping(*receive, slice).ok()) return std::nullopt;
  Stripe& stripe = receive->At(receive->striping.StripeAt(tag.amount));
  // A slice repeated after a reconnect gets its previous place.
  const bool again = stripe.placed_slice == slice.number;
  if (tag.amount != (again ? stripe.placed_from : stripe.placed)) return std::nullopt;
  stripe.placed_slice = slice.number;
  stripe.placed_from = tag.amount;
  stripe.placed = tag.amount + receive->striping.Stride();
  return receive->message.memory().Part(tag.amount, slice.bytes);
}

PeerMessages::Receive* PeerMessages::Find(const MessageTag& tag, std::deque<Receive>** receives) {
  const auto pair = incoming_.find(tag.pair);
  if (pair == incoming_.end() || pair->second.receives.empty()) return nullptr;
  *receives = &pair->second.receives;
  const uint64_t index = tag.number - (*receives)->front().message.number;
  if (index >= (*receives)->size()) return nullptr;
  Receive& receive = (**receives)[index];
  return receive.done ? nullptr : &receive;
}

absl::Status PeerMessages::CheckStriping(const Receive& receive, const ArrivingSlice& slice) {
  const Striping& striping = receive.striping;
  const uint64_t whole = receive.message.bytes();
  const uint64_t offset = slice.tag.amount;
  const bool within = offset < whole || (offset == 0 && whole == 0);
  if (!within || offset % striping.slice_bytes != 0 ||
      slice.bytes != std::min<uint64_t>(striping.slice_bytes, whole - offset)) {
    return ProtocolError(
        slice.tag,
        absl::StrCat("a slice of ", slice.bytes, " bytes at byte ", offset, "; expected slices of ",
                     striping.slice_bytes, " bytes of a message of ", whole));
  }
  const int lane = striping.LaneOf(striping.StripeAt(offset));
  if (slice.lane == lane) return absl::OkStatus();
  return ProtocolError(
      slice.tag, absl::StrCat("the slice at byte ", offset, " arrived on message lane ", slice.lane,
                              "; expected lane ", lane));
}

// ---- Waiting calls ------------------------------------------------------------------------------

void PeerMessages::AddUnmatched(std::vector<OpenMessage>& unmatched) const {
  for (const auto& [pair, outgoing] : outgoing_) {
    if (!outgoing.sends.empty()) unmatched.push_back(outgoing.sends.front());
  }
  for (const auto& [pair, incoming] : incoming_) {
    const std::deque<Receive>& receives = incoming.receives;
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
  for (const auto& [pair, incoming] : incoming_) {
    const std::deque<Receive>& receives = incoming.receives;
    if (pair.source != rank || receives.empty()) continue;
    const MessageCount* count = CountWith(pair.destination, counts);
    const Receive& last = receives.back();
    if (count == nullptr || last.message.number > count->sent) return &last.message;
  }
  for (const auto& lane : lanes_) {
    const OpenMessage* const put = lane != nullptr ? lane->UnacknowledgedPut(rank) : nullptr;
    if (put != nullptr) return put;
  }
  return puts_.WaitingFor(rank);
}

}  // namespace mccs
