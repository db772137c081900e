// Signals received for the ranks of this host, and the calls that wait for them.
//
// Signals are counted per ordered pair of ranks and signal number. A wait consumes all its signals
// from the counter at once; waits for one counter complete in the order of the calls. An unawaited
// signal only increments a counter; only the first one of each counter allocates memory.
//
// OWNER: MessageLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_
#define MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "service/messages/open_message.h"
#include "service/messages/waiting_calls.h"

namespace mccs {

class SignalCounts {
 public:
  // Maximum number of non-zero counters: one for each pair of 128 local ranks with the ranks of the
  // largest communicators. A program that signals under all numbers without waiting reaches it.
  static constexpr size_t kMaxCounters = size_t{1} << 20;

  // Limit of one TakeComplete: one signal may complete any number of waits.
  static constexpr size_t kCompletePerTurn = 256;

  // Counts a signal of this number (SignalNumber) from pair.source to pair.destination.
  // kResourceExhausted: kMaxCounters reached.
  absl::Status Count(const RankPair& pair, uint32_t signal);
  // Adds a kWaitSignal of pair.destination.
  void Wait(const OpenMessage& wait);
  // Appends complete waits, at most kCompletePerTurn. Returns true if there were any: call again.
  bool TakeComplete(std::vector<OpenMessage>& done);

  // Appends the oldest wait of each pair.
  void AddUnmatched(WaitingCalls& waiting) const;
  // A wait that can never complete: `rank` has left after sending the signals in `counts`, and the
  // oldest wait of a pair lacks more than those of them that have not arrived. They may be late: a
  // put counts at its sender before its data is copied into the window. Null if there is none.
  const OpenMessage* Unmatched(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  // A tenant chooses how many signals of a pair it waits for at a time, so per-turn work and checks
  // must not iterate over them.
  struct Pair {
    absl::flat_hash_map<uint32_t, uint64_t> pending;  // by signal, less those consumed; never 0
    uint64_t total_received = 0;
    std::map<uint64_t, OpenMessage> waits;              // by number, in the order of the calls
    std::set<std::pair<uint32_t, uint64_t>> by_signal;  // the same waits: (signal, number)
  };
  using Counter = std::pair<RankPair, uint32_t>;
  // Completes the waits whose signals have arrived, as many as the turn allows.
  void Serve(const RankPair& ranks, Pair& pair, uint32_t signal);

  absl::flat_hash_map<RankPair, Pair> pairs_;
  // Pairs with waits, by the source.
  absl::flat_hash_map<Rank, absl::flat_hash_set<RankPair>> waiting_;
  size_t counters_ = 0;                // entries of `pending`, of all pairs
  std::vector<OpenMessage> complete_;  // at most kCompletePerTurn
  // Counters that the limit has stopped, each once; the next to serve first.
  std::deque<Counter> stopped_;
  absl::flat_hash_set<Counter> is_stopped_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_
