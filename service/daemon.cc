#include "service/daemon.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/status_macros.h"
#include "service/executor/executor.h"

namespace mccs {

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Make(const DaemonParts& parts, const DaemonOptions& options) {
  std::unique_ptr<Daemon> daemon(new Daemon(parts, options));
  MCCS_RETURN_IF_ERROR(daemon->Listen(options.listen));
  Endpoint& endpoint = daemon->environment_.endpoint;
  endpoint = options.advertise;
  if (endpoint.host.empty()) endpoint.host = options.listen.host;
  if (endpoint.port == 0) endpoint.port = daemon->listeners_.front()->local().port;
  daemon->session_environment_.endpoint = endpoint;
  return daemon;
}

Daemon::Daemon(const DaemonParts& parts, const DaemonOptions& options)
    : parts_(parts),
      environment_{.access = {.network = parts.network, .random = parts.random, .clock = parts.clock},
                   .transport = parts.transport,
                   .device = parts.device,
                   .controller = parts.controller,
                   .log = parts.log,
                   .position = options.position,
                   .endpoint = {},
                   .channels = options.channels,
                   .lanes = options.lanes,
                   .skew = options.skew},
      rendezvous_(std::make_unique<Rendezvous>(*parts.random, *parts.clock, *parts.log)),
      communicators_(std::make_unique<CommunicatorTable>(environment_, *rendezvous_)) {
  session_environment_ = {.communicators = communicators_.get(),
                          .rendezvous = rendezvous_.get(),
                          .device = parts.device,
                          .log = parts.log,
                          .endpoint = {},
                          .host_environment_id = [this](const wire::UniqueId& id) {
                            return HostEnvironmentId(id);
                          }};
  frontend_ = std::make_unique<Frontend>(session_environment_);
}

bool Daemon::Poll(bool woken) {
  const bool network_moved = parts_.network->Poll() || woken;
  bool moved = network_moved;
  moved |= PollDoors();
  moved |= frontend_->Poll();
  moved |= rendezvous_->Poll();
  moved |= DispatchFinished(*parts_.device);
  moved |= communicators_->Poll(network_moved);
  return moved;
}

absl::Status Daemon::Listen(const Endpoint& at) {
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<Listener> listener, parts_.network->Listen(at));
  listeners_.push_back(std::make_unique<PeerListener>(
      std::move(listener), [this](const Preamble& preamble) { return communicators_->SecretFor(preamble); },
      *parts_.random, *parts_.log));
  return absl::OkStatus();
}

// NCCL_COMM_ID names a place that rank 0's host must answer at, on the job's behalf.
absl::Status Daemon::HostEnvironmentId(const wire::UniqueId& id) {
  const Endpoint at{std::string(id.host, strnlen(id.host, sizeof(id.host))), id.port};
  const bool open = std::any_of(listeners_.begin(), listeners_.end(),
                                [&](const auto& listener) { return listener->local() == at; });
  if (!open) MCCS_RETURN_IF_ERROR(Listen(at));
  rendezvous_->Adopt(id);
  return absl::OkStatus();
}

bool Daemon::PollDoors() {
  bool moved = false;
  for (auto& listener : listeners_) {
    for (Peer& peer : listener->Poll(parts_.clock->Now())) {
      communicators_->Accept(std::move(peer));
      moved = true;
    }
  }
  return moved;
}

MonotonicNs Daemon::NextDeadline() const {
  MonotonicNs next = std::min(rendezvous_->NextDeadline(), communicators_->NextDeadline());
  for (const auto& listener : listeners_) {
    next = std::min(next, listener->NextDeadline().value_or(std::numeric_limits<MonotonicNs>::max()));
  }
  return next;
}

}  // namespace mccs
