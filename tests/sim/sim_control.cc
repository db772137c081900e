#include "tests/sim/sim_control.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "controller/coordinator/registration.h"
#include "controller/rates/rate_limits.h"
#include "service/agent/order_proto.h"

namespace mccs {
namespace {

constexpr int64_t kHeartbeatTimeoutNs = 3 * kNsPerSec;
constexpr int64_t kTickIntervalNs = kHeartbeatTimeoutNs / (2 * Coordinator::kHeartbeatsPerTimeout);
constexpr int64_t kRetryNs = 300 * kNsPerMs;
const Caller kOperator = {.peer = "sim", .user = "sim", .role = FirstOperator()};

}  // namespace

void SimAgent::Report(const agent::v1::Report& report) {
  reports_[CommId(report.comm_id())] = report;
  table_.Report(report);
}

void SimAgent::Ended(CommId id, const std::string& why) {
  reports_.erase(id);
  table_.Ended(id, why);
  if (!connected_) table_.DropEnded();
}

SimControl::SimControl(SimClock& clock, uint64_t seed, SimControlOptions options)
    : clock_(clock),
      random_(seed),
      options_(std::move(options)),
      wall_clock_(clock),
      disks_(options_.has_disks ? std::make_unique<Disks>() : nullptr),
      store_(disks_ != nullptr ? static_cast<Store&>(disks_->store) : memory_store_) {
  Restart();
}

ControllerLink& SimControl::AddHost(int at, const Position& position, const std::string& endpoint,
                                    const Clock& clock) {
  agent::v1::Host host;
  host.set_name(position.host);
  host.mutable_position()->set_pod(position.pod);
  host.mutable_position()->set_rack(position.rack);
  host.set_peer_endpoint(endpoint);
  host.set_version("simulated");
  const auto index = static_cast<size_t>(at);
  MCCS_CHECK(index <= agents_.size());
  if (index == agents_.size()) agents_.emplace_back();
  MCCS_CHECK(agents_[index] == nullptr || !agents_[index]->alive_);
  if (disks_ != nullptr && index == disks_->tenants.size())
    disks_->tenants.emplace_back(disks_->directory.File(host.name() + ".table"));
  SimTenantsFile* const file = disks_ != nullptr ? &disks_->tenants[index] : nullptr;
  agents_[index] = std::make_unique<SimAgent>(std::move(host), clock, file);
  agent::v1::Tenants kept;
  kept.set_id_key(options_.id_key);
  if (file != nullptr) kept = file->Start().value_or(kept);
  agents_[index]->table_.SetTenants(kept);
  return *agents_[index];
}

void SimControl::KillHost(int host) { End(agents_[static_cast<size_t>(host)].get()); }

absl::StatusOr<Catalog::Outcome> SimControl::Apply(const std::string& yaml) {
  return catalog_->Apply({{"objects.yaml", yaml}}, kOperator, /*dry_run=*/false);
}

absl::StatusOr<Catalog::Outcome> SimControl::Delete(std::vector<ObjectKey> keys) {
  return catalog_->Delete(std::move(keys), {}, kOperator, /*dry_run=*/false);
}

void SimControl::SetObjects(const std::string& yaml) {
  std::vector<ObjectKey> all;
  for (const auto& [key, object] : objects()->objects) all.push_back(key);
  if (!all.empty()) MCCS_CHECK(Delete(all).ok());
  if (!yaml.empty()) MCCS_CHECK(Apply(yaml).ok());
}

void SimControl::Kill() {
  persister_.reset();
  coordinator_.reset();
  for (auto& agent : agents_) Close(agent.get(), /*notify_controller=*/false);
}

void SimControl::Restart() {
  if (disks_ != nullptr) disks_->store.Reopen();
  coordinator_ = std::make_unique<SharedCoordinator>(
      CoordinatorOptions{.heartbeat_timeout_ns = kHeartbeatTimeoutNs,
                         .version = "simulated",
                         .last_rate_revision = static_cast<uint64_t>(clock_.Now()),
                         .first_request_id = static_cast<uint64_t>(clock_.Now()) + 1,
                         .id_key = options_.id_key},
      &clock_, log_.get());
  OpenCatalog();
  persister_ =
      std::make_unique<StrategyPersister>(&store_, coordinator_.get(), &clock_, log_.get());
  MCCS_CHECK(persister_->Restore().ok());
  tick_at_ = clock_.Now() + kTickIntervalNs;
}

void SimControl::OpenCatalog() {
  auto catalog = Catalog::Open(&store_, &wall_clock_, log_.get());
  MCCS_CHECK(catalog.ok());
  catalog_ = *std::move(catalog);
  catalog_->SetAdmission(CheckGuaranteesAgainstNics);
  catalog_->Watch([this](Catalog::Objects objects) {
    if (!alive()) return;
    Deliver(coordinator_->With([&](Coordinator& c) {
      c.SetObjects(std::move(objects));
      return c.TakeOutbox();
    }));
  });
}

void SimControl::CutStream(int host) {
  Close(agents_[static_cast<size_t>(host)].get(), /*notify_controller=*/true);
}

// ---- Time ---------------------------------------------------------------------------------------

MonotonicNs SimControl::Arrival() {
  std::uniform_int_distribution<int64_t> delay(20 * kNsPerUs, 3 * kNsPerMs);
  return clock_.Now() + delay(random_);
}

bool SimControl::Poll() {
  bool moved = false;
  if (alive() && clock_.Now() >= tick_at_) {
    tick_at_ = clock_.Now() + kTickIntervalNs;
    Deliver(coordinator_->With([](Coordinator& c) {
      c.Tick();
      return c.TakeOutbox();
    }));
    persister_->Persist();
    if (disks_ != nullptr && disks_->store.TakeDeath()) {
      Kill();
      OpenCatalog();  // The store may have a change that was rejected.
    }
    moved = true;
  }
  for (auto& agent : agents_) moved |= agent->alive_ && PollAgent(agent.get());
  return moved;
}

MonotonicNs SimControl::NextEvent() const {
  MonotonicNs next = alive() ? tick_at_ : kNever;
  for (const auto& each : agents_) {
    const SimAgent& agent = *each;
    if (!agent.alive_) continue;
    if (agent.stream_ == AgentKey(0)) {
      next = std::min(next, agent.retry_at_);
      continue;
    }
    next = std::min({next, agent.up_.NextArrival(), agent.down_.NextArrival(), agent.heartbeat_at_,
                     agent.heard_ + agent.timeout_ns_,
                     agent.connected_ ? agent.table_.NextUnsent() : kNever});
  }
  return next;
}

// ---- Streams ------------------------------------------------------------------------------------

bool SimControl::PollAgent(SimAgent* agent) {
  const MonotonicNs now = clock_.Now();
  if (agent->stream_ == AgentKey(0)) {
    if (now < agent->retry_at_) return false;
    agent->retry_at_ = now + kRetryNs;
    if (alive()) Connect(agent);
    return true;
  }
  if (now >= agent->heard_ + agent->timeout_ns_) {
    Close(agent, /*notify_controller=*/true);
    return true;
  }
  bool moved = SendPending(agent);
  while (auto message = agent->up_.Take(now)) {
    moved = true;
    Deliver(coordinator_->With([&](Coordinator& c) {
      c.Handle(agent->stream_, *message);
      return c.TakeOutbox();
    }));
    if (agent->stream_ == AgentKey(0)) return true;  // The registration was rejected.
  }
  return Handle(agent) || moved;
}

void SimControl::Connect(SimAgent* agent) {
  agent->stream_ = AgentKey(++last_key_);
  agent->echo_ = ClockEcho();
  agent->heard_ = clock_.Now();
  agent->heartbeat_interval_ns_ = kHeartbeatTimeoutNs / Coordinator::kHeartbeatsPerTimeout;
  agent->timeout_ns_ = kHeartbeatTimeoutNs;
  agent->heartbeat_at_ = clock_.Now() + agent->heartbeat_interval_ns_;
  agent::v1::FromAgent message;
  message.mutable_registration()->set_protocol(kAgentProtocol);
  *message.mutable_registration()->mutable_host() = agent->host_;
  for (agent::v1::Announce& announce : agent->table_.Registration()) {
    *message.mutable_registration()->add_communicators() = std::move(announce);
  }
  agent->up_.Send(std::move(message), Arrival());
}

void SimControl::Close(SimAgent* agent, bool notify_controller) {
  if (agent->stream_ == AgentKey(0)) return;
  const AgentKey key = std::exchange(agent->stream_, AgentKey(0));
  agent->connected_ = false;
  agent->up_.Clear();
  agent->down_.Clear();
  agent->table_.DropRegistration();
  agent->retry_at_ = clock_.Now() + kRetryNs;
  if (!notify_controller || !alive()) return;
  Deliver(coordinator_->With([&](Coordinator& c) {
    c.OnStreamClosed(key, "its connection closed");
    return c.TakeOutbox();
  }));
}

// The daemon has died.
void SimControl::End(SimAgent* agent) {
  Close(agent, /*notify_controller=*/true);
  agent->alive_ = false;
}

bool SimControl::SendPending(SimAgent* agent) {
  bool moved = false;
  if (agent->connected_) {
    for (agent::v1::FromAgent& message : agent->table_.TakeUnsent(clock_.Now())) {
      agent->up_.Send(std::move(message), Arrival());
      moved = true;
    }
  }
  if (clock_.Now() < agent->heartbeat_at_) return moved;
  agent->heartbeat_at_ = clock_.Now() + agent->heartbeat_interval_ns_;
  if (agent->connected_) {
    agent::v1::FromAgent heartbeat_message;
    *heartbeat_message.mutable_heartbeat() = agent->echo_.MakeHeartbeat(agent->clock_.Now());
    agent->up_.Send(std::move(heartbeat_message), Arrival());
  }
  agent->table_.OnHeartbeat(agent->report_every_ns_);
  return true;
}

bool SimControl::Handle(SimAgent* agent) {
  bool moved = false;
  while (auto message = agent->down_.Take(clock_.Now())) {
    moved = true;
    agent->heard_ = clock_.Now();
    if (agent->tenants_file_ != nullptr && (message->has_registered() || message->has_tenants())) {
      const agent::v1::Tenants& tenants =
          message->has_registered() ? message->registered().tenants() : message->tenants();
      if (!agent->tenants_file_->Keep(tenants)) {
        End(agent);
        return true;
      }
    }
    if (message->has_registered()) {
      agent->connected_ = true;
      agent->table_.SetTenants(message->registered().tenants());
    }
    if (const auto interval = ReportIntervalFromProto(*message))
      agent->report_every_ns_ = *interval;
    if (message->has_tenants()) agent->table_.SetTenants(message->tenants());
    if (message->has_found_rendezvous())
      MCCS_CHECK(agent->table_.AddFoundRendezvous(message->found_rendezvous()).ok());
    if (message->has_peer_hosts())
      MCCS_CHECK(agent->table_.SetPeerHosts(message->peer_hosts()).ok());
    if (message->has_heartbeat())
      agent->echo_.OnHeartbeat(message->heartbeat(), agent->clock_.Now());
    // An order for a communicator that has ended in the meantime is not an error.
    if (message->has_propose()) (void)agent->table_.Propose(message->propose());
    if (message->has_rate_limits()) (void)agent->table_.SetRateLimits(message->rate_limits());
  }
  return moved;
}

void SimControl::Deliver(std::vector<Outgoing> outbox) {
  for (Outgoing& outgoing : outbox) {
    const auto agent = std::find_if(agents_.begin(), agents_.end(),
                                    [&](const auto& each) { return each->stream_ == outgoing.to; });
    if (agent == agents_.end()) continue;
    if (outgoing.message) {
      (*agent)->down_.Send(*std::move(outgoing.message), Arrival());
    } else {
      Close(agent->get(), /*notify_controller=*/false);
    }
  }
}

std::function<std::unique_ptr<SimControllerInterface>(SimClock&)> MakeSimControl(
    uint64_t seed, SimControl** control, const SimControlOptions& options) {
  return [seed, control, options](SimClock& clock) {
    auto made = std::make_unique<SimControl>(clock, seed, options);
    *control = made.get();
    return made;
  };
}

}  // namespace mccs
