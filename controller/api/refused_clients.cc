#include "controller/api/refused_clients.h"

#include "absl/strings/str_cat.h"

namespace mccs {

void RefusedClients::Add(const RefusedPeer& client) {
  constexpr int64_t kMinuteNs = 60 * kNsPerSec;
  constexpr size_t kMaxRecent = 1024;
  const MonotonicNs now = clock_.Now();
  const std::string reason = RefusalName(client.reason);
  const std::lock_guard lock(mutex_);
  ++counts_[static_cast<size_t>(client.reason)];
  absl::erase_if(recent_, [now](const auto& entry) { return entry.second <= now; });
  const std::string& what = client.subject.empty() ? client.message : client.subject;
  const std::string key = absl::StrCat(reason, " ", what);
  if (recent_.contains(key)) return;
  if (recent_.size() < kMaxRecent) recent_.emplace(key, now + kMinuteNs);
  lines_.Write(reason, absl::StrCat("refused a client: ", client.message), now);
}

RefusedCounts RefusedClients::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace mccs
