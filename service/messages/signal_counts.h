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
#include <map>
#include <set>
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

  // Appends the oldest wait of each pair.
  void AddUnanswered(std::vector<OpenMessage>& unanswered) const;
  // A wait for `rank`, which has given each rank as many signals as `counts` says, all of which
  // have come, and will give no more; null: there is none.
  const OpenMessage* Unanswered(Rank rank, const std::vector<MessageCount>& counts) const;

 private:
  // A tenant chooses how many signals of a pair it waits for at a time, so nothing that is done per
  // turn or look walks over them.
  struct Pair {
    absl::flat_hash_map<uint32_t, uint64_t> come;  // by signal, less what waits took; none is 0
    uint64_t come_ever = 0;
    std::map<uint64_t, OpenMessage> waits;              // by number: in the order of the calls
    std::set<std::pair<uint32_t, uint64_t>> by_signal;  // the same: signal, number
  };
  // Completes the waits that the signal's counter is enough for.
  void Serve(Pair& pair, uint32_t signal);

  absl::flat_hash_map<RankPair, Pair> pairs_;
  size_t counters_ = 0;  // entries of `come`, of all pairs
  std::vector<OpenMessage> complete_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_MESSAGES_SIGNAL_COUNTS_H_
