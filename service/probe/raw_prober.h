// A PathProber that sends by raw sockets, in a thread of its own: the engine never waits for it. It
// needs CAP_NET_RAW, and IPv4. Sockets are there while something is probed, and no longer.
//
// One list of tasks after the other; a second or two for each. A port that a lane or another
// program holds can be probed like any other.
#ifndef MCCS_SERVICE_PROBE_RAW_PROBER_H_
#define MCCS_SERVICE_PROBE_RAW_PROBER_H_

#include <memory>
#include <vector>

#include "service/probe/path_prober.h"

namespace mccs {

class RawProber final : public PathProber {
 public:
  // Lists of tasks that wait; one more is turned away.
  static constexpr size_t kMaxWaiting = 8;

  RawProber();
  // Stops its thread, and waits for it. What it was at is not answered.
  ~RawProber() override;

  void Probe(std::vector<ProbeTask> tasks, Done done) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_RAW_PROBER_H_
