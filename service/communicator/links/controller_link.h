// Interface between the daemon's communicators and the controller. The agent (service/agent)
// implements it over gRPC; NoController replaces it without a controller; tests provide their own.
//
// The data plane never waits for the controller: a leader that gets no reply in time takes the
// daemon's default strategy.
//
// THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_LINKS_CONTROLLER_LINK_H_
#define MCCS_SERVICE_COMMUNICATOR_LINKS_CONTROLLER_LINK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "proto/call_options.h"
#include "proto/cluster.pb.h"
#include "proto/daemon_state.pb.h"
#include "service/communicator/links/activity_log.h"
#include "service/communicator/strategy/strategy.h"
#include "service/counters.h"
#include "service/pacing/rate_limits.h"
#include "service/tenant_ledger.h"

namespace mccs {

// A communicator as the controller sees it. The leader (the daemon of rank 0) announces it when all
// ranks have joined.
struct CommunicatorInfo {
  CommId id;
  std::string name;  // given by the tenant; may be empty
  std::string tenant;
  std::string cgroup = {};               // of the first process on this host; empty: unknown
  std::vector<cluster::Member> members;  // by rank; without hints
  std::vector<std::string> hosts;        // by HostIndex
  Strategy strategy;                     // current (the default one at announcement)
  cluster::Hints hints;                  // from the tenant
};

// Current state of this daemon's part, reported by every daemon.
struct CommunicatorStats {
  struct Lane {
    ChannelId channel;
    HostIndex from, to;
    std::string local, remote;  // "address:port"
    uint64_t payload_bytes = 0;
    uint64_t reconnects = 0;
    std::string state;      // "up", or why it is stalled
    uint64_t rate_bps = 0;  // its own rate limit; 0: none
    // Time with data to send but blocked: by credit (all receive slots taken), by its gate, or by
    // its connection (full or broken).
    int64_t waited_for_credit_ns = 0;
    int64_t waited_for_rate_ns = 0;
    int64_t waited_for_connection_ns = 0;
    // Recent minimum for a slice with few bytes in flight; 0: unknown.
    int64_t round_trip_ns = 0;
  };
  CommId id;
  Epoch epoch;
  uint64_t operations = 0;   // completed on this host since the start
  uint64_t bytes = 0;        // count × size of type, summed over calls
  WorkByKind work = {};      // the same by kind of call
  MonotonicNs measured = 0;  // time of this measurement
  // When work to other hosts was in flight; the last span is ongoing if `busy`.
  std::vector<BusySpan> busy_spans = {};
  bool busy = false;
  CallsWithOptions with_options;
  uint64_t captured_groups = 0;  // in live CUDA graphs, on the rank with most
  std::vector<Lane> lanes;       // out of this host
  uint64_t sent_bps = 0;         // recent maximum over collective lanes; 0: unknown
  uint64_t memory_bps = 0;       // recent memory bandwidth of the host's passes; 0: unknown
  std::string state;             // "active", "failed: …"
  std::string stalled_on;        // which ranks wait for which; empty: not stalled
  std::string change_error;      // why the last proposal was not applied
  Epoch rejected_epoch{0};       // newest epoch that was rejected
};

// A strategy that the controller proposes for a communicator.
struct Proposal {
  CommId id;
  Strategy strategy;
};

// Rate limits from the controller for this host's part of a communicator.
struct RateUpdate {
  CommId id;
  RateLimits limits;
};

class ControllerLink {
 public:
  virtual ~ControllerLink() = default;
  // False: no controller is connected, so the leader does not wait.
  virtual bool connected() const = 0;
  // The leader announces a communicator. The reply arrives through TakeProposal.
  virtual void Announce(const CommunicatorInfo& info) = 0;
  // The next pending proposal; only the newest per communicator. Cheap if there is none.
  virtual std::optional<Proposal> TakeProposal() = 0;
  // The next pending rate update; only the newest per communicator. Cheap if there is none.
  virtual std::optional<RateUpdate> TakeRateUpdate() = 0;
  // All tenants, if they have changed since the last call. Cheap if not.
  virtual std::optional<std::vector<TenantEntry>> TakeTenants() { return std::nullopt; }
  // Every daemon of the communicator reports periodically and on changes.
  virtual void Report(const CommunicatorStats& stats) = 0;
  // The next pending request of an operator for the daemon's state; reply with SendState. Cheap
  // if there is none.
  virtual std::optional<uint64_t> TakeStateRequest() { return std::nullopt; }
  virtual void SendState(uint64_t /*request_id*/, const state::Daemon& /*state*/) {}
  // Also called for a communicator that was never announced.
  virtual void Ended(CommId id, const std::string& why) = 0;
};

class NoController final : public ControllerLink {
 public:
  bool connected() const override { return false; }
  void Announce(const CommunicatorInfo&) override {}
  std::optional<Proposal> TakeProposal() override { return std::nullopt; }
  std::optional<RateUpdate> TakeRateUpdate() override { return std::nullopt; }
  void Report(const CommunicatorStats&) override {}
  void Ended(CommId, const std::string&) override {}
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_CONTROLLER_LINK_H_
