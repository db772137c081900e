// The Tenants of the controller's last update, and what each of them uses on this host. A quota
// limits the sum over all processes of a Tenant.
//
// A process's origin does not change. Its Tenant may change with an update; its usage then counts
// for the other Tenant. A Tenant above a quota that was lowered loses nothing, but gets no more.
//
// OWNER: the Daemon. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_TENANT_LEDGER_H_
#define MCCS_SERVICE_TENANT_LEDGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/clock.h"
#include "proto/tenant_selector.h"

namespace mccs {

// Per host; absent: no limit.
struct TenantQuotas {
  std::optional<uint64_t> communicators = {};  // with a rank on this host
  std::optional<uint64_t> memory_bytes = {};   // of registered buffers
  std::optional<uint64_t> operations = {};     // collectives that run at a time

  friend bool operator==(const TenantQuotas&, const TenantQuotas&) = default;
};

struct TenantEntry {
  std::string name;
  TenantSelector selector;
  TenantQuotas quotas;
  std::vector<DeclaredSocket> sockets = {};
  // Of communicators for which the controller has not sent rate limits (service/pacing).
  uint64_t cap_bps = 0;  // per NIC; 0: none
  uint32_t priority = 0;

  friend bool operator==(const TenantEntry&, const TenantEntry&) = default;
};

// Resources that processes of one origin use. Each successful AdmitCommunicator is paired with a
// later ReleaseCommunicator, and each ReserveMemory with a later ReleaseMemory.
class TenantAccount;
class TenantWork;

class TenantLedger {
 public:
  TenantLedger();
  TenantLedger(const TenantLedger&) = delete;
  TenantLedger& operator=(const TenantLedger&) = delete;

  // Replaces all Tenants.
  void SetTenants(std::vector<TenantEntry> tenants);

  // The account of that origin, shared by all holders; it ends with the last one.
  std::shared_ptr<TenantAccount> AccountOf(const ProcessOrigin& origin);

  // The display name of such a process: see TenantAccount::name().
  std::string NameOf(const ProcessOrigin& origin) const;

 private:
  friend class TenantAccount;
  struct State {
    std::vector<TenantEntry> tenants;
    std::map<ProcessOrigin, TenantAccount*> accounts;  // the live ones

    const TenantEntry* Find(const ProcessOrigin& origin) const;
  };

  const std::shared_ptr<State> state_;  // accounts may outlive the ledger
};

class TenantAccount : public std::enable_shared_from_this<TenantAccount> {
 public:
  TenantAccount(std::shared_ptr<TenantLedger::State> state, const ProcessOrigin& origin);
  ~TenantAccount();
  TenantAccount(const TenantAccount&) = delete;
  TenantAccount& operator=(const TenantAccount&) = delete;

  const ProcessOrigin& origin() const { return origin_; }
  // Null: no Tenant selects the process; it has no quotas.
  const TenantEntry* tenant() const { return tenant_; }
  // The controller has sent Tenants.
  bool knows_tenants() const { return !state_->tenants.empty(); }
  // Whether an operator has named the tenant of the process: by a Tenant, or by the `tenant` of its
  // socket.
  bool IsKnown() const { return tenant_ != nullptr || !IsUserTenantName(origin_.tenant_name); }
  // The Tenant's name; without a Tenant the daemon's own name for the process.
  const std::string& name() const {
    return tenant_ != nullptr ? tenant_->name : origin_.tenant_name;
  }

  // For whom limits count: the Tenant, and which of those in its patterns' captures: "pods/12-3".
  // Without a Tenant as name().
  std::string counted_as() const;
  // Those with whom it shares limits in addition, because who has many names must not get many
  // shares: all jobs of a Tenant's pattern, or all users whom no Tenant selects. Empty: it shares
  // none. A text for errors.
  std::string limit_group() const;

  // kResourceExhausted: the Tenant's quota is used up; the message names Tenant, quota, usage and
  // remedy.
  absl::Status AdmitCommunicator();
  void ReleaseCommunicator() { --communicators_; }
  absl::Status ReserveMemory(uint64_t bytes);
  void ReleaseMemory(uint64_t bytes) { memory_bytes_ -= bytes; }

  // Work is one collective of one communicator, from its start on this host to its end
  // (TenantWork). A collective beyond the quota is not rejected: it starts later. The running
  // collectives may wait for other hosts, which wait for a collective that the quota delays here.
  // To prevent this deadlock, one more collective starts after kStalledAfterNs without progress.
  static constexpr int64_t kStalledAfterNs = 10 * kNsPerMs;
  bool MayStart(MonotonicNs now) const;
  // Time at which the stall timeout admits one more collective, if the Tenant's work makes no
  // progress.
  MonotonicNs StalledAt() const;
  // Whether the Tenant's operations are limited; if not, RecordProgress() need not be called.
  bool HasOperationQuota() const {
    return tenant_ != nullptr && tenant_->quotas.operations.has_value();
  }
  void RecordProgress(MonotonicNs now) { last_progress_ = now; }

 private:
  friend class TenantLedger;
  friend class TenantWork;

  // Finds its Tenant.
  void Update();
  // Whether the limits are those of `other`, too. REQUIRES: it has a Tenant.
  bool SharesLimitsWith(const TenantAccount& other) const {
    return other.tenant_ == tenant_ && other.captures_ == captures_;
  }
  // Sum over all accounts that share its limits. REQUIRES: it has a Tenant.
  uint64_t Sum(uint64_t TenantAccount::*of) const;

  const std::shared_ptr<TenantLedger::State> state_;
  const ProcessOrigin origin_;
  const TenantEntry* tenant_ = nullptr;  // of state_
  std::string captures_;                 // CapturesOf its Tenant
  uint64_t communicators_ = 0;
  uint64_t memory_bytes_ = 0;
  uint64_t running_ = 0;
  MonotonicNs last_progress_ = 0;  // time of the last progress of its work
};

// One running collective. LIFETIME: the account outlives it.
class TenantWork {
 public:
  TenantWork(TenantAccount* account, MonotonicNs now) : account_(account) {
    ++account_->running_;
    account_->RecordProgress(now);
  }
  ~TenantWork() { --account_->running_; }
  TenantWork(const TenantWork&) = delete;
  TenantWork& operator=(const TenantWork&) = delete;

 private:
  TenantAccount* const account_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TENANT_LEDGER_H_
