// The messages of proto/peer.proto that a control link may carry, by role and phase.
// A tenant may impersonate the leader or a member of its communicator: an illegal message fails
// that communicator.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_STAR_PROTOCOL_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_STAR_PROTOCOL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "proto/peer.pb.h"

namespace mccs {

// In this order.
enum class StarPhase : uint8_t {
  kLinking,  // the leader has not sent the strategy
  kOpening,  // lanes are being opened
  kActive,
  kEnded,  // failed or closed; earlier messages may still arrive
};

// "strategy_change.hold", "departed", "empty message".
std::string NameOf(const peer::Message& message);

// OK if a leader (a member if `from_leader` is false) may send this kind of message in this phase;
// else kDataLoss. The receiving component checks the contents.
absl::Status CheckLegal(const peer::Message& message, bool from_leader, StarPhase phase);

// The error of a communicator after handling `message` of `host` failed with `why`. If the message
// is at fault (kDataLoss, kInvalidArgument): kDataLoss that names host and message; else `why`.
absl::Status Rejected(const std::string& host, const peer::Message& message,
                      const absl::Status& why);

// Maximum distance in operations between two hosts of a communicator. Lanes keep hosts together,
// except in calls that move no bytes; no host gets this far ahead.
inline constexpr uint64_t kMaxOperationsApart = uint64_t{1} << 40;

// Whether a peer can have started operation `number` when this host has started `here`.
constexpr bool IsPlausible(uint64_t number, uint64_t here) {
  return number <= here || number - here <= kMaxOperationsApart;
}

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_STAR_PROTOCOL_H_
