#include "shim/environment.h"

#include <cstdlib>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace mccs::shim {
namespace {

std::optional<std::string> Variable(const char* name) {
  const char* text = getenv(name);
  if (text == nullptr || *text == '\0') return std::nullopt;
  return text;
}

}  // namespace

std::string SocketPath() { return Variable("MCCS_SOCKET").value_or(kDefaultSocket); }

std::optional<bool> BlockingOverride() {
  const auto text = Variable("NCCL_COMM_BLOCKING");
  if (text == "0") return false;
  if (text == "1") return true;
  return std::nullopt;
}

bool MultiRankGpuAllowed() { return Variable("NCCL_MULTI_RANK_GPU_ENABLE") == "1"; }

absl::StatusOr<uint32_t> InitTimeoutMs() {
  const auto text = Variable("MCCS_INIT_TIMEOUT");
  if (!text) return 0;
  double seconds = 0;
  constexpr double kMsPerSec = 1000;
  if (!absl::SimpleAtod(*text, &seconds) || !(seconds >= 0) ||
      seconds * kMsPerSec > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "MCCS_INIT_TIMEOUT is '", *text, "': give seconds, such as 30 or 0.5, or leave it unset"));
  }
  return static_cast<uint32_t>(seconds * kMsPerSec);
}

std::optional<std::string> CommIdText() { return Variable("NCCL_COMM_ID"); }

}  // namespace mccs::shim
