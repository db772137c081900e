#include "emulation/torch/device_allocation_scope.h"

#include <c10/core/Allocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAException.h>

#include <cstring>

namespace mccs::torch_on_host {
namespace {

using c10::cuda::CUDACachingAllocator::get;

thread_local bool lends = false;

// Returns the same memory with the label of another device.
c10::DataPtr Relabel(c10::DataPtr memory, c10::Device device) {
  void* const data = memory.get();
  const c10::DeleterFnPtr deleter = memory.get_deleter();
  return {data, memory.release_context(), deleter, device};
}

// The host's previous allocator.
c10::Allocator* OwnAllocator() {
  static c10::Allocator* const own = c10::GetAllocator(c10::kCPU);
  return own;
}

// For callers that free a bare address (oneDNN), which does not show its allocator.
void DeleteAnyAllocation(void* address) {
  cudaPointerAttributes attributes{};
  C10_CUDA_CHECK(cudaPointerGetAttributes(&attributes, address));
  const bool lent = attributes.type == cudaMemoryTypeDevice;
  (lent ? get() : OwnAllocator())->raw_deleter()(address);
}

class LendingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (!lends) return OwnAllocator()->allocate(bytes);
    return Relabel(get()->allocate(bytes), c10::kCPU);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &DeleteAnyAllocation; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    memcpy(to, from, bytes);
  }
};

// PyTorch's own host allocator has priority 0.
constexpr uint8_t kPriority = 1;

}  // namespace

void InstallDeviceAllocator() {
  OwnAllocator();
  static LendingAllocator allocator;
  c10::SetAllocator(c10::kCPU, &allocator, kPriority);
}

DeviceAllocationScope::DeviceAllocationScope() : before_(lends) { lends = true; }
DeviceAllocationScope::~DeviceAllocationScope() { lends = before_; }

c10::DataPtr MoveToDevice(const c10::Storage& storage, c10::Device device, size_t holders) {
  c10::StorageImpl* const impl = storage.unsafeGetStorageImpl();
  const bool lent = impl->data_ptr().get_deleter() == get()->raw_deleter();
  if (lent && storage.use_count() <= holders) {
    return Relabel(impl->set_data_ptr(c10::DataPtr(nullptr, c10::kCPU)), device);
  }
  c10::DataPtr copy = get()->allocate(impl->nbytes());
  if (impl->nbytes() > 0) memcpy(copy.get(), impl->data(), impl->nbytes());
  return copy;
}

}  // namespace mccs::torch_on_host
