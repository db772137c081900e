// Hosts with the production daemon, a simulated clock and an in-memory network, in one thread. The
// seed alone determines what happens.
//
// THREAD: one.
#ifndef MCCS_TESTS_SIM_SIM_WORLD_H_
#define MCCS_TESTS_SIM_SIM_WORLD_H_

#include <algorithm>
#include <chrono>
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
#include "service/communicator/links/controller_link.h"
#include "service/daemon.h"
#include "service/device/cpu_device.h"
#include "service/device/gpu/kernel_device.h"
#include "service/transport/rdma/rdma_transport.h"
#include "service/transport/stream_lane.h"
#include "tests/sim/sim_network.h"
#include "tests/sim/sim_security.h"
#include "tests/sim/sim_tenant.h"
#include "tests/unit/device/failing_device.h"
#include "tests/unit/device/local_importer.h"
#include "tests/unit/recording_log.h"
#include "tests/unit/transport/rdma/fake_verbs.h"

namespace mccs {

// The simulated controller, at the other end of the daemons' controller links.
class SimControllerInterface {
 public:
  virtual ~SimControllerInterface() = default;
  // Returns the link of a daemon that starts on `host`: the next new host or one whose daemon was
  // killed. Peers reach that daemon at `endpoint`. LIFETIME: until KillHost; `clock`, which is the
  // host's, outlives it.
  virtual ControllerLink& AddHost(int host, const Position& position, const std::string& endpoint,
                                  const Clock& clock) = 0;
  // The daemon on `host` has ended.
  virtual void KillHost(int host) = 0;
  // Does all work that is due; true if there was any.
  virtual bool Poll() = 0;
  virtual MonotonicNs NextEvent() const = 0;
};

// A participant of the world besides daemons, tenants and controller.
class SimParticipant {
 public:
  virtual ~SimParticipant() = default;
  // Does all work that is due; true if there was any.
  virtual bool Poll() = 0;
  virtual MonotonicNs NextEvent() const = 0;
};

// The image that daemons give to processes if kernels run plans. The processes do not load it.
inline constexpr char kSimKernelImage[] = "the simulator's kernels";
inline constexpr char kSimKernelArchitectures[] = "sm_sim";

struct SimWorldOptions {
  uint64_t seed = 1;
  int hosts = 2;
  int nics = 1;  // of each host
  int channels = 1;
  LaneShape lanes{.slots = 4, .slot_bytes = 16u << 10};
  uint32_t skew = 1;
  ChoiceParameters algorithms = {};
  SimNetworkOptions network = {};
  BufferLimits buffers = {};
  HostLimits limits = {};
  int64_t mapping_step_ns = 0;  // longest step of mapping or unmapping
  int64_t registration_ns = 0;  // of a tenant's memory with a NIC
  DscpMap dscp_by_class = {};
  bool denies_unknown_tenants = false;
  bool expects_id_key = false;
  bool measures_turns = false;                 // for SimHost::turns_ns
  std::optional<FakeVerbsOptions> verbs = {};  // lanes use RDMA
  bool kernels = false;                        // kernels of the tenants run plans
  // The daemons have certificates of this authority; 0: they have none.
  uint64_t authority = 0;
  std::vector<std::string> racks = {};  // by host; further hosts report none
  // By host: offset of its clock from the world's; 0 for further hosts.
  std::vector<int64_t> clock_offsets_ns = {};
  // Creates the controller. Absent: each host has a SimController.
  std::function<std::unique_ptr<SimControllerInterface>(SimClock&)> controller = nullptr;
};

// A controller link that proposes what the test queues, and stores each communicator's last report.
class SimController final : public ControllerLink {
 public:
  bool awaits_proposal = false;  // the daemon waits for a proposal
  std::vector<CommId> announced;
  std::map<CommId, agent::v1::Report> reports;
  std::vector<CommId> ended;
  std::deque<Proposal> proposals;
  std::deque<RateUpdate> rate_updates;
  std::optional<std::vector<TenantEntry>> tenants;
  std::optional<std::string> id_key;
  std::deque<uint64_t> questions;
  std::map<uint64_t, state::Daemon> answers;  // by request_id number
  std::deque<TraceOrder> trace_orders;
  std::map<uint64_t, trace::Host> traces;  // by request_id

  bool connected() const override { return awaits_proposal; }
  void Announce(const agent::v1::Announce& announce) override {
    announced.push_back(CommId(announce.comm_id()));
  }
  std::optional<Proposal> TakeProposal() override {
    if (proposals.empty()) return std::nullopt;
    Proposal next = std::move(proposals.front());
    proposals.pop_front();
    return next;
  }
  std::optional<RateUpdate> TakeRateUpdate() override {
    if (rate_updates.empty()) return std::nullopt;
    RateUpdate next = std::move(rate_updates.front());
    rate_updates.pop_front();
    return next;
  }
  std::optional<std::vector<TenantEntry>> TakeTenants() override {
    return std::exchange(tenants, std::nullopt);
  }
  std::optional<std::string> TakeIdKey() override { return std::exchange(id_key, std::nullopt); }
  void Report(const agent::v1::Report& report) override {
    reports[CommId(report.comm_id())] = report;
  }
  std::optional<uint64_t> TakeStateRequest() override {
    if (questions.empty()) return std::nullopt;
    const uint64_t next = questions.front();
    questions.pop_front();
    return next;
  }
  void SendState(uint64_t request_id, const state::Daemon& state) override {
    answers[request_id] = state;
  }
  std::optional<TraceOrder> TakeTraceOrder() override {
    if (trace_orders.empty()) return std::nullopt;
    const TraceOrder next = trace_orders.front();
    trace_orders.pop_front();
    return next;
  }
  void SendTrace(uint64_t request_id, const trace::Host& trace) override {
    traces[request_id] = trace;
  }
  void Ended(CommId id, const std::string&) override { ended.push_back(id); }
};

// The name of a host, the address of its NIC, and the port where peers reach its daemon.
std::string SimHostName(int host);
std::string SimAddress(int host, int nic = 0);
inline constexpr uint16_t kSimPort = 7400;

// A strategy with the same ring order on all channels.
Strategy MakeRingStrategy(Epoch epoch, const std::vector<HostIndex>& ring, int channels = 1);

class DelayedMappings;
class DelayedRegistrations;

class SimHost {
 public:
  // LIFETIME: all references outlive this.
  // `fabric` null: without RDMA.
  SimHost(const SimWorldOptions& options, int index, SimClock& clock, SimNetwork& network,
          FakeFabric* fabric, SimControllerInterface* controller);

  Daemon& daemon() { return *daemon_; }
  SimTenantListener& tenant_listener() { return *tenant_listener_; }
  LocalImporter& importer() { return *importer_; }
  FailingDevice& device() { return *devices_.back(); }
  RecordingLog& log() { return log_; }
  FakeNic& nic(int index) {
    return static_cast<FakeNic&>(*nics_[static_cast<size_t>(index)].verbs);
  }
  SimController& controller() { return controller_; }
  const std::string& address() const { return address_; }  // address of the first NIC
  bool alive() const { return daemon_ != nullptr; }
  const Clock& clock() const { return clock_; }
  // The host's monotonic clock jumps forward; connections stay.
  void JumpClock(int64_t ns) { clock_.Jump(ns); }
  // The host has no memory left (ENOMEM) or has some again: it maps and reserves none for tenants
  // and loads no plans.
  void SetOutOfMemory(bool is);
  // Processor time of the daemon's turns that did anything, and of the longest one.
  int64_t turns_ns() const { return turns_ns_; }
  int64_t longest_turn_ns() const { return longest_turn_ns_; }
  void AddTurn(int64_t ns) {
    turns_ns_ += ns;
    longest_turn_ns_ = std::max(longest_turn_ns_, ns);
  }
  // When the daemon next needs a turn, on the world's clock. REQUIRES: alive.
  MonotonicNs NextDeadline();
  // Ends the daemon, as by SIGKILL; its streams break.
  void Kill(SimNetwork& network);
  // Starts a new daemon, without the state of the one before. REQUIRES: not alive.
  void Start();

 private:
  Device& TheDevice();

  const SimWorldOptions& options_;
  const int index_;
  SimNetwork& network_;
  SimControllerInterface* const controller_interface_;  // null: controller_ is used
  const std::string address_;
  OffsetClock clock_;
  SeededRandom random_;
  RecordingLog log_;
  const std::unique_ptr<SimSecurity> security_;  // null: without certificates
  StreamTransport transport_;
  std::vector<RdmaNic> nics_;
  SimController controller_;
  LocalImporter* importer_ = nullptr;  // owned by the device
  // One per daemon: processes of earlier daemons still refer to their importers.
  std::vector<std::unique_ptr<FailingDevice>> devices_;
  std::vector<std::unique_ptr<KernelDevice>> kernel_devices_;  // likewise, if kernels run plans
  DelayedMappings* mappings_ = nullptr;  // owned by the last device; null: mapping is immediate
  DelayedRegistrations* registrations_ = nullptr;  // of rdma_; null: they are immediate
  SimTenantListener* tenant_listener_ = nullptr;   // owned by daemon_
  std::unique_ptr<RdmaTransport> rdma_;            // null: without RDMA
  std::unique_ptr<Daemon> daemon_;
  int64_t turns_ns_ = 0;
  int64_t longest_turn_ns_ = 0;
};

class SimWorld {
 public:
  explicit SimWorld(const SimWorldOptions& options);

  int hosts() const { return static_cast<int>(hosts_.size()); }
  // Of all live daemons together: a communicator counts on each of its hosts.
  size_t communicators();
  SimHost& host(int index) { return hosts_[static_cast<size_t>(index)]; }
  SimNetwork& network() { return network_; }
  // REQUIRES: `verbs`.
  FakeFabric& fabric() { return *fabric_; }
  SimClock& clock() { return clock_; }
  // Breaks the lane whose local end is "address:port", as reports name it. False if there is none:
  // it is broken already.
  bool CutLane(const std::string& local);
  // Changes the link of a NIC, and of its RDMA port. REQUIRES: `verbs`.
  void SetLink(int host, int nic, SimNetwork::Link link);
  // Kill ends the daemon of a host, as by SIGKILL; Restart starts another one there.
  void Kill(int host);
  void Restart(int host);
  // Starts a process on a host.
  SimTenant& AddTenant(int host, const std::string& tenant = "uid 1000",
                       const std::string& cgroup = "");
  // Requests a unique id for the process, and runs until it has one; false on timeout.
  bool GetUniqueId(SimTenant& tenant);
  // LIFETIME: `participant` outlives the last run of the world.
  void AddParticipant(SimParticipant& participant) { participants_.push_back(&participant); }

  // Runs until `done` returns true; false if that takes more than `limit_ns` of simulated time.
  bool RunUntil(const std::function<bool()>& done, int64_t limit_ns = 10 * kNsPerSec);
  void RunFor(int64_t ns);

  // The longest turn of a daemon, in processor time of the thread; 0 if no turn reached
  // kLongTurnNs.
  int64_t longest_turn_ns() const { return longest_turn_ns_; }
  static constexpr int64_t kLongTurnNs = 20 * kNsPerMs;

 private:
  void PollAll();
  void AdvanceTo(MonotonicNs time);
  bool PollDaemon(SimHost& host);
  MonotonicNs NextEvent() const;

  const SimWorldOptions options_;
  SimClock clock_;
  SimNetwork network_;
  std::unique_ptr<FakeFabric> fabric_;                  // null: without RDMA
  std::unique_ptr<SimControllerInterface> controller_;  // may be null
  std::deque<SimHost> hosts_;
  std::deque<SimTenant> tenants_;
  std::vector<SimParticipant*> participants_;
  // The last reading of the thread's processor time, and when it was.
  int64_t last_thread_ns_ = 0;
  std::chrono::steady_clock::time_point last_reading_{};
  int64_t longest_turn_ns_ = 0;
  int next_process_ = 1000;
};

}  // namespace mccs

#endif  // MCCS_TESTS_SIM_SIM_WORLD_H_
