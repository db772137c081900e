// The controller of a simulated world, and the hosts' agents: production Coordinator, AgentTable
// and store, with streams in memory between them instead of gRPC.
//
//   daemon ── ControllerLink ──► SimAgent (AgentTable) ◄── messages with delays ──► Coordinator
//                                                                          │
//                                                       StrategyKeeper ──► MemoryStore, which
//                                                       outlives it
//
// An agent keeps its stream as service/agent/agent.cc does: registers, sends heartbeats, gives a
// silent controller up, and tries again for ever.
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_SIM_CONTROL_H_
#define MCCS_TESTS_SIM_SIM_CONTROL_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controller/shared_coordinator.h"
#include "controller/store/memory_store.h"
#include "controller/strategy_keeper.h"
#include "service/agent/agent_table.h"
#include "service/agent/clock_echo.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_world.h"

namespace mccs {

// Messages of one direction of a stream, in order.
template <typename Message>
class SimWire {
 public:
  void Send(Message message, MonotonicNs arrives) {
    if (!waiting_.empty()) arrives = std::max(arrives, waiting_.back().first);
    waiting_.emplace_back(arrives, std::move(message));
  }
  std::optional<Message> Take(MonotonicNs now) {
    if (waiting_.empty() || waiting_.front().first > now) return std::nullopt;
    Message message = std::move(waiting_.front().second);
    waiting_.pop_front();
    return message;
  }
  MonotonicNs NextArrival() const {
    return waiting_.empty() ? std::numeric_limits<MonotonicNs>::max() : waiting_.front().first;
  }
  void Clear() { waiting_.clear(); }

 private:
  std::deque<std::pair<MonotonicNs, Message>> waiting_;
};

// A daemon's end.
class SimAgent final : public ControllerLink {
 public:
  SimAgent(agent::Host host, const Clock& clock) : host_(std::move(host)), clock_(clock) {}

  bool connected() const override { return connected_; }
  void Announce(const CommunicatorInfo& info) override { table_.Announce(info); }
  std::optional<Proposal> TakeProposal() override { return table_.TakeProposal(); }
  std::optional<PaceOrder> TakePace() override { return table_.TakePace(); }
  std::optional<std::vector<TenantEntry>> TakeTenants() override { return table_.TakeTenants(); }
  void Report(const CommunicatorStats& stats) override;
  void Ended(CommId id, const std::string& why) override;

  // What each communicator reported last.
  const std::map<CommId, CommunicatorStats>& reports() const { return reports_; }

 private:
  friend class SimControl;

  const agent::Host host_;
  const Clock& clock_;  // the host's
  AgentTable table_;
  std::map<CommId, CommunicatorStats> reports_;

  // The stream; 0: there is none.
  AgentKey stream_{0};
  bool alive_ = true;
  bool connected_ = false;  // the controller has accepted us
  ClockEcho echo_;
  SimWire<agent::FromAgent> up_;
  SimWire<agent::ToAgent> down_;
  MonotonicNs try_at_ = 0;
  MonotonicNs heard_ = 0;
  MonotonicNs beat_at_ = 0;
  int64_t beat_every_ns_ = 0;
  int64_t timeout_ns_ = 0;
  int beats_ = 0;
};

class SimControl final : public SimControllerSide {
 public:
  // LIFETIME: `clock` outlives it; it outlives the daemons whose links it gave out.
  SimControl(SimClock& clock, uint64_t seed);

  ControllerLink& AddHost(int host, const Position& position, const std::string& endpoint,
                          const Clock& clock) override;
  void KillHost(int host) override;
  bool Poll() override;
  MonotonicNs NextEvent() const override;

  const SimAgent& agent(int host) const { return *agents_[static_cast<size_t>(host)]; }

  // What operators want, now and after each restart.
  void SetObjects(std::shared_ptr<const ObjectSet> objects);
  const ObjectSet& objects() const { return *objects_; }
  // The controller's process ends, as by SIGKILL; and another one begins with its store.
  void Kill();
  void Restart();
  bool alive() const { return coordinator_ != nullptr; }
  // A host's stream breaks; what was on its way is lost.
  void CutStream(int host);

  // REQUIRES: alive.
  template <typename Work>
  auto With(Work work) {
    return coordinator_->With(work);
  }

 private:
  MonotonicNs Arrival();
  bool PollAgent(SimAgent* agent);
  void Connect(SimAgent* agent);
  void Close(SimAgent* agent, bool tell_controller);
  bool TalkUp(SimAgent* agent);
  bool Hear(SimAgent* agent);
  void Deliver(std::vector<Outgoing> outbox);

  SimClock& clock_;
  std::mt19937_64 random_;
  const std::unique_ptr<Log> log_ = MakeNullLog();
  MemoryStore store_;
  std::shared_ptr<const ObjectSet> objects_ = std::make_shared<const ObjectSet>();
  std::unique_ptr<SharedCoordinator> coordinator_;
  std::unique_ptr<StrategyKeeper> keeper_;
  std::vector<std::unique_ptr<SimAgent>> agents_;  // by host
  uint64_t last_key_ = 0;
  MonotonicNs tick_at_ = 0;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_CONTROL_H_
