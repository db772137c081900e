#include "service/communicator/communicator.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"
#include "service/communicator/strategy_proto.h"

namespace mccs {
namespace {

constexpr MonotonicNs kNever = std::numeric_limits<MonotonicNs>::max();
constexpr int64_t kLinkingPatienceNs = 30 * kNsPerSec;
constexpr int64_t kOpeningPatienceNs = 30 * kNsPerSec;
// A controller on the same network answers in a millisecond; a job start shall not notice a dead one.
constexpr int64_t kProposalPatienceNs = 200 * kNsPerMs;
constexpr int64_t kReportEveryNs = 500 * kNsPerMs;

}  // namespace

// ---- Local ranks come and go ------------------------------------------------------------------

Communicator::Communicator(const CommunicatorEnvironment& environment, const JoinRequest& first)
    : env_(environment),
      unique_id_(first.id),
      tenant_(first.tenant),
      id_(first.id.comm_id),
      init_deadline_(kNever) {
  std::copy(std::begin(first.id.secret), std::end(first.id.secret), secret_.begin());
  const std::string host(first.id.host, strnlen(first.id.host, sizeof(first.id.host)));
  joining_ = std::make_unique<Joining>(JoiningOptions{
      .access = env_.access,
      .dial = {.to = {host, first.id.port},
               .connect = {},
               .preamble = {.purpose = ConnectionPurpose::kJoin, .comm_id = id_},
               .secret = secret_},
      .keep_dialling = first.id.guessable != 0,
      .log = env_.log});
}

void Communicator::AddRank(const JoinRequest& request, RankPort* port) {
  MCCS_CHECK(state_ == State::kJoining);
  locals_.push_back({Rank(request.rank.rank()), port});
  if (request.timeout_ns > 0) {
    const MonotonicNs deadline = env_.access.clock->Now() + request.timeout_ns;
    if (deadline < init_deadline_) {
      init_deadline_ = deadline;
      init_timeout_ns_ = request.timeout_ns;
    }
  }
  peer::Join join;
  join.set_ranks(request.ranks);
  *join.mutable_rank() = request.rank;
  join.set_tenant(request.tenant);
  join.set_name(request.name);
  join.set_host(env_.position.host);
  join.set_endpoint_host(env_.endpoint.host);
  join.set_endpoint_port(env_.endpoint.port);
  join.mutable_position()->set_pod(env_.position.pod);
  join.mutable_position()->set_rack(env_.position.rack);
  joining_->Add(join);
}

void Communicator::Leave(RankPort* port, const std::string& why) {
  auto local = std::find_if(locals_.begin(), locals_.end(),
                            [&](const LocalRank& l) { return l.port == port; });
  MCCS_CHECK(local != locals_.end());
  leaving_.push_back(port);
  if (state_ == State::kActive && !loop_->running()) {
    Depart(*local, why);
  } else if (state_ != State::kFailed) {
    Fail(absl::UnavailableError(absl::StrCat(
        "rank ", local->rank.value(), " ", why,
        state_ == State::kActive
            ? absl::StrCat(" in the middle of operation #", loop_->completed() + 1)
            : std::string(" while the communicator was forming"))));
  }
  local->port = nullptr;
  LetGoOfTheLeaving();
}

void Communicator::Depart(LocalRank& local, const std::string& why) {
  departures_.push_back({local.rank, loop_->completed(), why});
  peer::Message message;
  message.mutable_departed()->set_rank(local.rank.value());
  message.mutable_departed()->set_after_operation(loop_->completed());
  message.mutable_departed()->set_why(why);
  star_->Broadcast(message);
}

void Communicator::LetGoOfTheLeaving() {
  // A running operation, or one that failed with work still in the device, may use their buffers.
  if (loop_ != nullptr && (loop_->running() || !loop_->quiescent())) return;
  for (RankPort* port : std::exchange(leaving_, {})) port->LetGo();
}

// ---- Turns of the engine ------------------------------------------------------------------------

bool Communicator::Poll() {
  bool moved = false;
  switch (state_) {
    case State::kJoining: moved = PollJoining(); break;
    case State::kLinking: moved = PollLinking(); break;
    case State::kOpening: moved = PollOpening(); break;
    case State::kActive: moved = PollActive(); break;
    case State::kFailed:
    case State::kClosed: break;
  }
  if (star_ != nullptr) moved |= PollStar();
  moved |= PollClosing();
  return moved;
}

bool Communicator::PollJoining() {
  auto roster = joining_->Poll();
  if (!roster.ok()) {
    Fail(roster.status());
    return true;
  }
  if (roster->has_value()) {
    TakeRoster(std::move(**roster));
    return true;
  }
  if (env_.access.clock->Now() >= init_deadline_) {
    Fail(absl::DeadlineExceededError(absl::StrCat("init gave up after ", init_timeout_ns_ / kNsPerMs,
                                                  " ms (MCCS_INIT_TIMEOUT): ",
                                                  joining_->DescribeMissing())));
    return true;
  }
  return false;
}

void Communicator::TakeRoster(peer::Roster roster) {
  roster_ = std::move(roster);
  id_ = CommId(roster_.comm_id());
  HostIndex leader;
  layout_.hosts.clear();
  for (int h = 0; h < roster_.hosts_size(); ++h) {
    std::vector<Rank>& ranks = layout_.hosts.emplace_back();
    for (const peer::RankInfo& info : roster_.hosts(h).ranks()) {
      ranks.push_back(Rank(info.rank()));
      if (info.rank() == 0) leader = HostIndex(h);
      if (info.rank() == locals_.front().rank.value()) self_ = HostIndex(h);
    }
  }
  std::sort(locals_.begin(), locals_.end(),
            [](const LocalRank& a, const LocalRank& b) { return a.rank < b.rank; });
  const int hosts = roster_.hosts_size();
  if (self_ == leader) {
    star_ = std::make_unique<Star>(self_, hosts);
  } else {
    const peer::HostInfo& info = roster_.hosts(leader.value());
    const DialOptions dial{
        .to = {info.endpoint_host(), static_cast<uint16_t>(info.endpoint_port())},
        .connect = {},
        .preamble = {.purpose = ConnectionPurpose::kMember, .comm_id = id_},
        .secret = secret_};
    star_ = std::make_unique<Star>(self_, leader, hosts, std::make_unique<Dial>(env_.access, dial));
  }
  joining_.reset();
  state_ = State::kLinking;
  state_deadline_ = env_.access.clock->Now() + kLinkingPatienceNs;
}

bool Communicator::PollLinking() {
  if (star_->complete() && star_->leads()) {
    if (proposal_deadline_ == 0) Announce();
    if (auto proposal = env_.controller->TakeProposal(id_); proposal.has_value()) {
      const absl::Status valid = ValidateStrategy(*proposal, layout_.host_count());
      if (!valid.ok()) env_.log->Error("communicator ", FormatCommId(id_), ": the controller's ", std::string(valid.message()));
      ChooseStrategy(valid.ok() ? *proposal : DefaultStrategy());
      return true;
    }
    if (env_.access.clock->Now() >= proposal_deadline_) {
      ChooseStrategy(DefaultStrategy());
      return true;
    }
    return false;
  }
  if (env_.access.clock->Now() >= state_deadline_) {
    Fail(absl::DeadlineExceededError(
        absl::StrCat("no control link with ", DescribeHosts(star_->Unlinked()))));
    return true;
  }
  return false;
}

void Communicator::Announce() {
  const bool ask = env_.controller->connected();
  proposal_deadline_ = env_.access.clock->Now() + (ask ? kProposalPatienceNs : 0);
  env_.controller->Announce(Info());
}

void Communicator::ChooseStrategy(const Strategy& strategy) {
  peer::Message message;
  ToProto(strategy, message.mutable_open()->mutable_strategy());
  star_->Broadcast(message);
  OpenLanes(strategy);
}

void Communicator::OpenLanes(const Strategy& strategy) {
  strategy_ = strategy;
  LaneSetOptions options{.access = env_.access,
                         .transport = env_.transport,
                         .device = env_.device,
                         .id = id_,
                         .secret = secret_,
                         .self = self_,
                         .hosts = {},
                         .source_host = env_.endpoint.host,
                         .strategy = strategy};
  for (const peer::HostInfo& host : roster_.hosts()) {
    options.hosts.push_back({host.endpoint_host(), static_cast<uint16_t>(host.endpoint_port())});
  }
  auto lanes = LaneSet::Make(options);
  if (!lanes.ok()) {
    Fail(lanes.status());
    return;
  }
  lanes_ = std::move(*lanes);
  state_ = State::kOpening;
  state_deadline_ = env_.access.clock->Now() + kOpeningPatienceNs;
}

bool Communicator::PollOpening() {
  auto moved = lanes_->Poll();
  if (!moved.ok()) {
    Fail(moved.status());
    return true;
  }
  if (lanes_->ready() && !told_ready_) {
    TellReady();
    return true;
  }
  if (env_.access.clock->Now() >= state_deadline_) {
    Fail(absl::DeadlineExceededError(absl::StrCat("lanes that did not open: ", lanes_->DescribeMissing())));
    return true;
  }
  return *moved;
}

void Communicator::TellReady() {
  told_ready_ = true;
  if (star_->leads()) {
    if (++ready_hosts_ == layout_.host_count()) {
      peer::Message go;
      go.mutable_go();
      star_->Broadcast(go);
      Activate();
    }
    return;
  }
  peer::Message ready;
  ready.mutable_ready();
  star_->SendToLeader(ready);
}

void Communicator::Activate() {
  loop_ = std::make_unique<OperationLoop>(*env_.device, layout_, self_, *strategy_, lanes_->resources(),
                                          locals_);
  state_ = State::kActive;
  env_.log->Info("communicator ", FormatCommId(id_), ": ", layout_.rank_count(), " ranks on ",
                 layout_.host_count(), " hosts, ", strategy_->channels.size(), " channels, strategy ",
                 strategy_->origin);
  for (const LocalRank& local : locals_) {
    if (local.port != nullptr) local.port->InitDone(absl::OkStatus(), id_);
  }
  Report(true);
}

bool Communicator::PollActive() {
  auto loop_moved = loop_->Poll();
  if (!loop_moved.ok()) {
    Fail(loop_moved.status());
    return true;
  }
  bool moved = *loop_moved;
  const bool parting = !departures_.empty() && !loop_->wants_more();
  if (!parting || !lanes_->drained()) {
    auto lanes_moved = lanes_->Poll();
    if (!lanes_moved.ok() && !parting) {
      Fail(lanes_moved.status());
      return true;
    }
    moved |= lanes_moved.ok() && *lanes_moved;
  }
  if (absl::Status status = CheckDepartures(); !status.ok()) {
    Fail(status);
    return true;
  }
  Report(false);
  return moved;
}

absl::Status Communicator::CheckDepartures() const {
  if (departures_.empty() || !loop_->wants_more()) return absl::OkStatus();
  for (const Departure& departure : departures_) {
    if (departure.after <= loop_->completed()) {
      return absl::UnavailableError(absl::StrCat("operation #", loop_->completed() + 1,
                                                 " cannot complete: rank ", departure.rank.value(), " ",
                                                 departure.why));
    }
  }
  return absl::OkStatus();
}

// ---- What other hosts say -------------------------------------------------------------------------

void Communicator::AcceptMember(std::unique_ptr<Connection> connection) {
  if (star_ != nullptr && star_->leads()) star_->Accept(std::move(connection));
}

void Communicator::AcceptLane(const Preamble& preamble, std::unique_ptr<Connection> connection) {
  if (lanes_ != nullptr) lanes_->Accept(preamble, std::move(connection));
}

bool Communicator::PollStar() {
  bool moved = star_->Poll();
  for (;;) {
    auto message = star_->Receive();
    if (!message.ok()) {
      Fail(absl::UnavailableError(absl::StrCat("host ", HostName(star_->lost()), " is gone: ",
                                               std::string(message.status().message()))));
      return true;
    }
    if (!message->has_value()) return moved;
    Hear(**message);
    moved = true;
  }
}

void Communicator::Hear(const StarMessage& heard) {
  const peer::Message& message = heard.message;
  if (message.has_departed()) {
    HearDeparture(heard.from, message.departed());
  } else if (message.has_failed()) {
    Fail(absl::Status(static_cast<absl::StatusCode>(message.failed().error_code()), message.failed().text()),
         /*tell_others=*/false);
  } else if (message.has_open() && !star_->leads() && state_ == State::kLinking) {
    auto strategy = StrategyFromProto(message.open().strategy(), layout_.host_count());
    if (!strategy.ok()) {
      Fail(strategy.status());
    } else {
      OpenLanes(*strategy);
    }
  } else if (message.has_ready() && star_->leads() && state_ == State::kOpening) {
    if (++ready_hosts_ == layout_.host_count()) {
      peer::Message go;
      go.mutable_go();
      star_->Broadcast(go);
      Activate();
    }
  } else if (message.has_go() && !star_->leads() && state_ == State::kOpening) {
    Activate();
  }
}

void Communicator::HearDeparture(HostIndex from, const peer::Departed& departed) {
  departures_.push_back({Rank(departed.rank()), departed.after_operation(), departed.why()});
  if (!star_->leads()) return;
  // Once all its ranks have left, a member may close its link.
  const std::vector<Rank>& ranks = layout_.hosts[from.value()];
  const bool all = std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    return std::any_of(departures_.begin(), departures_.end(),
                       [&](const Departure& d) { return d.rank == rank; });
  });
  if (all) star_->Excuse(from);
}

// ---- The end -------------------------------------------------------------------------------------

void Communicator::Fail(const absl::Status& why, bool tell_others) {
  if (state_ == State::kFailed || state_ == State::kClosed) return;
  const bool forming = state_ != State::kActive;
  state_ = State::kFailed;
  failure_ = why;
  const std::string text = absl::StrCat("communicator ", FormatCommId(id_), ": ", std::string(why.message()));
  env_.log->Warning(text);
  const absl::Status named(why.code(), text);
  if (star_ != nullptr && tell_others) {
    peer::Message message;
    message.mutable_failed()->set_error_code(static_cast<uint32_t>(why.code()));
    message.mutable_failed()->set_text(std::string(why.message()));
    star_->Broadcast(message);
  }
  for (const LocalRank& local : locals_) {
    if (local.port == nullptr) continue;
    if (forming) {
      local.port->InitDone(named, id_);
    } else {
      local.port->Fail(named);
    }
  }
  joining_.reset();
  Report(true);
}

bool Communicator::PollClosing() {
  if (state_ == State::kFailed && loop_ != nullptr && loop_->quiescent()) {
    loop_.reset();  // With the lanes, the last that points to tenants' memory.
    lanes_.reset();
  }
  if (!leaving_.empty() && (state_ != State::kFailed || loop_ == nullptr)) LetGoOfTheLeaving();
  if (state_ == State::kClosed || !leaving_.empty()) return false;
  const bool empty = std::all_of(locals_.begin(), locals_.end(),
                                 [](const LocalRank& l) { return l.port == nullptr; });
  if (!empty) return false;
  if (state_ == State::kFailed) {
    if (loop_ != nullptr || (star_ != nullptr && !star_->flushed())) return false;
  } else {
    // The leader stays while members may still need it to pass on what they say.
    if (star_->leads() ? !star_->alone() : !star_->flushed()) return false;
    if (!lanes_->drained()) return false;
  }
  state_ = State::kClosed;
  env_.controller->Ended(id_, failure_.ok() ? "destroyed" : std::string(failure_.message()));
  return true;
}

// ---- What it tells about itself -------------------------------------------------------------------

Urgency Communicator::urgency() const {
  if (state_ == State::kFailed) return loop_ != nullptr ? Urgency::kSpin : Urgency::kSleep;
  if (state_ != State::kActive) return Urgency::kSleep;
  switch (loop_->state()) {
    case LoopState::kRunning: return Urgency::kSpin;
    case LoopState::kWaitingReady: return Urgency::kBackOff;
    case LoopState::kIdle:
    case LoopState::kWaitingRanks: break;
  }
  return Urgency::kSleep;
}

MonotonicNs Communicator::NextDeadline() const {
  switch (state_) {
    case State::kJoining: return std::min(init_deadline_, joining_->NextDeadline());
    case State::kLinking:
      return proposal_deadline_ != 0 ? std::min(proposal_deadline_, state_deadline_) : state_deadline_;
    case State::kOpening: return state_deadline_;
    case State::kActive:
      return loop_->completed() != reported_operations_ ? next_report_ : kNever;
    case State::kFailed:
    case State::kClosed: return kNever;
  }
  return kNever;
}

void Communicator::Report(bool now) {
  if (id_.value() == 0 || strategy_ == std::nullopt) return;
  const uint64_t operations = loop_ != nullptr ? loop_->completed() : reported_operations_;
  if (!now) {
    if (operations == reported_operations_ || env_.access.clock->Now() < next_report_) return;
  }
  next_report_ = env_.access.clock->Now() + kReportEveryNs;
  reported_operations_ = operations;
  env_.controller->Report({.id = id_,
                           .epoch = strategy_->epoch,
                           .operations = operations,
                           .bytes = loop_ != nullptr ? loop_->bytes() : 0,
                           .lanes = lanes_ != nullptr ? lanes_->Stats()
                                                      : std::vector<CommunicatorStats::Lane>(),
                           .state = failure_.ok() ? "active"
                                                  : absl::StrCat("failed: ", std::string(failure_.message()))});
}

// Without a controller: every channel takes the hosts in the roster's order, which is the locality order.
Strategy Communicator::DefaultStrategy() const {
  Strategy strategy;
  strategy.origin = "daemon default (locality order)";
  strategy.lanes = env_.lanes;
  strategy.skew = env_.skew;
  const int hosts = layout_.host_count();
  // One host needs no lanes, and its slices keep all workers busy in one channel.
  const int channels = hosts == 1 ? 1 : env_.channels;
  for (int c = 0; c < channels; ++c) {
    ChannelStrategy& channel = strategy.channels.emplace_back();
    for (int h = 0; h < hosts; ++h) channel.ring.push_back(HostIndex(h));
  }
  return strategy;
}

CommunicatorInfo Communicator::Info() const {
  CommunicatorInfo info{.id = id_,
                        .name = roster_.name(),
                        .tenant = roster_.tenant(),
                        .members = {},
                        .hosts = {},
                        .strategy = DefaultStrategy()};
  for (const peer::HostInfo& host : roster_.hosts()) {
    info.hosts.push_back(host.name());
    for (const peer::RankInfo& rank : host.ranks()) {
      info.members.push_back({Rank(rank.rank()), host.name(), rank.gpu_bus_id(), rank.process()});
    }
  }
  std::sort(info.members.begin(), info.members.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  return info;
}

std::string Communicator::HostName(HostIndex host) const { return roster_.hosts(host.value()).name(); }

std::string Communicator::DescribeHosts(const std::vector<HostIndex>& hosts) const {
  std::vector<std::string> names;
  for (HostIndex host : hosts) names.push_back(HostName(host));
  return absl::StrJoin(names, ", ");
}

}  // namespace mccs
