// The part of a Communicator that handles connections and messages from other hosts, and proposals
// and rate limits from the controller.
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/communicator/communicator.h"
#include "service/communicator/links/host_reachability.h"

namespace mccs {

void Communicator::AcceptMember(std::unique_ptr<Connection> connection, const std::string& host) {
  connection->SetWaker(&waker_);
  Wake();
  if (formation_.star != nullptr && formation_.star->leads())
    formation_.star->Accept(std::move(connection), host);
}

void Communicator::Propose(const Strategy& strategy) {
  Wake();
  if (state_ == State::kForming) formation_.proposal = strategy;
  if (state_ == State::kActive) work_->Propose(strategy);
}

void Communicator::SetRateLimits(const RateLimits& limits) {
  Wake();
  if (given_.has_value() && limits.revision < given_->revision) return;
  given_ = limits;
  const RateLimits within = WithinOwnTenant(limits);
  if (formation_.lanes != nullptr) {
    formation_.lanes->SetRateLimits(within);
  } else {
    formation_.limits = within;
  }
}

// The controller knows the Tenant that the leader's daemon announces. That daemon, or the
// controller, may be wrong about the processes of this host.
RateLimits Communicator::WithinOwnTenant(RateLimits limits) const {
  if (account_ == nullptr || !account_->knows_tenants()) return limits;
  const TenantEntry* const own = account_->tenant();
  limits.priority = std::min(limits.priority, own != nullptr ? own->priority : 0);
  if (own == nullptr || own->cap_bps == 0) return limits;
  if (limits.tenant_rate_bps > 0 && limits.tenant_rate_bps < own->cap_bps) return limits;
  limits.tenant_rate_bps = own->cap_bps;
  limits.tenant = own->name;
  return limits;
}

std::optional<RateLimits> Communicator::LimitsOfTenant(const TenantAccount* account) {
  const TenantEntry* tenant = account != nullptr ? account->tenant() : nullptr;
  if (tenant == nullptr || (tenant->cap_bps == 0 && tenant->priority == 0)) return std::nullopt;
  RateLimits limits{.priority = tenant->priority};
  if (tenant->cap_bps > 0) {
    limits.tenant_rate_bps = tenant->cap_bps;
    limits.tenant = tenant->name;
  }
  return limits;
}

// Until the controller's first limits, those of the Tenant.
void Communicator::TenantsChanged() {
  if (given_.has_value() && given_->revision > 0) {
    SetRateLimits(*given_);
  } else {
    SetRateLimits(LimitsOfTenant(account_.get()).value_or(RateLimits{}));
  }
}

void Communicator::AcceptLane(const Preamble& preamble, std::unique_ptr<Connection> connection) {
  Wake();
  if (formation_.lanes != nullptr) formation_.lanes->Accept(preamble, std::move(connection));
}

bool Communicator::PollStar() {
  bool moved = formation_.star->Poll();
  if (!formation_.star->refused().ok() && !failure_.has_value()) {
    Fail(formation_.star->refused());
    return true;
  }
  for (int i = 0; i < kPeerMessagesPerTurn; ++i) {
    auto message = formation_.star->Receive();
    if (!message.ok()) {
      if (HostReachability* const reachability = env_.access.reachability; reachability != nullptr)
        reachability->Suspect(formation_.members->EndpointOf(formation_.star->lost()));
      const absl::Status why = absl::UnavailableError(
          absl::StrCat("connection to host ", formation_.members->HostName(formation_.star->lost()),
                       " lost: ", std::string(message.status().message())));
      const bool expected_end = state_ == State::kFailed && AllRanksLeft(formation_.star->lost());
      if (!expected_end) Fail(why);
      // Also for a communicator that already failed by revocation: its splits may continue.
      if (formation_.star->leads()) {
        splits_.RankLeft(why);
      } else {
        splits_.Fail(why);
        if (failure_.has_value()) failure_->revoked = false;
      }
      return true;
    }
    if (!message->has_value()) return moved;
    OnMessage(**message);
    moved = true;
    // A strategy change may open or close many lanes, and all ranks join by the end of a split: at
    // most one per turn.
    if ((*message)->message.has_strategy_change() || splits_.has_results()) return true;
  }
  return moved;
}

void Communicator::OnMessage(const StarMessage& received) {
  absl::Status status = HandleMessage(received);
  if (status.ok()) return;
  status = Rejected(formation_.members->HostName(received.from), received.message, status);
  if (revoked()) splits_.Fail(status);
  Fail(status);
}

StarPhase Communicator::phase() const {
  if (state_ == State::kActive || revoked()) return StarPhase::kActive;
  if (state_ != State::kForming) return StarPhase::kEnded;
  return forming_->state() == Forming::State::kLinking ? StarPhase::kLinking : StarPhase::kOpening;
}

absl::Status Communicator::HandleMessage(const StarMessage& received) {
  const peer::Message& message = received.message;
  MCCS_RETURN_IF_ERROR(CheckLegal(message, received.from == formation_.star->leader(), phase()));
  if (message.has_departed()) {
    MCCS_RETURN_IF_ERROR(TakeDeparture(received.from, message.departed()));
    if (formation_.star->leads()) formation_.star->Forward(received.from, message.departed());
    return absl::OkStatus();
  }
  if (message.has_failed()) {
    const peer::Failed& failed = message.failed();
    if (failed.by_call() && state_ == State::kFailed) return absl::OkStatus();
    const bool active = state_ == State::kActive;
    Fail(StatusFromPeer(failed.error_code(), failed.message()),
         {.notify_hosts = false,
          .revoked = failed.revoked() && active,
          .by_call = failed.by_call() && active});
    return absl::OkStatus();
  }
  const bool splits =
      message.has_split_call() || message.has_split_table() || message.has_split_failed();
  if (splits && (revoked() || state_ == State::kActive)) return splits_.OnMessage(received);
  if (state_ == State::kForming) {
    MCCS_RETURN_IF_ERROR(forming_->OnMessage(received));
    if (forming_->state() == Forming::State::kFormed) Activate();
    return absl::OkStatus();
  }
  // After a failure: the sender did not know of it yet.
  return state_ == State::kActive ? work_->OnMessage(received) : absl::OkStatus();
}

absl::Status Communicator::TakeDeparture(HostIndex from, const peer::Departed& departed) {
  const Membership& members = *formation_.members;
  const Rank rank(departed.rank());
  const bool exists = departed.rank() >= 0 && departed.rank() < members.ranks();
  const HostIndex host = exists ? members.HostOf(rank) : members.self;
  // A member reports only its own ranks; the leader reports all ranks but ours.
  if (host == members.self || (formation_.star->leads() && host != from)) {
    return absl::DataLossError(absl::StrCat("host ", members.HostName(from),
                                            " may not report the departure of rank ",
                                            departed.rank()));
  }
  if (departures_.Has(rank)) {
    return absl::DataLossError(absl::StrCat("rank ", departed.rank(), " has already left"));
  }
  const uint64_t started = work_ != nullptr ? work_->loop().started() : 0;
  MCCS_RETURN_IF_ERROR(CheckDeparture(departed, members.ranks(), started));
  Departure departure = DepartureFrom(departed, members.layout.hosts[members.self.value()]);
  FailSplitsOf(rank, departure.why);
  departures_.Add(std::move(departure));
  if (!AllRanksLeft(host)) return absl::OkStatus();
  // A host whose ranks have all left is done and may close its links.
  if (formation_.star->leads()) formation_.star->MarkDeparted(host);
  if (formation_.lanes != nullptr) formation_.lanes->MarkDeparted(host);
  return absl::OkStatus();
}

bool Communicator::AllRanksLeft(HostIndex host) const {
  return departures_.LastOf(formation_.members->layout.hosts[host.value()]).has_value();
}

}  // namespace mccs
