// Declarations that the files of the NVML library share.
#ifndef MCCS_EMULATION_NVML_LIBRARY_H_
#define MCCS_EMULATION_NVML_LIBRARY_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "emulation/core/gpu.h"
#include "emulation/core/options.h"
#include "emulation/nvml/nvml_api.h"

// Return from the function if NVML is not initialized (ENTER) or `device` is invalid (ENTER_GPU).
#define MCCS_NVML_ENTER() \
  if (!::mccs::emulation::IsNvmlInitialized()) return NVML_ERROR_UNINITIALIZED
#define MCCS_NVML_ENTER_GPU(gpu)                                                        \
  MCCS_NVML_ENTER();                                                                    \
  const ::mccs::emulation::GpuIdentity* const gpu = ::mccs::emulation::FindGpu(device); \
  if (gpu == nullptr) return NVML_ERROR_INVALID_ARGUMENT

// Defines an older name with the parameters of `name`.
#define MCCS_NVML_ALIAS(old_name, name) decltype(name) old_name __attribute__((alias(#name)))

namespace mccs::emulation {

// NVML's interface consists of global functions, so this is the library's one global state.
struct NvmlLibrary {
  std::mutex mutex;
  int users = 0;
  // The configuration that the first nvmlInit read from the environment. Kept until the process
  // ends, so that a handle stays valid across shutdown and initialization.
  std::vector<GpuIdentity> gpus;
  uint64_t memory_bytes = 0;
  PeerPairs peers;
  NvmlState state;
};
NvmlLibrary& TheNvmlLibrary();

bool IsNvmlInitialized();

nvmlDevice_t HandleOf(const GpuIdentity& gpu);
// Returns the GPU of a handle, or null. REQUIRES: NVML is initialized.
const GpuIdentity* FindGpu(nvmlDevice_t device);

nvmlReturn_t CopyText(const std::string& text, char* to, unsigned int length);

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_NVML_LIBRARY_H_
