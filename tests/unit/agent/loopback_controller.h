// A controller's server and agents in one process, over gRPC on loopback.
#ifndef MCCS_TESTS_UNIT_AGENT_LOOPBACK_CONTROLLER_H_
#define MCCS_TESTS_UNIT_AGENT_LOOPBACK_CONTROLLER_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/random.h"
#include "controller/api/operator_view.h"
#include "controller/api/server.h"
#include "controller/store/memory_store.h"
#include "service/agent/agent.h"
#include "tests/unit/controller/agent_messages.h"

namespace mccs {

// A server with its coordinator, and a thread that ticks.
class LoopbackController {
 public:
  explicit LoopbackController(const std::string& address,
                              int64_t heartbeat_timeout_ns = 2 * kNsPerSec)
      : log_(MakeNullLog()),
        catalog_(*Catalog::Open(&store_, &wall_clock_, log_.get())),
        coordinator_({.heartbeat_timeout_ns = heartbeat_timeout_ns,
                      .version = "test",
                      .wall_clock = &wall_clock_,
                      .first_request_id = SystemRandom().NextU64() / 2 + 1},
                     &clock_, log_.get()) {
    auto server =
        ControllerServer::Start(address, {}, &access_, &coordinator_, catalog_.get(), log_.get());
    if (!server.ok()) {
      status_ = server.status();
      return;
    }
    server_ = *std::move(server);
    ticker_ = std::thread([this] {
      std::unique_lock lock(mutex_);
      while (!stop_changed_.wait_for(lock, std::chrono::milliseconds(20), [this] { return stop_; }))
        server_->Tick();
    });
  }
  ~LoopbackController() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
      stop_changed_.notify_all();
    }
    if (ticker_.joinable()) ticker_.join();
  }

  const absl::Status& status() const { return status_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", server_->port()); }
  control::v1::ListHostsReply Hosts() {
    return coordinator_.With([](Coordinator& c) { return ListHosts(c.state(), c.Now()); });
  }
  std::string HostState(const std::string& name) {
    return coordinator_.With([&](Coordinator& c) -> std::string {
      const control::v1::ListHostsReply reply = ListHosts(c.state(), c.Now());
      for (const control::v1::HostStatus& host : reply.hosts()) {
        if (host.host().name() == name) return host.state();
      }
      return "";
    });
  }
  // The time from the registration of a ready host to its last message.
  int64_t ReadyFor(const std::string& name) {
    return coordinator_.With([&](Coordinator& c) -> int64_t {
      const auto host = c.registry().hosts().find(name);
      if (host == c.registry().hosts().end() || host->second.state != HostState::kReady) return 0;
      return host->second.received_at - host->second.since;
    });
  }
  // The registration of a host on this machine, with the test's clock.
  std::optional<ClockReading> ClockOf(const std::string& name) {
    return coordinator_.With([&](Coordinator& c) { return c.state().clocks.Read(name, c.Now()); });
  }
  absl::StatusOr<control::v1::CommunicatorDetail> Describe(CommId id) {
    return coordinator_.With(
        [&](Coordinator& c) { return DescribeCommunicator(c.state(), FormatCommId(id), c.Now()); });
  }

 private:
  SystemClock clock_;
  SystemWallClock wall_clock_;
  std::unique_ptr<Log> log_;
  MemoryStore store_;
  std::unique_ptr<Catalog> catalog_;
  const Access access_{Access::Clients::kAnyone};
  SharedCoordinator coordinator_;
  absl::Status status_;
  std::unique_ptr<ControllerServer> server_;
  std::mutex mutex_;
  std::condition_variable stop_changed_;
  bool stop_ = false;  // guarded by mutex_
  std::thread ticker_;
};

class TestAgent {
 public:
  // `peer_endpoint`: empty: EndpointOf(name).
  TestAgent(const std::string& controller, const std::string& name, const std::string& rack = "r1",
            const std::string& peer_endpoint = "")
      : log_(MakeNullLog()),
        agent_({.controller = controller,
                .version = "test",
                .wake = [this] { ++wakes_; },
                .first_retry_ns = 10 * kNsPerMs,
                .last_retry_ns = 50 * kNsPerMs},
               log_.get()) {
    AgentHost host{.inventory = {.name = name, .nics = {}, .gpus = {{0, "0000:1b:00.0"}}},
                   .position = {"p1", rack, name},
                   .peer_endpoint = peer_endpoint.empty() ? EndpointOf(name) : peer_endpoint};
    started_ = agent_.Start(host);
  }

  Agent* operator->() { return &agent_; }
  const absl::Status& started() const { return started_; }
  int wakes() const { return wakes_; }

 private:
  std::atomic<int> wakes_ = 0;
  std::unique_ptr<Log> log_;
  Agent agent_;
  absl::Status started_;
};

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_AGENT_LOOPBACK_CONTROLLER_H_
