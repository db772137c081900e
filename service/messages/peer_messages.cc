#include "service/messages/peer_messages.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/executor/stalled_peer.h"

namespace mccs {
namespace {

// Limit of elements of an announced call: beyond it the number of bytes could overflow.
constexpr uint64_t kMaxCount = uint64_t{1} << 56;

// Receives of a pair at which AddUnmatched looks.
constexpr size_t kLooksOfPair = 16;

}  // namespace

PeerMessages::PeerMessages(Options options)
    : options_(std::move(options)),
      puts_({.signals = options_.signals,
             .port_of = options_.port_of,
             .may_receive = options_.may_receive,
             .may_send = options_.may_send,
             .home_of = options_.home_of,
             .outbox_of = [this](const RankPair& pair) -> Outbox& { return HomeOutbox(pair); },
             .release = [this](int lane, SliceNumber n) { LaneAt(lane).Release(n); },
             .copies = {.device = options_.device,
                        .allocate = options_.allocate,
                        .slice_bytes = options_.slice_bytes,
                        .slots = options_.slots},
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

PeerMessages::OutgoingPair& PeerMessages::FindOrAddOutgoing(const RankPair& key) {
  const auto [entry, is_new] = outgoing_.try_emplace(key);
  if (is_new) {
    entry->second.home = options_.home_of(key);
    outgoing_to_[key.destination].push_back(key);
  }
  return entry->second;
}

PeerMessages::IncomingPair& PeerMessages::FindOrAddIncoming(const RankPair& key) {
  const auto [entry, is_new] = incoming_.try_emplace(key);
  if (is_new) {
    entry->second.home = options_.home_of(key);
    incoming_from_[key.source].push_back(key);
  }
  return entry->second;
}

int PeerMessages::ChooseStripes(uint64_t bytes) const {
  const bool is_short = bytes < 2 * uint64_t{options_.slice_bytes};
  return is_short ? 1 : StripesOf(bytes, options_.slice_bytes, options_.channels());
}

absl::Status PeerMessages::Add(const OpenMessage& message) {
  if (IsOneSided(message.call->kind)) return puts_.Add(message);
  if (message.call->kind == OpKind::kSend) {
    OutgoingPair& pair = FindOrAddOutgoing(message.pair);
    pair.sends.push_back(message);
    return Match(message.pair, pair);
  }
  IncomingPair& pair = FindOrAddIncoming(message.pair);
  const int stripes = ChooseStripes(message.bytes());
  Receive& receive = pair.receives.emplace_back();
  receive.message = message;
  receive.stripes = static_cast<uint16_t>(stripes);
  LaneAt(pair.home).OutboxToFill().announcements.push_back({.kind = MessageTag::Kind::kAnnouncement,
                                                            .type = message.call->type,
                                                            .stripes = receive.stripes,
                                                            .pair = message.pair,
                                                            .number = message.number,
                                                            .amount = message.call->count});
  return absl::OkStatus();
}

absl::Status PeerMessages::Match(const RankPair& key, OutgoingPair& pair) {
  while (!pair.waits && !pair.sends.empty() && !pair.receives.empty()) {
    bool started = false;
    if (waiting_.empty()) {
      MCCS_ASSIGN_OR_RETURN(started, StartFront(pair));
    }
    if (started) continue;
    pair.waits = true;
    waiting_.push_back(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> PeerMessages::StartFront(OutgoingPair& pair) {
  const OpenMessage& send = pair.sends.front();
  const PeerCall& receive = pair.receives.front();
  MCCS_RETURN_IF_ERROR(CheckMatch(send, receive));
  const auto stripes = static_cast<uint64_t>(receive.stripes);
  if (sent_stripes_ + stripes > MostSentStripes(options_.most_lanes)) return false;
  sent_stripes_ += stripes;
  StartTransfers(send, StripingOf(pair.home, receive.stripes));
  --announced_[send.pair.destination];
  pair.sends.pop_front();
  pair.receives.pop_front();
  return true;
}

absl::Status PeerMessages::OnSent(uint64_t stripes) {
  sent_stripes_ -= stripes;
  while (!waiting_.empty()) {
    const RankPair key = waiting_.front();
    OutgoingPair& pair = outgoing_.find(key)->second;
    MCCS_ASSIGN_OR_RETURN(const bool started, StartFront(pair));
    if (!started) break;
    waiting_.pop_front();
    pair.waits = !pair.sends.empty() && !pair.receives.empty();
    if (pair.waits) waiting_.push_back(key);
  }
  return absl::OkStatus();
}

void PeerMessages::StartTransfers(const OpenMessage& send, const Striping& striping) {
  const auto stripes =
      striping.stripes > 1
          ? std::make_shared<OpenStripes>(OpenStripes{striping.stripes, striping.stripes})
          : nullptr;
  for (int s = 0; s < striping.stripes; ++s) {
    LaneAt(striping.LaneOf(s))
        .OutboxToFill()
        .transfers.push_back({.message = send,
                              .offset = striping.FirstOffset(s),
                              .stride = striping.Stride(),
                              .stripes = stripes});
  }
}

// ---- Incoming -----------------------------------------------------------------------------------

absl::Status PeerMessages::OnSlice(const ArrivingSlice& slice, std::vector<OpenMessage>& done) {
  std::optional<WindowMemory> window = puts_.Landed(slice.lane, slice.number);
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
  return puts_.OnSlice(slice, std::move(window));
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
  OutgoingPair& pair = FindOrAddOutgoing(tag.pair);
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
  return Match(tag.pair, pair);
}

absl::Status PeerMessages::OnPayload(const ArrivingSlice& slice, std::vector<OpenMessage>& done) {
  const MessageTag& tag = slice.tag;
  IncomingPair* pair = nullptr;
  Receive* const receive = Find(tag, &pair);
  if (receive == nullptr) return ProtocolError(tag, "its payload matches no announced receive");
  MCCS_RETURN_IF_ERROR(CheckStriping(*receive, StripingOf(pair->home, receive->stripes), slice));
  if (slice.landing != Landing::kDirect) {
    return ProtocolError(tag,
                         "its payload arrived out of order, or too many others are incomplete");
  }
  receive->landed += slice.bytes;
  if (receive->landed < receive->message.bytes()) return absl::OkStatus();
  receive->done = true;
  if (receive->next_of_others != nullptr) received_stripes_ -= receive->stripes;
  receive->next_of_others.reset();
  done.push_back(receive->message);
  std::deque<Receive>& receives = pair->receives;
  while (!receives.empty() && receives.front().done) receives.pop_front();
  return absl::OkStatus();
}

std::optional<RegionSpan> PeerMessages::FindDestination(const ArrivingSlice& slice) {
  const MessageTag& tag = slice.tag;
  if (tag.kind != MessageTag::Kind::kPayload) return puts_.FindDestination(slice);
  IncomingPair* pair = nullptr;
  Receive* const receive = Find(tag, &pair);
  if (receive == nullptr) return std::nullopt;
  const Striping striping = StripingOf(pair->home, receive->stripes);
  if (!CheckStriping(*receive, striping, slice).ok()) return std::nullopt;
  if (!slice.again) {
    uint64_t* const next = NextOf(*receive, striping.StripeAt(tag.amount));
    if (next == nullptr || tag.amount != *next) return std::nullopt;
    *next += striping.Stride();
  }
  return receive->message.memory().Part(tag.amount, slice.bytes);
}

uint64_t* PeerMessages::NextOf(Receive& receive, int stripe) {
  const uint16_t stripes = receive.stripes;
  if (stripes > 1 && receive.next_of_others == nullptr) {
    const uint64_t most = MostReceivedStripes(options_.most_lanes, options_.slots);
    if (received_stripes_ + stripes > most) return nullptr;
    received_stripes_ += stripes;
    receive.next_of_others = std::make_unique<uint64_t[]>(stripes - 1u);
    for (unsigned s = 1; s < stripes; ++s)
      receive.next_of_others[s - 1] = uint64_t{s} * options_.slice_bytes;
  }
  return stripe == 0 ? &receive.next_of_first : &receive.next_of_others[stripe - 1];
}

PeerMessages::Receive* PeerMessages::Find(const MessageTag& tag, IncomingPair** pair) {
  const auto found = incoming_.find(tag.pair);
  if (found == incoming_.end() || found->second.receives.empty()) return nullptr;
  *pair = &found->second;
  std::deque<Receive>& receives = found->second.receives;
  const uint64_t index = tag.number - receives.front().message.number;
  if (index >= receives.size() || receives[index].done) return nullptr;
  return &receives[index];
}

absl::Status PeerMessages::CheckStriping(const Receive& receive, const Striping& striping,
                                         const ArrivingSlice& slice) {
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

void PeerMessages::AddUnmatched(WaitingCalls& waiting) const {
  for (const auto& [pair, outgoing] : outgoing_) {
    if (!waiting.Look()) return;
    const bool waits = !outgoing.sends.empty() && outgoing.receives.empty();
    if (waits) waiting.Add(outgoing.sends.front());
  }
  for (const auto& [pair, incoming] : incoming_) {
    if (!waiting.Look()) return;
    // If none of the first ones waits, the oldest one is arriving.
    const auto begin = incoming.receives.begin();
    const auto end =
        begin + static_cast<ptrdiff_t>(std::min(incoming.receives.size(), kLooksOfPair));
    const auto first = std::find_if(
        begin, end, [](const Receive& receive) { return !receive.done && receive.landed == 0; });
    if (first != end) waiting.Add(first->message);
    if (begin == end || begin->landed == 0) continue;
    const auto& home = lanes_[static_cast<size_t>(incoming.home)];
    waiting.Add(ArrivingMessage{
        .message = begin->message, .landed = begin->landed, .moved = home->received_bytes()});
  }
  puts_.AddUnmatched(waiting);
}

void PeerMessages::AddBusyLanes(HostIndex host, WaitingCalls& waiting) const {
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const SendLane* const lane = lanes_[l] != nullptr ? lanes_[l]->busy_lane() : nullptr;
    if (lane == nullptr) continue;
    waiting.Add(BusyLane{.host = host,
                         .lane = static_cast<int>(l),
                         .acknowledged = lane->acknowledged(),
                         .moved = lane->moved_bytes(),
                         .cause = CauseOf(*lane)});
  }
}

// ---- Departed ranks -----------------------------------------------------------------------------

const OpenMessage* PeerMessages::Unmatched(Rank rank,
                                           const std::vector<MessageCount>& counts) const {
  for (const RankPair& pair : PairsOf(outgoing_to_, rank)) {
    const OutgoingPair& outgoing = outgoing_.at(pair);
    if (outgoing.sends.empty()) continue;
    const MessageCount* count = CountWith(pair.source, counts);
    const OpenMessage& last = outgoing.sends.back();
    if (count == nullptr || last.number > count->received) return &last;
  }
  for (const RankPair& pair : PairsOf(incoming_from_, rank)) {
    const std::deque<Receive>& receives = incoming_.at(pair).receives;
    if (receives.empty()) continue;
    const MessageCount* count = CountWith(pair.destination, counts);
    // The call of one that is done may not exist any more. The oldest one is not done.
    const Receive& last = receives.back().done ? receives.front() : receives.back();
    if (count == nullptr || last.message.number > count->sent) return &last.message;
  }
  for (const auto& lane : lanes_) {
    const OpenMessage* const put = lane != nullptr ? lane->UnacknowledgedPut(rank) : nullptr;
    if (put != nullptr) return put;
  }
  return puts_.WaitingFor(rank);
}

}  // namespace mccs
