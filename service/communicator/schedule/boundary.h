// The agreement of all hosts on a boundary: the last operation before a change of strategy, or
// before the leader decides the order of operations.
//
//   leader             every host, the leader included
//   hold   ─────────►  starts nothing more
//          ◄─────────  the last operation that it has started
//   after  ─────────►  the highest answer: runs up to it, also if it is behind
//
// A host whose ranks have all left need not answer: its departure carries its last operation.
//
// THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_BOUNDARY_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_BOUNDARY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"

namespace mccs {

// If all ranks of the host have left, their last operation.
using LeftAfter = std::function<std::optional<uint64_t>(HostIndex)>;

// The leader's part.
class BoundaryVote {
 public:
  BoundaryVote(int hosts, LeftAfter left_after)
      : hosts_(hosts), left_after_(std::move(left_after)) {}

  // All ranks of the host have left.
  bool HasLeft(HostIndex host) const { return left_after_(host).has_value(); }
  // Starts a vote: no host has answered.
  void Begin();
  // Takes a host's answer; ignores that of a departed host, which may have sent it before.
  // `here`: the last operation that this host has started. kDataLoss: a second answer, or an
  // implausible one. REQUIRES: Begin.
  absl::Status OnStarted(HostIndex from, uint64_t started, uint64_t here);
  // The boundary; nothing while answers are missing. REQUIRES: Begin.
  std::optional<uint64_t> Agreed() const;

 private:
  const int hosts_;
  const LeftAfter left_after_;
  std::vector<std::optional<uint64_t>> started_;  // by HostIndex
};

// The other hosts' part: kDataLoss if the boundary is impossible for this host, which has answered
// `started`.
absl::Status CheckBoundary(uint64_t after, uint64_t started);

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_BOUNDARY_H_
