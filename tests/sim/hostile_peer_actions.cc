// The hostile daemon's own actions, and its answers to requests of other daemons.
#include <algorithm>
#include <utility>

#include "proto/operation.h"
#include "service/communicator/lanes/communicator_lanes.h"
#include "service/communicator/strategy/strategy.h"
#include "service/messages/striping.h"
#include "tests/sim/hostile_peer.h"

namespace mccs {
namespace {

constexpr uint64_t kMessagesAnnounced = 4;
constexpr size_t kMaxHalfOpen = 200;
constexpr int kFloodMessages = 200;
constexpr uint64_t kMaxPayload = 64 << 10;

}  // namespace

// Most attacks end the communicator, so each hostile daemon uses only some of them: others reach
// states that need many steps.
void HostilePeer::ChooseActions() {
  if (options_.must_fail) {
    actions_ = {&HostilePeer::DialWithoutRoster, &HostilePeer::DialWithoutRoster,
                &HostilePeer::OpenHalfConnection, &HostilePeer::Flood};
    return;
  }
  // Other actions between the steps of a change end it.
  if (Below(2) == 0) actions_.assign(4, &HostilePeer::SendChangeStep);
  for (const Action act :
       {&HostilePeer::SendRandomMessage, &HostilePeer::RepeatCorrupted,
        &HostilePeer::SendOrderMessage, &HostilePeer::DialInvalidLane, &HostilePeer::AttackLane,
        &HostilePeer::SendRandomTag, &HostilePeer::OpenHalfConnection, &HostilePeer::Flood,
        &HostilePeer::CutLaneOrLink}) {
    if (Below(3) == 0) actions_.push_back(act);
  }
  if (actions_.empty()) actions_.push_back(&HostilePeer::SendChangeStep);
  by_call_ = Below(2) == 0;
}

void HostilePeer::Act() { (this->*actions_[Below(actions_.size())])(); }

// ---- Messages -----------------------------------------------------------------------------------

HostilePeer::Link* HostilePeer::RandomLink() {
  if (links_.empty()) return nullptr;
  return &*std::next(links_.begin(), static_cast<int>(Below(links_.size())));
}

void HostilePeer::SendRandomMessage() {
  Link* const link = RandomLink();
  if (link == nullptr) return;
  Count(stage_ == Stage::kRunning ? RandomEvent::kRandomMessage : RandomEvent::kPrematureMessage);
  link->link->Send(RandomMessage(dice_));
}

void HostilePeer::RepeatCorrupted() {
  Link* const link = RandomLink();
  if (link == nullptr || received_.empty()) return;
  peer::Message message = received_[Below(received_.size())];
  if (Below(4) > 0) Corrupt(message, dice_);
  Count(RandomEvent::kCorruptedMessage);
  link->link->Send(message);
}

// The steps of a change, mostly in order, with strategies of all kinds.
void HostilePeer::SendChangeStep() {
  if (leader_ < 0 || !Plays(leader_) || stage_ != Stage::kRunning) return;
  const bool by_call = by_call_ || Below(4) > 0;
  const bool awaits = step_ > 0 && answers_ < options_.daemons.size();
  if (by_call && awaits) return;
  answers_ = 0;
  if (!by_call) step_ = static_cast<int>(Below(6));
  Count(by_call ? RandomEvent::kChangeProposed : RandomEvent::kChangeOutOfOrder);
  peer::Message message;
  peer::StrategyChange& change = *message.mutable_strategy_change();
  switch (step_) {
    case 0: {
      strategy::Strategy next = RandomStrategy(++epoch_);
      strategies_[epoch_] = next;
      OpenLanes(next);
      if (Below(2) == 0) CorruptStrategy(next);
      (Below(4) == 0 ? *change.mutable_route() : *change.mutable_prepare()) = next;
      break;
    }
    case 1:
      change.set_hold(true);
      break;
    case 2:
      change.mutable_commit()->set_after(Below(2) == 0 ? operation_
                                                       : RandomBoundaryNumber(operation_, dice_));
      break;
    case 3:
      change.set_done(true);
      break;
    case 4:
      change.set_aborted("a lie");
      break;
    default:
      change.set_move(true);
  }
  step_ = step_ < 3 ? step_ + 1 : 0;
  change.set_epoch(Below(8) == 0 ? RandomBoundaryNumber(epoch_, dice_) : epoch_);
  SendTo(Role::kMember, message);
}

void HostilePeer::AnswerChange(Link& link, const peer::StrategyChange& order) {
  peer::Message message;
  peer::StrategyChangeAnswer& answer = *message.mutable_strategy_change_answer();
  answer.set_epoch(order.epoch());
  if (order.has_prepare() || order.has_route()) {
    if (order.has_prepare()) AdoptStrategy(order.prepare());
    answer.set_prepared(true);
  } else if (order.has_hold()) {
    answer.set_started(operation_);
  } else if (order.has_commit()) {
    operation_ = order.commit().after();
    answer.set_drained(true);
  } else {
    return;
  }
  if (ShouldAttack()) {
    Count(RandomEvent::kCorruptedAnswer);
    Corrupt(answer, dice_);
    if (Below(3) == 0) answer.set_started(RandomBoundaryNumber(operation_, dice_));
  }
  link.link->Send(message);
}

void HostilePeer::AnswerSplit(Link& link, const peer::SplitCall& call) {
  peer::Message message;
  peer::SplitTable& table = *message.mutable_split_table();
  table.set_number(call.number());
  for (int r = 0; r < options_.ranks; ++r) {
    table.add_colors(static_cast<int>(Below(2)));
    table.add_keys(r);
  }
  table.set_colors(std::clamp(call.rank(), 0, options_.ranks - 1), call.color());
  if (ShouldAttack()) {
    Count(RandomEvent::kCorruptedSplitTable);
    Corrupt(table, dice_);
  }
  link.link->Send(message);
}

// Sends messages of the protocol for the order of operations
// (service/communicator/schedule/decided_order.h).
void HostilePeer::SendOrderMessage() {
  Link* const link = RandomLink();
  if (link == nullptr || stage_ != Stage::kRunning) return;
  peer::Message message;
  switch (Below(5)) {
    case 0:
      message.mutable_order_request();
      break;
    case 1:
      message.mutable_order_hold();
      break;
    case 2:
      message.mutable_order_started()->set_operation(RandomBoundaryNumber(operation_, dice_));
      break;
    case 3:
      message.mutable_order_begins()->set_after(RandomBoundaryNumber(operation_, dice_));
      break;
    default:
      message.mutable_order_next()->set_operation(RandomBoundaryNumber(operation_ + 1, dice_));
      message.mutable_order_next()->set_captured(RandomBoundaryNumber(0, dice_));
  }
  Count(RandomEvent::kOrderImposed);
  link->link->Send(message);
}

void HostilePeer::Flood() {
  if (Below(8) > 0) return;
  Link* const link = RandomLink();
  if (Below(2) == 0 || link == nullptr) {
    OpenHalfConnections(20);
  } else {
    const peer::Message message = Below(2) == 0 || received_.empty()
                                      ? RandomMessage(dice_)
                                      : received_[Below(received_.size())];
    if (message.ByteSizeLong() > 2000) return;
    for (int i = 0; i < kFloodMessages; ++i) link->link->Send(message);
  }
  Count(RandomEvent::kFlood);
}

void HostilePeer::CutLaneOrLink() {
  if (Below(4) > 0) return;
  if (Below(8) > 0) {
    if (lanes_.empty()) return;
    lanes_.erase(std::next(lanes_.begin(), static_cast<int>(Below(lanes_.size()))));
  } else {
    if (links_.empty()) return;
    links_.erase(std::next(links_.begin(), static_cast<int>(Below(links_.size()))));
  }
  Count(RandomEvent::kLinkCut);
}

void HostilePeer::OpenHalfConnection() { OpenHalfConnections(1); }

// Sends part of the first bytes that a daemon sends, or other bytes, and nothing more.
void HostilePeer::OpenHalfConnections(uint64_t times) {
  for (; times > 0 && half_open_.size() < kMaxHalfOpen; --times) {
    auto connection =
        network_.Connect(options_.world_daemons[Below(options_.world_daemons.size())], {});
    if (!connection.ok()) continue;
    wire::PeerHello hello{};
    hello.magic = wire::kPeerMagic;
    hello.version = wire::kPeerVersion;
    hello.purpose = static_cast<uint8_t>(Below(5));
    hello.comm_id = Below(2) == 0 ? options_.id.value() : dice_();
    hello.epoch = Below(2) == 0 ? 0 : RandomBoundaryNumber(1, dice_);
    std::string bytes(reinterpret_cast<const char*>(&hello), sizeof(hello));
    bytes.resize(Below(2) == 0 ? bytes.size() : Below(bytes.size()));
    if (Below(8) == 0) bytes = std::string(100, 'x');
    half_open_.push_back({.connection = *std::move(connection), .unsent = std::move(bytes)});
  }
  Count(RandomEvent::kHalfOpen);
}

// ---- Lanes --------------------------------------------------------------------------------------

void HostilePeer::OpenMessageLanes() {
  for (int from = 0; from < roster_->hosts_size(); ++from) {
    for (int to = 0; to < roster_->hosts_size(); ++to) {
      for (int lane = 0; lane < HomeLanes(); ++lane) {
        if (!Plays(from) || Plays(to)) continue;
        Dial({.purpose = ConnectionPurpose::kLane,
              .comm_id = options_.id,
              .epoch = kMessagesEpoch,
              .channel = MessageChannel(lane),
              .from_host = HostIndex(from),
              .to_host = HostIndex(to)},
             EndpointOf(to), from);
      }
    }
  }
}

int HostilePeer::HomeLanes() const {
  return strategies_.empty() ? 1 : std::max(strategies_.begin()->second.channels_size(), 1);
}

void HostilePeer::DialInvalidLane() {
  if (!roster_.has_value() || roster_->hosts_size() == 0) return;
  const auto hosts = static_cast<uint64_t>(roster_->hosts_size());
  const auto to = static_cast<int>(Below(hosts));
  if (Plays(to)) return;
  // Negative numbers are rejected before they are looked up.
  const auto number = [&](uint64_t near) {
    return static_cast<int32_t>(RandomBoundaryNumber(near, dice_) & 0x7fffffff);
  };
  Dial({.purpose = ConnectionPurpose::kLane,
        .comm_id = options_.id,
        .epoch = Epoch(RandomBoundaryNumber(epoch_, dice_)),
        .channel = ChannelId(number(Below(2) == 0 ? 0 : kMaxChannels)),
        .from_host = HostIndex(number(Below(hosts))),
        .to_host = HostIndex(Below(2) == 0 ? to : number(static_cast<uint64_t>(to)))},
       EndpointOf(to), to);
  Count(RandomEvent::kInvalidLane);
}

// Of all kinds, at the daemons with ranks of the communicator, with the ranks' secret.
void HostilePeer::DialWithoutRoster() {
  const auto purpose = static_cast<ConnectionPurpose>(1 + Below(3));
  Preamble preamble{.purpose = purpose, .comm_id = options_.id};
  if (purpose == ConnectionPurpose::kLane) {
    preamble.epoch = Below(2) == 0 ? kMessagesEpoch : Epoch(Below(3));
    preamble.channel = Below(2) == 0 ? MessageChannel(0) : ChannelId(0);
    preamble.from_host = HostIndex(static_cast<int>(Below(2)));
    preamble.to_host = HostIndex(static_cast<int>(Below(2)));
  }
  Dial(preamble, options_.daemons[Below(options_.daemons.size())].endpoint, 0);
  Count(RandomEvent::kDialedWithoutCertificate);
}

void HostilePeer::AttackLane() {
  if (lanes_.empty()) return;
  HostileLane& lane = *std::next(lanes_.begin(), static_cast<int>(Below(lanes_.size())));
  Count(lane.sends() ? RandomEvent::kCorruptedSlice : RandomEvent::kCorruptedAck);
  lane.Attack(dice_);
}

HostileLane* HostilePeer::SendingLane(uint64_t epoch, ChannelId channel, int from, int to) {
  for (HostileLane& lane : lanes_) {
    const Preamble& is = lane.preamble();
    if (lane.sends() && is.epoch.value() == epoch && is.channel == channel &&
        is.from_host.value() == from && (to < 0 || is.to_host.value() == to))
      return &lane;
  }
  return nullptr;
}

// Returns a collective's slices unchanged on the lane back, so that operations continue.
void HostilePeer::TakeSlices(HostileLane& lane) {
  const Preamble& preamble = lane.preamble();
  const int self = preamble.to_host.value();
  for (HostileLane::Slice& slice : lane.TakeSlices()) {
    has_foreign_bytes_ |= slice.payload.find(options_.foreign_pattern) != std::string::npos;
    if (IsMessageChannel(preamble.channel)) {
      AnswerMessage(lane, MessageFromTag(slice.tag));
      continue;
    }
    HostileLane* const back = SendingLane(preamble.epoch.value(), preamble.channel, self, -1);
    if (back == nullptr) continue;
    if (ShouldAttack() && Below(8) == 0) {
      Count(RandomEvent::kCorruptedSlice);
      slice.payload.resize(RandomBoundaryNumber(slice.payload.size(), dice_) %
                           (lane.shape().slot_bytes + 1));
    }
    back->Send(std::move(slice));
  }
}

void HostilePeer::AnswerMessage(const HostileLane& lane, const MessageTag& tag) {
  const int self = lane.preamble().to_host.value();
  const int home = MessageLaneOf(lane.preamble().channel);
  const auto back = [&](int message_lane) {
    return SendingLane(kMessagesEpoch.value(), MessageChannel(message_lane), self,
                       lane.preamble().from_host.value());
  };
  if (back(home) == nullptr) return;
  MessageTag answer = tag;
  if (tag.kind == MessageTag::Kind::kWindowRequest) {
    answer.kind = MessageTag::Kind::kWindowReply;
    answer.amount = RandomBoundaryNumber(4096, dice_);
    return back(home)->Send({ToTag(answer), ""});
  }
  if (tag.kind != MessageTag::Kind::kAnnouncement || tag.stripes == 0) return;
  answer.kind = MessageTag::Kind::kPayload;
  const Striping striping{.home = home,
                          .home_lanes = HomeLanes(),
                          .stripes = tag.stripes,
                          .slice_bytes = lane.shape().slot_bytes};
  const uint64_t bytes = std::min(tag.amount * SizeOf(tag.type), kMaxPayload);
  for (uint64_t at = 0; at < bytes; at += lane.shape().slot_bytes) {
    answer.amount = at;
    MessageTag sent = answer;
    uint64_t size = std::min<uint64_t>(bytes - at, lane.shape().slot_bytes);
    int on = striping.LaneOf(striping.StripeAt(at));
    if (ShouldAttack()) {
      Count(RandomEvent::kRandomTag);
      Corrupt(sent, dice_);
      if (Below(2) == 0) size = std::min<uint64_t>(2 * size, lane.shape().slot_bytes);
      if (Below(4) == 0) on = home;
    }
    // A strategy may have added channels since.
    HostileLane* const sender = back(on) != nullptr ? back(on) : back(home);
    sender->Send({ToTag(sent), std::string(size, 'p')});
  }
}

// Sends announcements, payloads, puts, signals and windows, expected or not.
void HostilePeer::SendRandomTag() {
  if (stage_ != Stage::kRunning || lanes_.empty()) return;
  std::vector<HostileLane*> lanes;
  for (HostileLane& lane : lanes_) {
    const Preamble& is = lane.preamble();
    const int hosts = roster_->hosts_size();
    const bool invalid = is.from_host.value() >= hosts || is.to_host.value() >= hosts;
    if (lane.sends() && IsMessageChannel(is.channel) && !invalid) lanes.push_back(&lane);
  }
  if (lanes.empty()) return;
  HostileLane& lane = *lanes[Below(lanes.size())];
  const int from = lane.preamble().from_host.value();
  const int to = lane.preamble().to_host.value();
  const auto rank_of = [&](int host) {
    const auto& ranks = roster_->hosts(host).ranks();
    return ranks.empty() ? Rank(0) : Rank(ranks.Get(static_cast<int>(Below(ranks.size()))).rank());
  };
  MessageTag tag{.kind = static_cast<MessageTag::Kind>(1 + Below(6)),
                 .type = DataType::kFloat32,
                 .pair = {.source = rank_of(from), .destination = rank_of(to)},
                 .signal = static_cast<uint32_t>(Below(2)),
                 .number = 1 + Below(kMessagesAnnounced),
                 .amount = 0};
  const bool to_source =
      tag.kind == MessageTag::Kind::kAnnouncement || tag.kind == MessageTag::Kind::kWindowReply;
  if (to_source) {
    std::swap(tag.pair.source, tag.pair.destination);
    tag.amount = kHostileMessageElements;
  }
  uint64_t size = to_source || tag.kind == MessageTag::Kind::kWindowRequest ? 0 : 4 * Below(1024);
  if (Below(2) == 0) Corrupt(tag, dice_);
  Count(RandomEvent::kRandomTag);
  lane.Send({ToTag(tag), std::string(size, 't')});
}

}  // namespace mccs
