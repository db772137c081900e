#include "service/frontend/buffer_registry.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

absl::StatusOr<BufferId> BufferRegistry::Register(const BufferExport& offer) {
  if (buffers_.size() >= kMaxBuffersPerSession) {
    return absl::ResourceExhaustedError(absl::StrCat("this process has registered ", buffers_.size(),
                                                     " buffers, which is the limit"));
  }
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMemory> memory, device_.Import(offer));
  do {
    ++last_id_;
  } while (last_id_ == 0 || buffers_.contains(BufferId(last_id_)));
  buffers_.emplace(BufferId(last_id_), std::move(memory));
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
    return absl::InvalidArgumentError(absl::StrCat(bytes, " bytes at offset ", ref.offset, " exceed buffer ",
                                                   ref.id, " of ", size, " bytes"));
  }
  if (ref.offset % alignment != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("offset ", ref.offset, " in buffer ", ref.id, " is not aligned to elements of ",
                     alignment, " bytes"));
  }
  return it->second;
}

}  // namespace mccs
