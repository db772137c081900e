// A PathProber that sends by raw sockets, in a thread of its own, so that the engine never waits
// for it. It needs CAP_NET_RAW, and IPv4. The sockets are open only while it probes.
//
// It runs one list of tasks after the other, each for a second or two. A port in use by a lane or
// another program can be probed like any other.
#ifndef MCCS_SERVICE_PROBE_RAW_PROBER_H_
#define MCCS_SERVICE_PROBE_RAW_PROBER_H_

#include <memory>
#include <vector>

#include "service/probe/path_prober.h"

namespace mccs {

class RawProber final : public PathProber {
 public:
  // Maximum number of waiting lists; more are rejected.
  static constexpr size_t kMaxWaiting = 8;

  RawProber();
  // Stops and joins its thread. Unfinished lists are not answered.
  ~RawProber() override;

  void Probe(std::vector<ProbeTask> tasks, Done done) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_RAW_PROBER_H_
