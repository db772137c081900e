#include "service/frontend/buffer_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<BufferId> BufferRegistry::NextId() {
  if (buffers_.size() >= kMaxBuffersPerProcess) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this process has ", buffers_.size(),
                     " buffers with mccsd, which is the limit of a process: "
                     "communicate from fewer, larger allocations"));
  }
  do {
    ++last_id_;
  } while (last_id_ == 0 || buffers_.contains(BufferId(last_id_)));
  return BufferId(last_id_);
}

absl::StatusOr<BufferId> BufferRegistry::Register(const BufferExport& offer) {
  MCCS_ASSIGN_OR_RETURN(const BufferId id, NextId());
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<BufferShare> share, quota_.Take(tenant_, account_));
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device_.Import(offer));
  MCCS_RETURN_IF_ERROR(share->AddBytes(memory->bytes()));
  MCCS_RETURN_IF_ERROR(share->AddMemory(memory->bytes()));
  // Unmapped first, then given back; a release may still look at the pointer.
  buffers_[id].whole =
      BufferHold(memory.release(), [share = std::move(share)](DeviceMemory* mapped) mutable {
        delete mapped;
        share.reset();
      });
  return id;
}

absl::StatusOr<BufferId> BufferRegistry::Reserve(uint64_t bytes) {
  MCCS_ASSIGN_OR_RETURN(const BufferId id, NextId());
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<BufferShare> share, quota_.Take(tenant_));
  MCCS_RETURN_IF_ERROR(share->AddBytes(bytes));
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceRange> range, device_.Reserve(bytes));
  buffers_[id].chunks = std::make_unique<ChunkedBuffer>(std::move(range), std::move(share));
  return id;
}

absl::StatusOr<ChunkedBuffer*> BufferRegistry::FindChunked(BufferId id) {
  const auto it = buffers_.find(id);
  if (it != buffers_.end() && it->second.chunks != nullptr) return it->second.chunks.get();
  return absl::InvalidArgumentError(absl::StrCat(
      "buffer ", id.value(), it == buffers_.end() ? " is not registered" : " has no chunks"));
}

absl::Status BufferRegistry::MapChunk(BufferId id, uint64_t offset, const BufferExport& offer) {
  MCCS_ASSIGN_OR_RETURN(ChunkedBuffer * buffer, FindChunked(id));
  ChunkedBuffer::Shares shares;
  for (auto& share : shares) {
    MCCS_ASSIGN_OR_RETURN(share, quota_.Take(tenant_, account_));
  }
  MCCS_RETURN_IF_ERROR(shares.front()->AddMemory(offer.bytes));
  return buffer->Map(offset, offer, std::move(shares));
}

absl::StatusOr<std::weak_ptr<DeviceMemory>> BufferRegistry::UnmapChunks(BufferId id,
                                                                        const AddressRange& span) {
  MCCS_ASSIGN_OR_RETURN(ChunkedBuffer * buffer, FindChunked(id));
  return buffer->Unmap(span);
}

absl::StatusOr<std::weak_ptr<DeviceMemory>> BufferRegistry::Release(BufferId id) {
  auto it = buffers_.find(id);
  if (it == buffers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", id.value(), " is not registered"));
  }
  std::weak_ptr<DeviceMemory> memory =
      it->second.chunks == nullptr ? it->second.whole : it->second.chunks->Hold();
  buffers_.erase(it);
  return memory;
}

uint64_t BufferRegistry::bytes() const {
  uint64_t sum = 0;
  for (const auto& [id, entry] : buffers_) {
    sum += entry.chunks == nullptr ? entry.whole->bytes() : entry.chunks->Hold()->bytes();
  }
  return sum;
}

absl::StatusOr<BufferHold> BufferRegistry::Resolve(const wire::BufferRef& ref, uint64_t bytes,
                                                   size_t alignment) const {
  auto it = buffers_.find(BufferId(ref.id));
  if (it == buffers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", ref.id, " is not registered"));
  }
  const Entry& entry = it->second;
  BufferHold hold = entry.chunks == nullptr ? entry.whole : entry.chunks->Hold();
  const uint64_t size = hold->bytes();
  if (ref.offset > size || bytes > size - ref.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes at offset ", ref.offset, " exceed buffer ", ref.id, " of ", size, " bytes"));
  }
  if (entry.chunks != nullptr && !entry.chunks->Covers({ref.offset, bytes})) {
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes at offset ", ref.offset,
                                                   " are not all mapped in buffer ", ref.id));
  }
  if (ref.offset % alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("offset ", ref.offset, " in buffer ", ref.id,
                                                   " is not aligned to elements of ", alignment,
                                                   " bytes"));
  }
  return hold;
}

}  // namespace mccs
