#include "service/agent/agent.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/agent.grpc.pb.h"
#include "proto/message_limits.h"
#include "service/agent/order_proto.h"
#include "trust/grpc/credentials.h"

namespace mccs {
namespace {

// The version of agent.proto that this daemon speaks.
constexpr uint32_t kProtocol = 1;
// Used until the controller has sent its own.
constexpr int64_t kFirstHeartbeatTimeoutNs = 5 * kNsPerSec;
constexpr int kConnectTimeoutMs = 2000;
// How often a thread that waits for a connection looks whether the agent stops.
constexpr std::chrono::milliseconds kStopCheckInterval(100);
// The two together bound the time to detect a dead or unreachable peer, so that the next stream
// opens another connection.
constexpr int kProbeAfterMs = 10'000;
constexpr int kProbeTimeoutMs = 10'000;

std::chrono::nanoseconds Ns(int64_t ns) { return std::chrono::nanoseconds(ns); }

agent::v1::Host ToMessage(const AgentHost& host, const std::string& version) {
  agent::v1::Host message;
  message.set_name(host.position.host);
  message.mutable_position()->set_pod(host.position.pod);
  message.mutable_position()->set_rack(host.position.rack);
  for (const GpuInfo& gpu : host.inventory.gpus) {
    agent::v1::Gpu* out = message.add_gpus();
    out->set_index(gpu.index);
    out->set_bus_id(gpu.bus_id);
  }
  for (const NicInfo& nic : host.inventory.nics) {
    agent::v1::Nic* out = message.add_nics();
    out->set_name(nic.name);
    for (const std::string& address : nic.addresses) out->add_addresses(address);
    out->set_speed_bps(nic.speed_bps);
    out->set_mtu_bytes(static_cast<uint32_t>(nic.mtu_bytes));
  }
  message.set_peer_endpoint(host.peer_endpoint);
  message.set_version(version);
  message.set_transport(host.transport);
  return message;
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsOf(
    const AgentOptions& options) {
  if (options.tls.empty()) return grpc::InsecureChannelCredentials();
  return TlsChannelCredentials(options.tls, options.domain);
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const AgentOptions& options, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  // The agent schedules retries itself, and must not use an HTTP proxy.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(options.first_retry_ns / kNsPerMs));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(options.first_retry_ns / kNsPerMs));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kProbeAfterMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kProbeTimeoutMs);
  return grpc::CreateCustomChannel(options.controller, credentials, arguments);
}

}  // namespace

absl::Status Agent::Start(const AgentHost& host, AgentVitals vitals) {
  if (options_.controller.empty() || host.position.host.empty()) {
    return absl::InvalidArgumentError(
        "cannot start the agent: `controller` or `host` is empty; set both in mccsd's "
        "configuration");
  }
  {
    const std::lock_guard lock(mutex_);
    agent::v1::Host message = ToMessage(host, options_.version);
    if (host_.has_gpu_survey()) *message.mutable_gpu_survey() = host_.gpu_survey();
    host_ = std::move(message);
  }
  topology_ = host.topology;
  vitals_ = std::move(vitals);
  LoadTenants();
  MCCS_ASSIGN_OR_RETURN(const auto credentials, CredentialsOf(options_));
  channel_ = MakeChannel(options_, credentials);
  sender_ = std::thread([this] { SendForEver(); });
  return absl::OkStatus();
}

Agent::~Agent() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.notify_all();
    watched_.notify_all();
  }
  if (sender_.joinable()) sender_.join();
  options_.prober.reset();  // Stops its thread: from here on it calls no callback.
}

void Agent::SendForEver() {
  retry_ns_ = options_.first_retry_ns;
  for (;;) {
    RunStream();
    Pause();
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

// One stream, from opening to end.
void Agent::RunStream() {
  AwaitConnection();
  grpc::ClientContext context;
  const std::unique_ptr<agent::v1::AgentHub::Stub> stub = agent::v1::AgentHub::NewStub(channel_);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    context_ = &context;
    ++stream_;
    broken_ = timed_out_ = false;
    echo_ = ClockEcho();
    heard_ = std::chrono::steady_clock::now();
    heartbeat_every_ns_ = kFirstHeartbeatTimeoutNs;
    heartbeat_timeout_ns_ = kFirstHeartbeatTimeoutNs;
  }
  std::thread watcher([&] { Watch(&context); });  // Started first, because opening may hang.
  const std::unique_ptr<Stream> stream = stub->Attach(&context);
  std::thread listener([&] { Listen(stream.get()); });
  if (SendRegistration(stream.get())) SendUntilBroken(stream.get());
  listener.join();
  watcher.join();
  const bool was_connected = connected();
  if (was_connected) retry_ns_ = options_.first_retry_ns;
  SetConnected(false);
  const grpc::Status end = stream->Finish();
  bool stopping = false;
  std::string why = WhyServerRefused(end);
  if (why.empty()) why = end.error_message();
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    if (timed_out_) why = absl::StrCat("no message for ", heartbeat_timeout_ns_ / kNsPerMs, " ms");
    table_.DropRegistration();
    table_.DropStateRequests();
    StoreHasOrders();
    stopping = stopping_;
  }
  if (stopping || (!was_connected && why == last_error_)) return;
  last_error_ = why;
  log_->Warning("controller ", options_.controller,
                was_connected ? ": connection lost (" : ": cannot connect (", last_error_,
                "); retrying, communicators continue without the controller");
}

// gRPC advances a handshake of TLS only while a thread waits for the channel. Between streams none
// does, and the attempts that it begins meanwhile time out.
void Agent::AwaitConnection() {
  const auto begin = std::chrono::system_clock::now();
  const auto end = begin + 2 * std::chrono::milliseconds(kConnectTimeoutMs);
  bool own_attempt = false;  // not one that began before this call
  grpc_connectivity_state state = channel_->GetState(/*try_to_connect=*/true);
  for (auto now = begin; now < end && state != GRPC_CHANNEL_READY;
       now = std::chrono::system_clock::now()) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    const bool changed = channel_->WaitForStateChange(state, now + kStopCheckInterval);
    if (changed && own_attempt) return;
    if (changed && state != GRPC_CHANNEL_CONNECTING) own_attempt = true;
    state = channel_->GetState(/*try_to_connect=*/true);
    // The attempt was over at once.
    if (own_attempt && state == GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  }
}

bool Agent::SendRegistration(Stream* stream) {
  agent::v1::FromAgent message;
  agent::v1::Register* registration = message.mutable_registration();
  registration->set_protocol(kProtocol);
  registration->set_topology(topology_);
  {
    const std::lock_guard lock(mutex_);
    *registration->mutable_host() = host_;
    for (agent::v1::Announce& announce : table_.Registration()) {
      *registration->add_communicators() = std::move(announce);
    }
  }
  if (options_.wall_clock != nullptr) registration->set_unix_ns(options_.wall_clock->Now());
  return stream->Write(message);
}

void Agent::SendUntilBroken(Stream* stream) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  SteadyTime last_heartbeat = now();
  for (;;) {
    std::vector<agent::v1::FromAgent> messages;
    bool beats = false;
    {
      std::unique_lock lock(mutex_);
      if (broken_ || stopping_) return;
      // The controller would ignore reports before it has accepted the registration.
      if (connected()) messages = table_.TakeUnsent(clock_.Now());
      const SteadyTime due = last_heartbeat + Ns(heartbeat_every_ns_);
      if (messages.empty() && now() < due) {
        changed_.wait_until(lock, std::min(due, NextUnsent()));
        continue;
      }
      if (now() >= due) {
        last_heartbeat = now();
        beats = connected();
        if (beats) *messages.emplace_back().mutable_heartbeat() = echo_.MakeHeartbeat(clock_.Now());
        table_.OnHeartbeat(report_every_ns());
      }
    }
    for (agent::v1::FromAgent& message : messages) {
      if (message.has_heartbeat()) AddVitals(message.mutable_heartbeat());
      if (!stream->Write(message)) return;  // The stream has ended; the listener gets the reason.
    }
    if (beats && vitals_.engine_turns && options_.wake) options_.wake();
  }
}

void Agent::AddVitals(agent::v1::Heartbeat* beat) const {
  if (vitals_.engine_turns) beat->set_engine_turns(vitals_.engine_turns());
  if (vitals_.certificate_end_s) beat->set_certificate_end_s(vitals_.certificate_end_s());
}

Agent::SteadyTime Agent::NextUnsent() const {
  const MonotonicNs next = connected() ? table_.NextUnsent() : kNever;
  if (next == kNever) return SteadyTime::max();
  return std::chrono::steady_clock::now() +
         Ns(std::max<int64_t>(next, clock_.Now()) - clock_.Now());
}

void Agent::Listen(Stream* stream) {
  agent::v1::ToAgent message;
  while (stream->Read(&message)) HandleMessage(message);
  const std::lock_guard lock(mutex_);
  broken_ = true;
  changed_.notify_all();
  watched_.notify_all();
}

void Agent::Watch(grpc::ClientContext* context) {
  std::unique_lock lock(mutex_);
  while (!broken_ && !stopping_) {
    const SteadyTime silent_from = heard_ + Ns(heartbeat_timeout_ns_);
    if (std::chrono::steady_clock::now() < silent_from) {
      watched_.wait_until(lock, silent_from);
      continue;
    }
    timed_out_ = true;
    context->TryCancel();
    return;
  }
}

void Agent::LoadTenants() {
  if (options_.tenants_file.empty()) return;
  const absl::StatusOr<agent::v1::Tenants> tenants = tenants_file_.Load();
  if (absl::IsNotFound(tenants.status())) return;
  if (!tenants.ok()) return log_->Warning(std::string(tenants.status().message()));
  const std::lock_guard lock(mutex_);
  SetTenants(*tenants);
  StoreHasOrders();
}

void Agent::SetTenants(const agent::v1::Tenants& tenants) {
  table_.SetTenants(tenants);
  if (!tenants.id_key().empty()) has_id_key_ = true;
}

void Agent::KeepTenants(const agent::v1::Tenants& tenants) {
  if (options_.tenants_file.empty()) return;
  if (const absl::Status s = tenants_file_.Keep(tenants); !s.ok())
    log_->Warning(std::string(s.message()));
}

void Agent::HandleMessage(const agent::v1::ToAgent& message) {
  absl::Status order;
  if (message.has_registered()) KeepTenants(message.registered().tenants());
  if (message.has_tenants()) KeepTenants(message.tenants());
  {
    const std::lock_guard lock(mutex_);
    heard_ = std::chrono::steady_clock::now();
    if (message.has_registered()) {
      heartbeat_every_ns_ = std::max(message.registered().heartbeat_every_ns(), kNsPerMs);
      heartbeat_timeout_ns_ = std::max(message.registered().heartbeat_timeout_ns(), kNsPerMs);
      watched_.notify_all();
      SetTenants(message.registered().tenants());
    }
    if (message.has_propose()) order = table_.Propose(message.propose());
    if (message.has_rate_limits()) order = table_.SetRateLimits(message.rate_limits());
    if (message.has_heartbeat()) echo_.OnHeartbeat(message.heartbeat(), clock_.Now());
    if (message.has_tenants()) SetTenants(message.tenants());
    if (message.has_found_rendezvous())
      order = table_.AddFoundRendezvous(message.found_rendezvous());
    if (message.has_peer_hosts()) order = table_.SetPeerHosts(message.peer_hosts());
    if (message.has_dump()) table_.AddStateRequest(message.dump().request_id());
    if (message.has_trace()) table_.AddTraceOrder(TraceOrderFromProto(message.trace()));
    StoreHasOrders();
  }
  if (const auto interval = ReportIntervalFromProto(message))
    report_every_ns_.store(*interval, std::memory_order_relaxed);
  if (message.has_registered()) {
    log_->Info("registered with the controller at ", options_.controller, " (",
               message.registered().version(), ")");
    SetConnected(true);
  }
  if (message.has_probe()) Probe(message.probe());
  const bool ordered = message.has_propose() || message.has_rate_limits() ||
                       message.has_tenants() || message.has_found_rendezvous() ||
                       message.has_dump() || message.has_trace() || message.has_peer_hosts();
  if (!order.ok())
    log_->Warning("rejected a message from the controller: ", std::string(order.message()));
  if (ordered && options_.wake) options_.wake();
}

void Agent::Probe(const agent::v1::Probe& message) {
  uint64_t stream = 0;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
  }
  const auto answer = [this, stream](agent::v1::Probed probed) {
    const std::lock_guard lock(mutex_);
    if (stream != stream_ || context_ == nullptr) return;  // The requesting stream has ended.
    table_.AddProbeResult(std::move(probed));
    changed_.notify_all();
  };
  absl::StatusOr<std::vector<ProbeTask>> tasks = ProbeTasksFromProto(message);
  if (!tasks.ok()) return answer(ProbeError(message, std::string(tasks.status().message())));
  if (options_.prober == nullptr)
    return answer(ProbeError(message, "this daemon does not support probes"));
  options_.prober->Probe(*std::move(tasks), [answer, request_id = message.request_id()](
                                                const std::vector<ProbeOutcome>& outcomes) {
    answer(ToMessage(request_id, outcomes));
  });
}

void Agent::SetConnected(bool connected) {
  {
    const std::lock_guard lock(mutex_);
    if (connected_.exchange(connected, std::memory_order_relaxed) == connected) return;
    changed_.notify_all();
  }
  if (options_.wake) options_.wake();
}

// Waits between two attempts.
void Agent::Pause() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, Ns(retry_ns_), [&] { return stopping_; });
  retry_ns_ = std::min(2 * retry_ns_, options_.last_retry_ns);
}

void Agent::SetGpuSurvey(const agent::v1::GpuSurvey& survey) {
  WithTable([&](AgentTable& table) {
    *host_.mutable_gpu_survey() = survey;
    table.SetGpuSurvey(survey);
  });
}

void Agent::Announce(const agent::v1::Announce& announce) {
  WithTable([&](AgentTable& table) { table.Announce(announce); });
}

std::optional<Proposal> Agent::TakeProposal() {
  return TakeOrder([](AgentTable& table) { return table.TakeProposal(); });
}

std::optional<RateUpdate> Agent::TakeRateUpdate() {
  return TakeOrder([](AgentTable& table) { return table.TakeRateUpdate(); });
}

std::optional<std::vector<TenantEntry>> Agent::TakeTenants() {
  return TakeOrder([](AgentTable& table) { return table.TakeTenants(); });
}

std::optional<std::string> Agent::TakeIdKey() {
  return TakeOrder([](AgentTable& table) { return table.TakeIdKey(); });
}

void Agent::SetNamedRendezvous(const agent::v1::NamedRendezvous& all) {
  WithTable([&](AgentTable& table) { table.SetNamedRendezvous(all); });
}

std::optional<FoundRendezvous> Agent::TakeFoundRendezvous() {
  return TakeOrder([](AgentTable& table) { return table.TakeFoundRendezvous(); });
}

void Agent::SetUnreachableHosts(const agent::v1::UnreachableHosts& all) {
  WithTable([&](AgentTable& table) { table.SetUnreachableHosts(all); });
}

std::optional<PeerHosts> Agent::TakePeerHosts() {
  return TakeOrder([](AgentTable& table) { return table.TakePeerHosts(); });
}

void Agent::Report(const agent::v1::Report& report) {
  WithTable([&](AgentTable& table) { table.Report(report); });
}

std::optional<uint64_t> Agent::TakeStateRequest() {
  return TakeOrder([](AgentTable& table) { return table.TakeStateRequest(); });
}

void Agent::SendState(uint64_t request_id, const state::Daemon& state) {
  WithTable([&](AgentTable& table) { table.AddState(request_id, state); });
}

std::optional<TraceOrder> Agent::TakeTraceOrder() {
  return TakeOrder([](AgentTable& table) { return table.TakeTraceOrder(); });
}

void Agent::SendTrace(uint64_t request_id, const trace::Host& trace) {
  WithTable([&](AgentTable& table) { table.AddTrace(request_id, trace); });
}

void Agent::Ended(CommId id, const std::string& why) {
  const bool was_connected = connected();
  WithTable([&](AgentTable& table) {
    table.Ended(id, why);
    if (!was_connected) table.DropEnded();
  });
}

}  // namespace mccs
