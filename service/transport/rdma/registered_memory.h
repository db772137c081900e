// Memory that is registered with NICs: regions that lanes use, each once per NIC and tenant.
//
// Registration pins the pages and gives the NIC their addresses, which takes milliseconds to
// seconds. The first lane that uses a region starts it; lanes wait for it. If it fails, they copy
// what the daemon has mapped. The daemon's own memory does not wait behind that of tenants.
//
//          Use                done
//   (none) ────► pending ─────────────► ready ──► its users are gone: ended, tokens destroyed
//                   └──── an error ───► failed
//
// A region is forgotten when it ends, or when a limit is reached and nothing uses it. Requests in
// flight, and windows that are bound to it, are users: the NIC never loses memory that it works on.
//
// Registered memory of the host is pinned: the kernel allocates and keeps all of its pages. What
// tenants pin is in the host's budget (Resource::kPinnedMemory), with each NIC again, from the
// start of a registration until the driver has ended it. That is not slots and staging memory, to
// which other limits apply, and not memory on GPUs, of which nothing is pinned on the host.
//
// OWNER: the RdmaTransport. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_RDMA_REGISTERED_MEMORY_H_
#define MCCS_SERVICE_TRANSPORT_RDMA_REGISTERED_MEMORY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "base/address_range.h"
#include "service/device/region.h"
#include "service/host_budget.h"
#include "service/transport/lane_identity.h"
#include "service/transport/rdma/pair_domain.h"
#include "service/transport/rdma/verbs.h"

namespace mccs {

class WindowBinding;

// Registrations, the least recently used one first.
using RegistrationsByUse = std::map<uint64_t, std::pair<RegionId, PairDomain*>>;

// A tenant whose memory is pinned.
struct PinningTenant {
  RegistrationsByUse registrations;
  // Of those that were evicted for another one; expired: the driver has ended them all.
  std::weak_ptr<void> evicted;
};

class RegisteredMemory {
 public:
  explicit RegisteredMemory(std::shared_ptr<PairDomain> domain) : domain_(std::move(domain)) {}
  ~RegisteredMemory();
  RegisteredMemory(const RegisteredMemory&) = delete;

  // OK: ready. kUnavailable: pending. Others: why it cannot be registered.
  const absl::Status& status() const { return status_; }
  bool ready() const { return status_.ok(); }
  bool pending() const { return absl::IsUnavailable(status_); }
  // A limit was reached: Use may find room later.
  bool refused() const { return refused_at_.has_value(); }
  // REQUIRES: ready.
  const MemoryRegion& verbs() const { return *verbs_; }
  // As requests name it.
  const AddressRange& memory() const { return memory_; }

  void AddBinding(const std::shared_ptr<WindowBinding>& binding);

 private:
  friend class MemoryTable;

  const std::shared_ptr<PairDomain> domain_;
  absl::Status status_ = absl::UnavailableError("the registration is in progress");
  std::unique_ptr<MemoryRegion> verbs_;
  AddressRange memory_;
  std::vector<std::weak_ptr<WindowBinding>> bindings_;
  std::shared_ptr<void> share_;            // of the NIC's limits
  std::shared_ptr<void> pin_;              // null: it is not in the budget
  std::shared_ptr<PinningTenant> tenant_;  // likewise
  // MemoryTable::retries_ when a limit was reached; nothing: none was.
  std::optional<uint64_t> refused_at_;
  std::vector<std::shared_ptr<void>> tokens_;
  uint64_t last_use_ = 0;  // key in MemoryTable::by_use_; 0: not there, as without registration
};

struct RegistrationLimits {
  uint64_t regions_per_nic = uint64_t{1} << 16;
  uint64_t bytes_per_nic = uint64_t{1} << 42;
};

class MemoryTable {
 public:
  // Waits for registrations.
  class Waiter {
   public:
    virtual ~Waiter() = default;
    // A registration is complete that was pending; or, after AwaitRoom, one may have room.
    virtual void OnRegistered() = 0;
  };

  explicit MemoryTable(const RegistrationLimits& limits) : limits_(limits) {}
  virtual ~MemoryTable() = default;
  MemoryTable(const MemoryTable&) = delete;

  // The registration of the whole region. If it is pending, OnRegistered follows once.
  // Its status is kResourceExhausted if a limit is reached and all that is registered is in use.
  // LIFETIME: `waiter` until then or until Leave.
  std::shared_ptr<RegisteredMemory> Use(const Region& region,
                                        const std::shared_ptr<PairDomain>& domain, Waiter& waiter);
  // OnRegistered follows once, when a refused region may have room: something else has ended, or
  // some time has passed, in which users may have left. LIFETIME: `waiter` until then or until
  // Leave.
  void AwaitRoom(Waiter& waiter) { awaiting_room_.insert(&waiter); }
  bool awaits_room() const { return !awaiting_room_.empty(); }
  // Lets those that wait for room try again.
  void RetryRefused();
  void Leave(Waiter& waiter) {
    waiting_.erase(&waiter);
    awaiting_room_.erase(&waiter);
  }
  // The region ends: see Transport::Forget. That includes registrations that were evicted and whose
  // end is in progress.
  void Forget(const Region& region, std::shared_ptr<void> token);

  // Registered with one NIC, or in progress.
  struct Usage {
    uint64_t regions = 0;
    uint64_t bytes = 0;
  };
  Usage UsageOf(const VerbsNic& nic) const;

 protected:
  // The part of a region that is registered.
  virtual AddressRange MemoryOf(const Region& region) const {
    return {region.nic_address(), region.bytes()};
  }

 private:
  // Eviction looks at so many regions, the least recently used ones, at a time.
  static constexpr int kCheckedPerEviction = 64;
  // And at most so many end for a tenant's next one.
  static constexpr int kEvictedAtOnce = 16;

  // Kept until a registration has ended.
  using Tokens = std::vector<std::shared_ptr<void>>;
  using ByDomain = absl::flat_hash_map<PairDomain*, std::shared_ptr<RegisteredMemory>>;
  struct Share;
  struct Pin;

  std::shared_ptr<RegisteredMemory> Start(const Region& region,
                                          const std::shared_ptr<PairDomain>& domain);
  absl::Status MakeRoom(const PairDomain& domain, uint64_t bytes);
  // Takes what a tenant's memory needs of the budget.
  absl::Status TakePin(const Region& region, RegisteredMemory& memory);
  // Ends registrations of the tenant that are not used, to unpin `bytes`.
  // Returns true if some end.
  bool Unpin(PinningTenant& tenant, uint64_t bytes);
  // One of these that is not used, ended except for what the result holds; null: there is none.
  std::shared_ptr<RegisteredMemory> EvictOne(
      const RegistrationsByUse& among,
      const std::function<bool(const RegisteredMemory&)>& may_end = nullptr);
  void End(const std::shared_ptr<RegisteredMemory>& memory);
  // In the lists by use.
  void List(RegionId id, RegisteredMemory& memory);
  void Unlist(RegisteredMemory& memory);

  const RegistrationLimits limits_;
  absl::flat_hash_map<RegionId, ByDomain> regions_;
  // Of regions that have not ended: the tokens of registrations that were evicted.
  absl::flat_hash_map<RegionId, std::vector<std::weak_ptr<Tokens>>> evicted_;
  RegistrationsByUse by_use_;  // those that are registered or will be
  uint64_t uses_ = 0;
  // Grows when a region that was refused may have room.
  const std::shared_ptr<uint64_t> retries_ = std::make_shared<uint64_t>(0);
  absl::flat_hash_map<const VerbsNic*, std::shared_ptr<Usage>> usage_;
  // By TenantResources::name, in use by their registrations.
  absl::flat_hash_map<std::string, std::weak_ptr<PinningTenant>> tenants_;
  absl::flat_hash_set<Waiter*> waiting_;
  absl::flat_hash_set<Waiter*> awaiting_room_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_RDMA_REGISTERED_MEMORY_H_
