// The ranks for which operations have waited too long (hang_watcher.h, message_watcher.h), while
// they wait: for the metrics.
//
// OWNER: DaemonCounters. THREAD: the engine writes, and locks only when a stall begins, changes or
// ends; any thread reads.
#ifndef MCCS_SERVICE_AWAITED_RANKS_H_
#define MCCS_SERVICE_AWAITED_RANKS_H_

#include <compare>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace mccs {

struct AwaitedRank {
  int rank = 0;
  std::string host;

  friend auto operator<=>(const AwaitedRank&, const AwaitedRank&) = default;
};

class AwaitedRanks {
 public:
  // Of one communicator; a communicator may wait for thousands.
  static constexpr size_t kMost = 16;

  struct OfCommunicator {
    std::string tenant;
    std::vector<AwaitedRank> ranks;
  };

  // The entry of a communicator, which ends with it. LIFETIME: `all`, if not null, outlives it.
  class Entry {
   public:
    Entry(AwaitedRanks* all, CommId id) : all_(all), id_(id) {}
    ~Entry() { Set({}, {}); }
    Entry(const Entry&) = delete;

    // The first kMost of `ranks`; empty: nothing stalls.
    void Set(const std::string& tenant, std::vector<AwaitedRank> ranks) {
      if (all_ == nullptr || (ranks.empty() && !shown_)) return;
      shown_ = !ranks.empty();
      if (ranks.size() > kMost) ranks.resize(kMost);
      const std::lock_guard lock(all_->mutex_);
      if (shown_) {
        all_->by_id_[id_] = {.tenant = tenant, .ranks = std::move(ranks)};
      } else {
        all_->by_id_.erase(id_);
      }
    }

   private:
    AwaitedRanks* const all_;
    const CommId id_;
    bool shown_ = false;
  };

  std::map<CommId, OfCommunicator> All() const {
    const std::lock_guard lock(mutex_);
    return by_id_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<CommId, OfCommunicator> by_id_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_AWAITED_RANKS_H_
