#include "service/communicator/schedule/departures.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/utf8.h"
#include "service/communicator/links/peer_link.h"
#include "service/communicator/links/star_protocol.h"

namespace mccs {
namespace {

// Limit of the reason that is stored for each departed rank.
constexpr size_t kMaxReasonBytes = 256;

// In ascending order.
std::vector<int> PeersOf(const peer::Departed& departed) {
  std::vector<int> peers;
  peers.reserve(static_cast<size_t>(departed.messages_size()));
  for (const peer::MessageCount& count : departed.messages()) peers.push_back(count.peer());
  std::sort(peers.begin(), peers.end());
  return peers;
}

}  // namespace

peer::Message ToMessage(const Departure& departure) {
  peer::Message message;
  peer::Departed& departed = *message.mutable_departed();
  departed.set_rank(departure.rank.value());
  departed.set_after_operation(departure.after);
  departed.set_reason(departure.why);
  departed.set_by_call(departure.by_call);
  for (const MessageCount& count : departure.messages) {
    peer::MessageCount& entry = *departed.add_messages();
    entry.set_peer(count.peer.value());
    entry.set_sent(count.sent);
    entry.set_received(count.received);
    entry.set_signals(count.signals);
  }
  return message;
}

Departure DepartureFrom(const peer::Departed& departed, std::span<const Rank> locals) {
  const std::string why(StatusFromPeer(0, departed.reason()).message());
  Departure departure{.rank = Rank(departed.rank()),
                      .after = departed.after_operation(),
                      .why = CutText(why, kMaxReasonBytes),
                      .messages = {},
                      .by_call = departed.by_call()};
  for (const peer::MessageCount& count : departed.messages()) {
    if (std::ranges::find(locals, Rank(count.peer())) == locals.end()) continue;
    departure.messages.push_back({.peer = Rank(count.peer()),
                                  .sent = count.sent(),
                                  .received = count.received(),
                                  .signals = count.signals()});
  }
  return departure;
}

absl::Status CheckDeparture(const peer::Departed& departed, int ranks, uint64_t here) {
  if (!IsPlausible(departed.after_operation(), here)) {
    return absl::DataLossError(absl::StrCat(
        "implausible departure: rank ", departed.rank(), " left after operation #",
        departed.after_operation(), "; the last started operation on this host is #", here));
  }
  if (departed.messages_size() > ranks) {
    return absl::DataLossError(absl::StrCat("invalid message counts: ", departed.messages_size(),
                                            " entries for a communicator of size ", ranks));
  }
  int last = -1;
  for (const int peer : PeersOf(departed)) {
    if (peer <= last || peer >= ranks) {
      return absl::DataLossError(absl::StrCat("invalid message counts: rank ", peer, " of ", ranks,
                                              " is out of range or a duplicate"));
    }
    last = peer;
  }
  return absl::OkStatus();
}

void Departures::Add(Departure departure) {
  if (!departure.by_call && !std::exchange(death_seen_, true)) {
    death_ =
        absl::UnavailableError(absl::StrCat("rank ", departure.rank.value(), " ", departure.why));
  }
  std::ranges::sort(departure.messages, {}, &MessageCount::peer);
  by_rank_.emplace(departure.rank, departures_.size());
  departures_.push_back(std::move(departure));
}

std::optional<uint64_t> Departures::LastOf(std::span<const Rank> ranks) const {
  uint64_t last = 0;
  for (const Rank rank : ranks) {
    const auto departure = by_rank_.find(rank);
    if (departure == by_rank_.end()) return std::nullopt;
    last = std::max(last, departures_[departure->second].after);
  }
  return last;
}

absl::Status Departures::Check(const OperationLoop& operations, const MessageLoop& messages,
                               MonotonicNs now) {
  if (departures_.empty()) return absl::OkStatus();
  Seen seen{.departures = departures_.size(), .operation = {}, .messages = {}};
  if (operations.has_pending_calls()) seen.operation = operations.completed() + 1;
  if (messages.has_pending_calls()) seen.messages = messages.changes();
  if (seen != seen_ || now >= fails_at_) {
    seen_ = seen;
    in_vain_ = FindCallInVain(messages);
  }
  if (!in_vain_.has_value()) {
    fails_at_ = kNever;
    return absl::OkStatus();
  }
  if (!in_vain_->by_call) return in_vain_->why;
  if (fails_at_ == kNever) fails_at_ = now + kDepartureTimeoutNs;
  return now < fails_at_ ? absl::OkStatus() : in_vain_->why;
}

std::optional<Departures::CallInVain> Departures::FindCallInVain(const MessageLoop& messages) {
  std::optional<CallInVain> in_vain;
  for (const Departure& departure : departures_) {
    ++checked_ranks_;
    std::string call;
    if (seen_.operation.has_value() && departure.after < *seen_.operation) {
      call = absl::StrCat("operation #", *seen_.operation);
    } else if (seen_.messages.has_value()) {
      call = messages.DescribeUnmatched(departure.rank, departure.messages);
    }
    if (call.empty()) continue;
    in_vain = {.why = absl::UnavailableError(absl::StrCat(
                   call, " cannot complete: rank ", departure.rank.value(), " ", departure.why)),
               .by_call = departure.by_call};
    if (!departure.by_call) return in_vain;
  }
  return in_vain;
}

absl::Status Departures::TakeDeath(bool idle, MonotonicNs now) {
  if (death_.ok() || !idle) {
    report_at_ = kNever;
    return absl::OkStatus();
  }
  if (report_at_ == kNever) report_at_ = now + kIdleBeforeReportNs;
  if (now < report_at_) return absl::OkStatus();
  report_at_ = kNever;
  return std::exchange(death_, absl::OkStatus());
}

}  // namespace mccs
