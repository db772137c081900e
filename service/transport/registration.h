// Registrations of regions with NICs. Before a NIC may read or write memory, the memory must be
// registered with it: the kernel pins the pages and the NIC gets their addresses. That takes
// milliseconds to seconds, by the size of the memory, so a Registrar works asynchronously.
//
//            Register             the registrar is done
//   (none) ───────────► pending ────────────────────────► ready
//                        │   │ an error                     │ the last hold is released
//                        │   └────────► failed              ▼
//                        └─ the last hold is released ─► releasing ──► (none), tokens destroyed
//
// A region is registered once per NIC and tenant, whatever the number of holds. RegistrationLimits
// bound what is registered with each NIC, including what is being released.
//
// OWNER: the Transport. THREAD: the owning engine only. Never blocks.
#ifndef MCCS_SERVICE_TRANSPORT_REGISTRATION_H_
#define MCCS_SERVICE_TRANSPORT_REGISTRATION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "base/ids.h"
#include "service/device/region.h"
#include "service/transport/lane_identity.h"

namespace mccs {

// One registration, unique in its table and never used again.
using RegistrationId = StrongInt<struct RegistrationIdTag, uint64_t>;

// Registers memory with NICs. Streams need none; a transport that does has threads for it.
//
// THREAD: the owning engine. Never blocks.
class Registrar {
 public:
  struct Finished {
    RegistrationId id;
    absl::Status status;  // of a release always OK
  };

  virtual ~Registrar() = default;
  // Starts a registration. Returns its status if it is complete already; otherwise Poll delivers
  // it. LIFETIME: the region, until the registration has failed or its release is complete.
  virtual std::optional<absl::Status> Register(RegistrationId id, const Region& region,
                                               const NicDomain& domain) = 0;
  // Starts to undo a registration. Returns true if that is complete already: the NIC does not
  // access the memory any more. REQUIRES: the registration succeeded.
  virtual bool Release(RegistrationId id) = 0;
  // Writes what has been completed since the last call, at most finished.size(); returns how many.
  virtual size_t Poll(std::span<Finished> finished) = 0;
};

// For streams: every registration is complete at once and costs nothing.
class NoRegistrar final : public Registrar {
 public:
  std::optional<absl::Status> Register(RegistrationId, const Region&, const NicDomain&) override {
    return absl::OkStatus();
  }
  bool Release(RegistrationId) override { return true; }
  size_t Poll(std::span<Finished>) override { return 0; }
};

struct RegistrationLimits {
  uint64_t regions_per_nic = uint64_t{1} << 16;
  uint64_t bytes_per_nic = uint64_t{1} << 42;
};

class RegistrationTable;

// A hold on one registration. Return it with RegistrationTable::Release; the destructor does the
// same without a token.
class RegionRegistration {
 public:
  ~RegionRegistration();
  RegionRegistration(const RegionRegistration&) = delete;
  RegionRegistration& operator=(const RegionRegistration&) = delete;

  // OK: ready. kUnavailable: pending. Other errors are final: kResourceExhausted if a limit is
  // exceeded, or the registrar's.
  const absl::Status& status() const { return entry_->status; }
  bool ready() const { return entry_->status.ok(); }

 private:
  friend class RegistrationTable;
  struct Entry {
    RegistrationId id;
    const Region* region = nullptr;  // not accessed
    uint64_t bytes = 0;
    NicDomain domain;
    absl::Status status;
    bool pending = false;  // the registrar works on it
    uint32_t holds = 0;
    std::vector<std::shared_ptr<void>> tokens;  // of the holds that were released
  };

  RegionRegistration(RegistrationTable& table, std::shared_ptr<Entry> entry)
      : table_(&table), entry_(std::move(entry)) {}

  RegistrationTable* table_;
  std::shared_ptr<Entry> entry_;
};

class RegistrationTable {
 public:
  // LIFETIME: `registrar` outlives this.
  explicit RegistrationTable(Registrar& registrar, const RegistrationLimits& limits = {})
      : registrar_(registrar), limits_(limits) {}
  RegistrationTable(const RegistrationTable&) = delete;
  RegistrationTable& operator=(const RegistrationTable&) = delete;

  // Registers the whole region, or adds a hold to its registration. A failed one is tried again.
  // LIFETIME: the region, until the token of its last hold is destroyed; this outlives the hold.
  std::unique_ptr<RegionRegistration> Register(const Region& region, const NicDomain& domain);
  // Returns a hold. Destroys `token` when the NIC does not access the memory any more, in this call
  // or in Poll; at once if there are other holds.
  void Release(std::unique_ptr<RegionRegistration> hold, std::shared_ptr<void> token);

  // The ready registration of a region; nothing if there is none.
  std::optional<RegistrationId> Find(const Region& region, const NicDomain& domain) const;

  // Delivers finished work, at most kFinishedPerPoll. Returns true if there was any.
  static constexpr size_t kFinishedPerPoll = 64;
  bool Poll();

  // Registered with one NIC, or in progress, or being released.
  struct Usage {
    uint64_t regions = 0;
    uint64_t bytes = 0;
  };
  Usage UsageOf(const NicAddress& nic) const;

 private:
  friend class RegionRegistration;
  using Entry = RegionRegistration::Entry;
  using Key = std::pair<const Region*, NicDomain>;

  std::shared_ptr<Entry> Start(const Region& region, const NicDomain& domain);
  absl::Status CheckLimits(const Region& region, const NicAddress& nic) const;
  void Drop(const std::shared_ptr<Entry>& entry);
  void StartRelease(const std::shared_ptr<Entry>& entry);
  void Forget(const std::shared_ptr<Entry>& entry);
  void OnFinished(const Registrar::Finished& finished);

  Registrar& registrar_;
  const RegistrationLimits limits_;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<Key, std::shared_ptr<Entry>> entries_;             // with holds
  absl::flat_hash_map<RegistrationId, std::shared_ptr<Entry>> working_;  // the registrar has them
  absl::flat_hash_map<NicAddress, Usage> usage_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_TRANSPORT_REGISTRATION_H_
