#include "shim/config/coll_config.h"

#include <nccl.h>

#include <climits>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "shim/config/comm_config.h"
#include "shim/include/mccs/nccl_options.h"

namespace mccs::shim {
namespace {

static_assert(MCCS_NCCL_VENDOR_ID > 0 && MCCS_NCCL_VENDOR_ID < 1 << 24);
static_assert(MCCS_CRITICALITY_BACKGROUND == static_cast<int>(Criticality::kBackground));
static_assert(MCCS_CRITICALITY_NORMAL == static_cast<int>(Criticality::kNormal));
static_assert(MCCS_CRITICALITY_CRITICAL == static_cast<int>(Criticality::kCritical));

absl::Status CheckHints(const CollConfig& config) {
  const ConfigField least{"ncclCollConfig_t.minCTAs", config.min_ctas, 1, INT_MAX};
  const ConfigField most{"ncclCollConfig_t.maxCTAs", config.max_ctas, 1, INT_MAX};
  const ConfigField others[] = {
      {"ncclCollConfig_t.nvlsCTAs", config.nvls_ctas, 1, INT_MAX},
      {"ncclCollConfig_t.cgaClusterSize", config.cluster_size, 0, kMaxClusterSize},
      {"ncclCollConfig_t.forceAlgSelection", config.force_algorithms, 0, 1},
      {"ncclCollConfig_t.CTAPolicy", config.cta_policy, 0, INT_MAX}};
  MCCS_RETURN_IF_ERROR(CheckField(least));
  MCCS_RETURN_IF_ERROR(CheckField(most));
  for (const ConfigField& field : others) MCCS_RETURN_IF_ERROR(CheckField(field));
  return CheckBounds(least, most);
}

// Reads one MCCS option; `given`: a bit for each option that was read before.
absl::Status Take(const ConfigExtension& extension, unsigned* given, CallOptions* options) {
  const int value = extension.value.i;
  auto option = [&](const char* name, int high) -> absl::Status {
    const unsigned bit = 1u << extension.option;
    if ((*given & bit) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("option ", name, " is given twice"));
    }
    *given |= bit;
    return CheckField({name, value, 1, high});
  };
  switch (extension.option) {
    case MCCS_OPTION_PRIORITY:
      MCCS_RETURN_IF_ERROR(option("MCCS_OPTION_PRIORITY", kHighestPriority));
      options->priority = static_cast<uint8_t>(value);
      return absl::OkStatus();
    case MCCS_OPTION_DEADLINE_US:
      MCCS_RETURN_IF_ERROR(option("MCCS_OPTION_DEADLINE_US", INT_MAX));
      options->deadline_us = static_cast<uint32_t>(value);
      return absl::OkStatus();
    case MCCS_OPTION_CRITICALITY:
      MCCS_RETURN_IF_ERROR(option("MCCS_OPTION_CRITICALITY", MCCS_CRITICALITY_CRITICAL));
      options->criticality = static_cast<Criticality>(value);
      return absl::OkStatus();
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("unknown option ", extension.option,
                       " of MCCS; remove it, or install a release that has it"));
  }
}

absl::StatusOr<CallOptions> ReadExtensions(const ConfigExtension* first) {
  CallOptions options;
  unsigned given = 0;
  int seen = 0;
  for (const ConfigExtension* at = first; at != nullptr; at = at->next) {
    if (++seen > kMaxConfigExtensions) {
      return absl::InvalidArgumentError(absl::StrCat("the list of options has more than ",
                                                     kMaxConfigExtensions,
                                                     " entries; check that it is not circular"));
    }
    if (at->vendor == MCCS_NCCL_VENDOR_ID) MCCS_RETURN_IF_ERROR(Take(*at, &given, &options));
  }
  return options;
}

absl::StatusOr<CallOptions> Read(const CollConfig& config) {
  if (config.magic != kConfigMagic || config.size < sizeof(CollConfig)) {
    return absl::InvalidArgumentError(
        "the ncclCollConfig_t is not initialised: assign NCCL_COLLCONFIG_INITIALIZER to it first");
  }
  MCCS_RETURN_IF_ERROR(CheckHints(config));
  if (config.launch_event != nullptr) {
    return absl::UnimplementedError(
        "ncclCollConfig_t.launchCompletionEvent is not supported by MCCS, which launches no "
        "kernel; record an event on the stream");
  }
  return ReadExtensions(config.extensions);
}

}  // namespace

absl::StatusOr<CallOptions> ReadCollConfig(std::string_view function, const CollConfig* config) {
  if (config == nullptr) return CallOptions{};
  absl::StatusOr<CallOptions> read = Read(*config);
  if (read.ok()) return read;
  return absl::Status(read.status().code(),
                      absl::StrCat(std::string(function), ": ", read.status().message()));
}

}  // namespace mccs::shim
