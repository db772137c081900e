// The tenant's device memory as the daemon knows it: which allocation an address lies in, and the
// number under which that allocation was handed over.
//
// An allocation is exported when a call first uses it. Programs free memory and get the same
// address again for other memory, so every look-up compares CUDA's own number of the allocation
// (CU_POINTER_ATTRIBUTE_BUFFER_ID), which is never used twice.
#ifndef MCCS_SHIM_BUFFER_EXPORT_H_
#define MCCS_SHIM_BUFFER_EXPORT_H_

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "proto/shim_wire.h"
#include "shim/daemon_client.h"
#include "shim/driver_api.h"

namespace mccs::shim {

// One allocation that the daemon holds.
struct ExportedBuffer {
  uint64_t base = 0;
  uint64_t bytes = 0;
  unsigned long long cuda_id = 0;  // CUDA's number of the allocation
  uint32_t id = 0;                 // the daemon's name for it; 0: none

  bool Contains(uint64_t address) const { return address - base < bytes; }
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
  BufferExports(const DriverApi& driver, DaemonClient& client) : driver_(driver), client_(client) {}

  // The allocation around `use.address`; exported now if it is new. REQUIRES: a context is current.
  // Errors: kInvalidArgument for what is no device memory, kFailedPrecondition for memory that
  // cannot be shared with another process.
  absl::StatusOr<ExportedBuffer> Find(const BufferUse& use);

 private:
  absl::StatusOr<ExportedBuffer> Export(const BufferUse& use, unsigned long long cuda_id);
  void Release(const ExportedBuffer& gone);

  const DriverApi& driver_;
  DaemonClient& client_;
  std::mutex mutex_;
  std::map<uint64_t, ExportedBuffer> by_base_;  // guarded by mutex_; ranges do not overlap
};

// The few allocations that one communicator used last: the hot path's look-up, without the lock.
// THREAD: under the communicator's submit lock.
class RecentBuffers {
 public:
  // `only_device`: memory of another device is refused (NCCL_CHECK_POINTERS).
  RecentBuffers(const DriverApi& driver, BufferExports& exports, std::optional<int> only_device)
      : driver_(driver), exports_(exports), only_device_(only_device) {}

  // Where the daemon finds the range. Errors: as BufferExports::Find, and kInvalidArgument when the
  // range leaves its allocation.
  absl::StatusOr<wire::BufferRef> Resolve(const BufferUse& use);

 private:
  static constexpr size_t kRecent = 4;

  const ExportedBuffer* FindRecent(uint64_t address);
  absl::Status CheckDevice(const BufferUse& use) const;

  const DriverApi& driver_;
  BufferExports& exports_;
  const std::optional<int> only_device_;
  std::array<ExportedBuffer, kRecent> recent_;
  size_t newest_ = 0;  // where the last hit was
  size_t victim_ = 0;  // what the next miss replaces
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFER_EXPORT_H_
