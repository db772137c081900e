// The emulated GPUs, with names that are the same in all processes of a host.
//
// A GPU's identity (UUID, PCI address) depends only on the host's name and the GPU's physical
// ordinal. So processes that see different subsets through CUDA_VISIBLE_DEVICES agree on it.
#ifndef MCCS_EMULATION_CORE_GPU_H_
#define MCCS_EMULATION_CORE_GPU_H_

#include <cuda.h>

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "emulation/core/options.h"

namespace mccs::emulation {

struct GpuIdentity {
  int physical = 0;  // ordinal in the host
  std::array<unsigned char, 16> uuid{};
  int pci_domain = 0;
  int pci_bus = 0;

  std::string UuidText() const;    // "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
  std::string PciAddress() const;  // "0000:10:00.0"
};

GpuIdentity IdentifyGpu(const std::string& host, int physical);

// Returns the GPUs that CUDA_VISIBLE_DEVICES selects, in its order; entries are ordinals or
// prefixes of UUIDs. As in CUDA, the list ends before its first invalid entry, and a GPU that is
// listed twice makes the list empty.
std::vector<GpuIdentity> VisibleGpus(const Options& options);

// Returns the value of a device attribute of the emulated H100, or empty for an unknown attribute.
std::optional<int> GpuAttribute(const GpuIdentity& gpu, CUdevice_attribute attribute);

inline constexpr char kGpuName[] = "Emulated H100 (MCCS, host memory)";
inline constexpr int kCudaVersion = 13000;

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GPU_H_
