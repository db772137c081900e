// The order in which a communicator runs posted and captured collectives.
//
// Posted collectives run in the order of the calls. A captured one runs when the streams of a
// replay reach it, and each host sees that at a different time. From the first replay on, the
// leader therefore decides what comes next, as soon as its own ranks are ready for it, and sends
// the decision to all hosts. Without replays, or on one host, no messages are sent.
//
//   kOwn ──a rank on any host has reached captured work──► kHeld ──Begins──► kDecided
//
//   a requesting host         leader                         every host
//   OrderRequest ───────────►  (or its own ranks)
//                             OrderHold  ────────────────►  (boundary.h)
//                             ◄──────────────────────────  OrderStarted
//                             OrderBegins{after}  ───────►  up to it: posted order, as before
//                             OrderNext{operation, key}  ─►  one by one
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_SCHEDULE_DECIDED_ORDER_H_
#define MCCS_SERVICE_COMMUNICATOR_SCHEDULE_DECIDED_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/status/statusor.h"
#include "service/communicator/links/star.h"
#include "service/communicator/schedule/boundary.h"

namespace mccs {

// Key of the oldest posted collective. Captured collectives have keys from 1 on.
inline constexpr uint64_t kPosted = 0;

// Decisions that a member may lag behind its leader. Lanes keep hosts together, except a host that
// takes no part in the operations of the others.
inline constexpr size_t kMaxDecisionsAhead = size_t{1} << 20;

class DecidedOrder {
 public:
  // LIFETIME: `star` outlives this. It may be null if there is one host.
  DecidedOrder(Star* star, int hosts, LeftAfter left_after)
      : star_(star), hosts_(hosts), vote_(hosts, std::move(left_after)) {}

  // A local rank has reached captured work.
  void Request();
  // Whether operation `number`, the next one of this host, may be the collective `key`.
  bool Allows(uint64_t number, uint64_t key) const;
  // Records that the operation starts. REQUIRES: Allows(number, key).
  void Started(uint64_t number, uint64_t key);

  // Returns true if the message was meant for this. kDataLoss: invalid message.
  absl::StatusOr<bool> OnMessage(const StarMessage& received);
  // Returns true if anything moved.
  bool Poll();

 private:
  enum class State : uint8_t { kOwn, kHeld, kDecided };

  bool leads() const { return hosts_ == 1 || star_->leads(); }
  void SendRequest();
  void Begin(uint64_t boundary);

  Star* const star_;
  const int hosts_;
  State state_ = State::kOwn;
  bool requested_ = false;
  uint64_t started_ = 0;   // last operation started on this host
  uint64_t boundary_ = 0;  // last operation in posted order

  BoundaryVote vote_;  // the leader's, in kHeld
  // A member, in kDecided: keys of operations from next_ on.
  std::deque<uint64_t> decisions_;
  uint64_t next_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_SCHEDULE_DECIDED_ORDER_H_
