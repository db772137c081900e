// Exports of the tenant's device memory: the allocation that contains an address, and the daemon's
// id of that allocation.
//
// An allocation is exported at its first use. Programs free memory and get the same address again
// for other memory. So every lookup compares CUDA's own id of the allocation
// (CU_POINTER_ATTRIBUTE_BUFFER_ID), which is never reused.
//
// An export ends in one of three ways: the program is about to free the memory (ReleaseRange); an
// unseen free is detected at another export; or the memory was unused for the time of a lease
// (export_leases.h).
#ifndef MCCS_SHIM_BUFFERS_BUFFER_EXPORT_H_
#define MCCS_SHIM_BUFFERS_BUFFER_EXPORT_H_

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
#include "base/unique_fd.h"
#include "proto/shim_wire.h"
#include "shim/buffers/export_leases.h"
#include "shim/buffers/virtual_allocations.h"
#include "shim/buffers/virtual_ranges.h"
#include "shim/cuda/driver_api.h"
#include "shim/cuda/memory_kind.h"
#include "shim/daemon/daemon_client.h"

namespace mccs::shim {

// The range's place at the daemon, or that the daemon cannot map it.
struct BufferPlace {
  wire::BufferRef ref{};
  bool staged = false;
};

// One exported allocation: a daemon buffer of its own, or a part of one.
struct ExportedBuffer {
  AddressRange range;
  unsigned long long cuda_id = 0;  // CUDA's id of the allocation
  uint32_t id = 0;                 // the daemon's id; 0: none
  uint64_t offset = 0;             // of the allocation in the daemon's buffer
  // NICs may write it, and kernels on other CUDA devices might not see what they wrote.
  std::optional<int> only_device = {};

  BufferPlace PlaceOf(uint64_t address) const {
    return {.ref = {.id = id, .reserved = 0, .offset = offset + (address - range.base)},
            .staged = false};
  }
};

// A range that a caller passed, and its description for error messages.
struct BufferUse {
  std::string_view function;  // "ncclAllReduce"
  std::string_view argument;  // "sendbuff"
  const void* address;
  uint64_t bytes;  // > 0
};

// All exports of one session. THREAD: any.
class BufferExports {
 public:
  // `lease`: 0 means no limit.
  BufferExports(const DriverApi& driver, const VirtualAllocations& allocations,
                DaemonClient& client, std::chrono::milliseconds lease);
  ~BufferExports();

  // Registers memory with the daemon; returns its id there. Errors: the daemon's. THREAD: any.
  static absl::StatusOr<uint32_t> Register(DaemonClient& client,
                                           const wire::RegisterBuffer& message,
                                           const MessageDescriptors& descriptors);

  // The range's place at the daemon; exports the allocation if it is not exported yet. `buffer`:
  // the allocation or mapping that contains the range's beginning; id 0 if it is staged.
  // REQUIRES: a context is current. Errors: kInvalidArgument for memory that CUDA does not know, and
  // for a range that exceeds its allocation.
  struct Found {
    ExportedBuffer buffer;
    BufferPlace place;
  };
  absl::StatusOr<Found> Find(const BufferUse& use);

  // Releases all exports that overlap the range, because the program is about to free or return it.
  // The daemon completes the operations posted with them first. True when the daemon has no access
  // any more; false after kReleaseTimeout.
  static constexpr std::chrono::seconds kReleaseTimeout{2};
  bool ReleaseRange(const AddressRange& range);
  // The same, except for exports that are kept (leases().Pin).
  bool ReleaseUnlessPinned(const AddressRange& range);

  // The allocation, or the mappings, that contain a piece of the daemon's buffer; nothing if the
  // export has ended. REQUIRES: `bytes` > 0.
  std::optional<AddressRange> RangeOf(const wire::BufferRef& ref, uint64_t bytes);
  ExportLeases& leases() { return leases_; }

 private:
  using Clock = ExportLeases::Clock;

  struct Entry {
    ExportedBuffer buffer;
    ExportLeases::Use last_use;
  };
  using PendingRelease = VirtualRanges::PendingRelease;
  using Entries = std::map<uint64_t, Entry>;  // by base

  absl::StatusOr<Found> Export(const BufferUse& use, unsigned long long cuda_id);
  absl::StatusOr<Found> FindVirtual(const BufferUse& use);
  Found Stage(const BufferUse& use, MemoryKind kind);
  // Adds the dma-buf of what is registered, or why it has none, to the message; invalid: it has
  // none. Errors: the GPU has failed.
  absl::StatusOr<UniqueFd> AddDmaBuf(ExportedBuffer* buffer, wire::RegisterBuffer* message);
  Entries::iterator FirstAfter(uint64_t address);
  bool ReleaseRange(const AddressRange& range, bool pinned_too);
  // The releases that must complete before the range is free; nothing if the lock is not available
  // in time.
  std::optional<std::vector<PendingRelease>> BeginRelease(const AddressRange& range,
                                                          bool pinned_too, Clock::time_point until);
  // For memory that is already freed, which CUDA does only after the work on it: no call waits.
  Entries::iterator DropFreed(Entries::iterator gone);
  void ReleaseFreed();
  void WarnDelayedRelease(const AddressRange& range);
  void CollectLateReleases();

  // The reader thread's callback: ends leases. Does not block.
  std::optional<Clock::time_point> EndLeases();
  bool EndLeasesNow(Clock::time_point now);

  const DriverApi& driver_;
  const VirtualAllocations& allocations_;
  DaemonClient& client_;
  ExportLeases leases_;
  // Something is exported, or about to be. Set before that, and cleared under both locks.
  std::atomic<bool> has_exports_{false};
  bool watching_ = false;  // owned by the reader: leases are counted
  std::atomic<bool> warned_{false};

  std::mutex late_mutex_;  // taken last; a timed-out caller need not wait for mutex_
  std::vector<PendingRelease>
      late_releases_;  // guarded by late_mutex_: releases that timed out in ReleaseRange

  std::mutex mutex_;
  Entries entries_;  // guarded by mutex_, like all below; ranges do not overlap
  std::vector<PendingRelease> pending_releases_;  // releases without a reply at the last check
  uint64_t checked_up_to_ = 0;  // base of the entry that ReleaseFreed checked last
  VirtualRanges virtual_;
  std::array<bool, kMemoryKinds> staging_logged_{};  // staging of this kind was logged
  bool map_failure_logged_ = false;                  // a failed mapping was logged
  bool no_dma_buf_logged_ = false;                   // likewise, of a failed export for NICs
};

// The few allocations that one communicator used last: the hot path's lookup, without the lock.
// THREAD: under the communicator's submit lock.
class RecentBuffers {
 public:
  // `only_device`: memory of other devices is rejected (NCCL_CHECK_POINTERS).
  RecentBuffers(const DriverApi& driver, BufferExports& exports, std::optional<int> only_device)
      : driver_(driver), exports_(exports), only_device_(only_device) {}

  // The range's place at the daemon. Staged, too: memory of another GPU on which the communicator's
  // kernels might not see what a NIC has written. REQUIRES: the communicator's context is current.
  // Errors: as BufferExports::Find.
  absl::StatusOr<BufferPlace> Resolve(const BufferUse& use);

 private:
  static constexpr size_t kRecent = 4;

  const ExportedBuffer* FindRecent(uint64_t address);
  void Cache(const ExportedBuffer& buffer);
  absl::Status CheckDevice(const BufferUse& use) const;
  bool KernelsSee(const ExportedBuffer& buffer) const;

  const DriverApi& driver_;
  BufferExports& exports_;
  const std::optional<int> only_device_;
  std::array<ExportedBuffer, kRecent> recent_;
  uint64_t generation_ = 0;  // of the cached entries
  size_t newest_ = 0;        // index of the last hit
  size_t victim_ = 0;        // index that the next miss replaces
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_BUFFER_EXPORT_H_
