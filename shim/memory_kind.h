// What kind of memory a program passes, and how far it reaches: what decides whether the daemon can
// map it.
#ifndef MCCS_SHIM_MEMORY_KIND_H_
#define MCCS_SHIM_MEMORY_KIND_H_

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "base/unique_fd.h"
#include "shim/driver_api.h"

namespace mccs::shim {

enum class MemoryKind : uint8_t {
  kDevice,   // cuMemAlloc; also a pool's, which only the attempt to export tells apart
  kVirtual,  // cuMemMap: one mapping in a reserved range of addresses
  kManaged,  // cuMemAllocManaged
  kHost,     // pinned: cuMemHostAlloc, cuMemHostRegister
};
inline constexpr int kMemoryKinds = 4;

// Empty for an address that CUDA does not know.
std::optional<MemoryKind> KindOf(const DriverApi& driver, CUdeviceptr address);

// CUDA's number of the allocation or mapping there, which is never used twice. Empty likewise.
std::optional<unsigned long long> BufferIdOf(const DriverApi& driver, CUdeviceptr address);

// The descriptor that stands for the virtual memory there. Invalid: it cannot be shared.
// kInvalidArgument: it is no virtual memory.
absl::StatusOr<UniqueFd> DescriptorOf(const DriverApi& driver, CUdeviceptr address);

// The allocation around an address; of virtual memory the one mapping.
std::optional<AddressRange> ExtentOf(const DriverApi& driver, CUdeviceptr address);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_MEMORY_KIND_H_
