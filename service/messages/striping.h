// How the messages between two hosts are divided over message lanes.
//
// Message lane n has the addresses of channel n of the strategy, modulo its number of channels, and
// so the channel's NIC. Each pair of ranks has a home lane, the same for both directions: it
// carries their announcements, short messages, puts and signals in order. The payload of a long
// message is cut into slices, which go to `stripes` lanes in turn, from the home lane on:
//
//   slice of the message    0      1      2      3      4    …
//   lane                   home  home+1 home+2  home  home+1 …      with 3 stripes
//
// Message lanes belong to no epoch, so the two hosts may have different strategies at a time. The
// receiver therefore derives the number of stripes from its strategy and the message's size, and
// announces it; all else follows from it at both ends. The number of home lanes never changes,
// because announcements and puts of one pair must not overtake each other.
//
// Pure functions.
#ifndef MCCS_SERVICE_MESSAGES_STRIPING_H_
#define MCCS_SERVICE_MESSAGES_STRIPING_H_

#include <algorithm>
#include <cstdint>
#include <span>

#include "algorithms/plan.h"
#include "base/ids.h"
#include "service/communicator/strategy/strategy.h"
#include "service/messages/open_message.h"

namespace mccs {

// Number of stripes of a message: over all channels, but at least one whole slice for each stripe,
// so that short messages stay on one lane. REQUIRES: slice_bytes > 0, channels > 0.
inline int StripesOf(uint64_t bytes, uint32_t slice_bytes, int channels) {
  return static_cast<int>(
      std::clamp<uint64_t>(bytes / slice_bytes, 1, static_cast<uint64_t>(channels)));
}

// Limits of the stripes of messages in flight from one host to another, for which the hosts keep
// state: `lanes` is MessageLanes(). The sender starts no more messages than have this many stripes;
// others wait for their turn.
inline constexpr uint64_t kStripesPerLane = 64;
constexpr uint64_t MostSentStripes(int lanes) {
  return kStripesPerLane * static_cast<uint64_t>(lanes);
}
// The receiver also has messages that the sender has finished: each of them has a slice in the
// window of a lane.
constexpr uint64_t MostReceivedStripes(int lanes, uint32_t slots) {
  const auto windows = uint64_t{slots} * static_cast<uint64_t>(lanes);
  return MostSentStripes(lanes) + windows * static_cast<uint64_t>(lanes);
}

// The lanes of one message.
struct Striping {
  int home = 0;        // 0 … home_lanes − 1
  int home_lanes = 1;  // of the communicator
  int stripes = 1;     // 1 … MessageLanes()
  uint32_t slice_bytes = 0;

  // The stripe of the slice at byte `offset` of the message.
  int StripeAt(uint64_t offset) const {
    if (stripes == 1) return 0;
    return static_cast<int>(offset / slice_bytes % static_cast<uint64_t>(stripes));
  }
  int LaneOf(int stripe) const { return (home + stripe) % std::max(home_lanes, stripes); }
  // Offset of a stripe's first slice, and the distance from each of its slices to the next.
  uint64_t FirstOffset(int stripe) const { return static_cast<uint64_t>(stripe) * slice_bytes; }
  uint64_t Stride() const { return FirstOffset(stripes); }
};

// The home lane of a pair of ranks on different hosts. The ranks of a host spread over the lanes by
// their LocalIndex, as they are near different NICs; pairs of hosts with few ranks spread over the
// lanes that these leave.
// REQUIRES: ranks of the layout; `host_of`: by rank; home_lanes > 0.
int HomeLane(const Layout& layout, std::span<const HostIndex> host_of, const RankPair& pair,
             int home_lanes);

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_STRIPING_H_
