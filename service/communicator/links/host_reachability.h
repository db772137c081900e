// The hosts to which this daemon cannot connect, and those that cannot connect to it, so that
// connections between them fail at once instead of after a timeout.
//
//   Suspect ──► controller names the host ──► check: connect to its daemon ──fails──► unreachable,
//   reported to the controller, checked again every kCheckEveryNs ──connected──► forgotten
//
// A suspicion alone has no effect: a tenant may cause one. Only endpoints that the controller has
// sent are checked. The controller shows each pair to both of its hosts.
//
// OWNER: the Daemon. THREAD: the engine only. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_HOST_REACHABILITY_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_HOST_REACHABILITY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/endpoint.h"
#include "base/log.h"
#include "service/communicator/links/controller_link.h"
#include "service/transport/network.h"

namespace mccs {

class HostReachability {
 public:
  // The kernel sends the first packet of a connection again after 1 s.
  static constexpr int64_t kCheckTimeoutNs = 3 * kNsPerSec;
  static constexpr int64_t kCheckEveryNs = 5 * kNsPerSec;
  // How often a standing report is repeated, as evidence.
  static constexpr int64_t kReportEveryNs = 30 * kNsPerSec;
  static constexpr int64_t kMinReportIntervalNs = 200 * kNsPerMs;
  // A host that has not been connected to the controller for this time is not checked any more.
  static constexpr int64_t kForgetAfterNs = 600 * kNsPerSec;
  static constexpr size_t kMaxSuspected = 64;
  static constexpr size_t kMaxHosts = 64;  // that are checked
  static constexpr size_t kMaxChecksAtOnce = 8;

  struct Means {
    Network* network = nullptr;
    const Clock* clock = nullptr;
    Log* log = nullptr;
    ControllerLink* controller = nullptr;
    uint8_t dscp = 0;  // of checks
  };
  // LIFETIME: what `means` points to outlives it.
  explicit HostReachability(const Means& means) : means_(means) {}

  // No connection to `at` could be opened, or one was lost. No effect without a controller.
  void Suspect(const Endpoint& at);
  // kDeadlineExceeded: the host whose daemon listens at `at` and this host do not reach each other;
  // names both, with cause, duration and remedy. `wanted`: the host whose daemon it is;
  // empty: not known.
  // Another host may claim the same endpoint.
  absl::Status Check(const Endpoint& at, const std::string& wanted = "") const;
  // Check may fail for some endpoint.
  bool any() const { return !hosts_.empty(); }

  // Takes the controller's lists, makes checks, and reports. Returns true if anything moved.
  bool Poll();
  // The next time at which Poll has work even if nothing arrives.
  MonotonicNs NextDeadline() const;

 private:
  struct Host {
    Endpoint at;
    bool checked = false;  // this daemon suspects or reports it
    std::string failure;   // of the last check; empty: none has failed
    MonotonicNs failing_since = 0;
    MonotonicNs check_at = 0;           // the next check
    std::unique_ptr<Connection> check;  // in progress
    MonotonicNs check_deadline = 0;
    MonotonicNs unlisted_since = 0;  // not connected to the controller; 0: it is
    std::string listed;              // the controller's description of the pair; empty: none
    MonotonicNs listed_since = 0;
  };

  void TakeList(const PeerHosts& list);
  // Returns true if the check has ended.
  bool PollCheck(const std::string& name, Host& host);
  void OnCheckFailed(const std::string& name, Host& host, const std::string& why);
  void Report();
  MonotonicNs NextReport() const;

  const Means means_;
  std::set<std::string> suspected_;  // "address:port"
  std::map<std::string, Host> hosts_;
  size_t checks_ = 0;      // in progress
  uint64_t revision_ = 0;  // of the last report
  MonotonicNs reported_at_ = 0;
  bool changed_ = false;  // since the last report
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_HOST_REACHABILITY_H_
