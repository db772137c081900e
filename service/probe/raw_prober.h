// A PathProber that sends by raw sockets, in a thread of its own, so that the engine never waits
// for it. It needs CAP_NET_RAW, and IPv4. The sockets are open only while it probes.
//
// It runs one list of tasks after the other, each for a second or two. A port in use by a lane or
// another program can be probed like any other.
#ifndef MCCS_SERVICE_PROBE_RAW_PROBER_H_
#define MCCS_SERVICE_PROBE_RAW_PROBER_H_

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/random.h"
#include "base/unique_fd.h"
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
  struct Work {
    std::vector<ProbeTask> tasks;
    Done done;
  };

  void RunLoop();
  std::vector<ProbeOutcome> Run(const std::vector<ProbeTask>& tasks);
  // Waits for an answer, the time, or the stop.
  void Wait(int fd, MonotonicNs until) const;

  const UniqueFd wake_;  // readable after the stop
  SystemClock clock_;
  SystemRandom random_;  // for the thread

  std::mutex mutex_;  // protects the following members
  std::condition_variable changed_;
  std::deque<Work> waiting_;
  std::thread thread_;                  // started with the first list
  std::atomic<bool> stopping_ = false;  // written under mutex_; also read between two packets
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PROBE_RAW_PROBER_H_
