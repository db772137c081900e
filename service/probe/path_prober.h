// Finds the switches on the paths of this host's flows. The implementation for the daemon is
// service/probe/raw_prober.h.
#ifndef MCCS_SERVICE_PROBE_PATH_PROBER_H_
#define MCCS_SERVICE_PROBE_PATH_PROBER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "topology/five_tuple.h"

namespace mccs {

struct ProbeTask {
  FiveTuple flow;  // TCP or UDP, from an address of this host
  int switches = 0;
};

struct ProbeOutcome {
  std::vector<uint32_t> hops;  // by switch, the answering address; 0: no answer
  std::string why_not;         // the error, if there are no hops
};

// Longer paths are not supported.
inline constexpr int kMaxSwitches = 16;
inline constexpr size_t kMaxProbeTasks = 64;

class PathProber {
 public:
  using Done = std::function<void(std::vector<ProbeOutcome>)>;

  virtual ~PathProber() = default;
  // Calls `done` once, with an outcome for each task, from any thread and perhaps before this
  // returns; never after the destruction of the prober. REQUIRES: at most kMaxProbeTasks tasks, of
  // 1 to kMaxSwitches switches each. THREAD: any. Does not wait.
  virtual void Probe(std::vector<ProbeTask> tasks, Done done) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_PATH_PROBER_H_
