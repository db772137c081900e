// The ranks and hosts for which operations have waited too long, while they wait: for the metrics.
// HangWatcher and MessageWatcher find the ranks; both and ProgressWatcher find the hosts.
//
// OWNER: DaemonCounters. THREAD: the engine writes, and locks only when a stall begins, changes or
// ends; any thread reads.
#ifndef MCCS_SERVICE_STALLS_H_
#define MCCS_SERVICE_STALLS_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"

namespace mccs {

// An operation counts as stalled after this time, whatever MCCS_WARN_AFTER its tenant has set.
inline constexpr int64_t kStalledAfterNs = 10 * kNsPerSec;

struct AwaitedRank {
  int rank = 0;
  std::string host;

  friend auto operator<=>(const AwaitedRank&, const AwaitedRank&) = default;
};

// Why an operation waits for a host, although no rank is missing.
enum class StallCause : uint8_t {
  kData,             // it sends nothing of what the operation needs
  kAcknowledgement,  // it acknowledges nothing of what was sent to it
  kCredit,           // it frees no slots (LaneWait)
  kConnection,       // the connection to it accepts no bytes
  kRate,             // rates, send windows or priority classes delay what is to be sent to it
  kDevice,           // it is this host: its device, or kernels of its ranks, are not done
  kRegistration,     // it is this host: its NICs have not registered the buffers
  kDaemon,           // its daemon does not answer
};
// By StallCause, as in metrics.
inline constexpr const char* kStallCauseNames[] = {
    "data", "acknowledgement", "credit", "connection", "rate", "device", "registration", "daemon"};

struct AwaitedHost {
  std::string host;
  StallCause cause = StallCause::kData;

  friend auto operator<=>(const AwaitedHost&, const AwaitedHost&) = default;
};

// "h1 sends no data".
std::string Describe(const AwaitedHost& awaited);

class Stalls {
 public:
  // Ranks, and hosts, of one communicator; it may wait for thousands.
  static constexpr size_t kMost = 16;

  struct OfCommunicator {
    std::string tenant;
    std::vector<AwaitedRank> ranks;
    std::vector<AwaitedHost> hosts;
  };

  // The entry of a communicator, which ends with it. LIFETIME: `all`, if not null, outlives it.
  class Entry {
   public:
    Entry(Stalls* all, CommId id) : all_(all), id_(id) {}
    ~Entry() { Set({}); }
    Entry(const Entry&) = delete;

    // The first kMost ranks and hosts. None of both: nothing stalls.
    void Set(OfCommunicator stalled) {
      const bool stalls = !stalled.ranks.empty() || !stalled.hosts.empty();
      if (all_ == nullptr || (!stalls && !shown_)) return;
      shown_ = stalls;
      if (stalled.ranks.size() > kMost) stalled.ranks.resize(kMost);
      if (stalled.hosts.size() > kMost) stalled.hosts.resize(kMost);
      const std::lock_guard lock(all_->mutex_);
      if (stalls) {
        all_->by_id_[id_] = std::move(stalled);
      } else {
        all_->by_id_.erase(id_);
      }
    }

   private:
    Stalls* const all_;
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

#endif  // MCCS_SERVICE_STALLS_H_
