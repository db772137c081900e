// The kind and extent of the program's memory, which decide whether the daemon can map it.
#ifndef MCCS_SHIM_CUDA_MEMORY_KIND_H_
#define MCCS_SHIM_CUDA_MEMORY_KIND_H_

#include <cuda.h>

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "base/unique_fd.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

enum class MemoryKind : uint8_t {
  kDevice,   // cuMemAlloc; also a pool's, which only a failed export reveals
  kVirtual,  // cuMemMap: one mapping in a reserved range of addresses
  kManaged,  // cuMemAllocManaged
  kHost,     // pinned: cuMemHostAlloc, cuMemHostRegister
};
inline constexpr int kMemoryKinds = 4;

// Empty for an address that CUDA does not know.
std::optional<MemoryKind> KindOf(const DriverApi& driver, CUdeviceptr address);

// CUDA's id of the allocation or mapping there; ids are never reused. Empty for an unknown address.
std::optional<unsigned long long> BufferIdOf(const DriverApi& driver, CUdeviceptr address);

// The descriptor of the virtual memory there. Invalid: it cannot be shared. kInvalidArgument: the
// address is not virtual memory.
absl::StatusOr<UniqueFd> DescriptorOf(const DriverApi& driver, CUdeviceptr address);

// The allocation that contains an address; for virtual memory the one mapping.
std::optional<AddressRange> ExtentOf(const DriverApi& driver, CUdeviceptr address);

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_MEMORY_KIND_H_
