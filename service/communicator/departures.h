// Ranks that have left a running communicator, and what that means for the calls of the others.
//
// A departure has numbers: the last collective that the rank took part in, and how many messages it
// posted to and for each other rank. What lies within them completes; the first call beyond fails
// the communicator.
//
// OWNER: the Communicator. THREAD: the owning engine.
#ifndef MCCS_SERVICE_COMMUNICATOR_DEPARTURES_H_
#define MCCS_SERVICE_COMMUNICATOR_DEPARTURES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "proto/peer.pb.h"
#include "service/communicator/operation_loop.h"
#include "service/messages/message_loop.h"

namespace mccs {

struct Departure {
  Rank rank;
  uint64_t after = 0;  // the number of its last collective
  std::string why;
  std::vector<MessageCount> messages;
};

peer::Message ToMessage(const Departure& departure);
Departure DepartureFrom(const peer::Departed& departed);

class Departures {
 public:
  void Add(Departure departure) { departures_.push_back(std::move(departure)); }
  bool empty() const { return departures_.empty(); }
  bool Has(Rank rank) const;

  // kUnavailable, with the call and the rank that left, when a local rank waits for one that will
  // not come.
  absl::Status Check(const OperationLoop& operations, const MessageLoop& messages) const;

 private:
  std::vector<Departure> departures_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_DEPARTURES_H_
