// Pacing state shared by lanes of all communicators of one daemon: the rates of Tenants per NIC,
// the NICs (which exist while referenced), and the DSCP marks of packets.
//
// OWNER: the daemon; outlives its communicators. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_PACING_HOST_PACING_H_
#define MCCS_SERVICE_PACING_HOST_PACING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "service/pacing/nic_classes.h"
#include "service/pacing/rate_limits.h"
#include "service/pacing/shared_bucket.h"

namespace mccs {

class HostPacing {
 public:
  explicit HostPacing(const DscpMap& markings = {}) : markings_(markings) {}

  // Records that a communicator of this host got a class above the lowest one. From then on all
  // communicators have classes, also those without an order.
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
