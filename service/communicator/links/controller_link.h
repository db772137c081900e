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

#include "base/endpoint.h"
#include "base/ids.h"
#include "proto/agent.pb.h"
#include "proto/daemon_state.pb.h"
#include "proto/operation_trace.pb.h"
#include "proto/report_interval.h"
#include "service/communicator/strategy/strategy.h"
#include "service/pacing/rate_limits.h"
#include "service/tenant_ledger.h"

namespace mccs {

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

// An operator's request to trace the next operations of a communicator, or to end that trace.
struct TraceOrder {
  uint64_t request_id = 0;
  CommId id;
  uint32_t operations = 0;  // as requested, not validated
  bool stop = false;
};

// The answer to a rendezvous that this host seeks (named_rendezvous.h).
struct FoundRendezvous {
  CommId id;
  std::string host;
  Endpoint at;  // of its daemon
};

// A host that this daemon should check, or that has no connection with this one
// (agent.v1.PeerHost).
struct PeerHost {
  std::string host;
  Endpoint at;  // of its daemon
  bool check = false;
  std::string unreachable;
  int64_t unreachable_for_ns = 0;
};
struct PeerHosts {
  uint64_t revision = 0;
  std::vector<PeerHost> hosts;
};

class ControllerLink {
 public:
  virtual ~ControllerLink() = default;
  // False: no controller is connected, so the leader does not wait.
  virtual bool connected() const = 0;
  // The leader (the daemon of rank 0) announces a communicator when all ranks have joined. The
  // reply arrives through TakeProposal.
  virtual void Announce(const agent::v1::Announce& announce) = 0;
  // The next pending proposal; only the newest per communicator. Cheap if there is none.
  virtual std::optional<Proposal> TakeProposal() = 0;
  // The next pending rate update; only the newest per communicator. Cheap if there is none.
  virtual std::optional<RateUpdate> TakeRateUpdate() = 0;
  // All tenants, if they have changed since the last call. Cheap if not.
  virtual std::optional<std::vector<TenantEntry>> TakeTenants() { return std::nullopt; }
  // The key for unique ids (id_keys.h), if the controller has sent one since the last call.
  virtual std::optional<std::string> TakeIdKey() { return std::nullopt; }
  // Replaces the rendezvous that this host has open, and those that it seeks.
  virtual void SetNamedRendezvous(const agent::v1::NamedRendezvous& /*all*/) {}
  // The next answer. Cheap if there is none.
  virtual std::optional<FoundRendezvous> TakeFoundRendezvous() { return std::nullopt; }
  // Replaces what this host reports of hosts that it cannot reach.
  virtual void SetUnreachableHosts(const agent::v1::UnreachableHosts& /*all*/) {}
  // The newest list, if it has changed since the last call. Cheap if not.
  virtual std::optional<PeerHosts> TakePeerHosts() { return std::nullopt; }
  // Every daemon of the communicator reports its part on changes, and while it works every
  // report_every_ns().
  virtual void Report(const agent::v1::Report& report) = 0;
  virtual int64_t report_every_ns() const { return kDefaultReportIntervalNs; }
  // The next pending request of an operator for the daemon's state; reply with SendState. Cheap
  // if there is none.
  virtual std::optional<uint64_t> TakeStateRequest() { return std::nullopt; }
  virtual void SendState(uint64_t /*request_id*/, const state::Daemon& /*state*/) {}
  // The next pending request for a trace; reply with SendTrace, once. Cheap if there is none.
  virtual std::optional<TraceOrder> TakeTraceOrder() { return std::nullopt; }
  virtual void SendTrace(uint64_t /*request_id*/, const trace::Host& /*trace*/) {}
  // Also called for a communicator that was never announced.
  virtual void Ended(CommId id, const std::string& why) = 0;
};

class NoController final : public ControllerLink {
 public:
  bool connected() const override { return false; }
  void Announce(const agent::v1::Announce&) override {}
  std::optional<Proposal> TakeProposal() override { return std::nullopt; }
  std::optional<RateUpdate> TakeRateUpdate() override { return std::nullopt; }
  void Report(const agent::v1::Report&) override {}
  void Ended(CommId, const std::string&) override {}
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_LINKS_CONTROLLER_LINK_H_
