// Which Tenants there are, as the controller said last, and what each of them has on this host: its
// quotas are for that, over all processes that are of the Tenant.
//
// A process's origin stays what it was when it came; whose it is may change with the controller's
// word, and then what it has counts for the other Tenant. Nothing is taken back from one who is
// beyond a quota that has been lowered: it gets no more.
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
#include "proto/tenant_who.h"

namespace mccs {

// On one host; absent: no limit.
struct TenantQuotas {
  std::optional<uint64_t> communicators = {};  // with a rank here
  std::optional<uint64_t> memory_bytes = {};   // of registered buffers
  std::optional<uint64_t> operations = {};     // collectives at work

  friend bool operator==(const TenantQuotas&, const TenantQuotas&) = default;
};

struct TenantEntry {
  std::string name;
  TenantWho who;
  TenantQuotas quotas;

  friend bool operator==(const TenantEntry&, const TenantEntry&) = default;
};

// What processes of one origin have. Who takes something gives it back later.
class TenantAccount;
class TenantWork;

class TenantLedger {
 public:
  TenantLedger();
  TenantLedger(const TenantLedger&) = delete;
  TenantLedger& operator=(const TenantLedger&) = delete;

  // These hold from now on.
  void SetTenants(std::vector<TenantEntry> tenants);

  // The one account of that origin, which lives as long as somebody holds it.
  std::shared_ptr<TenantAccount> AccountOf(const ProcessOrigin& origin);

  // What people call such a process: as TenantAccount::name().
  std::string NameOf(const ProcessOrigin& origin) const;

  size_t accounts() const;

 private:
  friend class TenantAccount;
  struct Books {
    std::vector<TenantEntry> tenants;
    std::map<ProcessOrigin, TenantAccount*> accounts;  // those that live

    const TenantEntry* Find(const ProcessOrigin& origin) const;
  };

  const std::shared_ptr<Books> books_;  // accounts may outlive the ledger
};

class TenantAccount : public std::enable_shared_from_this<TenantAccount> {
 public:
  TenantAccount(std::shared_ptr<TenantLedger::Books> books, const ProcessOrigin& origin);
  ~TenantAccount();
  TenantAccount(const TenantAccount&) = delete;
  TenantAccount& operator=(const TenantAccount&) = delete;

  const ProcessOrigin& origin() const { return origin_; }
  // Null: it is of no Tenant, and has no quotas.
  const TenantEntry* tenant() const { return tenant_; }
  // Of its Tenant; without one what the daemon calls it.
  const std::string& name() const { return tenant_ != nullptr ? tenant_->name : origin_.called; }

  // kResourceExhausted: its Tenant has as much as it may; the text names Tenant, quota, number and
  // remedy.
  absl::Status TakeCommunicator();
  void GiveCommunicator() { --communicators_; }
  absl::Status TakeMemory(uint64_t bytes);
  void GiveMemory(uint64_t bytes) { memory_bytes_ -= bytes; }

  // Work is one collective of one communicator, from its start here to its end (TenantWork). One
  // that is beyond the quota is not refused: it begins later. Where all that are at work have stood
  // still for kStandstillNs they may be waiting, on other hosts, for one that is held back here:
  // then one more begins, so that nothing waits for ever.
  static constexpr int64_t kStandstillNs = 10 * kNsPerMs;
  bool MayWork(MonotonicNs now) const;
  // When that is, if nothing of its Tenant moves until then.
  MonotonicNs StandsStillAt() const;
  // Whether work of its Tenant is limited: else nobody need say that it moves.
  bool CountsWork() const { return tenant_ != nullptr && tenant_->quotas.operations.has_value(); }
  void Moved(MonotonicNs now) { moved_ = now; }

 private:
  friend class TenantLedger;
  friend class TenantWork;

  // Over all accounts of its Tenant. REQUIRES: it is of one.
  uint64_t Sum(uint64_t TenantAccount::*of) const;

  const std::shared_ptr<TenantLedger::Books> books_;
  const ProcessOrigin origin_;
  const TenantEntry* tenant_;  // of books_
  uint64_t communicators_ = 0;
  uint64_t memory_bytes_ = 0;
  uint64_t working_ = 0;
  MonotonicNs moved_ = 0;  // when work of it last got on
};

// One collective at work. LIFETIME: the account outlives it.
class TenantWork {
 public:
  TenantWork(TenantAccount* account, MonotonicNs now) : account_(account) {
    ++account_->working_;
    account_->Moved(now);
  }
  ~TenantWork() { --account_->working_; }
  TenantWork(const TenantWork&) = delete;
  TenantWork& operator=(const TenantWork&) = delete;

 private:
  TenantAccount* const account_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TENANT_LEDGER_H_
