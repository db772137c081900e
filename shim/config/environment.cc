#include "shim/config/environment.h"

#include <cstdlib>
#include <limits>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shim/config/settings.h"

namespace mccs::shim {
namespace {

// The value in milliseconds of a variable in seconds, "30" or "30s"; 0 if it is unset.
absl::StatusOr<uint32_t> MillisecondsOf(const char* name) {
  const auto text = ValueOf(name);
  if (!text) return 0;
  std::string_view number = *text;
  if (number.ends_with('s')) number.remove_suffix(1);
  double seconds = 0;
  constexpr double kMsPerSec = 1000;
  if (!absl::SimpleAtod({number.data(), number.size()}, &seconds) || !(seconds >= 0) ||
      seconds * kMsPerSec > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid ", name, " '", *text,
                     "': expected seconds, such as 30, 30s or 0.5; or leave it unset"));
  }
  return static_cast<uint32_t>(seconds * kMsPerSec);
}

}  // namespace

std::string SocketPath() { return ValueOf("MCCS_SOCKET").value_or(kDefaultSocket); }

std::optional<bool> BlockingOverride() {
  const auto text = ValueOf("NCCL_COMM_BLOCKING");
  if (text == "0") return false;
  if (text == "1") return true;
  return std::nullopt;
}

bool MultiRankGpuAllowed() { return ValueOf("NCCL_MULTI_RANK_GPU_ENABLE") == "1"; }

absl::StatusOr<bool> FallbackAllowed() {
  const std::string text = ValueOf("MCCS_FALLBACK").value_or("error");
  if (text == "error") return false;
  if (text != "nccl") {
    return absl::InvalidArgumentError(
        absl::StrCat("invalid MCCS_FALLBACK '", text, "': expected error or nccl; using error"));
  }
  if (CommIdText()) {
    return absl::InvalidArgumentError(
        "MCCS_FALLBACK=nccl cannot be combined with NCCL_COMM_ID: each rank creates its id alone, "
        "so the ranks could not agree on a library; using error");
  }
  return true;
}

absl::StatusOr<uint32_t> InitTimeoutMs() {
  if (!ValueOf("MCCS_INIT_TIMEOUT") && FallbackAllowed().value_or(false)) {
    return kFallbackInitTimeoutMs;
  }
  return MillisecondsOf("MCCS_INIT_TIMEOUT");
}

absl::StatusOr<uint32_t> WarnAfterMs() { return MillisecondsOf("MCCS_WARN_AFTER"); }

absl::StatusOr<uint32_t> ExportLeaseMs() {
  if (!ValueOf("MCCS_EXPORT_LEASE")) return kExportLeaseMs;
  return MillisecondsOf("MCCS_EXPORT_LEASE");
}

bool CheckPointers() { return ValueOf("NCCL_CHECK_POINTERS") == "1"; }

bool LaunchBlocking() { return ValueOf("CUDA_LAUNCH_BLOCKING") == "1"; }

absl::StatusOr<WaitMethod> StreamWaitMethod() {
  if (const auto text = ValueOf("MCCS_STREAM_WAIT")) {
    if (text == "memop") return WaitMethod::kMemoryOperation;
    if (text == "kernel") return WaitMethod::kKernel;
    return absl::InvalidArgumentError(absl::StrCat(
        "invalid MCCS_STREAM_WAIT '", *text, "': expected memop or kernel; or leave it unset"));
  }
  return WaitMethod::kKernel;
}

std::optional<std::string> CommIdText() { return ValueOf("NCCL_COMM_ID"); }

}  // namespace mccs::shim
