// Memory shared with the daemon that streams and kernels of this process use.
//
// THREAD: any.
#ifndef MCCS_SHIM_CUDA_HOST_MEMORY_H_
#define MCCS_SHIM_CUDA_HOST_MEMORY_H_

#include <atomic>
#include <utility>

#include "absl/status/statusor.h"
#include "base/address_range.h"
#include "base/shared_region.h"
#include "shim/cuda/driver_api.h"

namespace mccs::shim {

// Registers the memory with CUDA, for all GPUs, and returns its address there. cuMemHostUnregister
// undoes it. Errors: kUnknown (a CUDA error), with `what` the memory is. REQUIRES: a context is
// current.
absl::StatusOr<CUdeviceptr> RegisterHostMemory(const DriverApi& driver, const SharedRegion& memory,
                                               const char* what);

// Keeps the memory mapped for the rest of the process: streams or the daemon may still use it.
void KeepMapped(SharedRegion memory);

// Registered memory of the host. Its end unregisters and unmaps it, which may wait for kernels of
// the GPU. THREAD: one at a time.
class RegisteredHostMemory {
 public:
  // `address`: of RegisterHostMemory in `context`. LIFETIME: `driver` is never destroyed.
  RegisteredHostMemory(const DriverApi& driver, CUcontext context, SharedRegion memory,
                       CUdeviceptr address)
      : driver_(driver), context_(context), memory_(std::move(memory)), address_(address) {}
  RegisteredHostMemory(const RegisteredHostMemory&) = delete;
  ~RegisteredHostMemory();

  // For the GPUs of this process.
  AddressRange range() const { return {address_, memory_.bytes()}; }
  // Its end leaves it registered and mapped.
  void Keep() { kept_ = true; }

 private:
  const DriverApi& driver_;
  const CUcontext context_;
  SharedRegion memory_;
  const CUdeviceptr address_;
  std::atomic<bool> kept_ = false;
};

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CUDA_HOST_MEMORY_H_
