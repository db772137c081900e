#include "service/communicator/links/star.h"

#include <algorithm>
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

void Star::Accept(std::unique_ptr<Connection> connection) {
  if (unidentified_.size() >= links_.size()) return;  // More links than hosts: drop it.
  unidentified_.push_back(std::make_unique<PeerLink>(std::move(connection), kMaxHelloBytes));
}

void Star::Broadcast(const peer::Message& message) {
  if (!leads()) {
    SendToLeader(message);
    return;
  }
  for (Spoke& spoke : links_) {
    if (spoke.link != nullptr) spoke.link->Send(message);
  }
}

void Star::SendToLeader(const peer::Message& message) {
  PeerLink* link = links_[leader_.value()].link.get();
  if (link != nullptr) {
    link->Send(message);
  } else if (dial_ != nullptr && outbox_.size() < kMaxOutbox) {
    outbox_.push_back(message);
  }
}

absl::StatusOr<std::optional<StarMessage>> Star::Receive() {
  if (!dial_status_.ok()) {
    lost_ = leader_;
    return std::exchange(dial_status_, absl::OkStatus());
  }
  for (size_t i = 0; i < links_.size(); ++i) {
    Spoke& spoke = links_[i];
    if (spoke.link == nullptr) continue;
    auto message = spoke.link->Receive();
    if (!message.ok()) {
      const std::string why(message.status().message());
      const bool departed = spoke.departed;
      spoke.link.reset();
      if (departed) continue;
      spoke.departed = true;
      lost_ = HostIndex(static_cast<int>(i));
      return absl::UnavailableError(why);
    }
    if (!message->has_value()) continue;
    if (leads() && IsForAllHosts(**message))
      ForwardToMembers(HostIndex(static_cast<int>(i)), **message);
    return StarMessage{HostIndex(static_cast<int>(i)), std::move(**message)};
  }
  return std::nullopt;
}

void Star::ForwardToMembers(HostIndex from, const peer::Message& message) {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (static_cast<int>(i) != from.value() && links_[i].link != nullptr)
      links_[i].link->Send(message);
  }
}

bool Star::complete() const { return Unlinked().empty(); }

std::vector<HostIndex> Star::Unlinked() const {
  std::vector<HostIndex> missing;
  for (size_t i = 0; i < links_.size(); ++i) {
    const HostIndex host(static_cast<int>(i));
    if (host == self_ || (!leads() && host != leader_)) continue;
    if (links_[i].link == nullptr) missing.push_back(host);
  }
  return missing;
}

void Star::MarkDeparted(HostIndex host) { links_[host.value()].departed = true; }

bool Star::all_others_left() const {
  for (size_t i = 0; i < links_.size(); ++i) {
    if (static_cast<int>(i) != self_.value() && links_[i].link != nullptr) return false;
  }
  return true;
}

bool Star::Poll() {
  bool moved = false;
  if (dial_ != nullptr) {
    auto connection = dial_->Poll();
    if (!connection.ok() || *connection != nullptr) {
      dial_.reset();
      moved = true;
    }
    if (!connection.ok()) dial_status_ = connection.status();
    if (connection.ok() && *connection != nullptr) {
      auto link = std::make_unique<PeerLink>(std::move(*connection), most_bytes_);
      peer::Message hello;
      hello.mutable_hello()->set_host_index(self_.value());
      link->Send(hello);
      for (const peer::Message& message : std::exchange(outbox_, {})) link->Send(message);
      links_[leader_.value()].link = std::move(link);
    }
  }
  for (size_t i = 0; i < unidentified_.size();) {
    auto message = unidentified_[i]->Receive();
    if (message.ok() && !message->has_value()) {
      ++i;
      continue;
    }
    const int host =
        message.ok() && (*message)->has_hello() ? (*message)->hello().host_index() : -1;
    const bool welcome = host >= 0 && host < static_cast<int>(links_.size()) &&
                         host != self_.value() && links_[host].link == nullptr;
    if (welcome) {
      unidentified_[i]->Allow(most_bytes_);
      links_[host].link = std::move(unidentified_[i]);
    }
    unidentified_.erase(unidentified_.begin() + static_cast<long>(i));
    moved = true;
  }
  for (Spoke& spoke : links_) {
    if (spoke.link != nullptr) moved |= spoke.link->Poll();
  }
  return moved;
}

bool Star::flushed() const {
  if (dial_ != nullptr && !outbox_.empty()) return false;
  return std::all_of(links_.begin(), links_.end(), [](const Spoke& spoke) {
    return spoke.link == nullptr || !spoke.link->status().ok() || spoke.link->flushed();
  });
}

}  // namespace mccs
