// Common parts of NCCL's configuration structures: the mark of initialised ones, and fields that
// may be undefined.
#ifndef MCCS_SHIM_CONFIG_CONFIG_FIELD_H_
#define MCCS_SHIM_CONFIG_CONFIG_FIELD_H_

#include <nccl.h>

#include <climits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace mccs::shim {

// The value of `magic` in initialised structures.
inline constexpr unsigned kConfigMagic = 0xcafebeef;

// Maximum of cgaClusterSize: blocks of a cluster, on any GPU.
inline constexpr int kMaxClusterSize = 8;

// Undefined, or within [low, high].
struct ConfigField {
  const char* name;  // "ncclConfig_t.blocking"
  int value;
  int low;
  int high;
};

inline absl::Status CheckField(const ConfigField& field) {
  if (field.value == NCCL_CONFIG_UNDEF_INT) return absl::OkStatus();
  if (field.value >= field.low && field.value <= field.high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field.name, " is ", field.value, "; expected ", field.low,
                   field.high == INT_MAX ? " or more" : absl::StrCat(" to ", field.high)));
}

// Two fields that bound a number from below and above. REQUIRES: CheckField of each was ok.
inline absl::Status CheckBounds(const ConfigField& least, const ConfigField& most) {
  if (least.value == NCCL_CONFIG_UNDEF_INT || most.value == NCCL_CONFIG_UNDEF_INT ||
      least.value <= most.value) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(least.name, " (", least.value, ") exceeds ", most.name, " (", most.value, ")"));
}

}  // namespace mccs::shim

#endif  // MCCS_SHIM_CONFIG_CONFIG_FIELD_H_
