#include "service/transport/peer_listener.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mccs {
namespace {

// Streams accepted per Poll; limited so that lanes get their turns.
constexpr int kMaxAcceptsPerPoll = 64;

}  // namespace

PeerListener::PeerListener(std::unique_ptr<Listener> listener, SecretLookup lookup, Random& random,
                           Log& log, const PeerListenerLimits& limits)
    : listener_(std::move(listener)),
      lookup_(std::move(lookup)),
      random_(random),
      log_(log),
      limits_(limits) {}

void PeerListener::Mark(uint8_t dscp) {
  listener_->Mark(dscp);
  marked_ = dscp != 0;
}

std::vector<Peer> PeerListener::Poll(MonotonicNs now) {
  AcceptNew(now);
  std::vector<Peer> proven;
  const bool news = std::exchange(woken_, false) || due_ <= now;
  const bool late = !waiting_.empty() && waiting_.front().deadline() <= now;
  const bool looks = std::exchange(lookup_due_, false) || late;
  if (!news && !looks) return proven;
  if (news) PollEach(pending_, now, proven);
  if (looks) PollEach(waiting_, now, proven);
  due_ = kNever;
  for (const ServerHandshake& handshake : pending_) due_ = std::min(due_, handshake.deadline());
  return proven;
}

void PeerListener::PollEach(Handshakes& handshakes, MonotonicNs now, std::vector<Peer>& proven) {
  for (auto it = handshakes.begin(); it != handshakes.end();) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = it->Poll(now);
    if (connection.ok() && *connection == nullptr) {
      const auto next = std::next(it);
      Handshakes& home = it->awaits_secret() ? waiting_ : pending_;
      if (&home != &handshakes) home.splice(home.end(), handshakes, it);
      it = next;
      continue;
    }
    if (connection.ok()) {
      (*connection)->SetWaker(nullptr);
      const bool lane = it->preamble().purpose == ConnectionPurpose::kLane;
      if (lane && marked_) (*connection)->Mark(0);  // The lane sets its own DSCP.
      proven.push_back({.preamble = it->preamble(),
                        .secret = it->secret(),
                        .connection = *std::move(connection)});
    } else {
      warnings_.Write(it->source(),
                      absl::StrCat("port ", listener_->local().port, ": connection dropped: ",
                                   std::string(connection.status().message())),
                      now);
    }
    it = Remove(handshakes, it);
  }
}

PeerListener::Handshakes::iterator PeerListener::Remove(Handshakes& handshakes,
                                                        Handshakes::iterator it) {
  const auto count = count_.find(it->source());
  if (--count->second == 0) count_.erase(count);
  return handshakes.erase(it);
}

void PeerListener::RetryLookup(CommId id) {
  for (ServerHandshake& handshake : waiting_) {
    if (handshake.preamble().comm_id != id) continue;
    handshake.RetryLookup();
    lookup_due_ = true;
  }
}

void PeerListener::AcceptNew(MonotonicNs now) {
  for (int i = 0; i < kMaxAcceptsPerPoll; ++i) {
    absl::StatusOr<std::unique_ptr<Connection>> connection = listener_->Accept();
    if (!connection.ok()) {  // Probably out of descriptors: logged once until it works again.
      if (!accept_failed_)
        log_.Error("cannot accept connections of other daemons: ", connection.status().message());
      accept_failed_ = true;
      return;
    }
    if (*connection == nullptr) return;
    accept_failed_ = false;
    (*connection)->SetWaker(this);
    woken_ = true;
    pending_.emplace_back(*std::move(connection), lookup_, random_, limits_.timeouts, now);
    ++count_[pending_.back().source()];
    if (pending() > limits_.pending) MakeRoom(now);
  }
}

void PeerListener::MakeRoom(MonotonicNs now) {
  const auto most =
      std::max_element(count_.begin(), count_.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  const std::string source = most->first;
  for (Handshakes* handshakes : {&waiting_, &pending_}) {
    const auto oldest =
        std::find_if(handshakes->begin(), handshakes->end(),
                     [&](const ServerHandshake& each) { return each.source() == source; });
    if (oldest == handshakes->end()) continue;
    warnings_.Write(source,
                    absl::StrCat("port ", listener_->local().port, ": more than ", limits_.pending,
                                 " connections wait for their handshake, most of them from ",
                                 source, "; dropped the oldest one from there"),
                    now);
    Remove(*handshakes, oldest);
    return;
  }
}

std::optional<MonotonicNs> PeerListener::NextDeadline() const {
  const MonotonicNs first = waiting_.empty() ? due_ : std::min(due_, waiting_.front().deadline());
  return first == kNever ? std::nullopt : std::optional(first);
}

}  // namespace mccs
