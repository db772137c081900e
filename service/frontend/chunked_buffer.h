// A buffer of several allocations: a range of a tenant's virtual memory, as the daemon maps it.
//
// Chunks are added and removed while operations use others. A removed chunk no longer belongs to
// the buffer, but stays mapped until all users that resolved the buffer before have released it.
// Each user holds the epoch in which it resolved the buffer; removing a chunk starts the next
// epoch:
//
//   epoch 1 (held by work, owns removed chunk A) ──next──► epoch 2 (owns B) ──► current epoch
//
// An epoch holds the next one, so B is unmapped only after all users of epoch 1, which may use B.
//
// Mapping and unmapping take time. A chunk that is being mapped occupies its range at once and is
// covered once mapped; a chunk that is being unmapped occupies its range until that is done.
//
// OWNER: the BufferRegistry. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_
#define MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "service/device/device.h"
#include "service/device/memory_mapper.h"
#include "service/frontend/buffer_quota.h"

namespace mccs {

// A holder keeps the memory that it resolved mapped.
using BufferHold = std::shared_ptr<Region>;
// Expires when everything that was removed is unmapped.
using MappingEnd = std::weak_ptr<void>;

// A span is a range of offsets in it.
class ChunkedBuffer {
 public:
  // Quota shares of a chunk: its mapping, and a gap after it, which the kernel counts as another.
  static constexpr size_t kSharesOfChunk = 2;
  using Shares = std::array<std::unique_ptr<BufferShare>, kSharesOfChunk>;
  // Maximum number of epochs with removed chunks that are still held.
  static constexpr int kMaxHeldEpochs = 64;

  // LIFETIME: the mapper outlives the buffer and its holders.
  ChunkedBuffer(MemoryMapper& mapper, MappingOwner owner, std::unique_ptr<DeviceRange> range,
                std::unique_ptr<BufferShare> share);

  // A chunk that is being mapped. It may outlive the buffer.
  class PendingChunk;
  // kInvalidArgument: outside the range, or overlaps a mapped chunk; the caller then keeps the
  // offer.
  absl::StatusOr<std::shared_ptr<PendingChunk>> Map(uint64_t offset, BufferExport&& offer,
                                                    Shares shares);
  // Removes all chunks that overlap the span, except those being mapped. kResourceExhausted:
  // kMaxHeldEpochs is reached.
  absl::StatusOr<MappingEnd> Unmap(const AddressRange& span);

  // Whether the whole span is mapped and not removed.
  bool Covers(const AddressRange& span) const;
  BufferHold Hold() const;
  // Expires when the whole buffer is unmapped, after its end.
  MappingEnd gone() const;

 private:
  struct Chunk {
    uint64_t bytes = 0;
    bool pending = true;
    bool unmapping = false;
    Shares shares;
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by offset
  struct Runs;
  struct RemainingMappings;
  struct SharedState;
  struct Epoch;

  static AddressRange RangeOf(const Chunks::value_type& chunk);
  // A chunk that overlaps the span, or the end.
  Chunks::iterator FirstOverlapping(const AddressRange& span);

  std::shared_ptr<SharedState> shared_;
  std::shared_ptr<Epoch> current_;
};

class ChunkedBuffer::PendingChunk {
 public:
  PendingChunk(std::shared_ptr<SharedState> shared_state, uint64_t offset,
               std::shared_ptr<PendingMapping> mapping)
      : shared_(std::move(shared_state)), offset_(offset), mapping_(std::move(mapping)) {}

  const std::shared_ptr<PendingMapping>& mapping() const { return mapping_; }
  // Ends the mapping with `status`; on an error frees its range. Returns the same status.
  absl::Status Finish(const absl::Status& status);

 private:
  const std::shared_ptr<SharedState> shared_;
  const uint64_t offset_;
  const std::shared_ptr<PendingMapping> mapping_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_
