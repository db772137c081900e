#include "shim/comm_config.h"

#include <algorithm>
#include <climits>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/environment.h"

namespace mccs::shim {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr size_t kOldestConfigBytes = 24;  // 2.14: up to `blocking`
constexpr int kMaxClusterSize = 8;

// A field that may be undefined, within [low, high].
struct Field {
  const char* name;
  int value;
  int low;
  int high;
};

absl::Status CheckField(const Field& field) {
  if (field.value == NCCL_CONFIG_UNDEF_INT) return absl::OkStatus();
  if (field.value >= field.low && field.value <= field.high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("ncclConfig_t.", field.name, " is ", field.value, "; allowed: ", field.low,
                   field.high == INT_MAX ? " and more" : absl::StrCat(" to ", field.high)));
}

// The caller's fields over the defaults: as many bytes as both know.
absl::StatusOr<ncclConfig_t> CopyKnownFields(const ncclConfig_t& config) {
  if (config.magic != kConfigMagic || config.size < kOldestConfigBytes) {
    return absl::InvalidArgumentError(
        "the ncclConfig_t was not initialised: assign NCCL_CONFIG_INITIALIZER to it first");
  }
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, &config, std::min(config.size, sizeof(known)));
  // Older sizes end within padding that is ours to ignore: a field counts from its own version on.
  if (config.version < NCCL_VERSION(2, 17, 0)) {
    known.cgaClusterSize = known.minCTAs = known.maxCTAs = NCCL_CONFIG_UNDEF_INT;
    known.netName = nullptr;
  }
  if (config.version < NCCL_VERSION(2, 18, 0)) known.splitShare = NCCL_CONFIG_UNDEF_INT;
  if (config.version < NCCL_VERSION(2, 25, 0)) known.trafficClass = NCCL_CONFIG_UNDEF_INT;
  if (config.version < NCCL_VERSION(2, 27, 0)) {
    known.commName = nullptr;
    known.collnetEnable = known.CTAPolicy = known.shrinkShare = known.nvlsCTAs =
        NCCL_CONFIG_UNDEF_INT;
  }
  if (config.version < NCCL_VERSION(2, 28, 0)) {
    known.nChannelsPerNetPeer = known.nvlinkCentricSched = NCCL_CONFIG_UNDEF_INT;
  }
  return known;
}

absl::Status CheckFields(const ncclConfig_t& config) {
  const Field fields[] = {{"blocking", config.blocking, 0, 1},
                          {"cgaClusterSize", config.cgaClusterSize, 0, kMaxClusterSize},
                          {"minCTAs", config.minCTAs, 1, INT_MAX},
                          {"maxCTAs", config.maxCTAs, 1, INT_MAX},
                          {"splitShare", config.splitShare, 0, 1},
                          {"collnetEnable", config.collnetEnable, 0, 1},
                          {"CTAPolicy", config.CTAPolicy, 0, INT_MAX},
                          {"shrinkShare", config.shrinkShare, 0, 1},
                          {"nvlsCTAs", config.nvlsCTAs, 1, INT_MAX},
                          {"nChannelsPerNetPeer", config.nChannelsPerNetPeer, 1, INT_MAX},
                          {"nvlinkCentricSched", config.nvlinkCentricSched, 0, 1}};
  for (const Field& field : fields) MCCS_RETURN_IF_ERROR(CheckField(field));
  if (config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT &&
      config.minCTAs > config.maxCTAs) {
    return absl::InvalidArgumentError(absl::StrCat("ncclConfig_t.minCTAs (", config.minCTAs,
                                                   ") is above maxCTAs (", config.maxCTAs, ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommConfig> ReadCommConfig(const ncclConfig_t* config) {
  CommConfig read;
  read.hints = HintsOfEnvironment();
  if (config != nullptr) {
    MCCS_ASSIGN_OR_RETURN(const ncclConfig_t known, CopyKnownFields(*config));
    MCCS_RETURN_IF_ERROR(CheckFields(known));
    if (known.blocking != NCCL_CONFIG_UNDEF_INT) read.blocking = known.blocking != 0;
    Hints& hints = read.hints;
    if (known.minCTAs != NCCL_CONFIG_UNDEF_INT && hints.min_channels == 0) {
      hints.min_channels = static_cast<uint32_t>(known.minCTAs);
    }
    if (known.maxCTAs != NCCL_CONFIG_UNDEF_INT && hints.max_channels == 0) {
      hints.max_channels = static_cast<uint32_t>(known.maxCTAs);
    }
    if (known.trafficClass != NCCL_CONFIG_UNDEF_INT) hints.traffic_class = known.trafficClass;
    if (known.commName != nullptr) read.name = known.commName;
  }
  if (const auto blocking = BlockingOverride()) read.blocking = *blocking;
  MCCS_ASSIGN_OR_RETURN(read.warn_after_ms, WarnAfterMs());
  read.check_pointers = ChecksPointers();
  read.launch_blocking = LaunchesBlock();
  return read;
}

}  // namespace mccs::shim
