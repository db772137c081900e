#include "service/communicator/membership/joining.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "service/communicator/links/star_protocol.h"

namespace mccs {
namespace {

// The last message of a rendezvous: it handles no further message about this communicator.
bool IsFinal(const peer::Message& message) {
  return message.has_rejected() || message.has_roster();
}

}  // namespace

Joining::Joining(const JoiningOptions& options)
    : options_(options),
      id_(options.dial.preamble.comm_id),
      next_log_(options.access.clock->Now() + kFirstMissingLogNs),
      dial_(std::make_unique<Dial>(options.access, options.dial)) {}

void Joining::Add(const peer::Join& join) { waiting_.push_back(join); }

MonotonicNs Joining::NextDeadline() const {
  if (withdrawal_deadline_ != 0) return withdrawal_deadline_;
  if (link_ != nullptr) return next_log_;
  return std::min(next_log_, dial_ != nullptr ? dial_->deadline() : redial_at_);
}

absl::Status Joining::PollDial() {
  if (dial_ == nullptr) {
    if (options_.access.clock->Now() < redial_at_) return absl::OkStatus();
    dial_ = std::make_unique<Dial>(options_.access, options_.dial);
  }
  auto connection = dial_->Poll();
  if (connection.ok()) {
    if (*connection != nullptr) link_ = std::make_unique<PeerLink>(std::move(*connection));
    return absl::OkStatus();
  }
  // Rank 0's daemon does not listen there yet, or an earlier job still uses the address.
  const bool early =
      absl::IsUnavailable(connection.status()) || absl::IsNotFound(connection.status());
  if (!options_.keep_dialing || !early) {
    return absl::Status(connection.status().code(),
                        absl::StrCat("cannot reach the rendezvous of communicator ",
                                     FormatCommId(id_), " at ", ToString(options_.dial.route.to),
                                     ": ", std::string(connection.status().message())));
  }
  dial_.reset();
  redial_at_ = options_.access.clock->Now() + dial_again_after_ns_;
  dial_again_after_ns_ = std::min(2 * dial_again_after_ns_, kMaxRedialIntervalNs);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<peer::Roster>> Joining::Poll() {
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
  link_->Poll();
  for (int i = 0; i < kPeerMessagesPerTurn; ++i) {
    auto message = link_->Receive();
    finished_ = !message.ok() || (message->has_value() && IsFinal(**message));
    if (!message.ok()) {
      return absl::UnavailableError(absl::StrCat(
          "the rendezvous of communicator ", FormatCommId(id_), " at ", ToString(link_->remote()),
          " ended: ", std::string(message.status().message())));
    }
    if (!message->has_value()) return std::nullopt;
    if ((*message)->has_roster()) return std::move(*(*message)->mutable_roster());
    if ((*message)->has_rejected()) {
      return StatusFromPeer((*message)->rejected().error_code(), (*message)->rejected().message());
    }
    if (!(*message)->has_waiting()) {
      finished_ = true;
      return Rejected(ToString(link_->remote()), **message,
                      absl::DataLossError("not allowed from a rendezvous"));
    }
    const auto& missing = (*message)->waiting().missing_ranks();
    const size_t named =
        std::min<size_t>(static_cast<size_t>(missing.size()), kMaxNamedMissingRanks);
    missing_.assign(missing.begin(), missing.begin() + static_cast<long>(named));
    unnamed_missing_ = (*message)->waiting().more() + static_cast<uint32_t>(missing.size()) -
                       static_cast<uint32_t>(named);
  }
  return std::nullopt;
}

void Joining::Withdraw(const absl::Status& why) {
  if (link_ == nullptr || finished_) return;
  link_->Send(FailedMessage(why));
  withdrawal_deadline_ = options_.access.clock->Now() + kWithdrawalTimeoutNs;
}

bool Joining::WithdrawalDone() {
  if (link_ == nullptr || finished_ || options_.access.clock->Now() >= withdrawal_deadline_)
    return true;
  link_->Poll();
  for (int i = 0; i < kPeerMessagesPerTurn; ++i) {
    auto message = link_->Receive();
    finished_ = !message.ok() || (message->has_value() && IsFinal(**message));
    if (message.ok() && message->has_value() && (*message)->has_roster()) {
      late_roster_ = std::move(*(*message)->mutable_roster());
    }
    if (finished_) return true;
    if (!message->has_value()) return false;
  }
  if (options_.dial.waker != nullptr) options_.dial.waker->Wake();  // for the remaining messages
  return false;
}

std::string Joining::DescribeMissing() const {
  if (link_ == nullptr) return "the rendezvous daemon has not answered";
  if (missing_.empty()) return "the rendezvous daemon has not reported the missing ranks";
  std::string text =
      absl::StrCat(missing_.size() == 1 ? "rank " : "ranks ", absl::StrJoin(missing_, ", "));
  if (unnamed_missing_ > 0) absl::StrAppend(&text, " and ", unnamed_missing_, " more");
  return absl::StrCat(text, missing_.size() == 1 && unnamed_missing_ == 0 ? " has" : " have",
                      " not joined");
}

}  // namespace mccs
