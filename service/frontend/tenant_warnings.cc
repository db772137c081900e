#include "service/frontend/tenant_warnings.h"

namespace mccs {

void TenantWarnings::Write(const std::string& tenant, const std::string& line) {
  constexpr int64_t kMinuteNs = 60 * kNsPerSec;
  const MonotonicNs now = clock_.Now();
  absl::erase_if(minutes_, [now](const auto& entry) { return entry.second.ends <= now; });
  if (minutes_.size() >= kMostTenants && !minutes_.contains(tenant)) return;
  Minute& minute = minutes_.try_emplace(tenant, Minute{.ends = now + kMinuteNs}).first->second;
  if (minute.lines == kPerMinute) return;
  ++minute.lines;
  if (minute.lines < kPerMinute) return log_.Warning(line);
  log_.Warning(line, "; more of this tenant is not told for a minute");
}

}  // namespace mccs
