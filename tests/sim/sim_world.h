// Hosts with the production daemon, a simulated clock and a network in memory, in one thread: what
// happens depends on the seed alone.
//
// THREAD: one.
#ifndef MCCS_TESTS_SIM_SIM_WORLD_H_
#define MCCS_TESTS_SIM_SIM_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/random.h"
#include "service/communicator/controller_link.h"
#include "service/daemon.h"
#include "service/device/cpu_device.h"
#include "service/device/local_importer.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/delayed_mappings.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_tenant.h"

namespace mccs {

// What stands on the other side of the daemons' links to a controller.
class SimControllerSide {
 public:
  virtual ~SimControllerSide() = default;
  // The link of a daemon that starts on `host`, the next one or one that was killed; others reach
  // it at `endpoint`, and it goes by `clock`. LIFETIME: until KillHost; `clock` outlives it.
  virtual ControllerLink& AddHost(int host, const Position& position, const std::string& endpoint,
                                  const Clock& clock) = 0;
  // That daemon is no more.
  virtual void KillHost(int host) = 0;
  // Does all that is due; true when there was anything.
  virtual bool Poll() = 0;
  virtual MonotonicNs NextEvent() const = 0;
};

// Somebody in the world besides daemons, tenants and controller.
class SimParty {
 public:
  virtual ~SimParty() = default;
  // Does all that is due; true when there was anything.
  virtual bool Poll() = 0;
  virtual MonotonicNs NextEvent() const = 0;
};

struct SimWorldOptions {
  uint64_t seed = 1;
  int hosts = 2;
  int nics = 1;  // of each host
  int channels = 1;
  LaneShape lanes{.slots = 4, .slot_bytes = 16u << 10};
  uint32_t skew = 1;
  ChoiceParameters algorithms = {};
  SimNetworkOptions network;
  BufferLimits buffers = {};
  int64_t mapping_step_ns = 0;  // a step of mapping or unmapping takes up to so long
  Markings markings = {};
  std::vector<std::string> racks = {};  // by host; none is said of those beyond
  // By host: what its clock shows more than the world's; nothing for those beyond.
  std::vector<int64_t> clock_offsets_ns = {};
  // Makes the controller; absent: each host has a SimController.
  std::function<std::unique_ptr<SimControllerSide>(SimClock&)> controller = nullptr;
};

// Keeps the lines, for tests that look for one.
class SimLog final : public Log {
 public:
  std::vector<std::string> lines;
  bool Contains(std::string_view text) const;

 protected:
  bool Enabled(LogLevel) const override { return true; }
  void Write(LogLevel level, std::string_view line) override;
};

// A controller that proposes what the test hands it, and remembers what each communicator reported
// last.
class SimController final : public ControllerLink {
 public:
  bool waited_for = false;  // for a proposal
  std::vector<CommId> announced;
  std::map<CommId, CommunicatorStats> reports;
  std::vector<CommId> ended;
  std::deque<Proposal> proposals;
  std::deque<PaceOrder> paces;
  std::optional<std::vector<TenantEntry>> tenants;
  std::deque<uint64_t> questions;
  std::map<uint64_t, state::Daemon> answers;  // by question

  bool connected() const override { return waited_for; }
  void Announce(const CommunicatorInfo& info) override { announced.push_back(info.id); }
  std::optional<Proposal> TakeProposal() override {
    if (proposals.empty()) return std::nullopt;
    Proposal next = std::move(proposals.front());
    proposals.pop_front();
    return next;
  }
  std::optional<PaceOrder> TakePace() override {
    if (paces.empty()) return std::nullopt;
    PaceOrder next = std::move(paces.front());
    paces.pop_front();
    return next;
  }
  std::optional<std::vector<TenantEntry>> TakeTenants() override {
    return std::exchange(tenants, std::nullopt);
  }
  void Report(const CommunicatorStats& stats) override { reports[stats.id] = stats; }
  std::optional<uint64_t> TakeQuestion() override {
    if (questions.empty()) return std::nullopt;
    const uint64_t next = questions.front();
    questions.pop_front();
    return next;
  }
  void AnswerState(uint64_t question, const state::Daemon& state) override {
    answers[question] = state;
  }
  void Ended(CommId id, const std::string&) override { ended.push_back(id); }
};

// The address of a host's NIC, and the port on it where peers reach the host's daemon.
std::string SimAddress(int host, int nic = 0);
inline constexpr uint16_t kSimPort = 7400;

// All channels take the hosts in this order.
Strategy MakeRingStrategy(Epoch epoch, const std::vector<HostIndex>& ring, int channels = 1);

class SimHost {
 public:
  // LIFETIME: all outlive it.
  SimHost(const SimWorldOptions& options, int index, SimClock& clock, SimNetwork& network,
          SimControllerSide* controller);

  Daemon& daemon() { return *daemon_; }
  SimDoor& door() { return *door_; }
  LocalImporter& importer() { return *importer_; }
  SimLog& log() { return log_; }
  SimController& controller() { return controller_; }
  const std::string& address() const { return address_; }  // of the first NIC
  bool alive() const { return daemon_ != nullptr; }
  const Clock& clock() const { return clock_; }
  // When the daemon wants a turn, on the world's clock. REQUIRES: alive.
  MonotonicNs NextDeadline();
  // The daemon dies, as by SIGKILL; its streams end.
  void Kill(SimNetwork& network);
  // Another daemon starts, which knows nothing of the one before. REQUIRES: not alive.
  void Start();

 private:
  const SimWorldOptions& options_;
  const int index_;
  SimNetwork& network_;
  SimControllerSide* const controller_side_;  // null: controller_ is
  const std::string address_;
  const OffsetClock clock_;
  SeededRandom random_;
  SimLog log_;
  StreamTransport transport_;
  SimController controller_;
  LocalImporter* importer_ = nullptr;  // owned by the device
  // One for each daemon: processes of the earlier ones still hold their importers.
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  DelayedMappings* mappings_ = nullptr;  // owned by the last device; null: mapping takes no time
  SimDoor* door_ = nullptr;              // owned by daemon_
  std::unique_ptr<Daemon> daemon_;
};

class SimWorld {
 public:
  explicit SimWorld(const SimWorldOptions& options);

  int hosts() const { return static_cast<int>(hosts_.size()); }
  SimHost& host(int index) { return hosts_[static_cast<size_t>(index)]; }
  SimNetwork& network() { return network_; }
  SimClock& clock() { return clock_; }
  // Breaks the lane that leaves from "address:port", as reports have it. False where none does: it
  // is broken already.
  bool CutLane(const std::string& local);
  // The daemon of a host dies, as by SIGKILL; and another one starts there.
  void Kill(int host);
  void Restart(int host);
  // A process on a host.
  SimTenant& AddTenant(int host, const std::string& tenant = "uid 1000",
                       const std::string& cgroup = "");
  // LIFETIME: `party`, as long as the world runs.
  void AddParty(SimParty& party) { parties_.push_back(&party); }

  // Runs until `done` holds; false when that has not come within `limit_ns` of simulated time.
  bool RunUntil(const std::function<bool()>& done, int64_t limit_ns = 10 * kNsPerSec);
  void RunFor(int64_t ns);

  // The most that one turn of a daemon has taken, in real time of the thread; 0 while each took
  // less than kNotedTurnNs.
  int64_t longest_turn_ns() const { return longest_turn_ns_; }
  static constexpr int64_t kNotedTurnNs = 20 * kNsPerMs;

 private:
  void PollAll();
  bool PollDaemon(SimHost& host);
  MonotonicNs NextEvent() const;

  const SimWorldOptions options_;
  SimClock clock_;
  SimNetwork network_;
  std::unique_ptr<SimControllerSide> controller_;  // may be null
  std::deque<SimHost> hosts_;
  std::deque<SimTenant> tenants_;
  std::vector<SimParty*> parties_;
  int64_t looked_ns_ = 0;  // at the processor's clock, before the turns that follow
  int64_t longest_turn_ns_ = 0;
  int next_process_ = 1000;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_WORLD_H_
