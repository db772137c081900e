// Host allocations from CUDA's allocator.
//
// A CPU kernel that replaces a GPU kernel allocates its results as any CPU kernel does. While a
// DeviceAllocationScope object exists, these allocations come from the current device's caching
// allocator. So a result becomes a CUDA tensor by a change of its label, without a copy. PyTorch's
// memory statistics and limits count it, and NCCL can export its allocation.
#ifndef MCCS_EMULATION_TORCH_DEVICE_ALLOCATION_SCOPE_H_
#define MCCS_EMULATION_TORCH_DEVICE_ALLOCATION_SCOPE_H_

#include <c10/core/Storage.h>

namespace mccs::torch_on_host {

// Installs the lending allocator in place of PyTorch's own host allocator. Once per process, never
// undone: tensors that live until the process ends reference it.
void InstallDeviceAllocator();

// While it exists, host allocations of this thread come from the current CUDA device.
// THREAD: the one that created it. May nest.
class DeviceAllocationScope {
 public:
  DeviceAllocationScope();
  ~DeviceAllocationScope();
  DeviceAllocationScope(const DeviceAllocationScope&) = delete;
  DeviceAllocationScope& operator=(const DeviceAllocationScope&) = delete;

 private:
  const bool before_;
};

// Moves the memory out of a host storage and labels it as `device`'s. Copies memory that did not
// come from CUDA's allocator, or that has more than `holders` references.
// ENSURES: if the memory was not copied, `storage` is empty.
// REQUIRES: `device` is the current one.
c10::DataPtr MoveToDevice(const c10::Storage& storage, c10::Device device, size_t holders);

}  // namespace mccs::torch_on_host

#endif  // MCCS_EMULATION_TORCH_DEVICE_ALLOCATION_SCOPE_H_
