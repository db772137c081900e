// The controller of a simulated world and the hosts' agents: production Catalog, Coordinator,
// AgentTable and StrategyPersister, connected by in-memory streams instead of gRPC. In worlds with
// disks also SqliteStore and TenantsFile.
//
// clang-format off
//   daemon ── ControllerLink ──► SimAgent (AgentTable) ◄── messages with delays ──► Coordinator
//                                                                                    ▲    │
//                operators ── Apply, Delete ──► Catalog ─────────────────────────────┘    ▼
//                                                  └──► store (survives a restart) ◄── StrategyPersister
//   SimAgent ── Tenants ──► SimTenantsFile (survives a restart)
// clang-format on
//
// An agent behaves as service/agent/agent.cc: it registers, sends heartbeats, closes the stream to
// a silent controller, and reconnects without limit.
//
// THREAD: one, the world's.
#ifndef MCCS_TESTS_SIM_SIM_CONTROL_H_
#define MCCS_TESTS_SIM_SIM_CONTROL_H_

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "controller/coordinator/coordinator.h"
#include "controller/coordinator/strategy_persister.h"
#include "controller/state/catalog.h"
#include "controller/store/memory_store.h"
#include "service/agent/agent_table.h"
#include "tests/sim/failing_store.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_tenants_file.h"
#include "tests/sim/sim_world.h"
#include "tests/unit/temporary_directory.h"

namespace mccs {

// Messages in one direction of a stream, delivered in order.
template <typename Message>
class MessageQueue {
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
  MonotonicNs NextArrival() const { return waiting_.empty() ? kNever : waiting_.front().first; }
  void Clear() { waiting_.clear(); }

 private:
  std::deque<std::pair<MonotonicNs, Message>> waiting_;
};

// The daemon's end of a stream to the controller.
class SimAgent final : public ControllerLink {
 public:
  // `tenants_file` null: it keeps no table of Tenants.
  SimAgent(agent::v1::Host host, const Clock& clock, SimTenantsFile* tenants_file)
      : host_(std::move(host)), clock_(clock), tenants_file_(tenants_file) {}

  bool connected() const override { return connected_; }
  void Announce(const agent::v1::Announce& announce) override { table_.Announce(announce); }
  std::optional<Proposal> TakeProposal() override { return table_.TakeProposal(); }
  std::optional<RateUpdate> TakeRateUpdate() override { return table_.TakeRateUpdate(); }
  std::optional<std::vector<TenantEntry>> TakeTenants() override { return table_.TakeTenants(); }
  std::optional<std::string> TakeIdKey() override { return table_.TakeIdKey(); }
  void SetNamedRendezvous(const agent::v1::NamedRendezvous& all) override {
    named_rendezvous_ = all;
    table_.SetNamedRendezvous(all);
  }
  std::optional<FoundRendezvous> TakeFoundRendezvous() override {
    return table_.TakeFoundRendezvous();
  }
  void SetUnreachableHosts(const agent::v1::UnreachableHosts& all) override {
    table_.SetUnreachableHosts(all);
  }
  std::optional<PeerHosts> TakePeerHosts() override { return table_.TakePeerHosts(); }
  void Report(const agent::v1::Report& report) override;
  int64_t report_every_ns() const override { return report_every_ns_; }
  void Ended(CommId id, const std::string& why) override;

  // As the daemon set it last.
  const agent::v1::NamedRendezvous& named_rendezvous() const { return named_rendezvous_; }
  // The last report of each communicator.
  const std::map<CommId, agent::v1::Report>& reports() const { return reports_; }

 private:
  friend class SimControl;

  const agent::v1::Host host_;
  const Clock& clock_;  // of the host
  SimTenantsFile* const tenants_file_;
  AgentTable table_;
  std::map<CommId, agent::v1::Report> reports_;
  agent::v1::NamedRendezvous named_rendezvous_;

  // The current stream; 0 if there is none.
  AgentKey stream_{0};
  bool alive_ = true;
  bool connected_ = false;  // the controller has accepted the registration
  ClockEcho echo_;
  MessageQueue<agent::v1::FromAgent> up_;
  MessageQueue<agent::v1::ToAgent> down_;
  MonotonicNs retry_at_ = 0;
  MonotonicNs heard_ = 0;
  MonotonicNs heartbeat_at_ = 0;
  int64_t heartbeat_interval_ns_ = 0;
  int64_t timeout_ns_ = 0;
  int64_t report_every_ns_ = kDefaultReportIntervalNs;
};

// The time of day, which jumps when the test says so.
class SimWallClock final : public WallClock {
 public:
  // LIFETIME: `clock` outlives this.
  explicit SimWallClock(const SimClock& clock) : clock_(clock) {}
  UnixNs Now() const override { return 1'800'000'000 * kNsPerSec + clock_.Now() + offset_ns_; }
  void Jump(int64_t ns) { offset_ns_ += ns; }

 private:
  const SimClock& clock_;
  int64_t offset_ns_ = 0;
};

struct SimControlOptions {
  std::string id_key = {};  // for unique ids; the daemons have it from an earlier run; empty: none
  // The controller's store and the daemons' tables of Tenants are files, on disks that fail when
  // the test says so. Without, the store is in memory, and daemons keep no table. At most one such
  // SimControl exists.
  bool has_disks = false;
};

class SimControl final : public SimControllerInterface {
 public:
  // LIFETIME: `clock` outlives it; this outlives the daemons of its links.
  SimControl(SimClock& clock, uint64_t seed, SimControlOptions options = {});

  ControllerLink& AddHost(int host, const Position& position, const std::string& endpoint,
                          const Clock& clock) override;
  void KillHost(int host) override;
  bool Poll() override;
  MonotonicNs NextEvent() const override;

  const SimAgent& agent(int host) const { return *agents_[static_cast<size_t>(host)]; }

  // Requests of an operator with all rights. The objects survive Kill and Restart. While the
  // controller is dead, these are requests that it served just before its death.
  absl::StatusOr<Catalog::Outcome> Apply(const std::string& yaml);
  absl::StatusOr<Catalog::Outcome> Delete(std::vector<ObjectKey> keys);
  // Replaces all objects. `yaml`: valid documents, or empty. REQUIRES: the store works.
  void SetObjects(const std::string& yaml);
  Catalog::Objects objects() const { return catalog_->objects(); }
  // Null: without disks.
  FailingStore* failing_store() { return disks_ != nullptr ? &disks_->store : nullptr; }
  // REQUIRES: disks; the host exists. If the daemon dies in a write, the caller kills it.
  SimTenantsFile& tenants_file(int host) { return disks_->tenants[static_cast<size_t>(host)]; }
  SimWallClock& wall_clock() { return wall_clock_; }
  // Kill ends the controller's process, as by SIGKILL; Restart starts another one with its store.
  void Kill();
  void Restart();
  bool alive() const { return coordinator_ != nullptr; }
  // Breaks a host's stream; messages in transit are lost.
  void CutStream(int host);

  // REQUIRES: alive.
  template <typename Work>
  auto With(Work work) {
    return coordinator_->With(work);
  }

 private:
  struct Disks {
    const TemporaryDirectory directory;
    FailingStore store{directory.File("store.db")};
    std::deque<SimTenantsFile> tenants;  // by host
  };

  void OpenCatalog();
  MonotonicNs Arrival();
  bool PollAgent(SimAgent* agent);
  void Connect(SimAgent* agent);
  void Close(SimAgent* agent, bool notify_controller);
  void End(SimAgent* agent);
  bool SendPending(SimAgent* agent);
  bool Handle(SimAgent* agent);
  void Deliver(std::vector<Outgoing> outbox);

  SimClock& clock_;
  std::mt19937_64 random_;
  const SimControlOptions options_;
  const std::unique_ptr<Log> log_ = MakeNullLog();
  SimWallClock wall_clock_;
  const std::unique_ptr<Disks> disks_;  // null: without
  MemoryStore memory_store_;
  Store& store_;                      // one of the two
  std::unique_ptr<Catalog> catalog_;  // stays when the controller dies
  std::unique_ptr<SharedCoordinator> coordinator_;
  std::unique_ptr<StrategyPersister> persister_;
  std::vector<std::unique_ptr<SimAgent>> agents_;  // by host
  uint64_t last_key_ = 0;
  MonotonicNs tick_at_ = 0;
};

// Creates the controller of a world (SimWorldOptions); *control then points to it.
std::function<std::unique_ptr<SimControllerInterface>(SimClock&)> MakeSimControl(
    uint64_t seed, SimControl** control, const SimControlOptions& options = {});

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_CONTROL_H_
