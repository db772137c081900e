#include "service/communicator/membership/joining.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "service/communicator/links/star_protocol.h"

namespace mccs {
Joining::Joining(const JoiningOptions& options)
    : options_(options),
      id_(options.dial.preamble.comm_id),
      dial_options_(options.dial),
      next_log_(options.access.clock->Now() + kFirstMissingLogNs),
      inbox_(*options.relay,
             {.kind = Relayed::kRoster,
              .relay_id = RelayIdOf(Relayed::kRoster, id_, options.dial.secret),
              .secret = options.dial.secret},
             options.tenant, options.most_roster_bytes, options.dial.waker) {
  ConnectOwn();
  if (link_ != nullptr) return;
  if (options.named != nullptr)
    seeker_.emplace(*options.named, id_, options.tenant, options.dial.waker);
  if (KnowsRoute()) dial_ = std::make_unique<Dial>(options_.access, dial_options_);
}

void Joining::Add(const peer::Join& join) { waiting_.push_back(join); }

MonotonicNs Joining::NextDeadline() const {
  if (withdrawal_deadline_ != 0) return withdrawal_deadline_;
  if (!roster_hash_.empty()) return roster_deadline_;
  if (link_ != nullptr) return next_log_;
  if (dial_ != nullptr) return std::min(next_log_, dial_->deadline());
  return dial_options_.route.to.port != 0 ? std::min(next_log_, redial_at_) : next_log_;
}

void Joining::ConnectOwn() {
  if (options_.own == nullptr) return;
  std::unique_ptr<Connection> connection =
      options_.own->ConnectOwn(id_, options_.dial.secret, options_.endpoint);
  if (connection == nullptr) return;
  connection->SetWaker(options_.dial.waker);
  link_ = std::make_unique<PeerLink>(std::move(connection), options_.most_roster_bytes);
}

bool Joining::KnowsRoute() {
  if (seeker_.has_value()) {
    if (const std::optional<FoundRendezvous> found = seeker_->Take()) {
      dial_options_.route.to = found->at;
      dial_options_.host = found->host;
    }
  }
  return dial_options_.route.to.port != 0;
}

absl::Status Joining::PollDial() {
  if (dial_ == nullptr) {
    ConnectOwn();
    if (link_ != nullptr) return absl::OkStatus();
    if (!KnowsRoute() || options_.access.clock->Now() < redial_at_) return absl::OkStatus();
    dial_ = std::make_unique<Dial>(options_.access, dial_options_);
  }
  auto connection = dial_->Poll();
  if (connection.ok()) {
    if (*connection != nullptr) {
      link_ = std::make_unique<PeerLink>(std::move(*connection), options_.most_roster_bytes);
    }
    return absl::OkStatus();
  }
  // Rank 0's daemon does not listen there yet, or an earlier job still uses the address.
  const bool early =
      absl::IsUnavailable(connection.status()) || absl::IsNotFound(connection.status());
  if (!options_.keep_dialing || !early) {
    return absl::Status(connection.status().code(),
                        absl::StrCat("cannot reach the rendezvous of communicator ",
                                     FormatCommId(id_), " at ", ToString(dial_options_.route.to),
                                     ": ", std::string(connection.status().message())));
  }
  dial_.reset();
  redial_at_ = options_.access.clock->Now() + dial_again_after_ns_;
  dial_again_after_ns_ = std::min(2 * dial_again_after_ns_, kMaxRedialIntervalNs);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> Joining::Poll() {
  if (options_.access.clock->Now() >= next_log_) {
    next_log_ = options_.access.clock->Now() + kMissingLogEveryNs;
    options_.log->Warning("communicator ", FormatCommId(id_),
                          " is still forming: ", DescribeMissing());
  }
  if (link_ == nullptr) MCCS_RETURN_IF_ERROR(PollDial());
  if (link_ == nullptr) return std::nullopt;
  for (peer::Join& join : waiting_) {
    peer::Message message;
    *message.mutable_join() = std::move(join);
    link_->Send(message);
  }
  waiting_.clear();
  bool received = true;
  for (int i = 0; i < kPeerMessagesPerTurn && received && !roster_.has_value(); ++i) {
    MCCS_ASSIGN_OR_RETURN(received, ReceiveMessage());
  }
  // The link may have read more, which no event reports.
  if (received && !roster_.has_value() && options_.dial.waker != nullptr) {
    options_.dial.waker->Wake();
  }
  MCCS_RETURN_IF_ERROR(PollRelay());
  return std::exchange(roster_, std::nullopt);
}

absl::StatusOr<bool> Joining::ReceiveMessage() {
  link_->Poll();
  auto message = link_->Receive();
  if (!message.ok()) {
    finished_ = true;
    // After the notice, the roster may still come from another host.
    if (!roster_hash_.empty() && !roster_requested_) return false;
    return absl::UnavailableError(absl::StrCat(
        "the rendezvous of communicator ", FormatCommId(id_), " at ", ToString(link_->remote()),
        " ended: ", std::string(message.status().message())));
  }
  if (!message->has_value()) {
    if (link_->has_work() && options_.dial.waker != nullptr) options_.dial.waker->Wake();
    return false;
  }
  const absl::Status handled = OnMessage(**message);
  finished_ |= !handled.ok();
  MCCS_RETURN_IF_ERROR(handled);
  return true;
}

absl::Status Joining::OnMessage(peer::Message& message) {
  switch (message.body_case()) {
    case peer::Message::kRoster:
      finished_ = true;
      roster_ = std::move(*message.mutable_roster());
      return absl::OkStatus();
    case peer::Message::kRosterNotice:
      if (!roster_hash_.empty() || message.roster_notice().hash().size() != wire::kProofBytes)
        break;
      OnNotice(message.roster_notice());
      return absl::OkStatus();
    case peer::Message::kRejected:
      return StatusFromPeer(message.rejected().error_code(), message.rejected().message());
    case peer::Message::kWaiting: {
      const auto& missing = message.waiting().missing_ranks();
      const size_t named =
          std::min<size_t>(static_cast<size_t>(missing.size()), kMaxNamedMissingRanks);
      missing_.assign(missing.begin(), missing.begin() + static_cast<long>(named));
      unnamed_missing_ = message.waiting().more() + static_cast<uint32_t>(missing.size()) -
                         static_cast<uint32_t>(named);
      return absl::OkStatus();
    }
    default:
      break;
  }
  return Rejected(ToString(link_->remote()), message,
                  absl::DataLossError("not allowed from a rendezvous"));
}

void Joining::OnNotice(const peer::RosterNotice& notice) {
  roster_hash_ = notice.hash();
  missing_.clear();
  unnamed_missing_ = 0;
  roster_deadline_ = options_.access.clock->Now() + kRelayTimeoutNs;
  // The others count on this host: it must know them soon to notify them.
  if (withdrawal_deadline_ != 0) {
    withdrawal_deadline_ = options_.access.clock->Now() + kWithdrawalTimeoutNs;
    RequestRoster("this host withdraws");
  }
}

absl::Status Joining::PollRelay() {
  if (roster_hash_.empty() || roster_.has_value()) return absl::OkStatus();
  while (std::optional<std::string> roster = inbox_.Take()) {
    if (RelayHash(options_.dial.secret, *roster) == roster_hash_) {
      finished_ = true;
      roster_ = std::move(roster);
      return absl::OkStatus();
    }
    RequestRoster("a host forwarded another roster");
  }
  if (options_.access.clock->Now() < roster_deadline_) return absl::OkStatus();
  if (!roster_requested_ && !finished_) {
    RequestRoster("no host has forwarded it");
    return absl::OkStatus();
  }
  return absl::DeadlineExceededError(
      absl::StrCat("the rendezvous of communicator ", FormatCommId(id_), " at ",
                   ToString(link_->remote()), " has sent no roster, nor has another host"));
}

void Joining::RequestRoster(const char* why) {
  if (std::exchange(roster_requested_, true)) return;
  options_.log->Warning("communicator ", FormatCommId(id_),
                        ": requests the roster from the rendezvous: ", why);
  peer::Message request;
  request.mutable_roster_request();
  link_->Send(request);
  roster_deadline_ = options_.access.clock->Now() + kRosterRequestTimeoutNs;
}

void Joining::Withdraw(const absl::Status& why) {
  if (link_ == nullptr || finished_) return;
  withdrawal_deadline_ = options_.access.clock->Now() + kWithdrawalTimeoutNs;
  if (roster_hash_.empty()) {
    link_->Send(FailedMessage(why));
  } else {
    RequestRoster("this host withdraws");
  }
}

bool Joining::WithdrawalDone() {
  if (link_ == nullptr || finished_ || options_.access.clock->Now() >= withdrawal_deadline_)
    return true;
  int received = 0;
  while (!finished_ && received < kPeerMessagesPerTurn) {
    const absl::StatusOr<bool> more = ReceiveMessage();
    if (!more.ok() || !*more) break;
    ++received;
  }
  if (!finished_) PollRelay().IgnoreError();  // The deadline of the withdrawal is earlier.
  late_roster_ = std::exchange(roster_, std::nullopt);
  if (finished_) return true;
  if (received == kPeerMessagesPerTurn && options_.dial.waker != nullptr)
    options_.dial.waker->Wake();  // for the remaining messages
  return false;
}

std::string Joining::DescribeMissing() const {
  if (link_ == nullptr && dial_options_.route.to.port == 0)
    return "the controller knows no host on which rank 0 joins, or is not connected";
  if (link_ == nullptr) return "the rendezvous daemon has not answered";
  if (!roster_hash_.empty()) return "all ranks have joined, but the roster has not arrived";
  if (missing_.empty()) return "the rendezvous daemon has not reported the missing ranks";
  std::string text =
      absl::StrCat(missing_.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing_, ", "));
  if (unnamed_missing_ > 0) absl::StrAppend(&text, " and ", unnamed_missing_, " more");
  return absl::StrCat(text, missing_.size() == 1 && unnamed_missing_ == 0 ? " has" : " have",
                      " not joined");
}

}  // namespace mccs
