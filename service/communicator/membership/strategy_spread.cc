#include "service/communicator/membership/strategy_spread.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/strategy.pb.h"

namespace mccs {
namespace {

int ReceiverOf(HostIndex host, HostIndex leader) { return host.value() - (host > leader ? 1 : 0); }

HostIndex HostOf(int receiver, HostIndex leader) {
  return HostIndex(receiver + (receiver >= leader.value() ? 1 : 0));
}

}  // namespace

TreeRelay::Subject StrategySubject(CommId id, const Secret& secret) {
  return {.kind = Relayed::kStrategy,
          .relay_id = RelayIdOf(Relayed::kStrategy, id, secret),
          .secret = secret};
}

std::vector<HostIndex> StrategyChildren(const Membership& members) {
  std::vector<HostIndex> children;
  const int self = ReceiverOf(members.self, members.leader);
  for (const int child : TreeChildren(self, members.hosts() - 1))
    children.push_back(HostOf(child, members.leader));
  return children;
}

// ---- The leader ---------------------------------------------------------------------------------

StrategySource::StrategySource(Star& star, const Membership& members, const Secret& secret,
                               const Strategy& strategy)
    : star_(star), may_request_(static_cast<size_t>(members.hosts())) {
  strategy::Strategy message;
  ToProto(strategy, &message);
  peer::Message open;
  open.mutable_open()->set_strategy(message.SerializeAsString());
  open_ = MakeFrame(open);
  PeerFrame notice;
  const int receivers = members.hosts() - 1;
  if (receivers > kDirectReceivers) {
    peer::Message hash;
    hash.mutable_open_notice()->set_hash(RelayHash(secret, open.open().strategy()));
    notice = MakeFrame(hash);
  }
  for (int receiver = 0; receiver < receivers; ++receiver) {
    const HostIndex host = HostOf(receiver, members.leader);
    const bool direct = receiver < kDirectReceivers;
    may_request_[static_cast<size_t>(host.value())] = !direct;
    star_.SendTo(host, direct ? open_ : notice);
  }
}

absl::Status StrategySource::OnRequest(HostIndex from) {
  const auto at = static_cast<size_t>(from.value());
  if (!may_request_[at]) return absl::DataLossError("it has been sent to this host already");
  may_request_[at] = false;
  requests_.push_back(from);
  return absl::OkStatus();
}

bool StrategySource::Poll() {
  if (requests_.empty()) return false;
  std::erase_if(answering_, [this](HostIndex host) { return star_.flushed(host); });
  bool moved = false;
  while (!requests_.empty() && answering_.size() < kMaxStrategiesAtOnce) {
    star_.SendTo(requests_.front(), open_);
    answering_.push_back(requests_.front());
    requests_.pop_front();
    moved = true;
  }
  return moved;
}

// ---- A member -----------------------------------------------------------------------------------

StrategyReceiver::StrategyReceiver(const Options& options)
    : options_(options),
      inbox_(std::in_place, *options.relay, StrategySubject(options.id, options.secret),
             options.tenant, options.most_bytes, options.waker) {}

absl::Status StrategyReceiver::OnNotice(const peer::OpenNotice& notice) {
  if (notified()) return absl::DataLossError("duplicate message");
  if (notice.hash().size() != wire::kProofBytes) {
    return absl::DataLossError(
        absl::StrCat("a hash of ", notice.hash().size(), " bytes: expected ", wire::kProofBytes));
  }
  hash_ = notice.hash();
  deadline_ = options_.clock->Now() + kRelayTimeoutNs;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> StrategyReceiver::Poll() {
  if (!notified()) return std::nullopt;
  const bool late = options_.clock->Now() >= deadline_;
  if (!inbox_.has_value()) {
    if (!late) return std::nullopt;
    return absl::DeadlineExceededError(
        "neither the leader nor another host has sent the strategy; see mccsd's log on the "
        "leader's host");
  }
  if (std::optional<std::string> strategy = inbox_->Take(); strategy.has_value()) {
    if (RelayHash(options_.secret, *strategy) == hash_) return strategy;
    Request("a host forwarded another strategy");
  } else if (late) {
    Request("no host has forwarded it");
  }
  return std::nullopt;
}

void StrategyReceiver::Request(const char* why) {
  options_.log->Warning("communicator ", FormatCommId(options_.id),
                        ": requests the strategy from the leader: ", why);
  inbox_.reset();
  peer::Message request;
  request.mutable_open_request();
  options_.star->SendToLeader(request);
  deadline_ = options_.clock->Now() + kStrategyRequestTimeoutNs;
}

}  // namespace mccs
