// The calls that one look finds waiting because their other end is missing, the puts that
// processes have not copied, and what may be in the midst of a transfer. A tenant chooses how many
// there are, so a look has limits.
//
// THREAD: the owning engine only.
#ifndef MCCS_SERVICE_MESSAGES_WAITING_CALLS_H_
#define MCCS_SERVICE_MESSAGES_WAITING_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/ids.h"
#include "service/messages/open_message.h"
#include "service/stalls.h"

namespace mccs {

// A receive of which a part has arrived.
struct ArrivingMessage {
  OpenMessage message;
  uint64_t landed = 0;  // bytes
  uint64_t moved = 0;   // LaneEnd::moved_bytes of its home lane, which may carry others first
};

// A message lane that has something to send, or has sent something that is not acknowledged.
struct BusyLane {
  HostIndex host;
  int lane = 0;
  uint64_t acknowledged = 0;                        // slices
  uint64_t moved = 0;                               // LaneEnd::moved_bytes
  StallCause cause = StallCause::kAcknowledgement;  // if it does not move
};

// LIFETIME: the calls until the next turn.
class WaitingCalls {
 public:
  // Further ones are not found.
  static constexpr size_t kMost = 1024;

  // Counts a pair of ranks at which the look has come. Returns false if it must end.
  bool Look() {
    ++looks_;
    return !full();
  }
  // Perhaps not all were found. Receives that arrive have a limit of their own: mostly they
  // progress, and must not hide calls that wait.
  bool full() const { return calls_.size() + puts_.size() >= kMost; }
  void Add(const OpenMessage& call) { calls_.push_back(call); }
  void Add(const UncopiedPut& put) { puts_.push_back(put); }
  void Add(const ArrivingMessage& arriving) {
    if (arriving_.size() < kMost) arriving_.push_back(arriving);
  }
  void Add(const BusyLane& lane) { lanes_.push_back(lane); }

  // Of each pair and kind, the oldest call.
  const std::vector<OpenMessage>& calls() const { return calls_; }
  // Of each pair or lane, the oldest part.
  const std::vector<UncopiedPut>& puts() const { return puts_; }
  // Of each pair, the oldest one, if a part of it has arrived; of very many pairs, the first ones.
  const std::vector<ArrivingMessage>& arriving() const { return arriving_; }
  // At most kMaxChannels for each other host.
  const std::vector<BusyLane>& lanes() const { return lanes_; }
  size_t looks() const { return looks_; }

 private:
  std::vector<OpenMessage> calls_;
  std::vector<UncopiedPut> puts_;
  std::vector<ArrivingMessage> arriving_;
  std::vector<BusyLane> lanes_;
  size_t looks_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_WAITING_CALLS_H_
