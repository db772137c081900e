// Finds out which switches flows of this host pass. The daemon's real one is
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
  std::vector<uint32_t> hops;  // by switch, the address that answered; 0: none did
  std::string why_not;         // why there are no hops
};

// A way that has more is none.
inline constexpr int kMaxSwitches = 16;
inline constexpr size_t kMaxProbeTasks = 64;

class PathProber {
 public:
  using Done = std::function<void(std::vector<ProbeOutcome>)>;

  virtual ~PathProber() = default;
  // `done` is called once, with an outcome for each task, by any thread and perhaps before this
  // returns; not at all if the prober ends first. REQUIRES: at most kMaxProbeTasks tasks, of 1 to
  // kMaxSwitches switches each. THREAD: any. Does not wait.
  virtual void Probe(std::vector<ProbeTask> tasks, Done done) = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_PATH_PROBER_H_
