// The limits of what a daemon gives to all tenants of its host together, and the share of each.
//
// A tenant may hold as much of a resource as it leaves free: alone half of it, and less while
// others hold some. So a part is always free for the next tenant, and no list of tenants
// has to exist in advance. The rule is that of dynamic thresholds in switches with shared memory
// (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet Switches",
// IEEE/ACM Transactions on Networking 6(2), 1998), with factor 1.
//
// Many names must not give many shares: a user of the host may have thousands of uids, and a
// Tenant's pattern captures each job. Such tenants form a group. The group follows the rule
// as one tenant does, and within its share each of them does: a tenant holds no more than the group
// may still take.
//
// Quotas of Tenants (service/tenant_ledger.h) and the limits of single objects apply in addition.
// Engine time is not a stock: turns divide it (service/communicator/turns/turn_queue.h).
//
// OWNER: the Daemon; shares may outlive the budget. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_HOST_BUDGET_H_
#define MCCS_SERVICE_HOST_BUDGET_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/units.h"
#include "service/counters.h"
#include "service/resource.h"

namespace mccs {

// By Resource, for all tenants together.
struct HostLimits {
  std::array<uint64_t, kResources> of = {
      4096,          // kProcesses
      65536,         // kCommunicators
      8192,          // kForming
      57344,         // kDescriptors
      61440,         // kMappings
      8 * kGiB,      // kLaneMemory
      2 * kGiB,      // kPlanMemory
      65536,         // kUniqueIds
      8 * kGiB,      // kPinnedMemory
      65536 * kGiB,  // kMappedBytes: half of the address space of a process
  };
  uint64_t& operator[](Resource resource) { return of[static_cast<size_t>(resource)]; }
  uint64_t operator[](Resource resource) const { return of[static_cast<size_t>(resource)]; }
};

class TenantResources;

class HostBudget {
 public:
  explicit HostBudget(const HostLimits& limits);
  HostBudget(const HostBudget&) = delete;
  HostBudget& operator=(const HostBudget&) = delete;

  // For the objects of one process. `tenant`: for whom they count (TenantAccount::counted_as).
  // `group`: whose limits also hold for all its tenants together (TenantAccount::limit_group);
  // empty: none.
  std::shared_ptr<TenantResources> Of(const std::string& tenant, const std::string& group,
                                      std::shared_ptr<TenantCounters> counters);

  uint64_t held(Resource resource) const { return use_->held[static_cast<size_t>(resource)]; }
  const HostLimits& limits() const { return use_->limits; }

 private:
  friend class TenantResources;
  using Amounts = std::array<uint64_t, kResources>;
  struct Holder {  // a tenant or a group
    Amounts held{};
    size_t budgets = 0;  // TenantResources that refer to it
  };
  using Holders = absl::flat_hash_map<std::string, std::unique_ptr<Holder>>;
  struct Use {
    HostLimits limits;
    Amounts held{};
    Holders tenants, groups;  // those with budgets
  };

  const std::shared_ptr<Use> use_;
};

class TenantResources {
 public:
  ~TenantResources();
  TenantResources(const TenantResources&) = delete;
  TenantResources& operator=(const TenantResources&) = delete;

  // For whom the objects count.
  const std::string& name() const { return name_; }
  // Of all objects that count for the same tenant.
  uint64_t held(Resource resource) const { return tenant_->held[static_cast<size_t>(resource)]; }

 private:
  friend class HostBudget;
  friend class BudgetShare;
  TenantResources(std::shared_ptr<HostBudget::Use> use, std::string name, std::string group,
                  std::shared_ptr<TenantCounters> counters);
  static HostBudget::Holder* Join(HostBudget::Holders& holders, const std::string& name);
  static void Leave(HostBudget::Holders& holders, const std::string& name);

  // The amount that the tenant divides with others, all of the host's or the part of its group, and
  // how much of it is held.
  struct Part {
    uint64_t limit = 0;
    uint64_t held = 0;
  };
  Part PartOf(Resource resource) const;
  absl::Status Take(Resource resource, uint64_t amount);
  std::optional<uint64_t> Lacking(Resource resource, uint64_t amount) const;
  void Return(Resource resource, uint64_t amount);

  const std::shared_ptr<HostBudget::Use> use_;
  const std::string name_;
  const std::string group_name_;
  const std::shared_ptr<TenantCounters> counters_;
  HostBudget::Holder* const tenant_;
  HostBudget::Holder* const group_;  // null: it has none
};

// The share of one object in one resource; the destructor returns it.
class BudgetShare {
 public:
  // Null: not limited and not counted, as in tests of one part.
  BudgetShare(std::shared_ptr<TenantResources> tenant, Resource resource)
      : tenant_(std::move(tenant)), resource_(resource) {}
  ~BudgetShare() { ReturnAll(); }
  BudgetShare(BudgetShare&& other) noexcept;
  BudgetShare& operator=(BudgetShare&& other) noexcept;

  // kResourceExhausted: the tenant holds too much, or the host has no more; names tenant, resource,
  // numbers and remedy, and changes nothing.
  absl::Status Take(uint64_t amount = 1);
  // How much the tenant must return, from any of its shares, before it may take this; 0: nothing.
  // Absent: all that it holds is not enough.
  std::optional<uint64_t> Lacking(uint64_t amount) const;
  // REQUIRES: held() ≥ amount.
  void Return(uint64_t amount);
  void ReturnAll() { Return(held_); }
  uint64_t held() const { return held_; }

 private:
  std::shared_ptr<TenantResources> tenant_;
  Resource resource_;
  uint64_t held_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_HOST_BUDGET_H_
