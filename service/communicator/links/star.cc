#include "service/communicator/links/star.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {
namespace {

// Messages queued before the link is open; a member then has little to send except its failure.
constexpr size_t kMaxOutbox = 16;

}  // namespace

Star::Star(HostIndex self, HostIndex leader, int hosts, std::unique_ptr<Dial> dial, Waker* waker)
    : self_(self), leader_(leader), ready_(waker), ready_newcomers_(waker), dial_(std::move(dial)) {
  for (int h = 0; h < hosts; ++h) links_.emplace_back(ready_, HostIndex(h));
}

void Star::Accept(std::unique_ptr<Connection> connection, const std::string& host) {
  if (newcomers_.size() >= links_.size()) return;  // More links than hosts: drop it.
  BudgetShare share(budget_, Resource::kDescriptors);
  refused_.Update(share.Take());
  if (!refused_.ok()) return;
  Newcomer& newcomer = newcomers_.emplace_back(
      ready_newcomers_, std::make_unique<PeerLink>(std::move(connection), kMaxHelloBytes), host);
  newcomer.place = std::prev(newcomers_.end());
  newcomer.link->Keep(std::move(share));
  newcomer.link->SetWaker(&newcomer);
  newcomer.Wake();
}

void Star::Link(Spoke& spoke, std::unique_ptr<PeerLink> link) {
  spoke.link = std::move(link);
  spoke.link->SetWaker(&spoke);
  spoke.Wake();
  ++linked_;
  if (failure_ != nullptr) Queue(spoke, failure_);
}

// An error is found by Receive.
void Star::Queue(Spoke& spoke, PeerFrame frame) {
  if (spoke.link == nullptr) return;
  spoke.link->Queue(std::move(frame));
  spoke.Wake();
}

void Star::Broadcast(const peer::Message& message) {
  if (!leads()) {
    SendToLeader(message);
    return;
  }
  QueueForAllBut(self_, message);
}

void Star::SendToLeader(const peer::Message& message) {
  Spoke& leader = At(leader_);
  if (leader.link != nullptr) {
    leader.link->Send(message);
    if (!leader.link->status().ok() || !leader.link->flushed()) leader.Wake();
  } else if (dial_ != nullptr && outbox_.size() < kMaxOutbox) {
    outbox_.push_back(message);
  }
}

absl::StatusOr<std::optional<StarMessage>> Star::Receive() {
  if (!dial_status_.ok()) {
    lost_ = leader_;
    return std::exchange(dial_status_, absl::OkStatus());
  }
  while (left_ > 0) {
    auto* const spoke = static_cast<Spoke*>(ready_.Next());
    if (spoke == nullptr) return std::nullopt;
    if (spoke->link == nullptr) continue;
    const uint64_t before = spoke->link->moved_bytes();
    auto message = spoke->link->Receive();
    Spend(kLinkCost + static_cast<int64_t>(spoke->link->moved_bytes() - before));
    if (!message.ok()) {
      const std::string why(message.status().message());
      spoke->link.reset();
      --linked_;
      if (std::exchange(spoke->departed, true)) continue;
      lost_ = spoke->host;
      return absl::UnavailableError(why);
    }
    if (!message->has_value()) {
      if (spoke->link->has_work()) spoke->List();
      continue;
    }
    spoke->List();  // there may be another one
    if (leads() && (*message)->has_failed()) ForwardFailure(*spoke, (*message)->failed());
    return StarMessage{spoke->host, std::move(**message)};
  }
  WakeForRest();
  return std::nullopt;
}

void Star::ForwardFailure(Spoke& from, peer::Failed failed) {
  if (from.forwarded_failures == kMaxForwardedFailures) return;
  ++from.forwarded_failures;
  failed.set_message(CutPeerText(failed.message()));
  peer::Message message;
  *message.mutable_failed() = std::move(failed);
  message.DiscardUnknownFields();
  QueueForAllBut(from.host, message);
}

void Star::Forward(HostIndex from, peer::Departed departed) {
  departed.set_reason(CutPeerText(departed.reason()));
  peer::Message message;
  *message.mutable_departed() = std::move(departed);
  message.DiscardUnknownFields();
  QueueForAllBut(from, message);
}

void Star::QueueForAllBut(HostIndex excluded, const peer::Message& message) {
  const PeerFrame frame = MakeFrame(message);
  if (message.has_failed()) failure_ = frame;
  for (Spoke& spoke : links_) {
    if (spoke.host != excluded) Queue(spoke, frame);
  }
  Spend(static_cast<int64_t>(links_.size()) * kQueueCost);
}

void Star::WakeForRest() {
  if (ReadyList::Member* const next = ready_.Next(); next != nullptr) next->Wake();
  if (ReadyList::Member* const next = ready_newcomers_.Next(); next != nullptr) next->Wake();
}

bool Star::complete() const {
  return leads() ? linked_ == static_cast<int>(links_.size()) - 1 : At(leader_).link != nullptr;
}

std::vector<HostIndex> Star::Unlinked() const {
  std::vector<HostIndex> missing;
  for (const Spoke& spoke : links_) {
    const bool needed = spoke.host != self_ && (leads() || spoke.host == leader_);
    if (needed && spoke.link == nullptr) missing.push_back(spoke.host);
  }
  return missing;
}

void Star::MarkDeparted(HostIndex host) { At(host).departed = true; }

bool Star::Poll() {
  bool moved = dial_ != nullptr && PollDial();
  left_ = kCostPerTurn;
  for (size_t listed = ready_newcomers_.size(); listed > 0 && left_ > 0; --listed) {
    Spend(kLinkCost);
    moved |= Identify(static_cast<Newcomer&>(*ready_newcomers_.Next()));
  }
  // Those that are writable again, or have new messages.
  for (size_t listed = ready_.size(); listed > 0 && left_ > 0; --listed) {
    auto& spoke = static_cast<Spoke&>(*ready_.Next());
    if (spoke.link == nullptr) continue;
    const uint64_t before = spoke.link->moved_bytes();
    const bool sent = spoke.link->Poll();
    if (sent) Spend(kLinkCost + static_cast<int64_t>(spoke.link->moved_bytes() - before));
    moved |= sent;
    spoke.List();  // for Receive
  }
  left_ = kCostPerTurn;
  return moved;
}

bool Star::PollDial() {
  auto connection = dial_->Poll();
  if (connection.ok() && *connection == nullptr) return false;
  dial_.reset();
  if (!connection.ok()) {
    dial_status_ = connection.status();
    return true;
  }
  auto link = std::make_unique<PeerLink>(std::move(*connection), most_bytes_);
  peer::Message hello;
  hello.mutable_hello()->set_host_index(self_.value());
  link->Send(hello);
  for (const peer::Message& message : std::exchange(outbox_, {})) link->Send(message);
  Link(At(leader_), std::move(link));
  return true;
}

// Returns true when the newcomer is a member's link, or is gone.
bool Star::Identify(Newcomer& newcomer) {
  auto message = newcomer.link->Receive();
  if (message.ok() && !message->has_value()) return false;
  const int host = message.ok() && (*message)->has_hello() ? (*message)->hello().host_index() : -1;
  const bool welcome =
      host >= 0 && host < static_cast<int>(links_.size()) && host != self_.value() &&
      At(HostIndex(host)).link == nullptr &&
      (newcomer.host.empty() || name_of_ == nullptr || name_of_(HostIndex(host)) == newcomer.host);
  if (welcome) {
    newcomer.link->Allow(most_bytes_);
    Link(At(HostIndex(host)), std::move(newcomer.link));
  }
  newcomers_.erase(newcomer.place);
  return true;
}

bool Star::flushed() const {
  if (dial_ != nullptr && !outbox_.empty()) return false;
  if (ready_newcomers_.size() > 0) return false;  // They may be owed the failure.
  return std::all_of(links_.begin(), links_.end(), IsFlushed);
}

}  // namespace mccs
