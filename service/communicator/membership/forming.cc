#include "service/communicator/membership/forming.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "proto/strategy.pb.h"
#include "service/communicator/links/host_reachability.h"
#include "service/communicator/links/star_protocol.h"
#include "service/communicator/membership/id_keys.h"
#include "service/communicator/membership/rendezvous.h"
#include "service/communicator/membership/tree_relay.h"
#include "service/communicator/strategy/strategy.h"
#include "service/communicator/turns/turn_cost.h"

namespace mccs {
namespace {

constexpr int64_t kLinkingTimeoutNs = 30 * kNsPerSec;
constexpr int64_t kOpeningTimeoutNs = 30 * kNsPerSec;
constexpr int64_t kCheckReachableEveryNs = kNsPerSec;
// While hosts that are reachable still open their links, by which they get the reason.
constexpr int64_t kCheckOthersEveryNs = 10 * kNsPerMs;
// The check of a host costs as much as so many bytes of a roster.
constexpr int64_t kCheckedBytes = 64;
// A controller on the same network answers within a millisecond; a dead one must not delay the
// start of a job noticeably.
constexpr int64_t kProposalTimeoutNs = 200 * kNsPerMs;

// Of a roster: it is buffered and parsed before it can be checked.
uint32_t MostRosterBytes(int ranks) {
  const uint64_t bytes = (64u << 10) + kMaxJoinBytes * static_cast<uint64_t>(std::max(ranks, 1));
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, kMaxPeerMessageBytes));
}

JoiningOptions OptionsFor(const CommunicatorEnvironment& environment, const wire::UniqueId& id,
                          int ranks, const std::string& tenant, Log* log, Waker& waker) {
  const std::string host(id.host, strnlen(id.host, sizeof(id.host)));
  return {.access = environment.access,
          .dial = {.route = {.to = {host, id.port}, .connect = {}},
                   .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = CommId(id.comm_id)},
                   .secret = SecretOf(id),
                   .waker = &waker},
          .keep_dialing = id.guessable != 0 || id.derived != 0,
          .own = environment.rendezvous,
          .endpoint = environment.endpoint,
          .named = IsNamed(id) ? environment.named : nullptr,
          .relay = environment.relay,
          .tenant = tenant,
          .most_roster_bytes = MostRosterBytes(ranks),
          .log = log};
}

// A message is parsed within one turn of the engine, so its size must fit the communicator. The
// longest messages are a departure and a split table (a few words per rank), a stall report (per
// host), and a strategy (per lane).
uint32_t MostMessageBytes(int ranks, int hosts) {
  const uint64_t lanes =
      uint64_t{kMaxChannels} * static_cast<uint64_t>(hosts) * static_cast<uint64_t>(hosts);
  const uint64_t bytes = (64u << 10) + 64 * static_cast<uint64_t>(ranks) +
                         4096 * static_cast<uint64_t>(hosts) + 16 * lanes;
  return static_cast<uint32_t>(std::min<uint64_t>(bytes, kMaxPeerMessageBytes));
}

// The default without a controller: every channel has the hosts in the roster's order, which is the
// locality order.
Strategy DefaultStrategy(const CommunicatorEnvironment& environment, int hosts) {
  Strategy strategy;
  strategy.origin = "daemon default (locality order)";
  strategy.lanes = environment.lanes;
  strategy.skew = environment.skew;
  strategy.algorithms = environment.algorithms;
  // One host needs no lanes, and one channel keeps all its workers busy.
  const int channels = hosts == 1 ? 1 : environment.channels;
  for (int c = 0; c < channels; ++c) {
    ChannelStrategy& channel = strategy.channels.emplace_back();
    for (int h = 0; h < hosts; ++h) channel.ring.push_back(HostIndex(h));
  }
  return strategy;
}

// Of this host. Unless a strategy names another one, lanes use the NIC at the daemon's own address,
// if there is one.
std::vector<std::string> RdmaAddressesOf(const CommunicatorEnvironment& environment) {
  if (environment.rdma == nullptr) return {};
  std::vector<std::string> addresses = environment.rdma->Addresses();
  const auto own = std::ranges::find(addresses, environment.endpoint.host);
  if (own != addresses.end()) std::rotate(addresses.begin(), own, own + 1);
  return addresses;
}

}  // namespace

Forming::Forming(const CommunicatorEnvironment& environment, const JoinRequest& first,
                 Formation& formation, Waker& waker)
    : env_(environment),
      formation_(formation),
      waker_(waker),
      secret_(SecretOf(first.id)),
      joining_(first.roster == nullptr ? std::make_unique<Joining>(
                                             OptionsFor(environment, first.id, first.ranks,
                                                        formation.counted_as, formation.log, waker))
                                       : nullptr),
      known_roster_(first.roster),
      expected_{.id = CommId(first.id.comm_id),
                .any_id = first.id.guessable != 0,
                .tenant = first.tenant,
                .host = environment.position.host,
                .endpoint = environment.endpoint,
                .rdma_addresses = RdmaAddressesOf(environment),
                .ranks = first.ranks,
                .locals = {}},
      init_deadline_(kNever) {}

absl::StatusOr<bool> Forming::Poll() {
  switch (state_) {
    case State::kJoining:
      return PollJoining();
    case State::kLinking:
      return PollLinking();
    case State::kOpening:
      return PollOpening();
    case State::kFormed:
      break;
  }
  return false;
}

MonotonicNs Forming::NextDeadline() const {
  switch (state_) {
    case State::kJoining:
      return joining_ != nullptr ? std::min(init_deadline_, joining_->NextDeadline()) : 0;
    case State::kLinking:
      if (receiver_.has_value() && receiver_->notified()) return receiver_->NextDeadline();
      return proposal_deadline_ != 0 ? std::min(proposal_deadline_, state_deadline_)
                                     : std::min(state_deadline_, reachable_at_);
    case State::kOpening:
      return std::min(state_deadline_, formation_.lanes->NextDeadline());
    case State::kFormed:
      break;
  }
  return kNever;
}

// ---- kJoining -----------------------------------------------------------------------------------

void Forming::Join(const JoinRequest& request) {
  MCCS_CHECK(state_ == State::kJoining);
  disagreement_.Update(CheckAgreement(request));
  expected_.locals.push_back(Rank(request.rank.rank()));
  if (request.timeout_ns > 0) {
    const MonotonicNs deadline = Now() + request.timeout_ns;
    if (deadline < init_deadline_) {
      init_deadline_ = deadline;
      init_timeout_ns_ = request.timeout_ns;
    }
  }
  if (joining_ == nullptr || !disagreement_.ok()) return;
  peer::Join join;
  join.set_ranks(request.ranks);
  *join.mutable_rank() = request.rank;
  *join.mutable_gpu() = request.gpu;
  join.set_tenant(request.tenant);
  join.set_name(request.name);
  join.set_host(env_.position.host);
  join.set_endpoint_host(env_.endpoint.host);
  join.set_endpoint_port(env_.endpoint.port);
  join.mutable_position()->set_pod(env_.position.pod);
  join.mutable_position()->set_rack(env_.position.rack);
  if (env_.rdma != nullptr && env_.rdma->works()) {
    for (const std::string& address : expected_.rdma_addresses) join.add_rdma_addresses(address);
  }
  joining_->Add(join);
}

// The rendezvous also compares the sizes, but without certificates it may be the tenant's own.
absl::Status Forming::CheckAgreement(const JoinRequest& request) const {
  const int rank = request.rank.rank();
  const auto reject = [&](const auto&... why) {
    return absl::InvalidArgumentError(
        absl::StrCat("mismatched ranks on host ", env_.position.host, ": ", why...));
  };
  if (request.ranks != expected_.ranks) {
    return reject("rank ", rank, " joins with ", request.ranks, " ranks, rank ",
                  expected_.locals.front().value(), " with ", expected_.ranks,
                  "; start all ranks with the same size");
  }
  if (rank < 0 || rank >= expected_.ranks) {
    return reject("rank ", rank, " is out of range for a communicator of ", expected_.ranks,
                  " ranks");
  }
  if (request.roster != known_roster_) {
    return reject("rank ", rank, " joins by a unique id, other ranks by ncclCommSplit");
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> Forming::PollJoining() {
  MCCS_RETURN_IF_ERROR(disagreement_);
  if (joining_ == nullptr) {
    MCCS_RETURN_IF_ERROR(TakeKnownRoster());
    return true;
  }
  MCCS_ASSIGN_OR_RETURN(std::optional<std::string> roster, joining_->Poll());
  if (roster.has_value()) {
    MCCS_RETURN_IF_ERROR(TakeReceivedRoster(std::move(*roster)));
    return true;
  }
  if (Now() < init_deadline_) return false;
  return absl::DeadlineExceededError(
      absl::StrCat("init timed out after ", init_timeout_ns_ / kNsPerMs,
                   " ms (MCCS_INIT_TIMEOUT): ", joining_->DescribeMissing()));
}

absl::Status Forming::TakeRoster(peer::Roster roster) {
  MCCS_ASSIGN_OR_RETURN(formation_.members, CheckRoster(std::move(roster), expected_));
  const Membership& members = *formation_.members;
  formation_.id = CommId(members.roster.comm_id());
  formation_.key = KeyOf(secret_, members.roster);
  if (members.self == members.leader) {
    formation_.star = std::make_unique<Star>(members.self, members.hosts(), &waker_);
  } else {
    const DialOptions dial{
        .route = {.to = members.EndpointOf(members.leader), .connect = {}},
        .preamble = {.purpose = ConnectionPurpose::kMember, .comm_id = formation_.id},
        .secret = formation_.key,
        .host = members.HostName(members.leader),
        .waker = &waker_};
    formation_.star = std::make_unique<Star>(members.self, members.leader, members.hosts(),
                                             std::make_unique<Dial>(env_.access, dial), &waker_);
  }
  formation_.star->CountFor(formation_.budget);
  formation_.star->ExpectHosts([&members](HostIndex host) { return members.HostName(host); });
  const uint32_t most_bytes = MostMessageBytes(members.ranks(), members.hosts());
  formation_.star->Limit(most_bytes);
  if (members.self != members.leader) {
    receiver_.emplace(StrategyReceiver::Options{.relay = env_.relay,
                                                .star = formation_.star.get(),
                                                .clock = env_.access.clock,
                                                .log = formation_.log,
                                                .id = formation_.id,
                                                .secret = formation_.key,
                                                .tenant = formation_.counted_as,
                                                .most_bytes = most_bytes,
                                                .waker = &waker_});
  }
  joining_.reset();
  state_ = State::kLinking;
  state_deadline_ = Now() + kLinkingTimeoutNs;
  others_deadline_ = Now() + kCheckReachableEveryNs;
  return absl::OkStatus();
}

absl::Status Forming::TakeReceivedRoster(std::string serialised) {
  formation_.cost += static_cast<int64_t>(serialised.size()) * kRosterByteCost;
  peer::Roster roster;
  if (const absl::Status parsed = ParseRelayed(serialised, &roster); !parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat("invalid roster from the rendezvous: ", std::string(parsed.message())));
  }
  MCCS_RETURN_IF_ERROR(TakeRoster(std::move(roster)));
  const Membership& members = *formation_.members;
  std::vector<Endpoint> children;
  for (const int child : TreeChildren(members.self.value(), members.hosts()))
    children.push_back(members.EndpointOf(HostIndex(child)));
  // The rendezvous may have given the communicator another id; the relay's follows from the ranks'.
  const TreeRelay::Subject subject{.kind = Relayed::kRoster,
                                   .relay_id = RelayIdOf(Relayed::kRoster, expected_.id, secret_),
                                   .secret = secret_};
  env_.relay->Forward(formation_.counted_as, subject, std::move(serialised), children);
  return absl::OkStatus();
}

absl::Status Forming::TakeKnownRoster() {
  return TakeRoster(*std::exchange(known_roster_, nullptr));
}

bool Forming::WithdrawalDone() {
  if (known_roster_ != nullptr) TakeKnownRoster().IgnoreError();  // as below
  if (joining_ == nullptr) return true;
  if (!joining_->WithdrawalDone()) return false;
  std::optional<std::string> late = joining_->TakeLateRoster();
  if (late.has_value())
    TakeReceivedRoster(std::move(*late))
        .IgnoreError();  // an invalid roster names no host to notify
  return true;
}

// ---- kLinking -----------------------------------------------------------------------------------

absl::StatusOr<bool> Forming::PollLinking() {
  const Star& star = *formation_.star;
  if (star.complete() && star.leads()) return ChooseStrategy();
  MCCS_RETURN_IF_ERROR(CheckReachable());
  if (receiver_.has_value()) {
    MCCS_ASSIGN_OR_RETURN(std::optional<std::string> strategy, receiver_->Poll());
    if (strategy.has_value()) {
      peer::Message notice;
      notice.mutable_open_notice();
      const absl::Status taken = TakeReceivedStrategy(std::move(*strategy));
      if (!taken.ok()) {
        return Rejected(formation_.members->HostName(formation_.members->leader), notice, taken);
      }
      return true;
    }
    if (receiver_->notified()) return false;
  }
  if (Now() < state_deadline_) return false;
  if (star.complete()) {
    return absl::DeadlineExceededError(
        absl::StrCat("timed out while waiting for the strategy of the leader, host ",
                     formation_.members->HostName(formation_.members->leader),
                     ": it has sent none; see mccsd's log on that host, which names the hosts that "
                     "it waits for"));
  }
  return absl::DeadlineExceededError(absl::StrCat(
      "timed out while opening control links to ", formation_.members->HostNames(star.Unlinked()),
      "; check that mccsd runs there and that no firewall blocks its port"));
}

absl::Status Forming::CheckReachable() {
  const HostReachability* const reachability = env_.access.reachability;
  if (Now() < reachable_at_) return absl::OkStatus();
  reachable_at_ = Now() + kCheckReachableEveryNs;
  if (reachability == nullptr || !reachability->any()) return absl::OkStatus();
  const std::vector<HostIndex> unlinked = formation_.star->Unlinked();
  formation_.cost += static_cast<int64_t>(unlinked.size()) * kRosterByteCost * kCheckedBytes;
  absl::Status why;
  bool waits_for_others = false;
  for (const HostIndex host : unlinked) {
    const absl::Status status = reachability->Check(formation_.members->EndpointOf(host),
                                                    formation_.members->HostName(host));
    waits_for_others |= status.ok();
    why.Update(status);
  }
  if (why.ok() || !waits_for_others || Now() >= others_deadline_) return why;
  reachable_at_ = Now() + kCheckOthersEveryNs;
  return absl::OkStatus();
}

// The leader asks the controller, if it is connected, and takes the default if no answer arrives in
// time.
absl::StatusOr<bool> Forming::ChooseStrategy() {
  const Strategy fallback = DefaultStrategy(env_, formation_.members->hosts());
  if (proposal_deadline_ == 0) {
    proposal_deadline_ = Now() + (env_.controller->connected() ? kProposalTimeoutNs : 0);
    agent::v1::Announce announce = Describe(*formation_.members, formation_.id, fallback);
    announce.set_cgroup(formation_.cgroup);
    env_.controller->Announce(announce);
  }
  std::optional<Strategy> proposal = std::exchange(formation_.proposal, std::nullopt);
  if (!proposal.has_value() && Now() < proposal_deadline_) return false;
  if (proposal.has_value()) {
    absl::Status s = ValidateStrategy(*proposal, formation_.members->hosts());
    if (s.ok()) s = CheckHomes(*proposal, formation_.members->layout);
    if (!s.ok()) {
      formation_.log->Error("communicator ", FormatCommId(formation_.id),
                            ": rejected the controller's ", std::string(s.message()));
      proposal.reset();
    }
  }
  const Strategy& strategy = proposal.has_value() ? *proposal : fallback;
  source_.emplace(*formation_.star, *formation_.members, formation_.key, strategy);
  MCCS_RETURN_IF_ERROR(OpenLanes(strategy));
  return true;
}

absl::Status Forming::TakeReceivedStrategy(std::string serialised) {
  formation_.cost += static_cast<int64_t>(serialised.size()) * kRosterByteCost;
  strategy::Strategy message;
  if (const absl::Status parsed = ParseRelayed(serialised, &message); !parsed.ok())
    return absl::DataLossError(absl::StrCat("invalid strategy: ", std::string(parsed.message())));
  const Membership& members = *formation_.members;
  MCCS_ASSIGN_OR_RETURN(const Strategy strategy, StrategyFromProto(message, members.hosts()));
  MCCS_RETURN_IF_ERROR(OpenLanes(strategy));
  receiver_.reset();
  std::vector<Endpoint> children;
  for (const HostIndex child : StrategyChildren(members))
    children.push_back(members.EndpointOf(child));
  env_.relay->Forward(formation_.counted_as, StrategySubject(formation_.id, formation_.key),
                      std::move(serialised), children);
  return absl::OkStatus();
}

// All hosts have the same roster, so all choose the same.
absl::StatusOr<Transport*> Forming::ChooseTransport() const {
  const Membership& members = *formation_.members;
  const std::vector<HostIndex> without = members.HostsWithoutRdma();
  if (without.empty()) return env_.rdma;
  if (!env_.requires_rdma || members.hosts() == 1) return env_.transport;
  return absl::FailedPreconditionError(
      absl::StrCat("no RDMA device on ", members.HostNames(without),
                   ", which `transport: rdma` in mccsd's configuration on host ",
                   env_.position.host, " requires; see mccsd --check-rdma on these hosts"));
}

absl::Status Forming::OpenLanes(const Strategy& strategy) {
  const Membership& members = *formation_.members;
  MCCS_RETURN_IF_ERROR(CheckHomes(strategy, members.layout));
  MCCS_ASSIGN_OR_RETURN(Transport * transport, ChooseTransport());
  formation_.strategy = strategy;
  LaneSetOptions options{.access = env_.access,
                         .transport = transport,
                         .device = env_.device,
                         .id = formation_.id,
                         .secret = formation_.key,
                         .tenant = members.roster.tenant(),
                         .self = members.self,
                         .hosts = {},
                         .source_host = env_.endpoint.host,
                         .strategy = strategy,
                         .waker = &waker_,
                         .counters = formation_.counters,
                         .budget = formation_.budget,
                         .pacing = env_.pacing};
  for (int h = 0; h < members.hosts(); ++h) {
    options.hosts.push_back(members.EndpointOf(HostIndex(h)));
    if (transport != env_.rdma) continue;
    options.nics.push_back(
        std::make_shared<const std::vector<std::string>>(members.RdmaAddressesOf(HostIndex(h))));
  }
  MCCS_ASSIGN_OR_RETURN(formation_.lanes, CommunicatorLanes::Make(options));
  if (formation_.limits.has_value()) formation_.lanes->SetRateLimits(*formation_.limits);
  state_ = State::kOpening;
  state_deadline_ = Now() + kOpeningTimeoutNs;
  return absl::OkStatus();
}

// ---- kOpening -----------------------------------------------------------------------------------

absl::StatusOr<bool> Forming::PollOpening() {
  MCCS_ASSIGN_OR_RETURN(bool moved, formation_.lanes->Poll());
  if (source_.has_value()) moved |= source_->Poll();
  const bool lanes_ready = formation_.lanes->current().ready();
  if (lanes_ready && missing_locals_ == "" && !ready_sent_) {
    MCCS_RETURN_IF_ERROR(SendReady());
    return true;
  }
  if (Now() < state_deadline_) return moved;
  if (lanes_ready && !ready_sent_ && missing_locals_.has_value()) {
    return absl::DeadlineExceededError(
        absl::StrCat("timeout while the ranks of host ", env_.position.host,
                     " map each other's memory: ", *missing_locals_));
  }
  return absl::DeadlineExceededError(
      absl::StrCat("timeout while opening lanes: ", formation_.lanes->current().DescribeMissing()));
}

absl::Status Forming::SendReady() {
  ready_sent_ = true;
  if (formation_.star->leads()) return OnReady(formation_.members->self);
  peer::Message ready;
  ready.mutable_ready();
  formation_.star->SendToLeader(ready);
  return absl::OkStatus();
}

absl::Status Forming::OnReady(HostIndex host) {
  ready_.resize(static_cast<size_t>(formation_.members->hosts()));
  const auto at = static_cast<size_t>(host.value());
  if (ready_[at]) return absl::DataLossError("duplicate message");
  ready_[at] = true;
  if (++ready_count_ < formation_.members->hosts()) return absl::OkStatus();
  peer::Message go;
  go.mutable_go();
  formation_.star->Broadcast(go);
  state_ = State::kFormed;
  return absl::OkStatus();
}

absl::Status Forming::OnMessage(const StarMessage& received) {
  const peer::Message& message = received.message;
  if (message.has_open()) return TakeReceivedStrategy(message.open().strategy());
  if (message.has_open_notice()) return receiver_->OnNotice(message.open_notice());
  if (message.has_open_request()) return source_->OnRequest(received.from);
  if (message.has_ready()) return OnReady(received.from);
  if (message.has_go()) {
    if (!ready_sent_) return absl::DataLossError("the leader sent it before this host was ready");
    state_ = State::kFormed;
  }
  return absl::OkStatus();
}

}  // namespace mccs
