// Which messages of proto/peer.proto a control link may carry, from whom and when. A tenant may
// play leader or member of its communicator itself: what no daemon sends is an error of that
// communicator.
#ifndef MCCS_SERVICE_COMMUNICATOR_STAR_TURNS_H_
#define MCCS_SERVICE_COMMUNICATOR_STAR_TURNS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/peer.pb.h"

namespace mccs {

enum class StarPhase : uint8_t {
  kLinking,  // the leader has not sent the strategy
  kOpening,  // lanes are being opened
  kActive,
  kEnded,  // failed or closed: what was sent before the sender knew still arrives
};

// "strategy_change.hold", "departed", "empty message".
std::string NameOf(const peer::Message& message);

// OK when a leader (a member, where `from_leader` is false) may send this kind of message to a host
// in this phase. kDataLoss otherwise. What the message says is for its reader to check.
absl::Status CheckTurn(const peer::Message& message, bool from_leader, StarPhase phase);

// The error of a communicator whose host `host` sent `message`, when reading it gave `why`:
// kDataLoss that names both where the message is to blame (kDataLoss, kInvalidArgument), else
// `why`.
absl::Status Rejected(const std::string& host, const peer::Message& message,
                      const absl::Status& why);

// Operations that two hosts of a communicator may be apart. Lanes keep hosts together, except in
// calls that move no bytes; no host gets as far ahead as this.
inline constexpr uint64_t kMaxOperationsApart = uint64_t{1} << 40;

// Whether operation `number` is one that a peer can have started when this host has started `here`.
constexpr bool IsPlausible(uint64_t number, uint64_t here) {
  return number <= here || number - here <= kMaxOperationsApart;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_STAR_TURNS_H_
