#include "service/frontend/buffer_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<BufferId> BufferRegistry::Register(const BufferExport& offer) {
  if (buffers_.size() >= kMaxBuffersPerProcess) {
    return absl::ResourceExhaustedError(
        absl::StrCat("this process has ", buffers_.size(),
                     " buffers with mccsd, which is the limit of a process: "
                     "communicate from fewer, larger allocations"));
  }
  MCCS_ASSIGN_OR_RETURN(std::shared_ptr<BufferShare> share, quota_.Take(tenant_));
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device_.Import(offer));
  MCCS_RETURN_IF_ERROR(share->AddBytes(memory->bytes()));
  do {
    ++last_id_;
  } while (last_id_ == 0 || buffers_.contains(BufferId(last_id_)));
  // Unmapped first, then given back; a PendingRelease may still look at the pointer.
  buffers_.emplace(
      BufferId(last_id_),
      BufferHold(memory.release(), [share = std::move(share)](DeviceMemory* mapped) mutable {
        delete mapped;
        share.reset();
      }));
  return BufferId(last_id_);
}

absl::StatusOr<std::weak_ptr<DeviceMemory>> BufferRegistry::Release(BufferId id) {
  auto it = buffers_.find(id);
  if (it == buffers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", id.value(), " is not registered"));
  }
  std::weak_ptr<DeviceMemory> memory = it->second;
  buffers_.erase(it);
  return memory;
}

absl::StatusOr<BufferHold> BufferRegistry::Resolve(const wire::BufferRef& ref, uint64_t bytes,
                                                   size_t alignment) const {
  auto it = buffers_.find(BufferId(ref.id));
  if (it == buffers_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("buffer ", ref.id, " is not registered"));
  }
  const uint64_t size = it->second->bytes();
  if (ref.offset > size || bytes > size - ref.offset) {
    return absl::InvalidArgumentError(absl::StrCat(
        bytes, " bytes at offset ", ref.offset, " exceed buffer ", ref.id, " of ", size, " bytes"));
  }
  if (ref.offset % alignment != 0) {
    return absl::InvalidArgumentError(absl::StrCat("offset ", ref.offset, " in buffer ", ref.id,
                                                   " is not aligned to elements of ", alignment,
                                                   " bytes"));
  }
  return it->second;
}

}  // namespace mccs
