#include "emulation/core/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

namespace mccs::emulation {
namespace {

// Passes variable `name`, if it is set, to `parse`, which returns whether it is valid. Prints a
// line to stderr and returns false if it is not.
template <typename Parse>
bool Read(const char* name, const char* expected, const Parse& parse) {
  const char* text = getenv(name);
  if (text == nullptr || parse(std::string(text))) return true;
  fprintf(stderr, "emulated CUDA: invalid %s=\"%s\": expected %s\n", name, text, expected);
  return false;
}

bool ParseCount(const std::string& text, int least, int most, int* value) {
  int parsed = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, parsed);
  if (error != std::errc() || end != last || parsed < least || parsed > most) return false;
  *value = parsed;
  return true;
}

bool ReadCount(const char* name, int least, int most, int* value) {
  const std::string expected =
      "a number from " + std::to_string(least) + " to " + std::to_string(most);
  return Read(name, expected.c_str(),
              [&](const std::string& text) { return ParseCount(text, least, most, value); });
}

// As CUDA does, ignores a value that is not a number from 1 to 32.
void ReadGpuConnections(int* connections) {
  constexpr int kMost = 32;
  const char* text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (text == nullptr) return;
  const int asked = atoi(text);
  if (asked >= 1 && asked <= kMost) *connections = asked;
}

bool ReadFault(const char* name, std::optional<GpuFault>* fault) {
  return Read(
      name, "DEVICE:LAUNCHES:ERROR, three numbers such as 0:20:214", [&](const std::string& text) {
        GpuFault read;
        int bytes = 0;
        if (sscanf(text.c_str(), "%d:%d:%d%n", &read.device, &read.launches, &read.error, &bytes) !=
                3 ||
            text[static_cast<size_t>(bytes)] != '\0' || read.device < 0 || read.launches < 0 ||
            read.error <= 0) {
          return false;
        }
        *fault = read;
        return true;
      });
}

bool ParseMig(const std::string& text, NvmlState* nvml) {
  nvml->all_have_mig = text == "all";
  if (nvml->all_have_mig || text == "none") return true;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    int gpu = 0;
    if (!ParseCount(entry, 0, kMaxGpus - 1, &gpu)) return false;
    nvml->with_mig.insert(gpu);
  }
  return true;
}

bool ParseComputeMode(const std::string& text, NvmlState* nvml) {
  constexpr std::pair<std::string_view, int> kModes[] = {
      {"default", 0}, {"prohibited", 2}, {"exclusive_process", 3}};
  const auto* const found =
      std::ranges::find(kModes, std::string_view(text), &std::pair<std::string_view, int>::first);
  if (found == std::end(kModes)) return false;
  nvml->compute_mode = found->second;
  return true;
}

// State that NVML reports.
bool ReadNvml(NvmlState* nvml) {
  bool good = Read("MCCS_EMULATED_MIG", "all, none, or GPUs such as 0,2",
                   [&](const std::string& text) { return ParseMig(text, nvml); });
  good &= Read("MCCS_EMULATED_COMPUTE_MODE", "default, exclusive_process or prohibited",
               [&](const std::string& text) { return ParseComputeMode(text, nvml); });
  good &= Read("MCCS_EMULATED_NVML", "works or hangs", [&](const std::string& text) {
    nvml->hangs = text == "hangs";
    return nvml->hangs || text == "works";
  });
  return good;
}

std::string HostName() {
  if (const char* name = getenv("MCCS_EMULATED_HOST"); name != nullptr && *name != '\0')
    return name;
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

}  // namespace

std::optional<uint64_t> ParseBytes(const std::string& text) {
  uint64_t number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc()) return std::nullopt;
  const std::string suffix(end, last);
  int shift = 0;
  if (suffix == "K") shift = 10;
  if (suffix == "M") shift = 20;
  if (suffix == "G") shift = 30;
  if (suffix == "T") shift = 40;
  if ((shift == 0 && !suffix.empty()) || number > (UINT64_MAX >> shift)) return std::nullopt;
  return number << shift;
}

std::optional<PeerPairs> ParsePeerPairs(const std::string& text) {
  if (text == "all") return PeerPairs{};
  PeerPairs peers{.all = false, .pairs = {}};
  if (text == "none") return peers;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    int one = 0, other = 0, end = 0;
    if (sscanf(entry.c_str(), "%2d-%2d%n", &one, &other, &end) != 2 ||
        static_cast<size_t>(end) != entry.size() || one < 0 || other < 0 || one == other) {
      return std::nullopt;
    }
    peers.pairs.insert(std::minmax(one, other));
  }
  return peers.pairs.empty() ? std::nullopt : std::optional(peers);
}

std::optional<Options> ReadOptions() {
  Options options;
  options.host = HostName();
  bool good = ReadCount("MCCS_EMULATED_GPUS", 0, kMaxGpus, &options.gpus);
  ReadGpuConnections(&options.connections);
  good &= ReadCount("MCCS_EMULATED_CONNECTIONS", 1, kMaxConnections, &options.connections);
  good &= ReadCount("MCCS_EMULATED_DMA_BUFS", 0, 1, &options.dma_bufs);
  good &= ReadFault("MCCS_EMULATED_FAULT", &options.fault);
  good &= ReadFault("MCCS_EMULATED_LAUNCH_FAULT", &options.launch_fault);
  good &= ReadNvml(&options.nvml);
  good &=
      Read("MCCS_EMULATED_MEMORY", "a number of bytes such as 80G", [&](const std::string& text) {
        const std::optional<uint64_t> bytes = ParseBytes(text);
        options.memory_bytes = bytes.value_or(0);
        return bytes.has_value();
      });
  good &= Read("MCCS_EMULATED_PEER_ACCESS", "all, none, or pairs of GPUs such as 0-1,2-3",
               [&](const std::string& text) {
                 const std::optional<PeerPairs> peers = ParsePeerPairs(text);
                 options.peers = peers.value_or(PeerPairs{});
                 return peers.has_value();
               });
  if (const char* text = getenv("MCCS_EMULATION_KERNELS")) options.kernels = text;
  if (const char* text = getenv("CUDA_VISIBLE_DEVICES")) options.visible_devices = text;
  if (!good) return std::nullopt;
  return options;
}

}  // namespace mccs::emulation
