// Faults of resources, clocks and the network in the random world: when they begin and end, and
// which errors of jobs they explain.
//
// - A host has no descriptors or no memory left for a while.
// - The disk of the controller's store is full or fails to sync for a while, or the controller dies
//   in a commit, also in the middle of a write.
// - The same for the disk of a host with its daemon's table of Tenants, and the daemon.
// - The monotonic clock of a host jumps forward, and the time of day in both directions.
// - What one host sends to another is delayed: for a shorter time than lanes tolerate, or for a
//   longer one while their lanes break. Or two hosts do not reach each other, and all others reach
//   both.
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_RANDOM_FAULTS_H_
#define MCCS_TESTS_SIM_RANDOM_FAULTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "service/communicator/lanes/peer_lane.h"
#include "service/communicator/links/host_reachability.h"
#include "tests/sim/random_counts.h"
#include "tests/sim/sim_control.h"
#include "tests/sim/sim_world.h"

namespace mccs {

class RandomFaults final : public SimParticipant {
 public:
  // Lanes that cannot reconnect fail this late after a fault, and all hosts know it.
  static constexpr int64_t kGraceNs = kLaneReconnectTimeoutNs + 300 * kNsPerMs;
  // How long daemons may reject connections between two hosts after their network is repaired: the
  // end of a check that began before, the time to the next one, and the reports of both.
  static constexpr int64_t kQuarantineNs =
      HostReachability::kCheckTimeoutNs + HostReachability::kCheckEveryNs + kNsPerSec;

  // `verbs`: lanes use RDMA; they may reconnect while they are set up, also without a fault.
  // LIFETIME: `world`, `control` and `counts` outlive it. REQUIRES: `control` has disks.
  RandomFaults(SimWorld& world, SimControl& control, bool verbs, uint64_t seed,
               RandomCounts& counts);

  // May begin a fault on some of these hosts.
  void Act(const std::vector<int>& living);
  // Runs the world for `ns`, or until daemons die in a write, which happens only here. Returns
  // their hosts, for the caller to kill them.
  std::vector<int> RunFor(int64_t ns);
  // Ends those that are over, and calls `watch`, at every event of the world.
  bool Poll() override;
  MonotonicNs NextEvent() const override;
  void Watch(std::function<void()> watch) { watch_ = std::move(watch); }
  // Ends all faults. Returns the time from which no job may fail any more.
  MonotonicNs EndAll();
  // A lane broke, or hosts were partitioned, by another event of the world.
  void NoteDisturbance() { disturbed_at_ = world_.clock().Now(); }

  // Whether a job with ranks on these hosts may fail with this error now: it met a fault, and the
  // error names the resource.
  bool Explains(const std::vector<int>& hosts, const std::string& error, bool forming) const;
  // Until when a partition between these hosts delays what their daemons send to each other.
  MonotonicNs DelayedUntil(const std::vector<int>& hosts) const;
  // A file of a controller or a daemon with other content than it must have; empty: none.
  std::string FindViolation() const;
  // Adds events of the files to the counts. Call once, at the end.
  void CountFiles();
  // Whether one of these hosts had a fault that is over.
  bool HadFault(const std::vector<int>& hosts) const;

 private:
  enum class Kind : uint8_t {
    kDescriptors,
    kMemory,
    kStoreDisk,
    kHostDisk,
    kClock,        // at one moment
    kBriefOneWay,  // shorter than lanes tolerate
    kOneWay,       // longer, and the lanes are cut
    kCut,          // the same in both directions, long enough that the pair of hosts is found
  };
  struct Fault {
    Kind kind = Kind::kDescriptors;
    int host = -1;  // kStoreDisk: -1
    int to = -1;    // of partitions
    MonotonicNs begin = 0;
    MonotonicNs end = 0;
    bool over = false;
    bool disturbed = false;  // kClock: a lane was about to reconnect
  };

  uint64_t Below(uint64_t limit) { return random_() % limit; }
  int64_t Between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(Below(static_cast<uint64_t>(most - least)));
  }
  bool IsOn(Kind kind, int host) const;
  // A daemon that dies when it next keeps its table.
  struct DeathInWrite {
    FailingDisk::Death at = FailingDisk::Death::kInWrite;
    size_t left = 0;
  };
  void Begin(Kind kind, int host, int64_t ns, int to = -1);
  void FailStoreDisk(FailingFiles::Fault fault);
  void FailHostDisk(int host);
  void PlanDeathInWrite(int host);
  std::vector<int> DeadInWrite() const;
  void End(Fault& fault);
  void BeginPartition(const std::vector<int>& living);
  void CutLanes(int from, int to);
  void JumpClock(int host);
  void JumpWallClock();
  bool Explains(const Fault& fault, const std::vector<int>& hosts, const std::string& error,
                bool forming) const;

  SimWorld& world_;
  SimControl& control_;
  RandomCounts& counts_;
  std::mt19937_64 random_;
  const bool verbs_;
  const bool enabled_;
  std::vector<Fault> faults_;
  std::map<int, DeathInWrite> deaths_;  // by host
  MonotonicNs disturbed_at_ = 0;
  std::function<void()> watch_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_RANDOM_FAULTS_H_
