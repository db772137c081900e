// The runs that use one direction of a lane, in the order of their operations. A lane carries all
// slices of one operation before those of the next one, on both of its ends. So the numbers of an
// operation's slices are known when it starts, also while earlier operations still use the lane.
//
// OWNER: ChannelLanes. THREAD: the owning engine. Never blocks; allocates only while more
// operations overlap than ever before.
#ifndef MCCS_SERVICE_EXECUTOR_LANE_TURNS_H_
#define MCCS_SERVICE_EXECUTOR_LANE_TURNS_H_

#include <cstdint>
#include <vector>

#include "base/check.h"
#include "service/transport/lane.h"

namespace mccs {

class LaneTurns {
 public:
  // Adds a run behind all others, and returns the number of its first slice. `run` identifies it;
  // a run without slices gets no turn.
  SliceNumber Enter(const void* run, uint64_t slices) {
    const SliceNumber first = end_;
    end_ += slices;
    if (slices > 0) runs_.push_back(run);
    return first;
  }
  bool IsFirst(const void* run) const { return !runs_.empty() && runs_.front() == run; }
  // The run has no more slices for the lane. REQUIRES: IsFirst(run).
  void Leave(const void* run) {
    MCCS_CHECK(IsFirst(run));
    runs_.erase(runs_.begin());  // a few pointers
  }

 private:
  SliceNumber end_ = 0;  // all smaller numbers belong to runs
  std::vector<const void*> runs_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_EXECUTOR_LANE_TURNS_H_
