#include "emulation/core/gpu.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>
#include <sstream>

#include "emulation/include/mccs_emulation_pci.h"

namespace mccs::emulation {
namespace {

// FNV-1a: the same in every process and on every machine, which std::hash does not guarantee.
uint64_t Fnv1a(const std::string& text, uint64_t seed) {
  uint64_t hash = 0xcbf29ce484222325ull ^ seed;
  for (const unsigned char c : text) hash = (hash ^ c) * 0x100000001b3ull;
  return hash ^ (hash >> 29);
}

std::optional<size_t> FindByUuid(const std::vector<GpuIdentity>& gpus, const std::string& prefix) {
  std::optional<size_t> found;
  for (size_t i = 0; i < gpus.size(); ++i) {
    if (gpus[i].UuidText().rfind(prefix, 0) != 0) continue;
    if (found) return std::nullopt;  // an ambiguous prefix matches no GPU
    found = i;
  }
  return found;
}

std::optional<size_t> FindVisible(const std::vector<GpuIdentity>& gpus, const std::string& entry) {
  if (entry.rfind("GPU-", 0) == 0) return FindByUuid(gpus, entry);
  size_t ordinal = 0;
  const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), ordinal);
  if (error != std::errc() || end != entry.data() + entry.size()) return std::nullopt;
  if (ordinal >= gpus.size()) return std::nullopt;
  return ordinal;
}

std::string WithoutSpaces(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c != ' ' && c != '\t') result += c;
  }
  return result;
}

}  // namespace

std::string GpuIdentity::UuidText() const {
  std::string text = "GPU-";
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    char digits[3];
    snprintf(digits, sizeof(digits), "%02x", uuid[i]);
    text += digits;
  }
  return text;
}

std::string GpuIdentity::PciAddress() const {
  char text[32];
  snprintf(text, sizeof(text), MCCS_EMULATION_PCI_FORMAT, pci_domain, pci_bus);
  return text;
}

GpuIdentity IdentifyGpu(const std::string& host, int physical) {
  GpuIdentity gpu;
  gpu.physical = physical;
  const std::string name = host + "/" + std::to_string(physical);
  const uint64_t halves[2] = {Fnv1a(name, 0), Fnv1a(name, 0x9e3779b97f4a7c15ull)};
  static_assert(sizeof(halves) == 16);
  memcpy(gpu.uuid.data(), halves, sizeof(halves));
  gpu.uuid[6] = (gpu.uuid[6] & 0x0f) | 0x40;  // version and variant of UUID version 4, as GPUs have
  gpu.uuid[8] = (gpu.uuid[8] & 0x3f) | 0x80;
  gpu.pci_domain = MCCS_EMULATION_PCI_DOMAIN(physical);
  gpu.pci_bus = MCCS_EMULATION_PCI_BUS(physical);
  return gpu;
}

std::vector<GpuIdentity> VisibleGpus(const Options& options) {
  std::vector<GpuIdentity> all;
  for (int i = 0; i < options.gpus; ++i) all.push_back(IdentifyGpu(options.host, i));
  if (!options.visible_devices) return all;
  std::vector<GpuIdentity> visible;
  std::set<size_t> seen;
  std::istringstream entries(*options.visible_devices);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::optional<size_t> found = FindVisible(all, WithoutSpaces(entry));
    if (!found) break;
    if (!seen.insert(*found).second) return {};
    visible.push_back(all[*found]);
  }
  return visible;
}

// ---- Attributes --------------------------------------------------------------------------------
//
// The attributes of an H100 with 132 multiprocessors, as far as programs query them. A feature that
// the emulation lacks has the value 0. Exceptions are texture sizes, and multicast: PyTorch does
// not allocate with ncclMemAlloc without it. cuMulticastCreate fails, as on an H100 whose host has
// no NVSwitch.

namespace {

struct AttributeValue {
  CUdevice_attribute attribute;
  int value;
};

constexpr int kKi = 1024;
constexpr int kIntMax = 2147483647;

constexpr AttributeValue kAttributes[] = {
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
    {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 132},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, kIntMax},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 48 * kKi},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 * kKi},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 228 * kKi},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, kKi},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 64 * kKi},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, kIntMax},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 2619000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 50 * kKi* kKi},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
     CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES},
    {CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 1},  // MCCS_EMULATED_DMA_BUFS
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0},
};

}  // namespace

std::optional<int> GpuAttribute(const GpuIdentity& gpu, CUdevice_attribute attribute) {
  if (attribute <= 0 || attribute >= CU_DEVICE_ATTRIBUTE_MAX) return std::nullopt;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_BUS_ID) return gpu.pci_bus;
  if (attribute == CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID) return gpu.pci_domain;
  for (const AttributeValue& entry : kAttributes) {
    if (entry.attribute == attribute) return entry.value;
  }
  return 0;
}

}  // namespace mccs::emulation
