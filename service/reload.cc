#include "service/reload.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace mccs {

void Reload::Run() {
  const absl::StatusOr<std::optional<std::string>> certificate = certificate_.Check();
  if (!certificate.ok()) {
    log_->Warning("new connections to the controller fail: ",
                  std::string(certificate.status().message()));
  }
  const absl::StatusOr<Config> config = Configure(line_);
  absl::StatusOr<ConfigFile::Changes> changes = ConfigFile::Changes();
  if (config.ok() && file_.has_value()) {
    changes = file_->Reload([&](const std::string& key) -> std::optional<std::string> {
      if (key != "log_level") return std::nullopt;
      log_->SetLowest(config->log_level);
      return absl::StrCat("log_level ", LogLevelName(config->log_level),
                          line_.log_level.empty() ? "" : " (by --log-level)");
    });
  }
  const absl::Status status = config.ok() ? changes.status() : config.status();
  if (!status.ok()) {
    log_->Error("cannot reload the configuration, and nothing has changed: ",
                std::string(status.message()));
    return;
  }
  if (certificate.ok() && certificate->has_value()) changes->applied.push_back(**certificate);
  // A warning passes every level but one.
  log_->Warning(Describe(file_.has_value() ? file_->path() : "", *changes));
}

}  // namespace mccs
