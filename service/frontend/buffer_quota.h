// Limits on the daemon's address space that tenants use for their buffers. Every buffer is a
// mapping, and the kernel allows a process about 65,530 of them (vm.max_map_count) and 128 TiB of
// addresses; one tenant must not use them all. The host's budget (service/host_budget.h) and the
// controller's quotas of Tenants (service/tenant_ledger.h) apply in addition.
//
// OWNER: the Daemon. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_BUFFER_QUOTA_H_
#define MCCS_SERVICE_FRONTEND_BUFFER_QUOTA_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/units.h"
#include "service/counters.h"
#include "service/host_budget.h"
#include "service/tenant_ledger.h"

namespace mccs {

// Per process. A caching allocator of a large training job has a few thousand allocations.
inline constexpr uint32_t kMaxBuffersPerProcess = 8192;
// Per tenant, over all its processes on the host, unless configured otherwise.
inline constexpr uint32_t kDefaultBuffersPerTenant = 16384;
// The highest value of the limit per tenant.
inline constexpr uint32_t kMaxBuffersPerTenant = 49152;
// Per tenant: far above the memory of a host's GPUs, far below the 128 TiB address space of a
// process. The size of a sparse file costs its creator nothing.
inline constexpr uint64_t kDefaultMappedBytesPerTenant = 8192 * kGiB;

struct BufferLimits {
  uint32_t buffers_per_tenant = kDefaultBuffersPerTenant;
  uint64_t mapped_bytes_per_tenant = kDefaultMappedBytesPerTenant;
};

// The share of one buffer, released by the destructor.
class BufferShare;

class BufferQuota {
 public:
  // `counters`, unless null, count what tenants use. LIFETIME: they outlive the quota.
  explicit BufferQuota(const BufferLimits& limits, DaemonCounters* counters = nullptr);
  BufferQuota(const BufferQuota&) = delete;
  BufferQuota& operator=(const BufferQuota&) = delete;

  // Adds a buffer of `tenant`, whose process has `account` (null: no quotas) and `budget` (null: it
  // is not in the host's budget). kResourceExhausted names the exceeded limit and the remedy.
  absl::StatusOr<std::unique_ptr<BufferShare>> Take(
      const std::string& tenant, std::shared_ptr<TenantAccount> account = nullptr,
      std::shared_ptr<TenantResources> budget = nullptr);

 private:
  friend class BufferShare;
  struct TenantUse {
    uint32_t buffers = 0;
    uint64_t bytes = 0;
  };
  struct Use {
    absl::flat_hash_map<std::string, TenantUse> tenants;  // those with buffers
  };

  const BufferLimits limits_;
  DaemonCounters* const counters_;
  const std::shared_ptr<Use> use_;  // shares may outlive the quota
};

class BufferShare {
 public:
  ~BufferShare();
  BufferShare(const BufferShare&) = delete;
  BufferShare& operator=(const BufferShare&) = delete;

  // The address space that the buffer uses: 0 at first. kResourceExhausted as for Take: it stays.
  absl::Status SetBytes(uint64_t bytes);
  // Adds the buffer's memory, to which the quotas of Tenants apply. Call once; errors likewise.
  absl::Status AddMemory(uint64_t bytes);

 private:
  friend class BufferQuota;
  BufferShare(std::shared_ptr<BufferQuota::Use> use, std::string tenant, uint64_t bytes_limit,
              std::shared_ptr<TenantCounters> counters, std::shared_ptr<TenantAccount> account,
              BudgetShare mapping, BudgetShare mapped_bytes);

  const std::shared_ptr<BufferQuota::Use> use_;
  const std::string tenant_;
  const uint64_t bytes_limit_;
  const std::shared_ptr<TenantCounters> counters_;
  const GaugeShare counted_;
  const std::shared_ptr<TenantAccount> account_;
  const BudgetShare mapping_;
  BudgetShare mapped_bytes_;
  uint64_t bytes_ = 0;
  uint64_t memory_bytes_ = 0;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_BUFFER_QUOTA_H_
