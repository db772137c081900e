// Hash of a lane, equal in every build; the search for its source port starts there.
#ifndef MCCS_CONTROLLER_VIEW_LANE_HASH_H_
#define MCCS_CONTROLLER_VIEW_LANE_HASH_H_

#include <cstdint>

#include "base/ids.h"

namespace mccs {

// Finalizer of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): spreads neighbouring inputs over all
// bits. Not std::hash, which may differ between builds.
constexpr uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Of the lane that starts at index `place` of the channel's ring.
constexpr uint64_t LaneHash(CommId id, int channel, int place) {
  return Mix(Mix(Mix(id.value()) + static_cast<uint64_t>(channel) + 1) +
             static_cast<uint64_t>(place) + 1);
}

}  // namespace mccs

#endif  // MCCS_CONTROLLER_VIEW_LANE_HASH_H_
