#include "shim/config/hints.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "shim/config/diagnostics.h"
#include "shim/config/settings.h"

namespace mccs::shim {
namespace {

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
  LogLine(Verbosity::kWarn, absl::StrCat(name, " is '", *text, "' and ignored: expected ",
                                         range.low, " to ", range.high));
  return std::nullopt;
}

// The newer variable's value, else the older one's.
uint32_t Channels(const char* newer, const char* older) {
  constexpr Range kRange{1, kMaxHintedChannels};
  const auto value = Number(newer, kRange);
  return static_cast<uint32_t>((value ? value : Number(older, kRange)).value_or(0));
}

}  // namespace

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

}  // namespace mccs::shim
