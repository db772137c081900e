// Pairs of connected hosts of which one cannot open connections to the other. Their daemons report
// them (agent.v1.UnreachableHosts), each only for pairs that it is in. A pair lasts while a report
// has it and both hosts are connected.
//
//   UnreachableHosts ──Set──► reports ──Update, at each tick──► pairs, and PeerHosts for the
//   daemons
//
// A daemon that reports again and again causes no more work and messages than the ticks.
//
// An endpoint is what a daemon has registered, without proof. If another host has registered the
// same address and port, neither endpoint is sent: with it, one daemon could cut off the other's
// host.
//
// OWNER: Coordinator. THREAD: its owner only.
#ifndef MCCS_CONTROLLER_STATE_UNREACHABLE_PAIRS_H_
#define MCCS_CONTROLLER_STATE_UNREACHABLE_PAIRS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/view/cluster_view.h"
#include "proto/agent.pb.h"

namespace mccs {

struct UnreachablePair {
  // A report of one of the two hosts about the other.
  struct Evidence {
    std::string cause;
    MonotonicNs at = 0;  // of its last report
  };
  MonotonicNs since = 0;
  std::map<std::string, Evidence> seen_by;  // by the host that reports it; one or both
};

class UnreachablePairs {
 public:
  // Of one host's report; others are ignored.
  static constexpr size_t kMaxPerHost = 64;
  static constexpr size_t kMaxCauseBytes = 256;
  static constexpr size_t kMaxNameBytes = 256;

  // Two names, the lower one first.
  static HostPair PairOf(const std::string& a, const std::string& b) {
    return a < b ? HostPair(a, b) : HostPair(b, a);
  }

  // The host is connected, and has reported nothing yet.
  void AddHost(const agent::v1::Host& host);
  // The host is lost: it is in no pair.
  void RemoveHost(const std::string& host);
  // The host's newest report. It counts for the hosts that are connected. REQUIRES: AddHost.
  void Set(const std::string& host, const agent::v1::UnreachableHosts& report, MonotonicNs now);

  struct Changes {
    std::vector<HostPair> appeared, cleared;
    // Endpoints that are not sent from now on, with the hosts that claim them.
    std::map<std::string, std::set<std::string>> contested;
    std::set<std::string> outdated;  // hosts whose PeerHosts have changed
  };
  // Computes the pairs from the reports.
  Changes Update(MonotonicNs now);
  // For the daemon of `host`, as of the last Update. REQUIRES: AddHost.
  agent::v1::PeerHosts PeersOf(const std::string& host, MonotonicNs now) const;

  const std::map<HostPair, UnreachablePair>& pairs() const { return pairs_; }
  std::set<HostPair> names() const;
  // Changes whenever the pairs as such change.
  uint64_t revision() const { return revision_; }

 private:
  struct Host {
    std::string endpoint;
    std::vector<std::string> places;  // "address:port", keys in hosts_at_
    uint64_t report = 0;              // revision of its last report
    std::set<std::string> suspected;
    std::map<std::string, UnreachablePair::Evidence> unreachable;
  };

  // The hosts that claim this "address:port", as their endpoint or by an address of a NIC.
  const std::set<std::string>& ClaimantsOf(const std::string& place) const;
  void UpdateContested(Changes* changes);

  std::map<std::string, Host> hosts_;
  std::map<std::string, std::set<std::string>> hosts_at_;
  std::set<std::string> contested_;  // hosts whose endpoint another host claims too
  std::map<HostPair, UnreachablePair> pairs_;
  std::set<std::string> outdated_;
  uint64_t revision_ = 0;
  bool stale_ = false;
};

// "hosts h0 and h2: h0 cannot connect to h2: connect timed out".
std::string Describe(const HostPair& pair, const UnreachablePair& state);

}  // namespace mccs

#endif  // MCCS_CONTROLLER_STATE_UNREACHABLE_PAIRS_H_
