#include "service/communicator/departures.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/communicator/peer_link.h"

namespace mccs {

peer::Message ToMessage(const Departure& departure) {
  peer::Message message;
  peer::Departed& departed = *message.mutable_departed();
  departed.set_rank(departure.rank.value());
  departed.set_after_operation(departure.after);
  departed.set_why(departure.why);
  departed.set_in_order(departure.in_order);
  for (const MessageCount& count : departure.messages) {
    peer::MessageCount& entry = *departed.add_messages();
    entry.set_peer(count.peer.value());
    entry.set_sent(count.sent);
    entry.set_received(count.received);
    entry.set_signals(count.signals);
  }
  return message;
}

Departure DepartureFrom(const peer::Departed& departed) {
  Departure departure{.rank = Rank(departed.rank()),
                      .after = departed.after_operation(),
                      .why = std::string(StatusFromPeer(0, departed.why()).message()),
                      .messages = {},
                      .in_order = departed.in_order()};
  for (const peer::MessageCount& count : departed.messages()) {
    departure.messages.push_back({.peer = Rank(count.peer()),
                                  .sent = count.sent(),
                                  .received = count.received(),
                                  .signals = count.signals()});
  }
  return departure;
}

bool Departures::Has(Rank rank) const {
  return std::any_of(departures_.begin(), departures_.end(),
                     [&](const Departure& d) { return d.rank == rank; });
}

std::optional<uint64_t> Departures::LastOf(std::span<const Rank> ranks) const {
  uint64_t last = 0;
  for (const Rank rank : ranks) {
    const auto departure = std::find_if(departures_.begin(), departures_.end(),
                                        [&](const Departure& d) { return d.rank == rank; });
    if (departure == departures_.end()) return std::nullopt;
    last = std::max(last, departure->after);
  }
  return last;
}

absl::Status Departures::Check(const OperationLoop& operations, const MessageLoop& messages,
                               MonotonicNs now) {
  absl::Status in_vain;
  for (const Departure& departure : departures_) {
    std::string call;
    if (operations.wants_more() && departure.after <= operations.completed()) {
      call = absl::StrCat("operation #", operations.completed() + 1);
    } else if (messages.wants_more()) {
      call = messages.DescribeUnanswered(departure.rank, departure.messages);
    }
    if (call.empty()) continue;
    in_vain = absl::UnavailableError(
        absl::StrCat(call, " cannot complete: rank ", departure.rank.value(), " ", departure.why));
    if (!departure.in_order) return in_vain;
  }
  if (in_vain.ok()) {
    fails_at_ = kNever;
  } else if (fails_at_ == kNever) {
    fails_at_ = now + kPatienceNs;
  }
  return now < fails_at_ ? absl::OkStatus() : in_vain;
}

}  // namespace mccs
