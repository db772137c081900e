// Signals that have come for the ranks of this host, and the calls that wait for them.
//
// Signals are counted per ordered pair of ranks and signal number. A wait takes as many as it asks
// for off its counter, all at once; waits for one counter are served in the order of the calls. A
// signal that nobody waits for yet is a count: only the first one of its counter costs memory.
//
// OWNER: MessageLoop. THREAD: the owning engine.
#ifndef MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_
#define MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "service/messages/open_message.h"

namespace mccs {

class SignalCounts {
 public:
  // Counters that are not 0, at most: one for each pair of 128 ranks of a host with those of the
  // largest communicators. A program that signals under all numbers and waits for none hits it.
  static constexpr size_t kMaxCounters = size_t{1} << 20;

  // One more signal of this number (SignalNumber) from pair.source to pair.destination.
  // kResourceExhausted: as said.
  absl::Status Count(const RankPair& pair, uint32_t signal);
  // A kWaitSignal of pair.destination.
  void Wait(const OpenMessage& wait);
  // Appends the waits that have got what they wait for. True when there were any.
  bool TakeComplete(std::vector<OpenMessage>& done);

  // Appends the oldest wait of each counter.
  void AddUnanswered(std::vector<OpenMessage>& unanswered) const;
  // A wait for `rank`, which has given each rank as many signals as `counts` says, all of which
  // have come, and will give no more; null: there is none.
  const OpenMessage* Unanswered(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  struct Key {
    RankPair pair;
    uint32_t signal = 0;
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      return H::combine(std::move(h), key.pair, key.signal);
    }
  };
  // Completes the waits that the counter is enough for.
  void Serve(const Key& key);

  absl::flat_hash_map<Key, uint64_t> come_;  // less what waits have taken; none is 0
  absl::flat_hash_map<Key, std::deque<OpenMessage>> waits_;  // none is empty
  absl::flat_hash_map<RankPair, uint64_t> come_ever_;
  std::vector<OpenMessage> complete_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_
