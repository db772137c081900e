// Memory of the test's own process as a region, for parts of the daemon that need no allocation of
// a tenant.
#ifndef MCCS_TESTS_UNIT_DEVICE_PROCESS_MEMORY_H_
#define MCCS_TESTS_UNIT_DEVICE_PROCESS_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "service/device/region.h"

namespace mccs {

// The whole address space of user programs, except for its first page: a region at the null address
// counts as not mapped.
class ProcessMemory final : public Region {
 public:
  static constexpr uint64_t kBegin = 4096;
  static constexpr uint64_t kBytes = (uint64_t{1} << 47) - kBegin;

  static const ProcessMemory& Get() {
    static const ProcessMemory memory;
    return memory;
  }

 private:
  ProcessMemory()
      : Region(RegionKind::kTenant, reinterpret_cast<std::byte*>(kBegin), kBytes) {}  // NOLINT
};

// Memory of its own, as an allocation of a tenant.
class OwnedMemory final : public Region {
 public:
  explicit OwnedMemory(std::vector<std::byte> bytes)
      : Region(RegionKind::kTenant, bytes.data(), bytes.size()), bytes_(std::move(bytes)) {}

  std::span<const std::byte> span() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;  // a moved vector keeps its address
};

// The span of some of the process's memory. An empty container may be at the null address.
inline RegionSpan SpanAt(const void* address, uint64_t bytes) {
  if (address == nullptr) return {};
  return {.region = &ProcessMemory::Get(),
          .offset = reinterpret_cast<uintptr_t>(address) - ProcessMemory::kBegin,
          .bytes = bytes};
}

// The span of a container's elements.
template <typename Container>
RegionSpan SpanOf(const Container& container) {
  return SpanAt(container.data(), container.size() * sizeof(*container.data()));
}

}  // namespace mccs

#endif  // MCCS_TESTS_UNIT_DEVICE_PROCESS_MEMORY_H_
