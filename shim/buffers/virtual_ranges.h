// Exports of the tenant's virtual memory (cuMemMap): address ranges in which allocations are mapped
// and unmapped, such as PyTorch's expandable segments.
//
// For a range of this process's addresses the daemon reserves a range of the same size. A chunk
// (one mapping of ours) is mapped at the same offset in the daemon's range, so a buffer over
// several chunks is contiguous there too. Addresses cost nothing: a reserved range is centred at
// its first use, and large enough for a segment to grow. Mapped chunks stay mapped when a segment
// grows. A reserved range without chunks is released when leases end, or when another one is
// reserved.
//
//        range.base                                                      + range.bytes
//   ours      |......[chunk][chunk][chunk]..........[chunk]..................|
//   daemon's  |......[chunk][chunk][chunk]..........[chunk]..................|
//
// CUDA's number of each chunk is compared at each call that uses it, because an address may be
// mapped again. That costs one query per mapping, which is cheap compared with moving its bytes.
#ifndef MCCS_SHIM_BUFFERS_VIRTUAL_RANGES_H_
#define MCCS_SHIM_BUFFERS_VIRTUAL_RANGES_H_

#include <cuda.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "shim/buffers/export_leases.h"
#include "shim/cuda/driver_api.h"
#include "shim/daemon/daemon_client.h"

namespace mccs::shim {

// THREAD: under the lock of its BufferExports.
class VirtualRanges {
 public:
  // LIFETIME: the arguments outlive this object.
  VirtualRanges(const DriverApi& driver, DaemonClient& client, const ExportLeases& leases)
      : driver_(driver), client_(client), leases_(leases) {}

  // Whether the chunk at the address is this one.
  bool IsMapped(uint64_t address, unsigned long long cuda_id) const;

  // The place of `use` at the daemon; maps missing chunks.
  struct Found {
    uint32_t id = 0;      // the daemon's buffer; 0: the range must be staged
    uint64_t offset = 0;  // of the range's beginning in that buffer
    // The chunk that contains the range's beginning.
    AddressRange chunk;
    unsigned long long cuda_id = 0;
    // The reason for staging: empty if it can never be shared, else the daemon's error.
    std::string map_failure;
  };
  // kInvalidArgument: a part of the range is not mapped, or not virtual memory; else the connection's
  // errors. REQUIRES: the range does not wrap around.
  absl::StatusOr<Found> Resolve(const AddressRange& use);

  // One export whose release was requested.
  struct PendingRelease {
    AddressRange range;
    uint64_t request;
  };
  // Requests the release of every chunk of the range that `predicate` accepts, and appends the
  // requests whose replies must be awaited. True if there are any.
  using Predicate =
      absl::FunctionRef<bool(const AddressRange& chunk, const ExportLeases::Use& use)>;
  bool BeginRelease(const AddressRange& range, Predicate predicate,
                    std::vector<PendingRelease>* requests);
  // The same for all ranges, with at most `most` requests and without awaiting their replies. False
  // if some chunks are left.
  bool ReleaseMatching(Predicate predicate, size_t most);
  // The number of requests without a processed reply.
  size_t CountUnanswered();

  // The chunks that contain a span of offsets in this daemon buffer; nothing if there is no such
  // buffer. REQUIRES: the span is not empty.
  std::optional<AddressRange> ChunksAround(uint32_t id, const AddressRange& span) const;
  bool empty() const;

 private:
  struct Chunk {
    uint64_t bytes = 0;
    unsigned long long cuda_id = 0;
    bool shared = false;  // false: it cannot be shared
    ExportLeases::Use last_use;
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by address
  struct ReservedRange {
    AddressRange range;
    uint32_t id = 0;
    Chunks chunks;
    std::vector<PendingRelease> pending;
  };
  struct PendingMapping {
    uint64_t address;
    uint64_t request;
  };

  ReservedRange* ReservedRangeOf(const AddressRange& use) const;
  absl::StatusOr<ReservedRange*> Reserve(const AddressRange& use);
  uint64_t ReservationBytes(const AddressRange& use) const;
  void ReleaseEmptyRanges();
  static Chunks::iterator FirstAfter(ReservedRange& reserved_range, uint64_t address);

  // Steps of Resolve.
  absl::Status CheckMapped(const AddressRange& use) const;
  absl::Status MapMissing(ReservedRange& reserved_range, const AddressRange& use, Found& found);
  absl::StatusOr<Chunk*> Add(ReservedRange& reserved_range, const AddressRange& chunk,
                             unsigned long long cuda_id, Found& found);
  void DropReleased(ReservedRange& reserved_range);
  bool IsFree(ReservedRange& reserved_range, const AddressRange& range);
  absl::Status Collect(ReservedRange& reserved_range, Found& found);

  // With null `requests`, stores them in the reserved range. False if `most` requests were not
  // enough.
  bool RequestRelease(ReservedRange& reserved_range, const AddressRange& range, Predicate predicate,
                      std::vector<PendingRelease>* requests, size_t most = SIZE_MAX);
  void ReleaseUnmapped();

  const DriverApi& driver_;
  DaemonClient& client_;
  const ExportLeases& leases_;
  std::vector<std::unique_ptr<ReservedRange>> ranges_;
  std::vector<PendingMapping> pending_mappings_;  // for chunks of the range that is being resolved
  uint64_t checked_up_to_ = 0;                    // the chunk that ReleaseUnmapped checked last
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_BUFFERS_VIRTUAL_RANGES_H_
