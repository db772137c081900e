// In which order a communicator runs posted and captured collectives.
//
// Posted ones alone have one order by themselves: that of the calls. A captured one runs when the
// streams of a replay come to it, which each host sees at a moment of its own. So from the first
// replay on the leader decides what comes next, as soon as its own ranks are ready for it, and
// tells the others. A communicator that replays nothing, or lives on one host, sends nothing.
//
//   kOwn ──a rank here, or elsewhere, has reached captured work──► kHeld ──Begins──► kDecided
//
//   a host that wants it      leader                         every host
//   OrderWanted ───────────►  (or its own ranks)
//                             OrderAsked  ────────────────►  starts nothing more
//                             ◄────────────────  OrderStarted{the last operation that it started}
//                             OrderBegins{the highest}  ──►  up to it posted ones, as ever
//                             OrderNext{operation, key}  ─►  one by one
//
// OWNER: the Communicator. THREAD: the owning engine. Never blocks.
#ifndef MCCS_SERVICE_COMMUNICATOR_DECIDED_ORDER_H_
#define MCCS_SERVICE_COMMUNICATOR_DECIDED_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/status/statusor.h"
#include "service/communicator/star.h"

namespace mccs {

// A collective that could run next: the oldest posted one, or a captured one by its key.
inline constexpr uint64_t kPosted = 0;

// Decisions that a host may be behind its leader. Lanes keep hosts together, except where a host
// has no part in what the others do.
inline constexpr size_t kMaxDecisionsAhead = size_t{1} << 20;

class DecidedOrder {
 public:
  // LIFETIME: `star` outlives this. It may be null where there is one host.
  DecidedOrder(Star* star, int hosts) : star_(star), hosts_(hosts) {}

  // A local rank has reached captured work.
  void Want();
  // May operation `number`, the next one of this host, be that one?
  bool Allows(uint64_t number, uint64_t key) const;
  // It starts. REQUIRES: Allows.
  void Started(uint64_t number, uint64_t key);

  // True when the message was meant for this. kDataLoss: it makes no sense.
  absl::StatusOr<bool> Hear(const StarMessage& heard);
  // True when anything moved.
  bool Poll();

 private:
  enum class State : uint8_t { kOwn, kHeld, kDecided };

  bool leads() const { return hosts_ == 1 || star_->leads(); }
  void Ask();
  void Begin(uint64_t boundary);
  absl::Status TakeStarted(HostIndex from, uint64_t operation);

  Star* const star_;
  const int hosts_;
  State state_ = State::kOwn;
  bool wanted_ = false;
  uint64_t started_ = 0;   // the last operation that this host has started
  uint64_t boundary_ = 0;  // up to it the order is the posted one's

  // The leader, in kHeld.
  std::vector<bool> answered_;  // by HostIndex
  uint64_t highest_ = 0;
  // A member, in kDecided: keys from operation next_ on.
  std::deque<uint64_t> decisions_;
  uint64_t next_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_COMMUNICATOR_DECIDED_ORDER_H_
