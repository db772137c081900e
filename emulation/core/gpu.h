// Which emulated GPUs there are: names that every process of a host agrees on.
//
// A GPU's identity (UUID, PCI address) follows from the host's name and its physical ordinal alone,
// so that processes that see different subsets through CUDA_VISIBLE_DEVICES still mean the same
// GPU.
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

// The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order: ordinals or beginnings of UUIDs. As CUDA
// does, the list ends before its first entry that names no GPU; a GPU named twice leaves none.
std::vector<GpuIdentity> VisibleGpus(const Options& options);

// The value of a device attribute of the emulated H100; empty for one that does not exist.
std::optional<int> GpuAttribute(const GpuIdentity& gpu, CUdevice_attribute attribute);

inline constexpr char kGpuName[] = "Emulated H100 (MCCS, host memory)";
inline constexpr int kCudaVersion = 13000;

}  // namespace mccs::emulation

#endif  // MCCS_EMULATION_CORE_GPU_H_
