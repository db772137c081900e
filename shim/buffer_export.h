// The tenant's device memory as the daemon knows it: which allocation an address lies in, and the
// number under which that allocation was handed over.
//
// An allocation is exported when a call first uses it. Programs free memory and get the same
// address again for other memory, so every look-up compares CUDA's own number of the allocation
// (CU_POINTER_ATTRIBUTE_BUFFER_ID), which is never used twice.
//
// The daemon holds an export until it is taken back: because the program is about to free the
// memory (LetGo), because it was freed where nobody saw it (found when another one is exported), or
// because nobody has used it for the time of a lease (export_leases.h).
#ifndef MCCS_SHIM_BUFFER_EXPORT_H_
#define MCCS_SHIM_BUFFER_EXPORT_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "proto/shim_wire.h"
#include "shim/daemon_client.h"
#include "shim/driver_api.h"
#include "shim/export_leases.h"
#include "shim/memory_kind.h"
#include "shim/virtual_allocations.h"
#include "shim/virtual_ranges.h"

namespace mccs::shim {

// Where the daemon finds a range, or that it cannot map it.
struct BufferPlace {
  wire::BufferRef ref{};
  bool staged = false;
};

// One allocation that the daemon holds, alone or as a part of a buffer of its own.
struct ExportedBuffer {
  AddressRange range;
  unsigned long long cuda_id = 0;  // CUDA's number of the allocation
  uint32_t id = 0;                 // the daemon's name for it; 0: none
  uint64_t offset = 0;             // where it begins in the daemon's buffer

  BufferPlace PlaceOf(uint64_t address) const {
    return {.ref = {.id = id, .reserved = 0, .offset = offset + (address - range.base)},
            .staged = false};
  }
};

// A range that a caller named, and how to speak of it in an error.
struct BufferUse {
  std::string_view function;  // "ncclAllReduce"
  std::string_view argument;  // "sendbuff"
  const void* address;
  uint64_t bytes;  // > 0
};

// All exports of one session. THREAD: any.
class BufferExports {
 public:
  // `lease`: 0 for ever.
  BufferExports(const DriverApi& driver, const VirtualAllocations& allocations,
                DaemonClient& client, std::chrono::milliseconds lease);
  ~BufferExports();

  // Where the daemon finds the range; what it does not know is exported now if it can be. `buffer`:
  // the allocation or mapping around the range's beginning; without an id where it is staged.
  // REQUIRES: a context is current. Errors: kInvalidArgument for memory that CUDA does not know, and
  // for a range that leaves its allocation.
  struct Found {
    ExportedBuffer buffer;
    BufferPlace place;
  };
  absl::StatusOr<Found> Find(const BufferUse& use);

  // The program is about to free the range, or gives it back: the daemon lets go of all exports
  // that overlap it, after the operations that were posted with them. True when it has no access
  // any more; false when that took longer than kLetGoTime.
  static constexpr std::chrono::seconds kLetGoTime{2};
  bool LetGo(const AddressRange& range);
  // The same, but for exports that something still keeps (leases().Keep).
  bool LetGoUnlessKept(const AddressRange& range);

  // The allocation, or the mappings, that a piece of the daemon's buffer lies in; nothing when the
  // export has ended. REQUIRES: `bytes` > 0.
  std::optional<AddressRange> RangeOf(const wire::BufferRef& ref, uint64_t bytes);
  ExportLeases& leases() { return leases_; }

 private:
  using Clock = ExportLeases::Clock;

  struct Entry {
    ExportedBuffer buffer;
    ExportLeases::Use last_use;
  };
  using Leaving = VirtualRanges::Leaving;
  using Entries = std::map<uint64_t, Entry>;  // by base

  absl::StatusOr<Found> Export(const BufferUse& use, unsigned long long cuda_id);
  absl::StatusOr<Found> FindVirtual(const BufferUse& use);
  Found Stage(const BufferUse& use, MemoryKind kind);
  Entries::iterator FirstBeyond(uint64_t address);
  bool LetGo(const AddressRange& range, bool kept_too);
  // What the daemon has to do before the range is free; nothing when the lock cannot be had in
  // time.
  std::optional<std::vector<Leaving>> BeginLettingGo(const AddressRange& range, bool kept_too,
                                                     Clock::time_point until);
  // Of memory that is freed already, which CUDA does only after the work on it: nobody waits.
  Entries::iterator Forget(Entries::iterator gone);
  void ForgetFreed();
  void WarnOfDelay(const AddressRange& range);
  void TakeInLate();

  // The reader's chore: ends leases. Never blocks.
  std::optional<Clock::time_point> EndLeases();
  bool EndLeasesNow(Clock::time_point now);

  const DriverApi& driver_;
  const VirtualAllocations& allocations_;
  DaemonClient& client_;
  ExportLeases leases_;
  std::atomic<bool> any_{
      false};  // set before, and cleared under both locks: something is exported, or about to be
  bool watching_ = false;  // the reader's own: leases are counted
  std::atomic<bool> warned_{false};

  std::mutex late_mutex_;  // taken last; who has waited for long enough need not wait for mutex_
  std::vector<Leaving> late_;  // guarded by late_mutex_: what LetGo did not live to see

  std::mutex mutex_;
  Entries entries_;               // guarded by mutex_, like all below; ranges do not overlap
  std::vector<Leaving> leaving_;  // not answered when last looked at
  uint64_t checked_up_to_ = 0;    // base of the entry that ForgetFreed looked at last
  VirtualRanges virtual_;
  std::array<bool, kMemoryKinds> said_{};  // that buffers of this kind are staged
  bool refusal_said_ = false;              // that the daemon did not map some
};

// The few allocations that one communicator used last: the hot path's look-up, without the lock.
// THREAD: under the communicator's submit lock.
class RecentBuffers {
 public:
  // `only_device`: memory of another device is refused (NCCL_CHECK_POINTERS).
  RecentBuffers(const DriverApi& driver, BufferExports& exports, std::optional<int> only_device)
      : driver_(driver), exports_(exports), only_device_(only_device) {}

  // Where the daemon finds the range. Errors: as BufferExports::Find.
  absl::StatusOr<BufferPlace> Resolve(const BufferUse& use);

 private:
  static constexpr size_t kRecent = 4;

  const ExportedBuffer* FindRecent(uint64_t address);
  void Remember(const ExportedBuffer& buffer);
  absl::Status CheckDevice(const BufferUse& use) const;

  const DriverApi& driver_;
  BufferExports& exports_;
  const std::optional<int> only_device_;
  std::array<ExportedBuffer, kRecent> recent_;
  uint64_t generation_ = 0;  // of what is in there
  size_t newest_ = 0;        // where the last hit was
  size_t victim_ = 0;        // what the next miss replaces
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFER_EXPORT_H_
