// What the daemon's communicators say to the controller and hear from it. The agent (service/agent)
// implements it over gRPC; without a controller NoController stands in; tests hand in their own.
//
// The data plane never waits for it: a leader that hears nothing within its patience takes the
// daemon's default strategy.
//
// THREAD: the owning engine only. Nothing blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_CONTROLLER_LINK_H_
#define MCCS_SERVICE_COMMUNICATOR_CONTROLLER_LINK_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "proto/call_options.h"
#include "proto/cluster.pb.h"
#include "proto/daemon_state.pb.h"
#include "service/communicator/activity_log.h"
#include "service/communicator/strategy.h"
#include "service/pacing/pace.h"
#include "service/tenant_ledger.h"
#include "service/work_tally.h"

namespace mccs {

// A communicator as the controller sees it: announced by the leader (the daemon of rank 0) when all
// ranks have joined.
struct CommunicatorInfo {
  struct Member {
    Rank rank;
    std::string host;     // name of the daemon's host
    std::string gpu;      // PCI bus id
    int32_t process = 0;  // pid on its host
  };
  CommId id;
  std::string name;  // as the tenant named it; may be empty
  std::string tenant;
  std::string cgroup = {};         // of the process that came first on this host; empty: not known
  std::vector<Member> members;     // by rank
  std::vector<std::string> hosts;  // by HostIndex
  Strategy strategy;               // in force (the default one when just announced)
  cluster::Hints hints;            // what the tenant would like
};

// What runs now, reported by every daemon about its own part.
struct CommunicatorStats {
  struct Lane {
    ChannelId channel;
    HostIndex from, to;
    std::string local, remote;  // "address:port"
    uint64_t payload_bytes = 0;
    uint64_t reconnects = 0;
    std::string state;      // "up", or why it is stalled
    uint64_t rate_bps = 0;  // its own; 0: none
    // How long it had something to send and could not: all slots at the receiver taken, held back
    // by its gate, the connection full or away.
    int64_t waited_for_credit_ns = 0;
    int64_t waited_for_gate_ns = 0;
    int64_t waited_for_connection_ns = 0;
    // The smallest of late, of a slice with few bytes under way; 0: not known.
    int64_t round_trip_ns = 0;
  };
  CommId id;
  Epoch epoch;
  uint64_t operations = 0;   // done on this host since the start
  uint64_t bytes = 0;        // the calls' own bytes (count × size of type), summed over operations
  WorkByKind work = {};      // the same by kind of call
  MonotonicNs measured = 0;  // when this was so
  // When it had something under way to other hosts; the last one goes on, if `busy`.
  std::vector<BusySpan> busy_spans = {};
  bool busy = false;
  CallsWithOptions with_options;
  uint64_t captured_groups = 0;  // of CUDA graphs that live, on the rank that has most
  std::vector<Lane> lanes;       // out of this host
  uint64_t sent_bps = 0;         // the highest of late, over those for collectives; 0: not known
  uint64_t pass_bps = 0;         // of the host's passes over its memory, of late; 0: not known
  std::string state;             // "active", "failed: …"
  std::string held_up;           // who waits for whom; empty: operations get on
  std::string change_trouble;    // why the last proposal did not come into force
  Epoch refused_epoch{0};        // the newest one that was given up
};

// What the controller would like a communicator to do.
struct Proposal {
  CommId id;
  Strategy strategy;
};

// How fast the controller would like this host's part of a communicator to send.
struct PaceOrder {
  CommId id;
  Pace pace;
};

class ControllerLink {
 public:
  virtual ~ControllerLink() = default;
  // False: nobody to ask; the leader need not wait.
  virtual bool connected() const = 0;
  // The leader tells of a communicator. The answer comes through TakeProposal.
  virtual void Announce(const CommunicatorInfo& info) = 0;
  // The next proposal that was not taken yet; of one communicator only the newest. Cheap where
  // there is none.
  virtual std::optional<Proposal> TakeProposal() = 0;
  // The next order that was not taken yet; of one communicator only the newest. As cheap.
  virtual std::optional<PaceOrder> TakePace() = 0;
  // All Tenants, if they have changed since. As cheap.
  virtual std::optional<std::vector<TenantEntry>> TakeTenants() { return std::nullopt; }
  // Every daemon of the communicator, now and then and when it changes.
  virtual void Report(const CommunicatorStats& stats) = 0;
  // An operator asks for the daemon's state: a question that was not taken yet, to be answered with
  // AnswerState. Cheap where there is none.
  virtual std::optional<uint64_t> TakeQuestion() { return std::nullopt; }
  virtual void AnswerState(uint64_t /*question*/, const state::Daemon& /*state*/) {}
  // Of one that nobody heard of, too.
  virtual void Ended(CommId id, const std::string& why) = 0;
};

class NoController final : public ControllerLink {
 public:
  bool connected() const override { return false; }
  void Announce(const CommunicatorInfo&) override {}
  std::optional<Proposal> TakeProposal() override { return std::nullopt; }
  std::optional<PaceOrder> TakePace() override { return std::nullopt; }
  void Report(const CommunicatorStats&) override {}
  void Ended(CommId, const std::string&) override {}
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_CONTROLLER_LINK_H_
