// A buffer of several allocations: a range of a tenant's virtual memory, as the daemon sees it.
//
// Chunks come and go while work is under way in others. One that is taken back is no part of the
// buffer from then on, but stays mapped until everybody has let go who resolved something in the
// buffer before. Whoever does so holds the buffer's present epoch, and taking a chunk back begins
// the next one:
//
//   epoch 1 (held by work, owns chunk A, taken back) ──next──► epoch 2 (owns B) ──► present one
//
// An epoch holds the next one, so B goes only after everybody of epoch 1, who may use it, too.
//
// Mapping and unmapping take a while. A chunk that is coming takes its place at once and is covered
// once it is mapped; one that is being unmapped keeps its place until it is gone.
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

// Whoever holds one keeps what it resolved mapped.
using BufferHold = std::shared_ptr<DeviceMemory>;
// Expires once nothing of what was taken back is mapped any more.
using MappingGone = std::weak_ptr<void>;

// A span is a range of offsets in it.
class ChunkedBuffer {
 public:
  // A chunk is a mapping, and may leave a gap behind it, which the kernel counts as another.
  static constexpr size_t kSharesOfChunk = 2;
  using Shares = std::array<std::unique_ptr<BufferShare>, kSharesOfChunk>;
  // Epochs whose chunks are taken back and held still.
  static constexpr int kMostWaiting = 64;

  // LIFETIME: the mapper outlives the buffer and its holders.
  ChunkedBuffer(MemoryMapper& mapper, MappingOwner owner, std::unique_ptr<DeviceRange> range,
                std::unique_ptr<BufferShare> share);

  // A chunk that is being mapped. It may outlive the buffer.
  class Coming;
  // kInvalidArgument: outside of the range, or over what is mapped; then the caller still has the
  // offer.
  absl::StatusOr<std::shared_ptr<Coming>> Map(uint64_t offset, BufferExport&& offer, Shares shares);
  // Takes back all chunks that reach into the span and are not coming. kResourceExhausted:
  // kMostWaiting.
  absl::StatusOr<MappingGone> Unmap(const AddressRange& span);

  // True when all of the span is mapped, and not taken back.
  bool Covers(const AddressRange& span) const;
  BufferHold Hold() const;
  // Of all of the buffer, after its end.
  MappingGone gone() const;

 private:
  struct Chunk {
    uint64_t bytes = 0;
    bool coming = true;
    bool leaving = false;
    Shares shares;
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by offset
  struct Runs;
  struct Remains;
  struct Ground;
  struct Epoch;

  static AddressRange RangeOf(const Chunks::value_type& chunk);
  // A chunk that reaches into the span, or the end.
  Chunks::iterator FirstIn(const AddressRange& span);

  std::shared_ptr<Ground> ground_;
  std::shared_ptr<Epoch> present_;
};

class ChunkedBuffer::Coming {
 public:
  Coming(std::shared_ptr<Ground> ground, uint64_t offset, std::shared_ptr<PendingMapping> mapping)
      : ground_(std::move(ground)), offset_(offset), mapping_(std::move(mapping)) {}

  const std::shared_ptr<PendingMapping>& mapping() const { return mapping_; }
  // It is mapped, or was refused: then its place is free again. The same status.
  absl::Status Arrive(const absl::Status& status);

 private:
  const std::shared_ptr<Ground> ground_;
  const uint64_t offset_;
  const std::shared_ptr<PendingMapping> mapping_;
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_
