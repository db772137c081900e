#include "service/transport/tls/handshake_thread.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "base/blocked_signals.h"

namespace mccs {

HandshakeThread::HandshakeThread(std::function<void()> wake) : wake_engine_(std::move(wake)) {
  // Only the daemon's main thread handles signals.
  const BlockedSignals blocked;
  thread_ = std::thread([this] { Run(); });
  pthread_setname_np(thread_.native_handle(), "mccs-handshake");
}

HandshakeThread::~HandshakeThread() {
  stop_.store(true);
  wake_.fetch_add(1);
  wake_.notify_one();
  thread_.join();
}

// ---- The engine ---------------------------------------------------------------------------------

HandshakeThread::Ticket HandshakeThread::Add(User& user, const std::string& address,
                                             std::unique_ptr<TlsSession> session) {
  const uint64_t number = next_number_++;
  waiting_[address].emplace(number, Waiting{.user = &user, .session = std::move(session)});
  ++waiting_count_;
  FillRing();
  return {.address = address, .number = number};
}

void HandshakeThread::Cancel(const Ticket& ticket) {
  if (const auto queue = waiting_.find(ticket.address);
      queue != waiting_.end() && queue->second.erase(ticket.number) > 0) {
    --waiting_count_;
    if (queue->second.empty()) waiting_.erase(queue);
    return;
  }
  for (Part& part : ring_) {
    if (part.number == ticket.number) part.user = nullptr;
  }
}

bool HandshakeThread::Poll() {
  const uint32_t computed = computed_.load(std::memory_order_acquire);
  if (taken_ == computed) return false;
  while (taken_ != computed) {
    Part part = std::exchange(ring_[taken_++ % kRing], {});
    if (part.user != nullptr) part.user->OnComputed(std::move(part.session), part.result);
  }
  FillRing();
  return true;
}

void HandshakeThread::FillRing() {
  uint32_t posted = posted_.load(std::memory_order_relaxed);
  const uint32_t before = posted;
  for (; waiting_count_ > 0 && posted - taken_ < kRing; ++posted) {
    Queue::node_type next = TakeNext();
    ring_[posted % kRing] = {.number = next.key(),
                             .user = next.mapped().user,
                             .session = std::move(next.mapped().session)};
  }
  if (posted == before) return;
  posted_.store(posted, std::memory_order_release);
  wake_.fetch_add(1);
  wake_.notify_one();
}

// The oldest of the next address. REQUIRES: there is one.
HandshakeThread::Queue::node_type HandshakeThread::TakeNext() {
  auto queue = waiting_.upper_bound(served_);
  if (queue == waiting_.end()) queue = waiting_.begin();
  served_ = queue->first;
  Queue::node_type next = queue->second.extract(queue->second.begin());
  if (queue->second.empty()) waiting_.erase(queue);
  --waiting_count_;
  return next;
}

// ---- The thread ---------------------------------------------------------------------------------

void HandshakeThread::Run() {
  uint32_t computed = 0;
  for (;;) {
    const uint32_t seen = wake_.load();
    if (stop_.load()) return;
    if (computed == posted_.load(std::memory_order_acquire)) {
      wake_.wait(seen);
      continue;
    }
    Part& part = ring_[computed % kRing];
    part.result = part.session->Handshake();
    computed_.store(++computed, std::memory_order_release);
    wake_engine_();
  }
}

}  // namespace mccs
