#include "shim/config/comm_config.h"

#include <strings.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/config/diagnostics.h"
#include "shim/config/environment.h"
#include "shim/config/settings.h"

namespace mccs::shim {
namespace {

constexpr size_t kOldestConfigBytes = 24;  // 2.14: up to `blocking`

// The caller's fields over the defaults: copies the bytes that both versions have.
absl::StatusOr<ncclConfig_t> CopyKnownFields(const ncclConfig_t& config) {
  if (config.magic != kConfigMagic || config.size < kOldestConfigBytes) {
    return absl::InvalidArgumentError(
        "the ncclConfig_t is not initialised: assign NCCL_CONFIG_INITIALIZER to it first");
  }
  ncclConfig_t known = NCCL_CONFIG_INITIALIZER;
  std::memcpy(&known, &config, std::min(config.size, sizeof(known)) / sizeof(int) * sizeof(int));
  // No NCCL version has a size that ends within a field; part of a pointer is not usable.
  if (config.size < offsetof(ncclConfig_t, splitShare)) known.netName = nullptr;
  if (config.size < offsetof(ncclConfig_t, collnetEnable)) known.commName = nullptr;
  // Older sizes end within padding, which is ignored: a field counts from the version that added
  // it.
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
  const ConfigField least{"ncclConfig_t.minCTAs", config.minCTAs, 1, INT_MAX};
  const ConfigField most{"ncclConfig_t.maxCTAs", config.maxCTAs, 1, INT_MAX};
  const ConfigField fields[] = {
      least,
      most,
      {"ncclConfig_t.blocking", config.blocking, 0, 1},
      {"ncclConfig_t.cgaClusterSize", config.cgaClusterSize, 0, kMaxClusterSize},
      {"ncclConfig_t.splitShare", config.splitShare, 0, 1},
      {"ncclConfig_t.collnetEnable", config.collnetEnable, 0, 1},
      {"ncclConfig_t.CTAPolicy", config.CTAPolicy, 0, INT_MAX},
      {"ncclConfig_t.shrinkShare", config.shrinkShare, 0, 1},
      {"ncclConfig_t.nvlsCTAs", config.nvlsCTAs, 1, INT_MAX},
      {"ncclConfig_t.nChannelsPerNetPeer", config.nChannelsPerNetPeer, 1, INT_MAX},
      {"ncclConfig_t.nvlinkCentricSched", config.nvlinkCentricSched, 0, 1}};
  for (const ConfigField& field : fields) MCCS_RETURN_IF_ERROR(CheckField(field));
  return CheckBounds(least, most);
}

// Logs the program's configuration, one line per field, in NCCL's words: programs search for them.
void LogConfig(const ncclConfig_t& config) {
  if (!IsLogged(Verbosity::kInfo)) return;
  const std::pair<const char*, int> numbers[] = {
      {"Blocking", config.blocking},         {"CGA cluster size", config.cgaClusterSize},
      {"Min CTAs", config.minCTAs},          {"Max CTAs", config.maxCTAs},
      {"Split share", config.splitShare},    {"Shrink share", config.shrinkShare},
      {"Traffic class", config.trafficClass}};
  for (const auto& [name, value] : numbers) {
    if (value == NCCL_CONFIG_UNDEF_INT) continue;
    LogLine(Verbosity::kInfo, absl::StrCat("ncclConfig_t requests: ", name, " ", value));
  }
  if (config.netName == nullptr) return;
  // The daemons' lanes are TCP sockets.
  LogLine(Verbosity::kInfo,
          strcasecmp(config.netName, "Socket") == 0
              ? std::string("Using network Socket between the daemons of different hosts")
              : absl::StrCat("ncclConfig_t requests: network ", config.netName,
                             "; ignored, because the daemon moves the data"));
}

constexpr int64_t kMaxHintedChannels = 1 << 20;  // more than any policy assigns
constexpr int64_t kMaxTrafficClass = 255;
constexpr int64_t kMaxServiceLevel = 15;

struct Range {
  int64_t low;
  int64_t high;
};

std::optional<int64_t> Number(const char* name, Range range) {
  const auto text = ValueOf(name);
  if (!text) return std::nullopt;
  int64_t value = 0;
  if (absl::SimpleAtoi(*text, &value) && value >= range.low && value <= range.high) return value;
  LogLine(Verbosity::kWarn,
          absl::StrCat(name, "='", *text, "' is ignored: expected an integer from ", range.low,
                       " to ", range.high));
  return std::nullopt;
}

// The newer variable's value, else the older one's.
uint32_t Channels(const char* newer, const char* older) {
  constexpr Range kRange{1, kMaxHintedChannels};
  const auto value = Number(newer, kRange);
  return static_cast<uint32_t>((value ? value : Number(older, kRange)).value_or(0));
}

}  // namespace

absl::Status CheckField(const ConfigField& field) {
  if (field.value == NCCL_CONFIG_UNDEF_INT) return absl::OkStatus();
  if (field.value >= field.low && field.value <= field.high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field.name, " is ", field.value, "; expected ", field.low,
                   field.high == INT_MAX ? " or more" : absl::StrCat(" to ", field.high)));
}

absl::Status CheckBounds(const ConfigField& least, const ConfigField& most) {
  if (least.value == NCCL_CONFIG_UNDEF_INT || most.value == NCCL_CONFIG_UNDEF_INT ||
      least.value <= most.value) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(least.name, " (", least.value, ") exceeds ", most.name, " (", most.value, ")"));
}

Hints HintsOfEnvironment() {
  Hints hints;
  hints.min_channels = Channels("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS");
  hints.max_channels = Channels("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS");
  constexpr Range kBytes{1, std::numeric_limits<int64_t>::max()};
  hints.buffer_bytes = static_cast<uint64_t>(Number("NCCL_BUFFSIZE", kBytes).value_or(0));
  hints.traffic_class =
      static_cast<int32_t>(Number("NCCL_IB_TC", {0, kMaxTrafficClass}).value_or(-1));
  hints.service_level =
      static_cast<int32_t>(Number("NCCL_IB_SL", {0, kMaxServiceLevel}).value_or(-1));
  hints.algorithms = ValueOf("NCCL_ALGO").value_or("");
  hints.protocols = ValueOf("NCCL_PROTO").value_or("");
  return hints;
}

absl::StatusOr<CommConfig> ReadCommConfig(const ncclConfig_t* config) {
  CommConfig read;
  read.hints = HintsOfEnvironment();
  if (config != nullptr) {
    MCCS_ASSIGN_OR_RETURN(const ncclConfig_t known, CopyKnownFields(*config));
    MCCS_RETURN_IF_ERROR(CheckFields(known));
    LogConfig(known);
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
  read.check_pointers = CheckPointers();
  read.launch_blocking = LaunchBlocking();
  return read;
}

}  // namespace mccs::shim
