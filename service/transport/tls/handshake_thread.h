// Computes the handshakes of TLS apart from the engine. Each has two or three parts of some tenths
// of a millisecond, and a stranger may begin as many as it likes.
//
// clang-format off
//   Add ──► waiting, by address ──► ring of kRing parts ──► TlsSession::Handshake ──► OnComputed
//  (engine)     (engine)              (both)                 (the thread)            (engine's Poll)
// clang-format on
//
// Addresses take turns, so an address with a thousand handshakes delays another one's by at most
// kRing + 1 parts. Each waiting part belongs to a connection that exists, so the limits of
// connections limit the queue.
//
// THREAD: the owning engine, unless noted. Nothing blocks but the destructor: it waits for the part
// that is being computed. The two threads share the ring and no lock.
#ifndef MCCS_SERVICE_TRANSPORT_TLS_HANDSHAKE_THREAD_H_
#define MCCS_SERVICE_TRANSPORT_TLS_HANDSHAKE_THREAD_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "service/transport/tls/tls_session.h"

namespace mccs {

class HandshakeThread {
 public:
  static constexpr uint32_t kRing = 4;

  class User {
   public:
    // The result is that of TlsSession::Handshake. It may call Add.
    virtual void OnComputed(std::unique_ptr<TlsSession> session, const absl::Status& result) = 0;

   protected:
    ~User() = default;
  };
  struct Ticket {
    std::string address = {};
    uint64_t number = 0;
  };

  // `wake` ends the engine's sleep. THREAD of wake: this one's; it should not block.
  explicit HandshakeThread(std::function<void()> wake);
  ~HandshakeThread();

  // Computes a part of the session's handshake. `address`: the peer's. LIFETIME: the user, until
  // OnComputed or Cancel.
  Ticket Add(User& user, const std::string& address, std::unique_ptr<TlsSession> session);
  // Destroys the session, now or after its part is computed, without OnComputed.
  void Cancel(const Ticket& ticket);
  // Delivers what is computed. Returns true if there was something.
  bool Poll();

  size_t waiting() const { return waiting_count_; }  // not in the ring yet

 private:
  struct Waiting {
    User* user;
    std::unique_ptr<TlsSession> session;
  };
  struct Part {
    uint64_t number = 0;   // of the ticket
    User* user = nullptr;  // null: cancelled. Only the engine's.
    // The thread's from posted_ to computed_, else the engine's.
    std::unique_ptr<TlsSession> session = nullptr;
    absl::Status result = {};
  };
  // Of one address, by number of the ticket.
  using Queue = std::map<uint64_t, Waiting>;

  void FillRing();
  Queue::node_type TakeNext();
  void Run();

  const std::function<void()> wake_engine_;
  std::map<std::string, Queue> waiting_;  // each has some
  std::string served_;                    // the address from which the ring has got the last part
  size_t waiting_count_ = 0;
  uint64_t next_number_ = 1;
  std::array<Part, kRing> ring_;       // part n is at n % kRing
  uint32_t taken_ = 0;                 // parts that Poll has delivered
  std::atomic<uint32_t> posted_{0};    // parts, by the engine; pairs with the load in Run
  std::atomic<uint32_t> computed_{0};  // parts, by the thread; pairs with the load in Poll
  std::atomic<uint32_t> wake_{0};      // futex word, incremented after each change of posted_
  std::atomic<bool> stop_{false};      // pairs with the load in Run
  std::thread thread_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_TLS_HANDSHAKE_THREAD_H_
