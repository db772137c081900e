// Registers buffers in tests whose device maps synchronously.
#ifndef MCCS_TESTS_UNIT_FRONTEND_REGISTER_NOW_H_
#define MCCS_TESTS_UNIT_FRONTEND_REGISTER_NOW_H_

#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status_macros.h"
#include "service/frontend/buffer_registry.h"

namespace mccs {

// The result of the only pending request. REQUIRES: the device maps synchronously.
inline absl::StatusOr<BufferId> TheMapped(BufferRegistry& registry) {
  const std::vector<BufferRegistry::Mapped> mapped = registry.TakeMapped();
  MCCS_CHECK(mapped.size() == 1);
  return mapped.front().id;
}

inline absl::StatusOr<BufferId> RegisterNow(BufferRegistry& registry, BufferExport offer) {
  MCCS_RETURN_IF_ERROR(registry.Register(1, std::move(offer)));
  return TheMapped(registry);
}

inline absl::Status MapChunkNow(BufferRegistry& registry, BufferId id, uint64_t offset,
                                BufferExport offer) {
  MCCS_RETURN_IF_ERROR(registry.MapChunk(1, id, offset, std::move(offer)));
  return TheMapped(registry).status();
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_FRONTEND_REGISTER_NOW_H_
