#include "emulation/core/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <string_view>

namespace mccs::emulation {
namespace {

// Reads variable `name`, if it is set, into `*value`. Prints a line to stderr and returns false if
// it is not a number from `least` to `most`.
bool ReadCount(const char* name, int least, int most, int* value) {
  const char* text = getenv(name);
  if (text == nullptr) return true;
  const std::string copy(text);
  int parsed = 0;
  const auto [end, error] = std::from_chars(copy.data(), copy.data() + copy.size(), parsed);
  if (error != std::errc() || end != copy.data() + copy.size() || parsed < least || parsed > most) {
    fprintf(stderr, "emulated CUDA: invalid %s=\"%s\": expected a number from %d to %d\n", name,
            text, least, most);
    return false;
  }
  *value = parsed;
  return true;
}

// As CUDA does, ignores a value that is not a number from 1 to 32.
void ReadGpuConnections(int* connections) {
  constexpr int kMost = 32;
  const char* text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  if (text == nullptr) return;
  const int asked = atoi(text);
  if (asked >= 1 && asked <= kMost) *connections = asked;
}

// Reads variable `name`, if it is set, like "1:20:214". Prints a line to stderr and returns false
// if it is malformed.
bool ReadFault(const char* name, std::optional<GpuFault>* fault) {
  const char* text = getenv(name);
  if (text == nullptr) return true;
  GpuFault read;
  int bytes = 0;
  if (sscanf(text, "%d:%d:%d%n", &read.device, &read.launches, &read.error, &bytes) != 3 ||
      text[bytes] != '\0' || read.device < 0 || read.launches < 0 || read.error <= 0) {
    fprintf(
        stderr,
        "emulated CUDA: invalid %s=\"%s\": expected DEVICE:LAUNCHES:ERROR, three numbers such as "
        "0:20:214\n",
        name, text);
    return false;
  }
  *fault = read;
  return true;
}

// Reads what NVML reports, like ReadFault.
bool ReadNvml(NvmlState* nvml) {
  const auto reject = [](const char* name, const char* text, const char* expected) {
    fprintf(stderr, "emulated CUDA: invalid %s=\"%s\": expected %s\n", name, text, expected);
    return false;
  };
  bool good = true;
  constexpr char kMig[] = "MCCS_EMULATED_MIG";
  if (const char* text = getenv(kMig)) {
    nvml->all_have_mig = std::string_view(text) == "all";
    std::istringstream entries(nvml->all_have_mig || std::string_view(text) == "none" ? "" : text);
    for (std::string entry; std::getline(entries, entry, ',');) {
      int gpu = 0;
      const char* const last = entry.data() + entry.size();
      const auto [end, error] = std::from_chars(entry.data(), last, gpu);
      if (error != std::errc() || end != last || gpu < 0 || gpu >= kMaxGpus)
        return reject(kMig, text, "all, none, or GPUs such as 0,2");
      nvml->with_mig.insert(gpu);
    }
  }
  constexpr char kMode[] = "MCCS_EMULATED_COMPUTE_MODE";
  if (const char* text = getenv(kMode)) {
    constexpr std::pair<std::string_view, int> kModes[] = {
        {"default", 0}, {"prohibited", 2}, {"exclusive_process", 3}};
    const auto* const found =
        std::ranges::find(kModes, std::string_view(text), &std::pair<std::string_view, int>::first);
    if (found == std::end(kModes)) {
      good = reject(kMode, text, "default, exclusive_process or prohibited");
    } else {
      nvml->compute_mode = found->second;
    }
  }
  constexpr char kNvml[] = "MCCS_EMULATED_NVML";
  if (const char* text = getenv(kNvml)) {
    nvml->hangs = std::string_view(text) == "hangs";
    if (!nvml->hangs && std::string_view(text) != "works")
      good = reject(kNvml, text, "works or hangs");
  }
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
  if (const char* text = getenv("MCCS_EMULATED_MEMORY")) {
    const std::optional<uint64_t> bytes = ParseBytes(text);
    if (!bytes) {
      fprintf(stderr,
              "emulated CUDA: invalid MCCS_EMULATED_MEMORY=\"%s\": expected a number of bytes such "
              "as 80G\n",
              text);
      good = false;
    } else {
      options.memory_bytes = *bytes;
    }
  }
  if (const char* text = getenv("MCCS_EMULATED_PEER_ACCESS")) {
    const std::optional<PeerPairs> peers = ParsePeerPairs(text);
    if (peers) {
      options.peers = *peers;
    } else {
      fprintf(stderr,
              "emulated CUDA: invalid MCCS_EMULATED_PEER_ACCESS=\"%s\": expected all, none, or "
              "pairs of GPUs such as 0-1,2-3\n",
              text);
      good = false;
    }
  }
  if (const char* text = getenv("MCCS_EMULATION_KERNELS")) options.kernels = text;
  if (const char* text = getenv("CUDA_VISIBLE_DEVICES")) options.visible_devices = text;
  if (!good) return std::nullopt;
  return options;
}

}  // namespace mccs::emulation
