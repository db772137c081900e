// The controller's client: keeps a stream to mccs-controller open (proto/agent.proto), sends the
// reports of the daemon's communicators, and receives proposals, rate updates and requests.
//
// The ControllerLink functions, called by the engine, write to a table and return. The agent's own
// threads send the table's changes to the controller. When the stream breaks, they retry without
// limit, register again and resend the state of all live communicators. So no queue grows
// without bound, and only the final numbers of communicators that ended meanwhile are lost.
//
// THREAD: the ControllerLink functions: any; they hold a mutex for the length of a copy, and never
// wait for the network. The rest: the owner.
#ifndef MCCS_SERVICE_AGENT_AGENT_H_
#define MCCS_SERVICE_AGENT_AGENT_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/agent.pb.h"
#include "service/agent/agent_table.h"
#include "service/agent/tenants_file.h"
#include "service/communicator/links/controller_link.h"
#include "service/probe/path_prober.h"
#include "topology/host_discovery.h"
#include "topology/position.h"
#include "trust/tls_files.h"

namespace grpc {
class Channel;
class ClientContext;
template <class W, class R>
class ClientReaderWriter;
}  // namespace grpc

namespace mccs {

struct AgentOptions {
  std::string controller;   // "host:port"
  TlsFiles tls = {};        // this host's; empty: connections have no TLS
  std::string domain = {};  // of the certificates
  std::string version;      // of this daemon
  // Keeps the Tenants for the next start (service/agent/tenants_file.h); empty: they are not kept.
  std::string tenants_file = {};
  // Wakes the engine. The agent's threads call it when an order has arrived, `connected` has
  // changed, or a heartbeat has reported its turns: the next one shows whether it takes any. The
  // caller's thread, when its report makes an early order available. Must not block (an eventfd).
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
  Position position;           // position.host is its name
  std::string peer_endpoint;   // "address:port" where other daemons reach this one
  std::string transport = {};  // of its lanes, for an operator
  std::string topology = {};   // name of the Topology that contains it; empty: not configured
};

// The content of heartbeats about the daemon. THREAD: the agent's. They may read a small file.
struct AgentVitals {
  std::function<uint64_t()> engine_turns = {};  // since its start; unset: not reported
  // End of the host's certificate, Unix time; 0: unknown. Unset: it has none.
  std::function<int64_t()> certificate_end_s = {};
};

// The sender thread opens a stream and writes. For each stream a listener thread reads, and a
// watcher thread cancels it after a heartbeat timeout. Reads and writes have no deadline of their
// own, and a write waits for the reader; so only the cancellation ends them if the peer hangs.
class Agent final : public ControllerLink {
 public:
  // Does not connect: connected() is false, reports are stored. LIFETIME: `log` outlives it.
  Agent(AgentOptions options, Log* log)
      : options_(std::move(options)),
        log_(log),
        tenants_file_(options_.tenants_file, &file_calls_) {}
  // Stops and joins its threads; does not wait for the controller.
  ~Agent() override;

  // Starts to connect and returns. The Tenants of the last run apply until the controller sends its
  // own. An unreachable controller is not an error.
  // REQUIRES: called once. kInvalidArgument: no controller or no host name. LIFETIME: what `vitals`
  // uses outlives the agent.
  absl::Status Start(const AgentHost& host, AgentVitals vitals = {});

  // Whether it has the cluster's key, and with it Tenants: of the controller, or of an earlier run.
  // THREAD: any.
  bool has_id_key() const { return has_id_key_.load(std::memory_order_relaxed); }

  // The condition of this host's GPUs, from now on. THREAD: any.
  void SetGpuSurvey(const agent::v1::GpuSurvey& survey);

  bool connected() const override { return connected_.load(std::memory_order_relaxed); }
  void Announce(const agent::v1::Announce& announce) override;
  std::optional<Proposal> TakeProposal() override;
  std::optional<RateUpdate> TakeRateUpdate() override;
  std::optional<std::vector<TenantEntry>> TakeTenants() override;
  std::optional<std::string> TakeIdKey() override;
  void SetNamedRendezvous(const agent::v1::NamedRendezvous& all) override;
  std::optional<FoundRendezvous> TakeFoundRendezvous() override;
  void SetUnreachableHosts(const agent::v1::UnreachableHosts& all) override;
  std::optional<PeerHosts> TakePeerHosts() override;
  void Report(const agent::v1::Report& report) override;
  int64_t report_every_ns() const override {
    return report_every_ns_.load(std::memory_order_relaxed);
  }
  std::optional<uint64_t> TakeStateRequest() override;
  void SendState(uint64_t request_id, const state::Daemon& state) override;
  std::optional<TraceOrder> TakeTraceOrder() override;
  void SendTrace(uint64_t request_id, const trace::Host& trace) override;
  void Ended(CommId id, const std::string& why) override;

 private:
  using Stream = grpc::ClientReaderWriter<agent::v1::FromAgent, agent::v1::ToAgent>;
  using SteadyTime = std::chrono::steady_clock::time_point;

  // Runs `write(table)`, and wakes the sender if it must send earlier now. Also wakes the engine if
  // the write made an early order available.
  template <typename Write>
  void WithTable(Write write) {
    bool ordered = false;
    {
      const std::lock_guard lock(mutex_);
      const MonotonicNs before = table_.NextUnsent();
      write(table_);
      ordered = StoreHasOrders();
      // Usually a report waits for the next message with progress, and the sender sleeps on.
      if (table_.NextUnsent() < before || before == AgentTable::kAtOnce) changed_.notify_all();
    }
    if (ordered && options_.wake) options_.wake();
  }
  // Returns the next order of one kind, from `take(table)`.
  template <typename Take>
  auto TakeOrder(Take take) -> decltype(take(std::declval<AgentTable&>())) {
    if (!has_orders_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    auto order = take(table_);
    StoreHasOrders();
    return order;
  }

  void SendForEver();
  void RunStream();
  // Returns when the controller is connected, or an attempt to connect has failed.
  void AwaitConnection();
  bool SendRegistration(Stream* stream);
  // Returns when the stream has ended or must end.
  void SendUntilBroken(Stream* stream);
  // REQUIRES: mutex_ is not held, for the engine waits for it.
  void AddVitals(agent::v1::Heartbeat* beat) const;
  // When the table has messages to send. REQUIRES: mutex_ is held.
  SteadyTime NextUnsent() const;
  void Listen(Stream* stream);
  void Watch(grpc::ClientContext* context);
  void HandleMessage(const agent::v1::ToAgent& message);
  void LoadTenants();
  void KeepTenants(const agent::v1::Tenants& tenants);
  // REQUIRES: mutex_ is held.
  void SetTenants(const agent::v1::Tenants& tenants);
  void Probe(const agent::v1::Probe& message);
  void SetConnected(bool connected);
  void Pause();
  // Returns true if there are orders now and there were none before. REQUIRES: mutex_ is held.
  bool StoreHasOrders() {
    const bool has = table_.has_updates();
    return !has_orders_.exchange(has, std::memory_order_release) && has;
  }

  AgentOptions options_;  // constant, except that the prober is destroyed first
  Log* const log_;
  const SystemClock clock_;  // the clock of the daemon, to which send windows refer
  std::string topology_;
  AgentVitals vitals_;  // constant after Start
  std::shared_ptr<grpc::Channel> channel_;
  std::thread sender_;
  int64_t retry_ns_ = 0;    // sender thread
  std::string last_error_;  // sender thread: to log the same error once
  FileCalls file_calls_;
  TenantsFile tenants_file_;  // the thread that calls Start, then listeners
  // Read by the engine; protects no other data.
  std::atomic<bool> connected_ = false;
  std::atomic<bool> has_id_key_ = false;
  std::atomic<int64_t> report_every_ns_ = kDefaultReportIntervalNs;
  // Written under mutex_, with the table; lets the engine skip the lock. Release when an order has
  // arrived; pairs with the load in TakeOrder.
  std::atomic<bool> has_orders_ = false;

  std::mutex mutex_;  // protects the following members
  std::condition_variable changed_;
  std::condition_variable watched_;  // the state that the watcher reads has changed
  AgentTable table_;
  agent::v1::Host host_;
  ClockEcho echo_;  // of the open stream
  bool stopping_ = false;
  bool broken_ = false;                     // the listener has ended
  bool timed_out_ = false;                  // the watcher has cancelled the stream
  grpc::ClientContext* context_ = nullptr;  // of the open stream
  uint64_t stream_ = 0;                     // its number
  SteadyTime heard_;
  int64_t heartbeat_every_ns_ = 0;
  int64_t heartbeat_timeout_ns_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AGENT_AGENT_H_
