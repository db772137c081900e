#include "service/frontend/declared_sockets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace mccs {

void DeclaredSockets::SetTenants(const std::vector<TenantEntry>& tenants) {
  std::map<std::string, Entry> wanted;
  for (const TenantEntry& tenant : tenants) {
    for (const DeclaredSocket& socket : tenant.sockets) {
      // The controller rejects two Tenants with one path; here the first one has it.
      wanted.try_emplace(socket.path, Entry{.tenant = tenant.name, .socket = socket});
    }
  }
  // Closes before it opens: a path may be a directory of another.
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    const auto next = wanted.find(at->first);
    if (next != wanted.end() && next->second.tenant == entry.tenant &&
        next->second.socket == entry.socket) {
      next->second = std::move(entry);
      at = entries_.erase(at);
      continue;
    }
    if (entry.listener != nullptr) {
      frontend_.RemoveListener(entry.listener);
      log_.Info("closed socket ", at->first, " of Tenant ", entry.tenant);
    }
    at = entries_.erase(at);
  }
  entries_ = std::move(wanted);
  OpenMissing();
}

bool DeclaredSockets::Poll() {
  if (failed_ == 0 || clock_.Now() < retry_at_) return false;
  OpenMissing();
  return true;
}

void DeclaredSockets::OpenMissing() {
  failed_ = 0;
  size_t open = 0;
  for (auto& [path, entry] : entries_) {
    if (entry.listener == nullptr) {
      const absl::Status opened =
          open < kMaxSockets
              ? Open(&entry)
              : absl::ResourceExhaustedError(absl::StrCat(
                    kMaxSockets,
                    " sockets are open, which is the limit; remove sockets from Tenants"));
      const std::string error(opened.message());
      if (!opened.ok()) ++failed_;
      if (!opened.ok() && error != entry.error) {
        log_.Warning("cannot open socket ", path, " of Tenant ", entry.tenant, ": ", error);
      }
      entry.error = error;
    }
    open += entry.listener != nullptr ? 1 : 0;
  }
  retry_at_ = clock_.Now() + kRetryNs;
  counters_.open_sockets.Set(static_cast<int64_t>(open));
  counters_.failed_sockets.Set(static_cast<int64_t>(failed_));
}

absl::Status DeclaredSockets::Open(Entry* entry) {
  if (directory_ == nullptr) {
    return absl::FailedPreconditionError(
        "this host allows no sockets of Tenants; set `socket_dir` in mccsd's configuration");
  }
  // A table may be older than this program.
  const std::string why_not = WhyNotSocketPath(entry->socket.path);
  if (!why_not.empty()) return absl::InvalidArgumentError(why_not);
  MCCS_ASSIGN_OR_RETURN(std::unique_ptr<TenantListener> listener,
                        directory_->Open(entry->tenant, entry->socket));
  entry->listener = listener.get();
  frontend_.AddListener(std::move(listener));
  log_.Info("opened socket ", entry->socket.path, " of Tenant ", entry->tenant);
  return absl::OkStatus();
}

}  // namespace mccs
