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
// OWNER: the BufferRegistry. THREAD: the owning engine only.
#ifndef MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_
#define MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "service/device/device.h"
#include "service/frontend/buffer_quota.h"

namespace mccs {

// Whoever holds one keeps what it resolved mapped.
using BufferHold = std::shared_ptr<DeviceMemory>;

// A span is a range of offsets in it.
class ChunkedBuffer {
 public:
  // A chunk is a mapping, and may leave a gap behind it, which the kernel counts as another.
  static constexpr size_t kSharesOfChunk = 2;
  using Shares = std::array<std::unique_ptr<BufferShare>, kSharesOfChunk>;
  // Epochs whose chunks are taken back and held still.
  static constexpr int kMostWaiting = 64;

  ChunkedBuffer(std::unique_ptr<DeviceRange> range, std::unique_ptr<BufferShare> share);

  // kInvalidArgument: outside of the range, over what is mapped, or as DeviceRange::Map.
  absl::Status Map(uint64_t offset, const BufferExport& offer, Shares shares);
  // Takes back all chunks that reach into the span; the answer expires when they are unmapped.
  // kResourceExhausted: kMostWaiting.
  absl::StatusOr<std::weak_ptr<DeviceMemory>> Unmap(const AddressRange& span);

  // True when all of the span is mapped, and not taken back.
  bool Covers(const AddressRange& span) const;
  BufferHold Hold() const;

 private:
  struct Chunk {
    uint64_t bytes = 0;
    bool leaving = false;
    Shares shares;
  };
  using Chunks = std::map<uint64_t, Chunk>;  // by offset
  // What outlives the buffer in the hands of holders.
  struct Ground {
    std::unique_ptr<BufferShare> share;
    Chunks chunks;
    int epochs = 0;
    std::unique_ptr<DeviceRange> range;
  };
  struct Epoch;

  static AddressRange RangeOf(const Chunks::value_type& chunk);
  // A chunk that reaches into the span, or the end.
  Chunks::iterator FirstIn(const AddressRange& span);
  void AddRun(const AddressRange& span);
  void CutRun(const AddressRange& span);

  std::shared_ptr<Ground> ground_;
  std::shared_ptr<Epoch> present_;
  std::map<uint64_t, uint64_t> runs_;  // from, to: what is covered without a gap
};

}  // namespace mccs

#endif  // MCCS_SERVICE_FRONTEND_CHUNKED_BUFFER_H_
