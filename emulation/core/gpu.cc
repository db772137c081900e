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

}  // namespace mccs::emulation
