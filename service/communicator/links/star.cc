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

bool IsForAllHosts(const peer::Message& message) {
  return message.has_departed() || message.has_failed();
}

}  // namespace

Star::Star(HostIndex self, HostIndex leader, int hosts, std::unique_ptr<Dial> dial, Waker* waker)
    : self_(self), leader_(leader), ready_(waker), ready_newcomers_(waker), dial_(std::move(dial)) {
  for (int h = 0; h < hosts; ++h) links_.emplace_back(ready_, HostIndex(h));
}

void Star::Accept(std::unique_ptr<Connection> connection) {
  if (newcomers_.size() >= links_.size()) return;  // More links than hosts: drop it.
  Newcomer& newcomer = newcomers_.emplace_back(
      ready_newcomers_, std::make_unique<PeerLink>(std::move(connection), kMaxHelloBytes));
  newcomer.place = std::prev(newcomers_.end());
  newcomer.link->SetWaker(&newcomer);
  newcomer.Wake();
}

void Star::Link(Spoke& spoke, std::unique_ptr<PeerLink> link) {
  spoke.link = std::move(link);
  spoke.link->SetWaker(&spoke);
  spoke.Wake();
  ++linked_;
}

// An error is found by Receive.
void Star::Send(Spoke& spoke, const peer::Message& message) {
  if (spoke.link == nullptr) return;
  spoke.link->Send(message);
  if (!spoke.link->status().ok()) spoke.Wake();
}

void Star::Broadcast(const peer::Message& message) {
  if (!leads()) {
    SendToLeader(message);
    return;
  }
  for (Spoke& spoke : links_) Send(spoke, message);
}

void Star::SendToLeader(const peer::Message& message) {
  Spoke& leader = At(leader_);
  if (leader.link != nullptr) {
    Send(leader, message);
  } else if (dial_ != nullptr && outbox_.size() < kMaxOutbox) {
    outbox_.push_back(message);
  }
}

absl::StatusOr<std::optional<StarMessage>> Star::Receive() {
  if (!dial_status_.ok()) {
    lost_ = leader_;
    return std::exchange(dial_status_, absl::OkStatus());
  }
  while (auto* const spoke = static_cast<Spoke*>(ready_.Next())) {
    if (spoke->link == nullptr) continue;
    auto message = spoke->link->Receive();
    if (!message.ok()) {
      const std::string why(message.status().message());
      spoke->link.reset();
      --linked_;
      if (std::exchange(spoke->departed, true)) continue;
      lost_ = spoke->host;
      return absl::UnavailableError(why);
    }
    if (!message->has_value()) continue;
    spoke->List();  // there may be another one
    if (leads() && IsForAllHosts(**message)) ForwardToMembers(spoke->host, **message);
    return StarMessage{spoke->host, std::move(**message)};
  }
  return std::nullopt;
}

void Star::ForwardToMembers(HostIndex from, const peer::Message& message) {
  for (Spoke& spoke : links_) {
    if (spoke.host != from) Send(spoke, message);
  }
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
  for (size_t left = ready_newcomers_.size(); left > 0; --left) {
    moved |= Identify(static_cast<Newcomer&>(*ready_newcomers_.Next()));
  }
  // Those that are writable again.
  for (size_t left = ready_.size(); left > 0; --left) {
    auto& spoke = static_cast<Spoke&>(*ready_.Next());
    if (spoke.link == nullptr) continue;
    moved |= spoke.link->Poll();
    spoke.List();  // for Receive
  }
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
  const bool welcome = host >= 0 && host < static_cast<int>(links_.size()) &&
                       host != self_.value() && At(HostIndex(host)).link == nullptr;
  if (welcome) {
    newcomer.link->Allow(most_bytes_);
    Link(At(HostIndex(host)), std::move(newcomer.link));
  }
  newcomers_.erase(newcomer.place);
  return true;
}

bool Star::flushed() const {
  if (dial_ != nullptr && !outbox_.empty()) return false;
  return std::all_of(links_.begin(), links_.end(), IsFlushed);
}

}  // namespace mccs
