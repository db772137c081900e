// The controller's client: keeps a stream to mccs-controller open (proto/agent.proto), says there
// what the daemon's communicators say, and brings back what it proposes.
//
// The engine calls the ControllerLink functions; they note what is wanted in a table and return.
// Threads of the agent's own bring the table to the controller, for ever: when the stream breaks
// they open another, register again and tell all that lives. So nothing is queued without a bound,
// and nothing is lost but the numbers of what ended meanwhile.
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
#include "service/communicator/controller_link.h"
#include "service/probe/path_prober.h"
#include "topology/host_discovery.h"
#include "topology/position.h"

namespace mccs {

struct AgentOptions {
  std::string controller;  // "host:port"
  std::string version;     // of this daemon, for people
  // Called from the agent's threads when an order has come or `connected` has changed, and from the
  // caller's when an order waited for what was said: wakes the engine. Must not block (an eventfd).
  std::function<void()> wake;
  // Pauses between attempts to reach the controller: doubled from the first to the last.
  int64_t first_retry_ns = 100 * kNsPerMs;
  int64_t last_retry_ns = 5 * kNsPerSec;
  // Finds out which ways flows take, when the controller asks. Null: nobody can.
  std::unique_ptr<PathProber> prober = nullptr;
  // The controller compares it with its own; null: it is not told. LIFETIME: outlives the agent.
  const WallClock* wall_clock = nullptr;
};

// As what a daemon registers.
struct AgentHost {
  HostInventory inventory;
  Position position;          // position.host is its name
  std::string peer_endpoint;  // "address:port" where other daemons reach this one
  std::string topology = {};  // name of the Topology that it stands in; empty: it does not say
};

class Agent final : public ControllerLink {
 public:
  // Does nothing yet: connected() is false, what is said is kept. LIFETIME: `log` outlives it.
  Agent(AgentOptions options, Log* log);
  // Stops its threads; waits for them, not for the controller.
  ~Agent() override;

  // Begins to connect, and returns. A controller that is not there yet is no error.
  // REQUIRES: called once. kInvalidArgument: no controller or no host name.
  absl::Status Start(const AgentHost& host);

  bool connected() const override;
  void Announce(const CommunicatorInfo& info) override;
  std::optional<Proposal> TakeProposal() override;
  std::optional<PaceOrder> TakePace() override;
  std::optional<std::vector<TenantEntry>> TakeTenants() override;
  void Report(const CommunicatorStats& stats) override;
  std::optional<uint64_t> TakeQuestion() override;
  void AnswerState(uint64_t question, const state::Daemon& state) override;
  void Ended(CommId id, const std::string& why) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_AGENT_H_
