// The controller's client: keeps a stream to mccs-controller open (proto/agent.proto), sends the
// reports of the daemon's communicators, and receives the controller's orders.
//
// The ControllerLink functions, called by the engine, write to a table and return. The agent's own
// threads send the table's changes to the controller. When the stream breaks, they retry without
// limit, register again and resend the state of all living communicators. So no queue grows
// without bound, and only the final numbers of communicators that ended meanwhile are lost.
//
// THREAD: the ControllerLink functions: any; they hold a mutex for the length of a copy, and never
// wait for the network. The rest: the owner.
#ifndef MCCS_SERVICE_AGENT_AGENT_H_
#define MCCS_SERVICE_AGENT_AGENT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wall_clock.h"
#include "service/communicator/links/controller_link.h"
#include "service/probe/path_prober.h"
#include "topology/host_discovery.h"
#include "topology/position.h"

namespace mccs {

struct AgentOptions {
  std::string controller;  // "host:port"
  std::string version;     // of this daemon
  // Wakes the engine. The agent's threads call it when an order has arrived or `connected` has
  // changed; the caller's thread, when its report makes an early order available. Must not block
  // (an eventfd).
  std::function<void()> wake;
  // Delay between attempts to reach the controller: doubles from the first to the last value.
  int64_t first_retry_ns = 100 * kNsPerMs;
  int64_t last_retry_ns = 5 * kNsPerSec;
  // Probes the paths of flows for the controller. Null: probing is not supported.
  std::unique_ptr<PathProber> prober = nullptr;
  // The controller compares it with its own; null: not sent. LIFETIME: outlives the agent.
  const WallClock* wall_clock = nullptr;
};

// The host as the daemon registers it.
struct AgentHost {
  HostInventory inventory;
  Position position;          // position.host is its name
  std::string peer_endpoint;  // "address:port" where other daemons reach this one
  std::string topology = {};  // name of the Topology that contains it; empty: not configured
};

class Agent final : public ControllerLink {
 public:
  // Does not connect: connected() is false, reports are stored. LIFETIME: `log` outlives it.
  Agent(AgentOptions options, Log* log);
  // Stops and joins its threads; does not wait for the controller.
  ~Agent() override;

  // Starts to connect and returns. An unreachable controller is not an error.
  // REQUIRES: called once. kInvalidArgument: no controller or no host name.
  absl::Status Start(const AgentHost& host);

  bool connected() const override;
  void Announce(const CommunicatorInfo& info) override;
  std::optional<Proposal> TakeProposal() override;
  std::optional<RateUpdate> TakeRateUpdate() override;
  std::optional<std::vector<TenantEntry>> TakeTenants() override;
  void Report(const CommunicatorStats& stats) override;
  std::optional<uint64_t> TakeStateRequest() override;
  void SendState(uint64_t request_id, const state::Daemon& state) override;
  void Ended(CommId id, const std::string& why) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_AGENT_H_
