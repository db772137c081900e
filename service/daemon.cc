#include "service/daemon.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/endpoint.h"
#include "base/status_macros.h"
#include "service/device/memory_mapper.h"
#include "service/executor/executor.h"
#include "trust/stored_key.h"

namespace mccs {

bool StateDump::Fits(size_t bytes) {
  bytes_ += bytes;
  return bytes_ <= kMaxBytes;
}

// A session is included with all its ranks, or left out.
void StateDump::AddPart(state::Session part) {
  const int known = state_.sessions_size();
  const bool continues = known > 0 && state_.sessions(known - 1).id() == part.id();
  if (Fits(part.ByteSizeLong())) {
    if (continues) {
      state_.mutable_sessions(known - 1)->mutable_ranks()->MergeFrom(part.ranks());
    } else {
      *state_.add_sessions() = std::move(part);
    }
    return;
  }
  if (left_out_ == part.id()) return;
  left_out_ = part.id();
  state_.set_sessions_left_out(state_.sessions_left_out() + 1);
  if (continues) state_.mutable_sessions()->RemoveLast();
}

bool StateDump::Continue(const Frontend& frontend, const CommunicatorTable& communicators) {
  for (int part = 0; part < kPartsPerTurn; ++part) {
    if (!sessions_done_) {
      state::Session session;
      sessions_done_ = !frontend.WriteNextState(&session_, &session);
      if (!sessions_done_) AddPart(std::move(session));
      continue;
    }
    state::Communicator communicator;
    const std::optional<uint64_t> next = communicators.WriteNextState(communicator_, &communicator);
    if (!next.has_value()) return true;
    communicator_ = *next;
    if (Fits(communicator.ByteSizeLong())) {
      *state_.add_communicators() = std::move(communicator);
    } else {
      state_.set_communicators_left_out(state_.communicators_left_out() + 1);
    }
  }
  return false;
}

namespace {

// Ports below are reserved for the machine's own services.
constexpr uint16_t kFirstFreePort = 1024;

// True if a connection to `at` reaches a listener at `open`.
bool IncludesAddress(const Endpoint& open, const Endpoint& at) {
  const bool one_family =
      (open.host.find(':') == std::string::npos) == (at.host.find(':') == std::string::npos);
  return open == at || (open.port == at.port && IsWildcardAddress(open.host) && one_family);
}

// The address at which rank 0's host listens for the ranks of `id`. If the name resolves to a
// loopback address here, it resolves to another one on other hosts, because each has its own
// /etc/hosts. Then the host listens at all addresses.
Endpoint ListenAddressOf(const wire::UniqueId& id) {
  Endpoint at{std::string(id.host, strnlen(id.host, sizeof(id.host))), id.port};
  if (id.resolved != 0 && IsLoopbackAddress(at.host))
    at.host = at.host.find(':') == std::string::npos ? "0.0.0.0" : "::";
  return at;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Make(const DaemonParts& parts,
                                                     const DaemonOptions& options) {
  std::unique_ptr<Daemon> daemon(new Daemon(parts, options));
  MCCS_ASSIGN_OR_RETURN(daemon->listener_, daemon->Listen(options.listen));
  Endpoint& endpoint = daemon->environment_.endpoint;
  endpoint = options.advertise;
  if (endpoint.host.empty()) endpoint.host = options.listen.host;
  if (endpoint.port == 0) endpoint.port = daemon->listener_->local().port;
  daemon->session_environment_.endpoint = endpoint;
  daemon->named_.SetOwn(options.position.host, endpoint);
  return daemon;
}

Daemon::Daemon(const DaemonParts& parts, const DaemonOptions& options)
    : parts_(parts),
      pacing_(options.dscp_by_class),
      reachability_({.network = parts.network,
                     .clock = parts.clock,
                     .log = parts.log,
                     .controller = parts.controller,
                     .dscp = ControlDscp(options.dscp_by_class)}),
      environment_{.access = {.network = parts.network,
                              .random = parts.random,
                              .clock = parts.clock,
                              .control_dscp = ControlDscp(options.dscp_by_class),
                              .security = parts.security,
                              .reachability = &reachability_},
                   .transport = parts.transport,
                   .rdma = parts.rdma,
                   .requires_rdma = options.requires_rdma,
                   .device = parts.device,
                   .controller = parts.controller,
                   .pacing = &pacing_,
                   .relay = &relay_,
                   .named = &named_,
                   .lines = &communicator_lines_,
                   .position = options.position,
                   .endpoint = {},
                   .channels = options.channels,
                   .lanes = options.lanes,
                   .skew = options.skew,
                   .algorithms = options.algorithms,
                   .counters = counters_.get()},
      id_keys_(options.expects_id_key ? MakeKey(*parts.random) : std::string()),
      budget_(options.limits),
      buffer_quota_(options.buffers, counters_.get()),
      tenant_warnings_(*parts.log, "tenant"),
      communicator_lines_(*parts.log, "tenant", kCommunicatorLinesPerMinute),
      rendezvous_(std::make_unique<Rendezvous>(*parts.random, *parts.clock, *parts.log)),
      named_(*parts.controller, *rendezvous_, *parts.clock),
      communicators_(std::make_unique<CommunicatorTable>(environment_, *rendezvous_, relay_)) {
  environment_.rendezvous = rendezvous_.get();
  session_environment_ = {
      .communicators = communicators_.get(),
      .rendezvous = rendezvous_.get(),
      .device = parts.device,
      .wants_dma_bufs = parts.device->uses_kernels() && parts.rdma != nullptr &&
                        parts.rdma->WhyNotOnGpus().empty(),
      .buffer_quota = &buffer_quota_,
      .ledger = &ledger_,
      .budget = &budget_,
      .denies_unknown = &denies_unknown_tenants_,
      .clock = parts.clock,
      .log = parts.log,
      .warnings = &tenant_warnings_,
      .counters = counters_.get(),
      .endpoint = {},
      .id_keys = &id_keys_,
      .listen_for_environment_id = std::bind_front(&Daemon::ListenForEnvironmentId, this)};
  DenyUnknownTenants(options.denies_unknown_tenants);
  for (size_t r = 0; r < kResources; ++r)
    counters_->limits[r].Set(static_cast<int64_t>(options.limits.of[r]));
  frontend_ = std::make_unique<Frontend>(session_environment_);
  declared_sockets_ = std::make_unique<DeclaredSockets>(parts.sockets, *frontend_, *parts.clock,
                                                        *parts.log, *counters_);
  if (parts.rdma == nullptr && !parts.device->uses_kernels()) return;
  parts.device->mapper().SetReleaser([this](const Region& region, std::shared_ptr<void> token) {
    if (parts_.device->uses_kernels()) frontend_->Withdraw(region, token);
    if (parts_.rdma != nullptr) parts_.rdma->Forget(region, std::move(token));
  });
}

bool Daemon::Poll(bool woken) {
  bool moved = parts_.network->Poll() || woken;
  if (parts_.security != nullptr) moved |= parts_.security->Poll();
  moved |= PollTenants();
  moved |= PollListeners();
  moved |= reachability_.Poll();
  moved |= named_.Poll();
  moved |= frontend_->Poll();
  moved |= rendezvous_->Poll();
  moved |= relay_.Poll();
  moved |= DispatchFinished(*parts_.device);
  moved |= parts_.device->mapper().Poll();
  moved |= parts_.transport->Poll();  // before the lanes
  if (parts_.rdma != nullptr) moved |= PollRdma();
  moved |= communicators_->Poll();
  moved |= PollStateRequests();
  return moved;
}

bool Daemon::PollRdma() {
  if (!parts_.rdma->Poll()) return false;
  const TransportCounters now = parts_.rdma->counters();
  DaemonCounters::Rdma& shown = counters_->rdma;
  shown.devices.Set(static_cast<int64_t>(now.devices));
  shown.queue_pairs.Set(static_cast<int64_t>(now.queue_pairs));
  shown.registered_regions.Set(static_cast<int64_t>(now.registered_regions));
  shown.registered_bytes.Set(static_cast<int64_t>(now.registered_bytes));
  shown.requests.RaiseTo(now.requests);
  shown.completions.RaiseTo(now.completions);
  shown.receives.RaiseTo(now.receives);
  shown.refills.RaiseTo(now.refills);
  return true;
}

Daemon::~Daemon() {
  frontend_->EndKernels();
  while (!communicators_->quiescent()) DispatchFinished(*parts_.device);
  parts_.device->mapper().SetReleaser(nullptr);
}

absl::StatusOr<std::unique_ptr<PeerListener>> Daemon::Listen(const Endpoint& at) {
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, parts_.network->Listen(at));
  auto peer_listener = std::make_unique<PeerListener>(
      std::move(listener),
      [this](const Preamble& preamble) { return communicators_->SecretFor(preamble); },
      *parts_.random, *parts_.log, PeerListenerLimits{}, parts_.security, &counters_->peers);
  peer_listener->Mark(environment_.access.control_dscp);
  return peer_listener;
}

// Opens the rendezvous of a NCCL_COMM_ID on rank 0's host: by its number, or where ids are not
// signed with a listener at the address that the id names.
absl::Status Daemon::ListenForEnvironmentId(const wire::UniqueId& id, const std::string& tenant,
                                            const std::shared_ptr<TenantResources>& budget) {
  const std::string& payer = budget != nullptr ? budget->name() : tenant;
  if (IsNamed(id)) {
    MCCS_RETURN_IF_ERROR(named_.Open(CommId(id.comm_id), payer));
    return rendezvous_->Register(id, tenant, budget);
  }
  const Endpoint at = ListenAddressOf(id);
  if (at.port < kFirstFreePort) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NCCL_COMM_ID: port ", at.port, " is reserved; use port ", kFirstFreePort, " or above"));
  }
  const bool open =
      IncludesAddress(listener_->local(), at) ||
      std::any_of(environment_listeners_.begin(), environment_listeners_.end(),
                  [&](const auto& entry) { return IncludesAddress(entry.listener->local(), at); });
  if (!open) {
    const auto held = std::count_if(environment_listeners_.begin(), environment_listeners_.end(),
                                    [&](const auto& entry) { return entry.tenant == payer; });
    if (held >= kMaxEnvironmentListenersPerTenant) {
      return absl::ResourceExhaustedError(
          absl::StrCat("NCCL_COMM_ID: ranks of ", held,
                       " jobs of this tenant are still joining at other addresses, which is the "
                       "limit; retry when they have joined, or use ncclGetUniqueId"));
    }
    BudgetShare descriptor(budget, Resource::kDescriptors);
    MCCS_RETURN_IF_ERROR(descriptor.Take());
    auto listener = Listen(at);
    if (!listener.ok()) {
      return absl::Status(
          listener.status().code(),
          absl::StrCat(
              "NCCL_COMM_ID must be an address of rank 0's host and a port that is free there: ",
              std::string(listener.status().message())));
    }
    environment_listeners_.push_back(
        {CommId(id.comm_id), payer, std::move(descriptor), *std::move(listener)});
  }
  return rendezvous_->Register(id, tenant, budget);
}

bool Daemon::PollListeners() {
  bool moved = false;
  const std::vector<CommId> changed = communicators_->TakeChanged();
  auto poll = [&](PeerListener& listener) {
    for (const CommId id : changed) listener.RetryLookup(id);
    for (Peer& peer : listener.Poll(parts_.clock->Now())) {
      communicators_->Accept(std::move(peer));
      moved = true;
    }
  };
  poll(*listener_);
  for (EnvironmentListener& entry : environment_listeners_) poll(*entry.listener);
  std::erase_if(environment_listeners_, [&](const EnvironmentListener& entry) {
    return !rendezvous_->SecretOf(entry.rendezvous).has_value();
  });
  return moved;
}

bool Daemon::PollTenants() {
  const bool opened = declared_sockets_->Poll();
  if (const std::optional<std::string> key = parts_.controller->TakeIdKey())
    id_keys_.Set(*key, parts_.clock->Now());
  std::optional<std::vector<TenantEntry>> tenants = parts_.controller->TakeTenants();
  if (!tenants.has_value()) return opened;
  declared_sockets_->SetTenants(*tenants);
  ledger_.SetTenants(*std::move(tenants));
  communicators_->TenantsChanged();
  counters_->Rename([this](const ProcessOrigin& origin) { return ledger_.NameOf(origin); });
  return true;
}

bool Daemon::PollStateRequests() {
  if (!dump_.has_value()) {
    const std::optional<uint64_t> request_id = parts_.controller->TakeStateRequest();
    if (!request_id.has_value()) return false;
    state::Daemon first;
    first.set_host(environment_.position.host);
    first.set_endpoint(ToString(environment_.endpoint));
    first.set_measured_ns(parts_.clock->Now());
    first.mutable_engine()->set_turns(counters_->turns.value());
    first.mutable_engine()->set_busy_turns(counters_->busy_turns.value());
    first.mutable_engine()->set_sleeps(counters_->sleeps.value());
    first.mutable_engine()->set_awake_ns(counters_->awake_ns.value());
    first.set_device(parts_.device->Description());
    first.set_rendezvous(rendezvous_->pending_rendezvous());
    dump_.emplace(*request_id, std::move(first));
  }
  if (dump_->Continue(*frontend_, *communicators_)) {
    parts_.controller->SendState(dump_->request_id(), dump_->state());
    dump_.reset();
  }
  return true;
}

MonotonicNs Daemon::NextDeadline() const {
  MonotonicNs next = std::min({reachability_.NextDeadline(), rendezvous_->NextDeadline(),
                               named_.NextDeadline(), relay_.NextDeadline(),
                               communicators_->NextDeadline(), declared_sockets_->NextDeadline()});
  auto add = [&](const PeerListener& listener) {
    next = std::min(next, listener.NextDeadline().value_or(kNever));
  };
  add(*listener_);
  for (const EnvironmentListener& entry : environment_listeners_) add(*entry.listener);
  return parts_.rdma != nullptr ? std::min(next, parts_.rdma->NextDeadline()) : next;
}

bool Daemon::PrepareSleep() {
  const bool has_work = parts_.rdma != nullptr && parts_.rdma->PrepareSleep();
  return frontend_->PrepareSleep() || has_work;
}

}  // namespace mccs
