// Pacing state shared by lanes of all communicators of one daemon: the rates of Tenants per NIC,
// the NICs (which exist while referenced), and the DSCP marks of packets.
//
// OWNER: the daemon; outlives its communicators. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_PACING_HOST_PACING_H_
#define MCCS_SERVICE_PACING_HOST_PACING_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/clock.h"
#include "service/pacing/rate_limits.h"
#include "service/pacing/token_bucket.h"

namespace mccs {

// The classes of lanes that are busy on one NIC. While a lane of a higher class has bytes in flight
// or ready to send, lanes of lower classes may only send a trickle: kTrickleBytes each
// kTrickleEveryNs. A lane that its own gate blocks does not count as busy, so a class with a cap
// leaves the rest of the NIC to the others.
//
// The bottleneck's place is not known here: a lane waits for a higher class on its NIC even if that
// one is slowed down elsewhere.
//
// OWNER: HostPacing. THREAD: the owning engine only.
class NicClasses {
 public:
  static constexpr int64_t kTrickleEveryNs = 5 * kNsPerMs;
  static constexpr uint64_t kTrickleBytes = 8u << 10;
  // Polling interval of a lane that yields to a higher class.
  static constexpr int64_t kPollIntervalNs = 500 * kNsPerUs;

  void Enter(uint32_t priority) { ++busy_[priority]; }
  void Leave(uint32_t priority) { --busy_[priority]; }
  bool HasHigherThan(uint32_t priority) const {
    for (uint32_t p = priority + 1; p <= kMaxPriority; ++p) {
      if (busy_[p] > 0) return true;
    }
    return false;
  }

 private:
  std::array<int, kMaxPriority + 1> busy_{};  // lanes, by class
};

class HostPacing {
 public:
  explicit HostPacing(const DscpMap& markings = {}) : markings_(markings) {}

  // Records that a communicator of this host got a class above the lowest one. From then on all
  // communicators have classes, also those without a rate update.
  void RecordClass(uint32_t priority) { has_classes_ |= priority > 0; }
  bool has_classes() const { return has_classes_; }
  // REQUIRES: priority ≤ kMaxPriority.
  uint8_t DscpOf(uint32_t priority) const { return markings_[priority]; }
  // The Tenant's rate limit for one NIC, which is identified by the source address of lanes.
  std::shared_ptr<SharedBucket> Tenant(const std::string& name, const std::string& address) {
    return tenants_.Get({name, address});
  }
  std::shared_ptr<NicClasses> Nic(const std::string& address) { return nics_.Get(address); }

 private:
  template <typename Key, typename Value>
  class Table {
   public:
    std::shared_ptr<Value> Get(const Key& key) {
      std::shared_ptr<Value> value = values_[key].lock();
      if (value != nullptr) return value;
      std::erase_if(values_, [](const auto& entry) { return entry.second.expired(); });
      value = std::make_shared<Value>();
      values_[key] = value;
      return value;
    }

   private:
    std::map<Key, std::weak_ptr<Value>> values_;
  };

  const DscpMap markings_;
  bool has_classes_ = false;
  Table<std::pair<std::string, std::string>, SharedBucket> tenants_;
  Table<std::string, NicClasses> nics_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_PACING_HOST_PACING_H_
