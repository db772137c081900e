#include "service/messages/message_loop.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Calls taken from one rank, and from all of them, in one turn, for fairness.
constexpr int kCallsPerTurn = 64;
constexpr int kCallsOfAllPerTurn = 256;
// A departed rank opens and closes no windows.
constexpr uint64_t kLeft = std::numeric_limits<uint64_t>::max();

}  // namespace

MessageLoop::MessageLoop(Device& device, Options options, std::span<const LocalRank> ranks)
    : options_(std::move(options)),
      device_(device),
      ranks_(ranks),
      local_(device),
      local_puts_({.device = &device,
                   .signals = &signals_,
                   .port_of = [this](Rank rank) { return PortOf(rank); }}),
      channels_(options_.channels) {
  local_of_.resize(options_.host_of.size());
  for (const LocalRank& local : ranks_) {
    local_of_[static_cast<size_t>(local.rank.value())] = &local;
  }
  window_changes_.resize(ranks_.size());
  peers_.resize(static_cast<size_t>(options_.hosts));
}

absl::StatusOr<bool> MessageLoop::Poll() {
  MCCS_ASSIGN_OR_RETURN(bool moved, TakeCalls());
  moved |= CheckWindows();
  // A put that was checked again may wait again.
  const bool puts_checked = local_puts_.copying();
  MCCS_RETURN_IF_ERROR(lane_turns_.Poll(done_, &moved));
  MCCS_ASSIGN_OR_RETURN(const bool copied, local_.Poll(done_));
  moved |= copied;
  MCCS_ASSIGN_OR_RETURN(const bool put, local_puts_.Poll(done_));
  moved |= put;
  moved |= signals_.TakeComplete(done_);
  if (moved || puts_checked) ++changes_;
  CompleteAll();
  return moved;
}

absl::StatusOr<bool> MessageLoop::TakeCalls() {
  int taken = 0;
  const size_t first = std::exchange(next_rank_, 0);
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const size_t index = (first + i) % ranks_.size();
    if (taken >= kCallsOfAllPerTurn) {
      next_rank_ = index;
      break;
    }
    if (ranks_[index].port == nullptr) continue;
    MCCS_ASSIGN_OR_RETURN(const int of_rank, TakeCallsOf(ranks_[index]));
    taken += of_rank;
  }
  return taken > 0;
}

absl::StatusOr<int> MessageLoop::TakeCallsOf(const LocalRank& local) {
  for (int taken = 0; taken < kCallsPerTurn; ++taken) {
    MCCS_ASSIGN_OR_RETURN(const PostedMessage* call, local.port->TakeMessage());
    if (call == nullptr) return taken;
    MCCS_RETURN_IF_ERROR(Add(local, *call));
  }
  return kCallsPerTurn;
}

absl::Status MessageLoop::Add(const LocalRank& local, const PostedMessage& call) {
  OpenMessage message{.call = &call, .port = local.port, .pair = {local.rank, call.peer}};
  if (!message.by_source()) std::swap(message.pair.source, message.pair.destination);
  message.number = ++CounterOf(call.kind)[message.pair];
  const std::optional<HostIndex> host = HostOf(call.peer);
  if (!host.has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(message),
                                                   ": invalid peer: the communicator has ",
                                                   options_.host_of.size(), " ranks"));
  }
  if (call.bytes() > call.memory.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(message), ": ", call.bytes(),
                                                   " bytes exceed its buffer of ",
                                                   call.memory.bytes, " bytes"));
  }
  if (call.kind == OpKind::kWaitSignal) {
    signals_.Wait(message);
    return absl::OkStatus();
  }
  if (*host != options_.self) {
    if (call.bytes() > 0 && !IsMapped(device_, call.memory)) return NotMapped(message);
    return PeerAt(*host).Add(message);
  }
  if (IsMessage(call.kind)) return local_.Add(message);
  local_puts_.Add(message);
  return absl::OkStatus();
}

absl::flat_hash_map<RankPair, uint64_t>& MessageLoop::CounterOf(OpKind kind) {
  switch (kind) {
    case OpKind::kSend:
      return sends_;
    case OpKind::kRecv:
      return receives_;
    case OpKind::kWaitSignal:
      return waits_;
    default:
      return puts_;
  }
}

const WindowPort* MessageLoop::PortOf(Rank rank) const {
  const auto index = static_cast<size_t>(rank.value());
  const bool known = rank.value() >= 0 && index < local_of_.size() && local_of_[index] != nullptr;
  return known ? local_of_[index]->port : nullptr;
}

bool MessageLoop::CheckWindows() {
  bool changed = false;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const WindowPort* const port = ranks_[i].port;
    const uint64_t now = port == nullptr ? kLeft : port->WindowChanges();
    changed |= std::exchange(window_changes_[i], now) != now;
  }
  if (!changed) return false;
  local_puts_.WindowsChanged();
  bool moved = false;
  for (const auto& peer : peers_) {
    if (peer != nullptr) moved |= peer->WindowsChanged();
  }
  return moved;
}

PeerMessages& MessageLoop::PeerAt(HostIndex host) {
  std::unique_ptr<PeerMessages>& peer = peers_[static_cast<size_t>(host.value())];
  if (peer == nullptr) {
    peer = std::make_unique<PeerMessages>(PeerMessages::Options{
        .turns = &lane_turns_,
        .open = [this, host](int lane) { return options_.open_lane(host, lane); },
        .slice_bytes = options_.slice_bytes,
        .slots = options_.slots,
        .most_lanes = options_.most_lanes,
        .home_lanes = options_.home_lanes,
        .home_of = options_.home_of,
        .channels = [this] { return std::min(channels_, options_.most_lanes); },
        .may_send =
            [this, host](const RankPair& pair) {
              return HostOf(pair.source) == options_.self && HostOf(pair.destination) == host;
            },
        .may_receive =
            [this, host](const RankPair& pair) {
              return HostOf(pair.source) == host && HostOf(pair.destination) == options_.self;
            },
        .signals = &signals_,
        .port_of = [this](Rank rank) { return PortOf(rank); },
        .device = &device_,
        .allocate = options_.allocate});
  }
  return *peer;
}

std::optional<HostIndex> MessageLoop::HostOf(Rank rank) const {
  const auto index = static_cast<size_t>(rank.value());
  return rank.value() >= 0 && index < options_.host_of.size()
             ? std::optional(options_.host_of[index])
             : std::nullopt;
}

void MessageLoop::CompleteAll() {
  for (const OpenMessage& message : done_) {
    ++completed_;
    bytes_ += message.bytes();
    options_.tally->Count(message.call->kind, message.bytes());
    message.port->CompleteMessage(*message.call);
  }
  done_.clear();
}

// ---- State --------------------------------------------------------------------------------------

bool MessageLoop::busy() const {
  return local_.copying() || local_puts_.copying() || lane_turns_.busy();
}

bool MessageLoop::awaits_streams() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const LocalRank& local) {
    return local.port != nullptr && local.port->AwaitsStreams();
  });
}

bool MessageLoop::has_pending_calls() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const LocalRank& local) {
    return local.port != nullptr && local.port->HasMessages();
  });
}

bool MessageLoop::quiescent() const {
  return local_.quiescent() && local_puts_.quiescent() &&
         std::ranges::all_of(peers_, [](const std::unique_ptr<PeerMessages>& peer) {
           return peer == nullptr || peer->quiescent();
         });
}

void MessageLoop::AbandonCopies() {
  local_puts_.Abandon();
  for (const std::unique_ptr<PeerMessages>& peer : peers_) {
    if (peer != nullptr) peer->Abandon();
  }
}

void MessageLoop::AbandonCopiesFor(Rank rank) {
  local_puts_.AbandonFor(rank);
  for (const std::unique_ptr<PeerMessages>& peer : peers_) {
    if (peer != nullptr) peer->AbandonFor(rank);
  }
}

bool MessageLoop::WritesInto(Rank rank, uint64_t window) const {
  return local_puts_.WritesInto(rank, window) ||
         std::any_of(peers_.begin(), peers_.end(), [&](const auto& peer) {
           return peer != nullptr && peer->WritesInto(rank, window);
         });
}

// ---- Waiting calls ------------------------------------------------------------------------------

void MessageLoop::AddWaiting(size_t part, WaitingCalls& waiting) const {
  if (part == 0) {
    local_puts_.AddUncopied(waiting);
    local_puts_.AddUnmatched(waiting);
  } else if (part == 1) {
    local_.AddUnmatched(waiting);
  } else if (part == 2) {
    signals_.AddUnmatched(waiting);
  } else if (const auto& peer = peers_[part - kLocalParts]; peer != nullptr) {
    peer->AddUncopied(waiting);
    peer->AddUnmatched(waiting);
    peer->AddBusyLanes(HostIndex(static_cast<int32_t>(part - kLocalParts)), waiting);
  }
}

// ---- Departed ranks -----------------------------------------------------------------------------

std::vector<MessageCount> MessageLoop::CountsOf(Rank rank) const {
  absl::flat_hash_map<Rank, MessageCount> counts;
  for (const auto& [pair, number] : sends_) {
    if (pair.source == rank) counts[pair.destination].sent = number;
  }
  for (const auto& [pair, number] : receives_) {
    if (pair.destination == rank) counts[pair.source].received = number;
  }
  for (const auto& [pair, number] : puts_) {
    if (pair.source == rank) counts[pair.destination].signals = number;
  }
  std::vector<MessageCount> list;
  for (auto& [peer, count] : counts) {
    count.peer = peer;
    list.push_back(count);
  }
  return list;
}

std::string MessageLoop::DescribeUnmatched(Rank rank,
                                           const std::vector<MessageCount>& counts) const {
  const HostIndex host = options_.host_of[static_cast<size_t>(rank.value())];
  const OpenMessage* lost = nullptr;
  if (host == options_.self) {
    lost = local_.WaitingFor(rank);
    if (lost == nullptr) lost = local_puts_.WaitingFor(rank);
  } else if (const auto& peer = peers_[static_cast<size_t>(host.value())]; peer != nullptr) {
    lost = peer->Unmatched(rank, counts);
  }
  if (lost == nullptr) lost = signals_.Unmatched(rank, counts);
  return lost == nullptr ? std::string() : Describe(*lost);
}

}  // namespace mccs
