#include "service/reload.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "trust/configuration_reload.h"

namespace mccs {

void Reload::Run() {
  const absl::StatusOr<Config> config = Configure(line_);
  FinishReload(
      config.status(), file_, certificate_,
      [&](const std::string& key) -> std::optional<std::string> {
        if (key == "unknown_tenants") {
          daemon_->DenyUnknownTenants(config->denies_unknown_tenants);
          return absl::StrCat("unknown_tenants ", config->denies_unknown_tenants ? "deny" : "allow",
                              ", for processes that connect");
        }
        if (key != "log_level") return std::nullopt;
        log_->SetLowest(config->log_level);
        return absl::StrCat("log_level ", LogLevelName(config->log_level),
                            line_.log_level.empty() ? "" : " (by --log-level)");
      },
      *log_);
}

}  // namespace mccs
