#include "service/agent/agent.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/agent.grpc.pb.h"
#include "proto/message_limits.h"
#include "service/agent/agent_table.h"
#include "service/agent/clock_echo.h"
#include "service/agent/probe_proto.h"

namespace mccs {
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

// The version of agent.proto that this daemon speaks.
constexpr uint32_t kProtocol = 1;
// Until the controller has said its own.
constexpr int64_t kFirstHeartbeatTimeoutNs = 5 * kNsPerSec;
constexpr int kConnectTimeoutMs = 2000;
// A connection whose other machine is dead or cut off is given up within the two together, so that
// the next stream opens another one.
constexpr int kProbeAfterMs = 10'000;
constexpr int kProbeTimeoutMs = 10'000;
// Every so many heartbeats all reports are told again.
constexpr int kHeartbeatsPerRepeat = 4;

std::chrono::nanoseconds Ns(int64_t ns) { return std::chrono::nanoseconds(ns); }

agent::Host ToMessage(const AgentHost& host, const std::string& version) {
  agent::Host message;
  message.set_name(host.position.host);
  message.mutable_position()->set_pod(host.position.pod);
  message.mutable_position()->set_rack(host.position.rack);
  for (const GpuInfo& gpu : host.inventory.gpus) {
    agent::Gpu* out = message.add_gpus();
    out->set_index(gpu.index);
    out->set_bus_id(gpu.bus_id);
  }
  for (const NicInfo& nic : host.inventory.nics) {
    agent::Nic* out = message.add_nics();
    out->set_name(nic.name);
    for (const std::string& address : nic.addresses) out->add_addresses(address);
    out->set_speed_bps(nic.speed_bps);
    out->set_mtu_bytes(static_cast<uint32_t>(nic.mtu_bytes));
  }
  message.set_peer_endpoint(host.peer_endpoint);
  message.set_version(version);
  return message;
}

std::shared_ptr<grpc::Channel> MakeChannel(const AgentOptions& options) {
  grpc::ChannelArguments arguments;
  // The pauses between attempts are ours, and a proxy for the web is none for us.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS,
                   static_cast<int>(options.first_retry_ns / kNsPerMs));
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS,
                   static_cast<int>(options.first_retry_ns / kNsPerMs));
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kProbeAfterMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kProbeTimeoutMs);
  return grpc::CreateCustomChannel(options.controller, grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

// The talker thread opens a stream and writes; for each stream a listener thread reads, and a
// watcher cancels it when nothing has been heard for too long. That alone ends a read or a write
// whose other end stands still: neither has a deadline, and a write waits for the reader.
class Agent::Impl {
 public:
  using Stream = grpc::ClientReaderWriter<agent::FromAgent, agent::ToAgent>;

  Impl(AgentOptions options, Log* log) : options_(std::move(options)), log_(log) {}
  ~Impl();

  absl::Status Start(const AgentHost& host);

  bool connected() const { return connected_.load(std::memory_order_relaxed); }

  // Runs `write(table)` and has the talker look at what is new. An order that waited for just that
  // can be taken from then on.
  template <typename Write>
  void WithTable(Write write) {
    bool ordered = false;
    {
      const std::lock_guard lock(mutex_);
      write(table_);
      ordered = StoreHasOrders();
      changed_.notify_all();
    }
    if (ordered && options_.wake) options_.wake();
  }
  // The next order of one kind, as `take(table)` gives it.
  template <typename Take>
  auto TakeOrder(Take take) -> decltype(take(std::declval<AgentTable&>())) {
    if (!has_orders_.load(std::memory_order_acquire)) return std::nullopt;
    const std::lock_guard lock(mutex_);
    auto order = take(table_);
    StoreHasOrders();
    return order;
  }

 private:
  void TalkForEver();
  void TalkOnce();
  bool SendRegistration(Stream* stream);
  // Until the stream has ended, or is to.
  void SendUntilBroken(Stream* stream);
  void Listen(Stream* stream);
  void Watch(grpc::ClientContext* context);
  void Hear(const agent::ToAgent& message);
  void Probe(const agent::Probe& message);
  void SetConnected(bool connected);
  void Pause();
  // True when there are orders, and were none. REQUIRES: mutex_ is held.
  bool StoreHasOrders() {
    const bool has = table_.has_orders();
    return !has_orders_.exchange(has, std::memory_order_release) && has;
  }

  AgentOptions options_;  // not changed, but that the prober ends first
  Log* const log_;
  const SystemClock clock_;  // as the daemon's: windows are told by it
  agent::Host host_;
  std::string topology_;
  std::shared_ptr<grpc::Channel> channel_;
  std::thread talker_;
  int64_t retry_ns_ = 0;    // talker
  std::string last_error_;  // talker: so that the same one is told once
  // Says "the controller answers" for the engine, and guards nothing.
  std::atomic<bool> connected_ = false;
  // Written under mutex_, with the table: spares the engine the lock. Release when an order has
  // come; pairs with the load in TakeOrder.
  std::atomic<bool> has_orders_ = false;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::condition_variable watched_;  // what the watcher looks at has changed
  AgentTable table_;
  ClockEcho echo_;  // of the stream that is open
  bool stopping_ = false;
  bool broken_ = false;                     // the listener has ended
  bool silent_ = false;                     // the watcher has cancelled
  grpc::ClientContext* context_ = nullptr;  // of the stream that is open
  uint64_t stream_ = 0;                     // its number
  SteadyTime heard_;
  int64_t heartbeat_every_ns_ = 0;
  int64_t heartbeat_timeout_ns_ = 0;
};

absl::Status Agent::Impl::Start(const AgentHost& host) {
  if (options_.controller.empty() || host.position.host.empty()) {
    return absl::InvalidArgumentError(
        "the agent needs the controller's address and this host's name");
  }
  host_ = ToMessage(host, options_.version);
  topology_ = host.topology;
  channel_ = MakeChannel(options_);
  talker_ = std::thread([this] { TalkForEver(); });
  return absl::OkStatus();
}

Agent::Impl::~Impl() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
    changed_.notify_all();
    watched_.notify_all();
  }
  if (talker_.joinable()) talker_.join();
  options_.prober.reset();  // Nobody asks it any more, and from here on it answers nobody.
}

void Agent::Impl::TalkForEver() {
  retry_ns_ = options_.first_retry_ns;
  for (;;) {
    TalkOnce();
    Pause();
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
  }
}

// One stream, from its opening to its end.
void Agent::Impl::TalkOnce() {
  grpc::ClientContext context;
  const std::unique_ptr<agent::AgentHub::Stub> stub = agent::AgentHub::NewStub(channel_);
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    context_ = &context;
    ++stream_;
    broken_ = silent_ = false;
    echo_ = ClockEcho();
    heard_ = std::chrono::steady_clock::now();
    heartbeat_every_ns_ = kFirstHeartbeatTimeoutNs;
    heartbeat_timeout_ns_ = kFirstHeartbeatTimeoutNs;
  }
  std::thread watcher([&] { Watch(&context); });  // from here on: the opening may hang, too
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
  std::string why = end.error_message();
  {
    const std::lock_guard lock(mutex_);
    context_ = nullptr;
    if (silent_) why = absl::StrCat("nothing heard for ", heartbeat_timeout_ns_ / kNsPerMs, " ms");
    table_.ForgetRegistration();
    table_.ForgetQuestions();
    StoreHasOrders();
    stopping = stopping_;
  }
  if (stopping || (!was_connected && why == last_error_)) return;
  last_error_ = why;
  log_->Warning("the controller at ", options_.controller,
                was_connected ? " is lost (" : " does not serve us (", last_error_,
                "); trying again for ever. Communicators run on without it");
}

bool Agent::Impl::SendRegistration(Stream* stream) {
  agent::FromAgent message;
  agent::Register* registration = message.mutable_registration();
  registration->set_protocol(kProtocol);
  *registration->mutable_host() = host_;
  registration->set_topology(topology_);
  {
    const std::lock_guard lock(mutex_);
    for (agent::Announce& announce : table_.Registration()) {
      *registration->add_communicators() = std::move(announce);
    }
  }
  if (options_.wall_clock != nullptr) registration->set_unix_ns(options_.wall_clock->Now());
  return stream->Write(message);
}

void Agent::Impl::SendUntilBroken(Stream* stream) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  SteadyTime last_heartbeat = now();
  int heartbeats = 0;
  for (;;) {
    std::vector<agent::FromAgent> messages;
    {
      std::unique_lock lock(mutex_);
      if (broken_ || stopping_) return;
      // What is said before the controller has accepted us would be said in vain.
      if (connected()) messages = table_.TakeUnsaid();
      const SteadyTime due = last_heartbeat + Ns(heartbeat_every_ns_);
      if (messages.empty() && now() < due) {
        changed_.wait_until(lock, due);
        continue;
      }
      if (now() >= due) {
        last_heartbeat = now();
        if (connected()) *messages.emplace_back().mutable_heartbeat() = echo_.Beat(clock_.Now());
        if (++heartbeats % kHeartbeatsPerRepeat == 0) table_.RepeatReports();
      }
    }
    for (const agent::FromAgent& message : messages) {
      if (!stream->Write(message)) return;  // It has ended, and the listener hears why.
    }
  }
}

void Agent::Impl::Listen(Stream* stream) {
  agent::ToAgent message;
  while (stream->Read(&message)) Hear(message);
  const std::lock_guard lock(mutex_);
  broken_ = true;
  changed_.notify_all();
  watched_.notify_all();
}

void Agent::Impl::Watch(grpc::ClientContext* context) {
  std::unique_lock lock(mutex_);
  while (!broken_ && !stopping_) {
    const SteadyTime silent_from = heard_ + Ns(heartbeat_timeout_ns_);
    if (std::chrono::steady_clock::now() < silent_from) {
      watched_.wait_until(lock, silent_from);
      continue;
    }
    silent_ = true;
    context->TryCancel();
    return;
  }
}

void Agent::Impl::Hear(const agent::ToAgent& message) {
  absl::Status order;
  {
    const std::lock_guard lock(mutex_);
    heard_ = std::chrono::steady_clock::now();
    if (message.has_registered()) {
      heartbeat_every_ns_ = std::max(message.registered().heartbeat_every_ns(), kNsPerMs);
      heartbeat_timeout_ns_ = std::max(message.registered().heartbeat_timeout_ns(), kNsPerMs);
      watched_.notify_all();
      table_.SetTenants(message.registered().tenants());
    }
    if (message.has_propose()) order = table_.Propose(message.propose());
    if (message.has_pace()) order = table_.SetPace(message.pace());
    if (message.has_heartbeat()) echo_.Heard(message.heartbeat(), clock_.Now());
    if (message.has_tenants()) table_.SetTenants(message.tenants());
    if (message.has_dump()) table_.Ask(message.dump().question());
    StoreHasOrders();
  }
  if (message.has_registered()) {
    log_->Info("registered with the controller at ", options_.controller, " (",
               message.registered().version(), ")");
    SetConnected(true);
  }
  if (message.has_probe()) Probe(message.probe());
  const bool ordered = message.has_propose() || message.has_pace() || message.has_tenants();
  if (!order.ok()) log_->Warning("an order is not taken: ", std::string(order.message()));
  if ((ordered || message.has_dump()) && options_.wake) options_.wake();
}

void Agent::Impl::Probe(const agent::Probe& message) {
  uint64_t stream = 0;
  {
    const std::lock_guard lock(mutex_);
    stream = stream_;
  }
  const auto answer = [this, stream](agent::Probed probed) {
    const std::lock_guard lock(mutex_);
    if (stream != stream_ || context_ == nullptr) return;  // Whoever asked is gone.
    table_.AnswerProbe(std::move(probed));
    changed_.notify_all();
  };
  absl::StatusOr<std::vector<ProbeTask>> tasks = TasksFromProto(message);
  if (!tasks.ok()) return answer(NothingProbed(message, std::string(tasks.status().message())));
  if (options_.prober == nullptr)
    return answer(NothingProbed(message, "this daemon has nothing to probe with"));
  options_.prober->Probe(*std::move(tasks), [answer, question = message.question()](
                                                const std::vector<ProbeOutcome>& outcomes) {
    answer(ToMessage(question, outcomes));
  });
}

void Agent::Impl::SetConnected(bool connected) {
  {
    const std::lock_guard lock(mutex_);
    if (connected_.exchange(connected, std::memory_order_relaxed) == connected) return;
    changed_.notify_all();
  }
  if (options_.wake) options_.wake();
}

// Between two attempts.
void Agent::Impl::Pause() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, Ns(retry_ns_), [&] { return stopping_; });
  retry_ns_ = std::min(2 * retry_ns_, options_.last_retry_ns);
}

Agent::Agent(AgentOptions options, Log* log)
    : impl_(std::make_unique<Impl>(std::move(options), log)) {}

Agent::~Agent() = default;

absl::Status Agent::Start(const AgentHost& host) { return impl_->Start(host); }

bool Agent::connected() const { return impl_->connected(); }

void Agent::Announce(const CommunicatorInfo& info) {
  impl_->WithTable([&](AgentTable& table) { table.Announce(info); });
}

std::optional<Proposal> Agent::TakeProposal() {
  return impl_->TakeOrder([](AgentTable& table) { return table.TakeProposal(); });
}

std::optional<PaceOrder> Agent::TakePace() {
  return impl_->TakeOrder([](AgentTable& table) { return table.TakePace(); });
}

std::optional<std::vector<TenantEntry>> Agent::TakeTenants() {
  return impl_->TakeOrder([](AgentTable& table) { return table.TakeTenants(); });
}

void Agent::Report(const CommunicatorStats& stats) {
  impl_->WithTable([&](AgentTable& table) { table.Report(stats); });
}

std::optional<uint64_t> Agent::TakeQuestion() {
  return impl_->TakeOrder([](AgentTable& table) { return table.TakeQuestion(); });
}

void Agent::AnswerState(uint64_t question, const state::Daemon& state) {
  impl_->WithTable([&](AgentTable& table) { table.Answer(question, state); });
}

void Agent::Ended(CommId id, const std::string& why) {
  const bool heard = connected();
  impl_->WithTable([&](AgentTable& table) {
    table.Ended(id, why);
    if (!heard) table.ForgetEnded();
  });
}

}  // namespace mccs
