#include "service/communicator/lanes/peer_lane.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "service/communicator/strategy/strategy.h"

namespace mccs {
namespace {

constexpr uint16_t kRocePort = 4791;  // UDP, of RoCE v2
constexpr int64_t kDialAgainNs = 50 * kNsPerMs;
constexpr int64_t kRestartDialNs = 100 * kNsPerMs;  // doubles each time, with one route
// Of a first dial: hosts that form a large communicator answer late.
constexpr int64_t kRestartFirstDialNs = kNsPerSec;
// The lane still works on its old connection, so retries are slow.
constexpr int64_t kMoveAgainNs = kNsPerSec;
// Longer than a queue pair repeats a packet.
constexpr int64_t kRestoredNs = 10 * kNsPerSec;
constexpr int64_t kMaxReturnNs = 64 * kNsPerSec;

std::string NameOf(ChannelId channel) {
  return IsMessageChannel(channel) ? absl::StrCat("message lane ", MessageLaneOf(channel))
                                   : absl::StrCat("channel ", channel.value());
}

// The queues of a lane that gets this connection.
SharedQueueKey QueuesOver(const Connection& connection, SharedQueueKey queues,
                          uint16_t source_port) {
  queues.domain.nic.address = connection.local().host;
  queues.source_port = source_port;
  return queues;
}

// The addresses of the lane's stream are replaced by those of its packets.
void AddQueuePair(const QueuePairState& pair, agent::v1::Lane* stats) {
  agent::v1::RdmaLane* rdma = stats->mutable_rdma();
  rdma->set_device(pair.device);
  rdma->set_port(pair.port);
  char gid[INET6_ADDRSTRLEN] = "";
  inet_ntop(AF_INET6, pair.gid.data(), gid, sizeof(gid));
  rdma->set_gid(gid);
  rdma->set_queue_pair(pair.number);
  rdma->set_peer_queue_pair(pair.peer_number);
  rdma->set_requested_source_port(pair.requested_source_port);
  rdma->set_source_port(pair.source_port);
  rdma->set_memory(pair.memory);
  if (pair.source_port == 0) return;
  const auto replace_port = [](const std::string& endpoint, uint16_t port) {
    absl::StatusOr<Endpoint> parsed = ParseEndpoint(endpoint);
    return parsed.ok() ? ToString(Endpoint{parsed->host, port}) : endpoint;
  };
  stats->set_local(replace_port(stats->local(), pair.source_port));
  stats->set_remote(replace_port(stats->remote(), kRocePort));
}

absl::Status Named(const absl::Status& lane, ChannelId channel, const Endpoint& peer) {
  return absl::Status(
      lane.code(), absl::StrCat(IsMessageChannel(channel) ? "" : "lane of ", NameOf(channel),
                                " with host ", ToString(peer), ": ", std::string(lane.message())));
}

}  // namespace

// ---- Timeout ------------------------------------------------------------------------------------

absl::Status ReconnectTimeout::Check(const LaneEnd& lane, const absl::Status& status,
                                     MonotonicNs now) {
  if (status.ok() && !started()) return absl::OkStatus();
  const bool exchanges = status.ok() && lane.state() == LaneState::kExchanging;
  if (!exchanges && exchanges_since_ != 0) {
    broken_at_ += now - exchanges_since_;
    exchanges_since_ = 0;
  }
  broken_ = !status.ok();
  if (broken_) {
    ready_since_ = 0;
    if (broken_at_ == 0) broken_at_ = now;
    return absl::IsUnavailable(status) && now < deadline() ? absl::OkStatus() : status;
  }
  if (exchanges) {
    if (exchanges_since_ == 0) exchanges_since_ = now;
    return absl::OkStatus();
  }
  if (ready_since_ == 0) ready_since_ = now;
  // An idle connection may have nothing to show that it works.
  if (lane.works() || now - ready_since_ >= kRestoredNs) Reset();
  return absl::OkStatus();
}

MonotonicNs ReconnectTimeout::deadline() const {
  return waiting() ? broken_at_ + kLaneReconnectTimeoutNs : kNever;
}

// ---- Outgoing -----------------------------------------------------------------------------------

OutgoingLane::OutgoingLane(const PeerAccess& access, const DialOptions& dial, LaneRoutes routes,
                           FirstDial first, std::unique_ptr<SendLane> lane, LaneTally tally,
                           RateMeter* rate)
    : access_(access),
      options_(dial),
      routes_(std::move(routes)),
      first_(first),
      lane_(std::move(lane)),
      tally_(tally),
      meter_(rate) {
  MCCS_CHECK(lane_ != nullptr);
  StartDial();
}

// The first packet of a connection that is lost is sent again only after a second. A lane that is
// to be restored redials sooner: on another route if there is one, else after twice the time.
void OutgoingLane::StartDial() {
  const MonotonicNs now = access_.clock->Now();
  DialOptions options = options_;
  options.route = routes_.Attempt(attempt_++, options_.route, chosen_route(),
                                  [this](const std::string& address) { return HasLink(address); });
  // A packet sent now would be lost, and the address of the peer not be asked for again for a
  // second.
  if (attached_ && !HasLink(options.route.connect.source_host)) {
    dial_.reset();
    redial_at_ = now + kDialAgainNs;
    return;
  }
  dial_route_ = options.route;
  dial_ = std::make_unique<Dial>(access_, options);
  const bool doubles = restart_after_ns_ != 0 && !routes_.has_others();
  restart_after_ns_ =
      doubles ? std::min(2 * restart_after_ns_, kLaneReconnectTimeoutNs) : kRestartDialNs;
  restart_dial_at_ = kNever;
  if (attached_) restart_dial_at_ = now + restart_after_ns_;
  if (!attached_ && routes_.has_others()) restart_dial_at_ = now + kRestartFirstDialNs;
}

bool OutgoingLane::HasLink(const std::string& address) const {
  return access_.network->HasLink(address.empty() ? lane_->queues().domain.nic.address : address);
}

const DialRoute& OutgoingLane::chosen_route() const {
  return move_to_.has_value() ? *move_to_ : options_.route;
}

void OutgoingLane::TakeRoute(const DialRoute& route) {
  if (route == options_.route) return;
  const DialRoute chosen = chosen_route();
  options_.route = route;
  move_dial_.reset();
  via_system_port_ = false;
  move_to_.reset();
  if (route == chosen) return;
  move_to_ = chosen;
  move_error_ = ConnectionError();
  if (move_error_.ok()) move_error_ = absl::UnavailableError("no connection there yet");
  return_after_ns_ = std::clamp(2 * return_after_ns_, kMoveAgainNs, kMaxReturnNs);
  retry_move_at_ = access_.clock->Now() + return_after_ns_;
}

void OutgoingLane::OnReopenRequest() {
  if (attached_ && !departed_ && dial_ == nullptr) lost_at_peer_ = true;
}

void OutgoingLane::MoveTo(const DialRoute& route) {
  move_dial_.reset();
  move_to_.reset();
  via_system_port_ = false;
  move_error_ = absl::OkStatus();
  return_after_ns_ = 0;
  if (route == options_.route || departed_) return;
  move_to_ = route;
  move_dial_ = std::make_unique<Dial>(access_, OptionsOfMove());
}

DialOptions OutgoingLane::OptionsOfMove() const {
  DialOptions options = options_;
  options.route = *move_to_;
  if (via_system_port_) options.route.connect.source_port = 0;
  return options;
}

// Returns true if the lane has moved or has started to move.
bool OutgoingLane::PollMove() {
  const MonotonicNs now = access_.clock->Now();
  if (move_dial_ == nullptr) {
    if (now < retry_move_at_) return false;
    if (!HasLink(move_to_->connect.source_host)) {
      retry_move_at_ = now + kMoveAgainNs;
      return false;
    }
    move_dial_ = std::make_unique<Dial>(access_, OptionsOfMove());
  }
  auto connection = move_dial_->Poll();
  if (!connection.ok()) return OnMoveFailed(connection.status());
  if (*connection == nullptr) return false;
  move_dial_.reset();
  options_ = OptionsOfMove();
  if (via_system_port_) {
    retry_move_at_ = now + kMoveAgainNs;
  } else {
    move_to_.reset();
  }
  via_system_port_ = false;
  dial_.reset();
  AttachConnection(std::move(*connection));
  return true;
}

// The port may belong to a lane that waits, directly or through others, for this lane's port. So
// this lane first moves to a port of the system's choice.
bool OutgoingLane::OnMoveFailed(const absl::Status& why) {
  move_error_ = why;
  move_dial_.reset();
  via_system_port_ = !via_system_port_ && absl::IsAlreadyExists(why) && attached_ &&
                     options_.route.connect.source_port != 0;
  if (via_system_port_) {
    move_dial_ = std::make_unique<Dial>(access_, OptionsOfMove());
  } else {
    retry_move_at_ = access_.clock->Now() + std::max(kMoveAgainNs, return_after_ns_);
  }
  return via_system_port_;
}

void OutgoingLane::AttachConnection(std::unique_ptr<Connection> connection) {
  lane_->SetQueues(QueuesOver(*connection, lane_->queues(), options_.route.connect.source_port));
  lane_->Attach(std::move(connection));
  meter_.Reset();
  if (gate_ != nullptr) SetNic();
  attached_ = true;
  redial_error_ = absl::OkStatus();
  lost_at_peer_ = false;
  restart_after_ns_ = 0;
  // Until the lane is ready: if the peer ends each connection, the next dial does not follow at
  // once.
  redial_at_ = access_.clock->Now() + kDialAgainNs;
}

void OutgoingLane::SetNic() {
  const std::string& address = options_.route.connect.source_host;
  gate_->SetNic(pacing_->Nic(address));
  const auto& [tenant, rate_bps, revision] = tenant_rate_;
  const std::shared_ptr<SharedBucket> bucket = pacing_->Tenant(tenant, address);
  bucket->SetRate(rate_bps, revision, access_.clock->Now());
  gate_->SetTenant(bucket);
}

void OutgoingLane::SetRateLimits(const RateLimits& limits, const SentRates& rates,
                                 ChannelId routing, HostPacing& host) {
  if (gate_ == nullptr) {
    pacing_ = &host;
    gate_ = std::make_unique<LaneGate>(*access_.clock, std::make_shared<SharedBucket>());
    lane_->SetGate(gate_.get());
  }
  tenant_rate_ = {limits.tenant, limits.tenant_rate_bps, limits.revision};
  SetNic();
  std::optional<uint64_t> rate_bps = rates.RateOf(channel(), peer());
  if (!rate_bps.has_value()) rate_bps = rates.RateOf(routing, peer());
  gate_->Set(rate_bps.value_or(0), limits.windows, limits.priority);
  SharedQueueKey queues = lane_->queues();
  queues.traffic_class = TrafficClass(static_cast<uint8_t>(limits.priority));
  lane_->SetQueues(std::move(queues));
  lane_->Mark(host.DscpOf(limits.priority));
}

absl::Status OutgoingLane::Poll(bool* moved) {
  if (dial_ != nullptr) {
    MCCS_ASSIGN_OR_RETURN(const bool came, PollDial());
    *moved |= came;
  }
  if (move_to_.has_value()) *moved |= PollMove();
  const bool lane_moved = attached_ && lane_->Poll();
  const MonotonicNs now = access_.clock->Now();
  if (lane_moved) {
    *moved = true;
    const LaneCounters counters = lane_->counters();
    tally_.Count(counters);
    meter_.Update(lane_->next(), counters, now);
  }
  const LaneWait wait = lane_->waits_for();
  if (wait == LaneWait::kRate) meter_.Drop();
  waits_.SetReason(wait, *access_.clock, tally_);
  if (departed_) return absl::OkStatus();
  const absl::Status status = ConnectionError();
  const bool may_dial = dial_ == nullptr ? now >= redial_at_ : now >= restart_dial_at_;
  const bool waits_for_first = !attached_ && dial_ != nullptr;
  if ((absl::IsUnavailable(status) || waits_for_first) && may_dial) {
    StartDial();
    *moved = true;  // The dial may have failed already, without a further event.
  }
  if (tolerates_loss_) return absl::OkStatus();
  if (absl::Status over = reconnect_timeout_.Check(*lane_, status, now); !over.ok()) {
    return Named(WithRedialError(over), channel(), options_.route.to);
  }
  if (lane_->state() == LaneState::kReady) redial_at_ = 0;
  if (attached_ && !reconnect_timeout_.started()) attempt_ = 0;
  return absl::OkStatus();
}

absl::Status OutgoingLane::WithRedialError(const absl::Status& over) const {
  if (redial_error_.ok()) return over;
  return absl::Status(
      over.code(), absl::StrCat(std::string(over.message()),
                                "; reconnecting failed: ", std::string(redial_error_.message())));
}

absl::Status OutgoingLane::ConnectionError() const {
  if (!attached_) return first_failure_;
  if (lost_at_peer_ && lane_->status().ok()) {
    return absl::UnavailableError("lane stalled: the receiver has lost its connection");
  }
  return lane_->status();
}

absl::StatusOr<bool> OutgoingLane::PollDial() {
  auto connection = dial_->Poll();
  if (!connection.ok()) {
    dial_.reset();
    if (absl::IsAlreadyExists(connection.status()) && dial_route_ == options_.route &&
        options_.route.connect.source_port != 0) {
      DialFromSystemPort(connection.status());
      return true;
    }
    if (!attached_) {
      if (first_ == FirstDial::kMustSucceed && !routes_.has_others()) return connection.status();
      first_failure_ = absl::UnavailableError(connection.status().message());
    } else {
      redial_error_ = connection.status();
    }
    redial_at_ = access_.clock->Now() + kDialAgainNs;
    return false;
  }
  if (*connection == nullptr) return false;
  dial_.reset();
  TakeRoute(dial_route_);
  AttachConnection(std::move(*connection));
  return true;
}

// The port is busy: another lane of ours that is about to end has it, or another program.
void OutgoingLane::DialFromSystemPort(const absl::Status& why) {
  if (!move_to_.has_value()) {
    move_to_ = options_.route;
    move_error_ = why;
    retry_move_at_ = access_.clock->Now() + kMoveAgainNs;
  }
  options_.route.connect.source_port = 0;
  StartDial();
}

void OutgoingLane::MarkDeparted() {
  departed_ = true;
  dial_.reset();
  move_dial_.reset();
  move_to_.reset();
  reconnect_timeout_.Reset();
}

void OutgoingLane::TolerateLoss() {
  tolerates_loss_ = true;
  reconnect_timeout_.Reset();
}

MonotonicNs OutgoingLane::NextDeadline() const {
  MonotonicNs next = kNever;
  if (held()) next = gate_->NextDeadline();
  if (move_to_.has_value()) {
    next = std::min(next, move_dial_ != nullptr ? move_dial_->deadline() : retry_move_at_);
  }
  if (tolerates_loss_ && !departed_ && absl::IsUnavailable(ConnectionError())) {
    return std::min(next,
                    dial_ != nullptr ? std::min(dial_->deadline(), restart_dial_at_) : redial_at_);
  }
  // The first dial has its own deadline; later ones use the lane's.
  if (!reconnect_timeout_.waiting()) {
    return !attached_ && dial_ != nullptr ? std::min({next, dial_->deadline(), restart_dial_at_})
                                          : next;
  }
  next = std::min(next, reconnect_timeout_.deadline());
  return std::min(next, dial_ != nullptr ? restart_dial_at_ : redial_at_);
}

std::string OutgoingLane::Describe() const {
  return absl::StrCat(NameOf(channel()), " to ", ToString(options_.route.to));
}

agent::v1::Lane OutgoingLane::Stats() const {
  const MonotonicNs now = access_.clock->Now();
  const LaneCounters counters = lane_->counters();
  agent::v1::Lane stats;
  stats.set_channel(channel().value());
  stats.set_from(options_.preamble.from_host.value());
  stats.set_to(peer().value());
  stats.set_local(ToString(lane_->local()));
  stats.set_remote(ToString(lane_->remote()));
  stats.set_payload_bytes(counters.payload_bytes);
  stats.set_reconnects(counters.reconnects);
  stats.set_state(DescribeState(lane_->status()));
  stats.set_rate_bps(gate_ != nullptr ? gate_->rate_bps() : 0);
  stats.set_waited_for_credit_ns(waits_.TotalNs(LaneWait::kCredit, now));
  stats.set_waited_for_rate_ns(waits_.TotalNs(LaneWait::kRate, now));
  stats.set_waited_for_connection_ns(waits_.TotalNs(LaneWait::kConnection, now));
  stats.set_round_trip_ns(meter_.round_trip_ns());
  stats.set_copied_bytes(counters.copied_bytes);
  if (const std::optional<QueuePairState> pair = lane_->queue_pair(); pair.has_value()) {
    AddQueuePair(*pair, &stats);
  }
  return stats;
}

std::string OutgoingLane::DescribeState(const absl::Status& status) const {
  if (!status.ok()) return std::string(status.message());
  if (move_error_.ok() || !move_to_.has_value()) return "up";
  const auto& [to, from] = *move_to_;
  return absl::StrCat("up, cannot move to source ", ToString({from.source_host, from.source_port}),
                      " towards ", ToString(to), ": ", std::string(move_error_.message()));
}

// ---- Incoming -----------------------------------------------------------------------------------

IncomingLane::IncomingLane(const Clock& clock, const LaneOrigin& origin,
                           std::shared_ptr<Region> slots, std::unique_ptr<RecvLane> lane,
                           LaneTally tally)
    : clock_(clock),
      origin_(origin),
      slots_(std::move(slots)),
      lane_(std::move(lane)),
      tally_(tally) {
  MCCS_CHECK(lane_ != nullptr);
}

void IncomingLane::SetClass(TrafficClass traffic_class, uint8_t dscp) {
  SharedQueueKey queues = lane_->queues();
  queues.traffic_class = traffic_class;
  lane_->SetQueues(std::move(queues));
  lane_->Mark(dscp);
}

void IncomingLane::Attach(std::unique_ptr<Connection> connection) {
  lane_->SetQueues(QueuesOver(*connection, lane_->queues(), /*source_port=*/0));
  if (request_ != nullptr) {
    request_->Stop();
    request_->SetNics(connection->local().host, connection->remote().host);
  }
  lane_->Attach(std::move(connection));
  attached_ = true;
  reconnect_timeout_.Reset();
}

absl::Status IncomingLane::Poll(bool* moved) {
  if (!attached_) return absl::OkStatus();
  if (lane_->Poll()) {
    *moved = true;
    tally_.Count(lane_->counters());
  }
  const MonotonicNs now = clock_.Now();
  // A lane with one slice now and then acknowledges it at once, so that no timer is needed.
  if (lane_->defers_acknowledgement() && now >= acknowledge_at_) {
    lane_->Acknowledge();
    *moved |= lane_->Poll();
    acknowledge_at_ = now + kMaxAcknowledgementDelayNs;
  }
  if (departed_) return absl::OkStatus();
  if (absl::Status over = reconnect_timeout_.Check(*lane_, lane_->status(), now); !over.ok()) {
    return Named(over, channel(), origin_.endpoint);
  }
  if (request_ != nullptr && reconnect_timeout_.waiting()) *moved |= request_->Ask();
  return absl::OkStatus();
}

void IncomingLane::MarkDeparted() {
  departed_ = true;
  if (request_ != nullptr) request_->Stop();
  reconnect_timeout_.Reset();
}

MonotonicNs IncomingLane::NextDeadline() const {
  MonotonicNs next = reconnect_timeout_.deadline();
  if (request_ != nullptr) next = std::min(next, request_->NextDeadline());
  return lane_->defers_acknowledgement() ? std::min(next, acknowledge_at_) : next;
}

std::string IncomingLane::Describe() const {
  return absl::StrCat(NameOf(channel()), " from ", ToString(origin_.endpoint));
}

}  // namespace mccs
